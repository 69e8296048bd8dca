#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pass only when the oracle finds a planted mistake, and tells it well.

usage: catches.py --planted PROGRAM --sound PROGRAM --most N --by WHO -- [ARGUMENT ...]

PROGRAM --planted has the mistake.  It must fail, shrink the sequence to at most N
calls, and say that it is WHO (libspf, kernel) that differs.  Replayed from the text
that it printed, the sequence must fail again; without the mistake (--sound) it must
not.  Status 0 if all is so; 1 if not; 77: the program was skipped.
"""
import argparse
import re
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def check(args):
    """What is wrong, or None."""
    status, output = run(args.planted, "--seed", "1", "--steps", "100000", *args.arguments)
    print(output)
    if status == 77:
        sys.exit(77)
    shrunk = re.search(r"^oracle: shrunk to (\d+) calls: (.*)\n((?:mmu .*\n)(?:[a-z].*\n)*?)"
                       r"(?=differences|oracle)", output, re.M)
    if status != 1 or not shrunk:
        return f"not found (status {status})"
    if int(shrunk.group(1)) > args.most:
        return f"{shrunk.group(1)} calls, {args.most} at most"
    if args.by not in shrunk.group(2):
        return f"it is not said to be {args.by} that differs"
    with tempfile.NamedTemporaryFile("w", suffix=".calls") as file:
        file.write(shrunk.group(3))
        file.flush()
        status, output = run(args.planted, "--replay", file.name)
        if status != 1 or "FAILED" not in output:
            return f"replayed, it does not fail (status {status}):\n{output}"
        status, output = run(args.sound, "--replay", file.name)
        if status != 0:
            return f"it fails without the mistake, too (status {status}):\n{output}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planted", required=True)
    parser.add_argument("--sound", required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("--by", required=True)
    parser.add_argument("arguments", nargs="*")
    wrong = check(parser.parse_args())
    if wrong:
        sys.exit(f"catches.py: {wrong}")


if __name__ == "__main__":
    main()
