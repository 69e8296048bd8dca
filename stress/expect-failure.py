#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pass only when a stress run with a planted bug is caught.

usage: expect-failure.py --program PROGRAM [--seconds N] [--seeds N] [--by NAME] -- [ARGUMENT ...]

Runs the program with one seed after another, N seconds in all, until a run
reports the bug: by a violation that spf-stress found itself (status 1 and its
closing line) or by a report of ThreadSanitizer (status 66).  A crash, a hang or
any other end is not a report.  --by asks for one of the two: content, tsan.
Status 0: caught; 1: not caught; 77: the program was skipped.
"""
import argparse
import re
import subprocess
import sys
import time


def verdict(status, output):
    """What caught the bug, in words, and its short name; None if nothing did."""
    race = re.search(r"^(WARNING: ThreadSanitizer.*?)( \(pid=\d+\))?$", output, re.M)
    if status == 66 and race:
        summary = re.search(r"^SUMMARY: ThreadSanitizer: (.*)$", output, re.M)
        return "tsan", summary.group(1) if summary else race.group(1)
    found = re.search(r"^stress: violation: (.*)$", output, re.M)
    if status == 1 and found and "stress: FAILED" in output:
        return "content", found.group(1)
    return None


def run(command, seed, seconds):
    command = command + ["--seed", str(seed), "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds + 200, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def hunt(args):
    """Try the seeds; returns the exit status of this program."""
    seconds = max(1, args.seconds // args.seeds)
    for seed in range(1, args.seeds + 1):
        begun = time.monotonic()
        status, output = run([args.program] + args.arguments, seed, seconds)
        if status == 77:
            print(output.strip())
            return 77
        caught = verdict(status, output)
        took = time.monotonic() - begun
        if caught and args.by in (None, caught[0]):
            print(f"caught by {caught[0]} with seed {seed} after {took:.1f} s: {caught[1]}")
            return 0
        print(f"seed {seed}: not caught in {took:.1f} s, status {status}")
        if status not in (0, None):
            print(output[-4000:])
    print(f"NOT CAUGHT with {args.seeds} seeds of {seconds} s each")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--by", choices=["content", "tsan"])
    parser.add_argument("--program", required=True)
    parser.add_argument("arguments", nargs="*")
    sys.exit(hunt(parser.parse_args()))


if __name__ == "__main__":
    main()
