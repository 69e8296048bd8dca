#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count test cases in meson's testlog.json and tell what went wrong.

    count-tests.py --log FILE [--expected FILE] [--tail N]

Prints "PASSED FAILED SKIPPED" on stdout, and failures and reasons for skips on
stderr.  Exit status 0, whatever was counted; 2 if the log cannot be read.

A meson test that runs a Criterion program counts as many cases as Criterion ran:
its closing line ("Synthesis: Tested: ...") leaves skipped cases out, so these
are counted by their "[SKIP]" lines, which Criterion prints only with --verbose or
CRITERION_VERBOSITY_LEVEL=1 in the environment.  Where there is none, lines of TAP
count ("ok", "not ok", with "# SKIP"), or a closing "N passed, N failed, N skipped".
Any other meson test is one case.

What must never happen is that something is passed in silence.  So: a test that
failed counts at least one failure, whatever it printed; one that ran no case at
all is a failure; one that is expected (FILE has the lines of "meson test --list")
but has no line in the log is a failure.
"""
import argparse
import json
import re
import sys
from pathlib import Path

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SYNTHESIS = re.compile(
    r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
SKIP = re.compile(r"^\[SKIP\] (.*)$", re.M)
TAP = re.compile(r"^(not )?ok\b(.*)$", re.M)
TAP_PLAN = re.compile(r"^1\.\.(\d+)\b", re.M)
TAP_SKIP = re.compile(r"#\s*skip\S*\s*(.*)$", re.I)
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def say(text=""):
    print(text, file=sys.stderr)


def output_of(entry):
    text = "\n".join(entry.get(key) or "" for key in ("stdout", "stderr"))
    return ANSI.sub("", text).replace("\r", "")


def tap_cases(text):
    """As cases_in, of a TAP report; cases that the plan has beyond those that came have failed."""
    passed, failed, skips = 0, 0, []
    for bad, rest in TAP.findall(text):
        skip = TAP_SKIP.search(rest)
        if skip:
            skips.append(f"{rest[:skip.start()].strip(' -')}: {skip.group(1) or 'no reason given'}")
        elif bad:
            failed += 1
        else:
            passed += 1
    planned = sum(int(n) for n in TAP_PLAN.findall(text))
    return passed, failed + max(0, planned - passed - failed - len(skips)), skips


def cases_in(text):
    """(passed, failed, [reasons of skips]) as the program itself counted, or None."""
    synthesis = SYNTHESIS.findall(text)
    if synthesis:
        passed = sum(int(s[1]) for s in synthesis)
        failed = sum(int(s[2]) for s in synthesis)
        return passed, failed, SKIP.findall(text)
    if TAP_PLAN.search(text):
        return tap_cases(text)
    closing = CLOSING.findall(text)
    if closing:
        passed, failed, skipped = (int(n or 0) for n in closing[-1])
        reasons = SKIP.findall(text)[:skipped]
        return passed, failed, reasons + ["no reason given"] * (skipped - len(reasons))
    return None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def judge(entry):
    """(passed, failed, [reasons of skips], what is wrong or None) of one meson test."""
    result = entry["result"]
    text = output_of(entry)
    cases = cases_in(text)
    if result == "EXPECTEDFAIL":
        return 1, 0, [], None
    if result == "SKIP":
        reasons = cases[2] if cases and cases[2] else [last_line(text)]
        return 0, 0, reasons, None
    if cases is None:
        return (1, 0, [], None) if result == "OK" else (0, 1, [], result)
    passed, failed, skips = cases
    if result != "OK":
        return passed, max(failed, 1), skips, result
    if failed:
        return passed, failed, skips, "exit status 0, though cases failed"
    if passed + len(skips) == 0:
        return 0, 1, [], "ran no test"
    return passed, 0, skips, None


def show(entry, what, tail):
    name = entry["name"]
    say(f"  FAILED {name}: {what} (exit status {entry.get('returncode')}, "
        f"{entry.get('duration', 0):.0f} s)")
    say(f"    command: {' '.join(entry.get('command', []))}")
    lines = [line for line in output_of(entry).splitlines() if line.strip()]
    # What Criterion and the sanitizers say about a failure stands where it happened.
    marks = [n for n, line in enumerate(lines)
             if line.startswith("[FAIL]") or "Sanitizer" in line or "runtime error:" in line]
    if marks and marks[0] < len(lines) - tail:
        first = max(0, marks[0] - 4)
        for line in lines[first:first + tail]:
            say(f"    | {line}")
        say("    | ...")
    for line in lines[-tail:]:
        say(f"    | {line}")


def read_log(path):
    entries = []
    for line in Path(path).read_text(errors="replace").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            pass  # meson was killed while it wrote this line: its test counts as lost
    return entries


def short(name):
    """Meson writes "project:suite / name" into the log."""
    return name.rsplit(" / ", 1)[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True, help="testlog.json")
    parser.add_argument("--expected", help="names of the tests that must be in it, one a line")
    parser.add_argument("--tail", type=int, default=25, help="lines shown of a failed test")
    args = parser.parse_args()
    try:
        entries = read_log(args.log)
        expected = Path(args.expected).read_text().splitlines() if args.expected else []
    except OSError as error:
        say(f"count-tests: {error}")
        return 2

    total = [0, 0, 0]
    for entry in entries:
        passed, failed, skips, wrong = judge(entry)
        total[0] += passed
        total[1] += failed
        total[2] += len(skips)
        if wrong:
            show(entry, wrong, args.tail)
        for reason in skips:
            say(f"  skipped {short(entry['name'])}: {reason}")
    seen = {entry["name"] for entry in entries}
    for name in expected:
        if name and name not in seen:
            total[1] += 1
            say(f"  FAILED {name}: it never ended")
    print(*total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
