# SPDX-License-Identifier: MIT
"""Pages come only through userfaultfd installs: the kernel's own count of the ioctls,
taken by strace, is compared with what the command says it made."""
import re
import shutil
import subprocess
import tempfile

from tap import Image, Skip, Spf, arguments, check_status, one_object, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)
image = Image(1 << 20 if spf.slow else 4 << 20)


def strace():
    """The path of a strace that works here."""
    if spf.slow:
        raise Skip("sanitizers and strace do not go together")
    path = shutil.which("strace")
    if not path:
        raise Skip("strace is not installed")
    if subprocess.run([path, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        raise Skip("ptrace is refused here, so strace cannot count")
    return path


def restore_traced(*options, count=False):
    with tempfile.NamedTemporaryFile("r", prefix="spf-strace-") as log:
        wrap = [strace(), "-f", "-e", "trace=ioctl", "-o", log.name]
        if count:
            wrap.insert(2, "-c")
        result = spf("restore", image.path, "--json", *options, wrap=wrap, timeout=300)
        if result.returncode == 4:
            raise Skip("userfaultfd is refused here")
        check_status(result, 0)
        return one_object(result.stdout), log.read()


def calls_of(log):
    """ioctl names by how often they were made; a call that was interrupted counts once."""
    counts = {}
    for line in log.splitlines():
        match = re.search(r"ioctl\(\d+(?:<[^>]*>)?, (\w+)", line)
        if match:
            counts[match.group(1)] = counts.get(match.group(1), 0) + 1
    return counts


def compare(*options, workers=0):
    report, log = restore_traced(*options)
    counts = calls_of(log)
    assert report["verified"] is True
    assert counts.get("UFFDIO_COPY", 0) == report["copies"], (counts, report["copies"])
    # Each worker of a pool is told to leave by a fault on a page behind the arena.
    assert counts.get("UFFDIO_ZEROPAGE", 0) == workers, counts
    assert "UFFDIO_MOVE" not in counts, counts
    assert report["pages_installed"] == image.pages, report
    return report


def test_single():
    """one thread: UFFDIO_COPY calls listed are the copies reported"""
    assert compare()["copies"] == image.pages


def test_threads():
    """two threads"""
    assert compare("--threads", "2")["copies"] == image.pages


def test_pool():
    """pool delivery with two workers"""
    compare("--delivery", "pool", "--workers", "2", "--threads", "2", workers=2)


def test_around():
    """fault-around: far fewer calls than pages"""
    assert compare("--around", "16")["copies"] <= image.pages / 4


def test_locked():
    """the locked attempt makes the same installs"""
    assert compare("--attempt", "locked", "--threads", "2")["copies"] == image.pages


def test_count():
    """strace -c: all ioctls are the copies and a few of the set-up"""
    report, log = restore_traced(count=True)
    match = re.search(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?ioctl$", log, re.M)
    assert match, log
    assert 0 <= int(match.group(1)) - report["copies"] <= 40, (match.group(1), report["copies"])


run(globals())
