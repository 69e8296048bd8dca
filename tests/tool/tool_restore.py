# SPDX-License-Identifier: MIT
"""`spf restore` on good images: what it verifies, counts and prints."""
import json
import os
import tempfile

from tap import PAGE, Image, Spf, arguments, check_status, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)
image = Image((1 << 20 if spf.slow else 8 << 20) + 1234)

ABORTS = {"no_vma", "no_access", "odd", "hazard", "lookup", "window", "busy", "pager_failed",
          "owner_lost"}
ATTEMPTS = ("bypass", "speculative", "locked")


def check_sums(report):
    assert report["faults"] == sum(report[name] for name in ATTEMPTS), report
    assert report["verified"] is True, report
    assert report["failed"] == 0, report


def test_keys():
    """JSON has every key that was promised, of the right kind"""
    report = spf.json("restore", image.path)
    numbers = ("pages", "faults", *ATTEMPTS, "failed", "copies", "pages_per_fault",
               "ns_per_page", "threads", "cores")
    for key in numbers:
        assert isinstance(report[key], (int, float)) and not isinstance(report[key], bool), key
    assert set(report["aborts"]) >= ABORTS, report["aborts"]
    assert all(isinstance(n, int) for n in report["aborts"].values())
    assert set(report["latency_ns"]) >= {"p50", "p99", "p999", "max"}
    assert report["delivery"] == "inline"
    assert report["cores"] >= 1
    assert report["verified"] is True


def test_name_without_utf8():
    """an image whose name is no UTF-8 text still gives one JSON object"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.fsencode(folder), b"bad\xff\xfename")
        with open(path, "wb") as file:
            file.write(b"abc")
        report = spf.json("restore", os.fsdecode(path))
        assert report["verified"] is True, report
        assert report["image"].endswith("name"), report


def test_single():
    """one thread, inline: all bypass, one fault and one copy a page"""
    report = spf.json("restore", image.path, "--threads", 1)
    check_sums(report)
    assert report["pages"] == image.pages
    assert report["bypass"] == report["faults"] == image.pages, report
    assert report["copies"] == image.pages
    assert report["mode"] == "single"
    assert report["pages_per_fault"] == 1
    assert not any(report["aborts"].values()), report


def test_two_threads():
    """two threads and no churn: more than 99% speculative"""
    report = spf.json("restore", image.path, "--threads", 2)
    check_sums(report)
    assert report["pages"] == image.pages
    assert report["speculative"] > 0.99 * report["faults"], report
    assert report["mode"] == "multi"
    assert report["threads"] == 2


def test_share():
    """--share: every thread touches every page, each is installed once"""
    report = spf.json("restore", image.path, "--threads", 4, "--share")
    check_sums(report)
    assert report["pages"] == image.pages
    assert report["pages_installed"] == image.pages, report


def test_pool():
    """pool delivery, one and four workers"""
    for workers in (1, 4):
        report = spf.json("restore", image.path, "--delivery", "pool", "--workers", workers,
                          "--threads", 2)
        check_sums(report)
        assert report["delivery"] == "pool" and report["mode"] == "multi"
        assert report["bypass"] == 0
        assert report["copies"] >= image.pages


def test_random_order():
    """--order random with a seed touches each page once"""
    report = spf.json("restore", image.path, "--order", "random", "--seed", 42, "--threads", 2)
    check_sums(report)
    assert report["faults"] == image.pages


def test_write():
    """--write dirties private copies and leaves the file untouched"""
    before, stamp = image.content(), os.stat(image.path).st_mtime_ns
    report = spf.json("restore", image.path, "--write", "--threads", 2)
    check_sums(report)
    assert image.content() == before
    assert os.stat(image.path).st_mtime_ns == stamp


def test_attempts():
    """--attempt: locked is all locked, speculative never bypasses"""
    report = spf.json("restore", image.path, "--attempt", "locked", "--threads", 2)
    check_sums(report)
    assert report["locked"] == report["faults"] == image.pages, report
    report = spf.json("restore", image.path, "--attempt", "speculative")
    check_sums(report)
    assert report["bypass"] == 0 and report["speculative"] == image.pages, report


def test_around():
    """--around: fewer faults and copies, the same pages"""
    fixed = spf.json("restore", image.path, "--around", 16)
    auto = spf.json("restore", image.path, "--around", "auto")
    for report in (fixed, auto):
        check_sums(report)
        assert report["pages"] == image.pages
        assert report["faults"] < image.pages / 4, report
        assert report["copies"] <= image.pages / 4, report
        assert report["pages_per_fault"] > 4, report


def test_passes():
    """--passes: the image is discarded before each, and counted each time"""
    report = spf.json("restore", image.path, "--passes", 3)
    check_sums(report)
    assert report["pages"] == 3 * image.pages
    assert report["faults"] == 3 * image.pages


def test_small_images():
    """images of one byte, one page, and one byte more"""
    for size in (1, PAGE, PAGE + 1):
        small = Image(size)
        report = spf.json("restore", small.path)
        check_sums(report)
        assert report["pages"] == small.pages, (size, report)


def test_more_threads_than_pages():
    """more threads than pages"""
    small = Image(3 * PAGE)
    report = spf.json("restore", small.path, "--threads", 16)
    check_sums(report)
    assert report["pages"] == 3 and report["threads"] == 16


def test_output_file():
    """--output writes the object to a file and nothing to stdout"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        result = spf("restore", image.path, "--json", "--output", path)
        check_status(result, 0)
        assert result.stdout == "", result.stdout
        with open(path) as file:
            check_sums(json.load(file))


def test_summary():
    """without --json a summary is printed that names the pages"""
    result = spf("restore", image.path)
    check_status(result, 0)
    text = result.stdout + result.stderr
    assert str(image.pages) in text.replace(",", "").replace("\u202f", "").replace(" ", ""), text
    assert "\x1b" not in text, "no terminal, no escape sequences"


run(globals())
