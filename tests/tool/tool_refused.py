# SPDX-License-Identifier: MIT
"""userfaultfd refused: exit 4, the gate named, and the way to open it."""
import os
import shutil
import subprocess

from tap import PAGE, Image, Skip, Spf, arguments, check_status, one_object, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)
image = Image(64 * PAGE)


def denied(*arguments_):
    result = spf(*arguments_, wrap=(args.deny,))
    if result.returncode == 77:
        raise Skip(result.stderr.strip())
    return result


def test_restore():
    """restore is exit 4, names the gate that refused and how to open it"""
    result = denied("restore", image.path)
    check_status(result, 4)
    assert "userfaultfd" in result.stderr, result.stderr
    assert "/dev/userfaultfd" in result.stderr or "sysctl" in result.stderr, result.stderr
    assert result.stdout == ""


def test_restore_pool():
    """restore by pool delivery likewise"""
    check_status(denied("restore", image.path, "--delivery", "pool"), 4)


def test_restore_json():
    """restore --json leaves stdout empty"""
    result = denied("restore", image.path, "--json")
    check_status(result, 4)
    assert result.stdout == "", result.stdout


def test_probe():
    """probe says that all gates refuse"""
    result = denied("probe", "--json")
    check_status(result, 4)
    text = result.stdout or result.stderr
    assert "EPERM" in text or "not permitted" in text.lower(), text
    if result.stdout:
        one_object(result.stdout)


def nobody():
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or not setpriv:
        raise Skip("this needs root and setpriv, to become another user")
    wrap = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*wrap, args.spf, "--version"], capture_output=True).returncode != 0:
        raise Skip("another user cannot run the command here")
    os.chmod(image.path, 0o644)
    return wrap


def test_unprivileged():
    """an unprivileged user restores through a user-mode-only descriptor, or is told why not"""
    result = spf("restore", image.path, "--json", wrap=nobody())
    assert result.returncode in (0, 4), result.stderr
    if result.returncode == 0:
        assert one_object(result.stdout)["verified"] is True
    else:
        assert "userfaultfd" in result.stderr


def test_unprivileged_probe():
    """an unprivileged user's probe names the gate that is used"""
    result = spf("probe", "--json", wrap=nobody())
    assert result.returncode in (0, 4), result.stderr
    if result.stdout:
        one_object(result.stdout)


run(globals())
