# SPDX-License-Identifier: MIT
"""`spf probe`: what the kernel offers, and which gate refuses."""
import os

from tap import Spf, arguments, check_status, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)


def test_json():
    """--json prints exactly one object on stdout"""
    report = spf.json("probe")
    assert report, "empty"


def test_names():
    """gates and features are named"""
    text = spf("probe", "--json").stdout
    assert "/dev/userfaultfd" in text, text
    assert "SIGBUS" in text, text


def test_text():
    """without --json it is text for people"""
    result = spf("probe")
    check_status(result, 0)
    assert "/dev/userfaultfd" in result.stdout + result.stderr


def test_masked():
    """SPF_MASK_FEATURES shows in the answer"""
    plain = spf("probe", "--json", env={**os.environ, "SPF_MASK_FEATURES": ""}).stdout
    # A feature that every kernel has: Linux 6.1 itself has nothing that "6.1" hides.
    masked = spf("probe", "--json", env={**os.environ, "SPF_MASK_FEATURES": "SIGBUS"}).stdout
    assert plain != masked


def test_mask_nonsense():
    """a mask that makes no sense is refused with a message"""
    result = spf("probe", env={**os.environ, "SPF_MASK_FEATURES": "NO_SUCH_FEATURE"})
    assert result.returncode != 0
    assert result.stderr.strip()


run(globals())
