# SPDX-License-Identifier: MIT
"""`spf restore` while other threads change the mm: aborts happen, nothing is lost."""
from tap import Image, Spf, arguments, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)
# Long enough to be churned while it is touched: some hundred milliseconds.
image = Image(16 << 20 if spf.slow else 32 << 20)


def check(report):
    assert report["verified"] is True, report
    assert report["failed"] == 0, report
    assert report["faults"] == report["bypass"] + report["speculative"] + report["locked"], report


def test_churn():
    """--churn: other ranges come and go"""
    report = spf.json("restore", image.path, "--threads", 2, "--churn", 2)
    check(report)
    assert report["pages"] == image.pages


def test_churn_pool():
    """--churn with pool delivery"""
    check(spf.json("restore", image.path, "--threads", 2, "--churn", 1, "--delivery", "pool",
                   "--workers", 2))


def test_churn_on_image():
    """--churn-on-image: aborts are above 0 and all is verified"""
    report = spf.json("restore", image.path, "--threads", 2, "--churn", 2, "--churn-on-image",
                      "--passes", 2)
    check(report)
    assert sum(report["aborts"].values()) > 0, report["aborts"]


def test_churn_on_image_write():
    """--churn-on-image with --write: a write meets a protected page and goes on"""
    report = spf.json("restore", image.path, "--threads", 2, "--churn-on-image", "--write")
    check(report)


def test_churn_on_image_alone():
    """--churn-on-image without --churn"""
    check(spf.json("restore", image.path, "--threads", 1, "--churn-on-image"))


def test_churn_around():
    """--churn-on-image with --around auto"""
    check(spf.json("restore", image.path, "--threads", 2, "--churn-on-image", "--around", "auto"))


run(globals())
