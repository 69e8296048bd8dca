# SPDX-License-Identifier: MIT
"""What the scripted tests share: cases, skips said aloud, TAP for meson, and a
closing line for people.  Python's standard library only.

A script defines functions named test_*, whose docstring is the name of the case,
and ends with run(globals()).  An assertion that fails fails the case; Skip skips
it with its reason.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback

PAGE = 4096


class Skip(Exception):
    pass


def arguments(*names):
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument("--" + name, default="")
    return parser.parse_args()


def run(namespace):
    cases = [f for name, f in namespace.items() if name.startswith("test_")]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    print("TAP version 13")
    print(f"1..{len(cases)}")
    for number, case in enumerate(cases, 1):
        name = (case.__doc__ or case.__name__).strip().replace("#", "no.")
        try:
            case()
            print(f"ok {number} - {name}")
            counts["passed"] += 1
        except Skip as skip:
            print(f"ok {number} - {name} # SKIP {skip}")
            print(f"[SKIP] {name}: {skip}", file=sys.stderr)
            counts["skipped"] += 1
        except Exception:  # whatever went wrong in a case fails that case
            print(f"not ok {number} - {name}")
            print(f"[FAIL] {name}\n{traceback.format_exc()}", file=sys.stderr)
            counts["failed"] += 1
        sys.stdout.flush()
    print(", ".join(f"{n} {what}" for what, n in counts.items()), file=sys.stderr)
    sys.exit(1 if counts["failed"] else 0)


class Image:
    """A temporary file of random bytes."""

    def __init__(self, size):
        self.file = tempfile.NamedTemporaryFile(prefix="spf-test-", suffix=".img")
        self.file.write(os.urandom(size))
        self.file.flush()
        self.path = self.file.name
        self.pages = (size + PAGE - 1) // PAGE

    def content(self):
        with open(self.path, "rb") as file:
            return file.read()


class Spf:
    """The command under test."""

    def __init__(self, path, sanitizers=""):
        self.path = path
        self.slow = sanitizers not in ("", "none")

    def __call__(self, *args, wrap=(), timeout=120, **kwargs):
        command = [*wrap, self.path, *map(str, args)]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                timeout=timeout, stdin=subprocess.DEVNULL, **kwargs)
        result.command = " ".join(command)
        if result.returncode == 4 and not wrap:
            raise Skip("userfaultfd is refused here: " + result.stderr.strip())
        return result

    def json(self, *args, status=0, **kwargs):
        """Runs it with --json; stdout must be exactly one object."""
        result = self(*args, "--json", **kwargs)
        check_status(result, status)
        return one_object(result.stdout)


def check_status(result, status):
    assert result.returncode == status, (
        f"exit status {result.returncode}, not {status}: {result.command}\n{result.stderr}")


def one_object(text):
    value, end = json.JSONDecoder().raw_decode(text.lstrip())
    assert isinstance(value, dict), text
    assert not text.lstrip()[end:].strip(), "more than one object on stdout: " + text
    return value
