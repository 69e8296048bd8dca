# SPDX-License-Identifier: MIT
"""Bad input to `spf`: each has its own exit status and a message that says why."""
import os
import shutil
import subprocess
import tempfile

from tap import PAGE, Image, Skip, Spf, arguments, check_status, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)
image = Image(8 * PAGE)


def refuse(status, *arguments_, word="", **kwargs):
    result = spf(*arguments_, **kwargs)
    check_status(result, status)
    assert result.stderr.strip(), "no message"
    assert word in result.stderr, result.stderr
    assert result.stdout == "", "stdout is for results: " + result.stdout


def test_usage():
    """usage errors are exit 2: no command, no image, unknown command, option or value"""
    refuse(2)
    refuse(2, "frobnicate", word="frobnicate")
    refuse(2, "restore")
    refuse(2, "restore", image.path, image.path)
    refuse(2, "restore", image.path, "--frobnicate", word="frobnicate")
    refuse(2, "restore", image.path, "--delivery", "pigeon", word="pigeon")
    refuse(2, "restore", image.path, "--order", "sideways", word="sideways")
    refuse(2, "restore", image.path, "--attempt", "bypass", word="bypass")
    refuse(2, "restore", image.path, "--threads")


def test_numbers():
    """numbers out of range are exit 2: threads 0 and a million, and others"""
    for value in ("0", "1000000", "-1", "x", "", "1x", "99999999999999999999"):
        refuse(2, "restore", image.path, "--threads", value)
    for value in ("0", "513", "-1", "auto1"):
        refuse(2, "restore", image.path, "--around", value)
    refuse(2, "restore", image.path, "--delivery", "pool", "--workers", "0")
    refuse(2, "restore", image.path, "--delivery", "pool", "--workers", "1000000")
    refuse(2, "restore", image.path, "--passes", "0")
    refuse(2, "restore", image.path, "--churn", "-1")


def test_missing():
    """a missing image is exit 3"""
    refuse(3, "restore", "/nonexistent/image", word="/nonexistent/image")


def test_directory():
    """a directory is exit 3"""
    with tempfile.TemporaryDirectory() as folder:
        refuse(3, "restore", folder, word=folder)


def test_empty():
    """an empty image is exit 3"""
    empty = Image(0)
    refuse(3, "restore", empty.path, word="empty")


def test_not_regular():
    """a device and a pipe are exit 3"""
    refuse(3, "restore", "/dev/null")
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        refuse(3, "restore", fifo)


def test_unreadable():
    """an unreadable image is exit 3"""
    locked = Image(PAGE)
    os.chmod(locked.path, 0)
    if os.geteuid() != 0:
        refuse(3, "restore", locked.path)
        return
    setpriv = shutil.which("setpriv")
    if not setpriv:
        raise Skip("root reads everything, and there is no setpriv here to become another")
    nobody = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*nobody, args.spf, "--version"], capture_output=True).returncode != 0:
        raise Skip("another user cannot run the command here")
    refuse(3, "restore", locked.path, wrap=nobody)


def test_json_errors():
    """with --json an input error leaves stdout empty too"""
    refuse(3, "restore", "/nonexistent/image", "--json")
    refuse(2, "restore", "--json")


def test_output_unwritable():
    """an --output that cannot be written is an error and names the file"""
    result = spf("restore", image.path, "--json", "--output", "/nonexistent/folder/file")
    assert result.returncode in (1, 2, 3), result.returncode
    assert "/nonexistent/folder/file" in result.stderr, result.stderr
    assert result.stdout == ""


def test_stdout_full():
    """a result that cannot be written to stdout is not exit 0"""
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        result = subprocess.run([args.spf, "restore", image.path, "--json"], stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=60)
    if result.returncode == 4:
        raise Skip("userfaultfd is refused here")
    assert result.returncode not in (0,), "the report is lost, and nobody was told"


def test_help():
    """help and version are exit 0 and on stdout"""
    for arguments_ in (("--help",), ("-h",), ("restore", "--help"), ("restore", "-h"),
                       ("bench", "fault", "-h"), ("probe", "--help"), ("--version",)):
        result = spf(*arguments_)
        check_status(result, 0)
        assert result.stdout.strip(), arguments_


run(globals())
