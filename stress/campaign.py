#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run spf-stress with one setting after another, and add up what they counted.

usage: campaign.py --program PROGRAM [--wrapper COMMAND] [--seconds N] [--seed N]
                   [--reasons] [--closing FILE] --run NAME ARGUMENTS ...

Each setting runs for N seconds ($SPF_STRESS_SECONDS; 10), with the seed that its
first line tells.  --wrapper is a command before the program, valgrind say.

TAP on stdout: a case for each setting, and with --reasons one for the abort reasons.
All of these must have occurred over all settings; a campaign of less than LONG seconds
in all that has missed some says which, as a skipped case.  The closing line of counts is a
diagnostic; with --closing it goes to FILE too.
"""
import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

LONG = 600
SKIPPED = 77


@dataclass
class Sums:
    """What all settings counted, by the names that spf-stress gives."""
    operations: int = 0
    checked: int = 0
    faults: Counter = field(default_factory=Counter)
    aborts: Counter = field(default_factory=Counter)
    runs: int = 0
    seconds: float = 0

    def add(self, output):
        """The counts of one run's output."""
        for title, counter in (("faults", self.faults), ("aborts", self.aborts)):
            line = re.search(rf"^{title}  (.*)$", output, re.M)
            for name, count in re.findall(r"(\w+) (\d+)", line.group(1) if line else ""):
                counter[name] += int(count)
        self.operations += number(r"^operations .*  all (\d+)$", output)
        self.checked += number(r"^stress: ok .* (\d+) accesses checked", output)
        self.runs += 1

    def missing(self):
        """Abort reasons that never occurred."""
        return [name for name, count in self.aborts.items() if not count]

    def closing(self):
        """The line that is left of it all."""
        def counts(counter):
            return " ".join(f"{name} {count}" for name, count in counter.items())
        return (f"stress: {self.runs} settings, {self.seconds:.0f} s, "
                f"{self.operations} operations, {self.checked} accesses checked, "
                f"faults {counts(self.faults)}, aborts {counts(self.aborts)}, "
                f"did not occur: {' '.join(self.missing()) or 'none'}")


def number(pattern, text):
    """The number that the pattern finds, or 0."""
    found = re.search(pattern, text, re.M)
    return int(found.group(1)) if found else 0


def diagnose(text):
    """Text as diagnostics of TAP."""
    print("\n".join("#   " + line for line in text.rstrip().splitlines()))


def run(command, patience):
    """Status and output; a run that hangs has status None."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=patience, check=False)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode("utf-8", "replace")
    return done.returncode, done.stdout.decode("utf-8", "replace")


def settings(args, sums):
    """Run them all.  False: something was found."""
    good = True
    for n, (name, arguments) in enumerate(args.run, 1):
        command = args.wrapper.split() + [args.program] + arguments.split()
        command += ["--seconds", args.seconds]
        command += ["--seed", str(args.seed + n)] if args.seed is not None else []
        status, output = run(command, int(args.seconds) + 600)
        if status == SKIPPED:
            print(f"ok {n} - {name} # SKIP {output.strip().splitlines()[0]}", flush=True)
        elif status == 0:
            sums.add(output)
            diagnose(output)
            print(f"ok {n} - {name}", flush=True)
        else:
            good = False
            diagnose(f"{' '.join(command)}\nstatus {status}\n{output}")
            print(f"not ok {n} - {name}", flush=True)
    return good


def reasons(n, sums):
    """The case for the abort reasons.  False: a long campaign has missed some."""
    missing = sums.missing() if sums.runs else ["any, for nothing was run"]
    text = f"{n} - every abort reason occurred"
    long = sums.seconds >= LONG
    if missing and not long:
        text += f" # SKIP not in {sums.seconds:.0f} s: {' '.join(missing)}"
    print(("not ok " if missing and long else "ok ") + text)
    return not (missing and long)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--wrapper", default="")
    parser.add_argument("--seconds", default=os.environ.get("SPF_STRESS_SECONDS", "10"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--reasons", action="store_true")
    parser.add_argument("--closing")
    parser.add_argument("--run", nargs=2, action="append", required=True)
    args = parser.parse_args()
    sums = Sums()
    begun = time.monotonic()

    print(f"1..{len(args.run) + args.reasons}")
    good = settings(args, sums)
    sums.seconds = time.monotonic() - begun
    if args.reasons:
        good &= reasons(len(args.run) + 1, sums)
    print("# " + sums.closing())
    if args.closing:
        with open(args.closing, "w", encoding="utf-8") as file:
            file.write(sums.closing() + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
