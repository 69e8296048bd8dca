#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Planted bugs that the explorer must find, each in the scenarios named for it.

usage: planted.py [--jobs N] [--only BUG] BUG:PROGRAM:SCENARIO[,SCENARIO]...
       planted.py --skip REASON

Each PROGRAM is spf-explore over the library with one piece of one file replaced.  It runs
with the bounds that all others run with.  A bug is found if a schedule fails and its
replay fails in the same way (status 1).  Prints which scenario found it, after how many
schedules.  Status 0: all were found.
"""
import argparse
import concurrent.futures
import re
import subprocess
import sys

FAILS = re.compile(r"^explore: (\S+) fails, in schedule (\d+): (.*)$", re.M)
LAST = re.compile(r"^explore: (.*)$", re.M)  # the replay's words
LIMIT = 240  # seconds, on a busy machine


def run(case):
    bug, program, scenarios = case.split(":")
    command = [program]
    for scenario in scenarios.split(","):
        command += ["--scenario", scenario]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return bug, None, f"not found within {LIMIT} s"
    found = FAILS.search(done.stdout)
    if done.returncode == 1 and found:
        return bug, (found.group(1), int(found.group(2))), LAST.findall(done.stdout)[-1]
    if done.returncode == 3:
        return bug, None, "found, but it does not happen again in a replay"
    last = (done.stdout + done.stderr).strip().splitlines()
    return bug, None, f"status {done.returncode}: {last[-1] if last else 'nothing said'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip")
    parser.add_argument("case", nargs="*")
    args = parser.parse_args()
    if args.skip:
        print(args.skip)
        sys.exit(77)

    cases = [c for c in args.case if not args.only or c.split(":")[0] in args.only]
    if not cases:
        sys.exit("planted.py: no such bug")
    lost = 0
    print(f"{'planted bug':26} {'found by':24} {'schedules':>9}  how it showed")
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for bug, found, how in pool.map(run, cases):
            scenario, count = found or ("NOT FOUND", "-")
            print(f"{bug:26} {scenario:24} {count:>9}  {how}", flush=True)
            lost += not found
    print(f"explore: {len(cases) - lost} of {len(cases)} planted bugs were found")
    sys.exit(lost != 0)


if __name__ == "__main__":
    main()
