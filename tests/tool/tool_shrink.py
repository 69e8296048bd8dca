# SPDX-License-Identifier: MIT
"""An image that changes while it is restored: an error and never zeros."""
import os
import re
import signal
import subprocess
import time

from tap import PAGE, Image, Skip, Spf, arguments, one_object, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)


def descriptors(process):
    links = []
    try:
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            links.append(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
    except OSError:
        pass
    return links


def stop_when_mapped(process, path):
    """Stop it when the pager has its descriptor of the image, beside the command's two."""
    while process.poll() is None:
        links = descriptors(process)
        if sum(link == path for link in links) >= 3 and any("userfaultfd" in x for x in links):
            process.send_signal(signal.SIGSTOP)
            return True
    return False


def shrink_before_second_pass(*options):
    """One long restore; the file loses its second half while it runs."""
    image = Image(64 << 20)
    command = [args.spf, "restore", image.path, "--json", "--passes",
               "4" if spf.slow else "8", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if stop_when_mapped(process, image.path):
        os.truncate(image.path, 32 << 20)
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=300)
    if process.returncode == 4:
        raise Skip("userfaultfd is refused here")
    if process.returncode == 3:
        raise Skip("the image had shrunk before it was mapped")
    assert process.returncode == 1, (process.returncode, err)
    report = one_object(out)
    assert report["verified"] is False
    assert report["failed"] > 0, report
    assert report["failed"] <= image.pages / 2, report
    return report, err


def test_shrink():
    """an image that shrinks: exit 1, the missing pages fail, the rest is read"""
    report, _ = shrink_before_second_pass()
    assert report["pages"] >= 64 * 1024 * 1024 / PAGE


def test_shrink_pool():
    """likewise by pool delivery"""
    shrink_before_second_pass("--delivery", "pool", "--workers", "2")


def test_shrink_threads():
    """likewise with four threads and fault-around"""
    shrink_before_second_pass("--threads", "4", "--around", "auto")


def test_differs():
    """a byte that differs is named, exit 1"""
    image = Image(1 << 20)
    command = [args.spf, "restore", image.path, "--json", "--passes", "30" if spf.slow else "150"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stop = time.monotonic() + 30
    with open(image.path, "r+b") as file:
        while process.poll() is None and time.monotonic() < stop:
            file.seek(5 * PAGE + 17)
            file.write(os.urandom(1))
            file.flush()
    out, err = process.communicate(timeout=300)
    if process.returncode == 4:
        raise Skip("userfaultfd is refused here")
    if process.returncode == 0:
        raise Skip("the byte was never changed between the two reads")
    assert process.returncode == 1, (process.returncode, err)
    report = one_object(out)
    assert report["verified"] is False
    assert report["failed"] == 0, report
    assert re.search(r"\b5\b", err), "the page is named: " + err


run(globals())
