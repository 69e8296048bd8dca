#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every planted bug must be reported; a table says by which checker.

usage: planted.py [--seconds N] [--seeds N] [--table FILE]
                  --bug NAME WHAT BY PROGRAM ARGUMENTS ...

BY is the checker that must report the bug, or several with commas, of which one must:
  content  spf-stress itself: status 1 and its closing line
  tsan     a report of ThreadSanitizer: status 66
  explore  nobody here: only an explorer of interleavings sees it for certain, and
           suite `explore` plants it; PROGRAM and ARGUMENTS are empty
A program is run with one seed after another, N seconds in all, until it reports the
bug.  A crash, a hang or any other end is not a report.

TAP on stdout, a case for each --bug that is hunted here, and the table as its diagnostics; with --table
also in FILE.  A program that skips itself (77) makes a skipped case.
"""
import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass


@dataclass
class Row:
    """One planted bug, and what came of it."""
    bug: str
    what: str
    by: str
    caught: str = ""
    said: str = ""


def verdict(status, output):
    """What caught the bug, its short name and its words; None if nothing did."""
    race = re.search(r"^(WARNING: ThreadSanitizer.*?)( \(pid=\d+\))?$", output, re.M)
    if status == 66 and race:
        summary = re.search(r"^SUMMARY: ThreadSanitizer: (.*)$", output, re.M)
        return "tsan", summary.group(1) if summary else race.group(1)
    found = re.search(r"^stress: violation: (.*)$", output, re.M)
    if status == 1 and found and "stress: FAILED" in output:
        return "content", found.group(1)
    return None


def run(command, seed, seconds):
    """Status and output of one run; a run that hangs has none."""
    command = command + ["--seed", str(seed), "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds + 200, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def hunt(row, command, args):
    """Try the seeds.  Returns the TAP line's beginning and its end."""
    seconds = max(1, args.seconds // args.seeds)
    begun = time.monotonic()
    for seed in range(1, args.seeds + 1):
        status, output = run(command, seed, seconds)
        if status == 77:
            row.caught, row.said = "skipped", "the program could not run here"
            return "ok", " # SKIP " + output.strip().splitlines()[0]
        caught = verdict(status, output)
        took = time.monotonic() - begun
        if caught and caught[0] in row.by.split(","):
            row.caught, row.said = f"{caught[0]}, {took:.1f} s, seed {seed}", caught[1]
            return "ok", ""
        print(f"# {row.bug}: seed {seed}: not caught after {took:.1f} s, status {status}")
        if status not in (0, None):
            print("\n".join("#   " + line for line in output[-4000:].splitlines()))
    row.caught = "NOT CAUGHT"
    row.said = f"{args.seeds} seeds of {seconds} s each"
    return "not ok", ""


def shortened(text, most):
    """Paths and long reports say more than a table has room for."""
    text = re.sub(r"\S*/(\S+\.[ch])\b", r"\1", text)
    return text if len(text) <= most else text[:most - 3] + "..."


def table(rows):
    """Lines of equal columns."""
    head = Row("bug", "what was planted", "", "reported by", "as")
    cells = [(row.bug, row.what, row.caught, shortened(row.said, 48)) for row in [head] + rows]
    widths = [max(len(cell[i]) for cell in cells) for i in range(3)]
    return ["  ".join(text.ljust(width) for text, width in zip(cell, widths + [0])).rstrip()
            for cell in cells]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--table")
    parser.add_argument("--bug", nargs=5, action="append", required=True)
    args = parser.parse_args()
    rows = [Row(bug, what, by, by, "see suite explore") for bug, what, by, *_ in args.bug]
    hunted = [(row, [bug[3]] + bug[4].split()) for row, bug in zip(rows, args.bug)
              if row.by != "explore"]
    good = True

    print(f"1..{len(hunted)}")
    for number, (row, command) in enumerate(hunted, 1):
        begin, end = hunt(row, command, args)
        good &= begin == "ok"
        print(f"{begin} {number} - {row.bug} is reported by {row.by}{end}", flush=True)
    lines = table(rows)
    print("\n".join("# " + line for line in lines))
    if args.table:
        with open(args.table, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
