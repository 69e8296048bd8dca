# SPDX-License-Identifier: MIT
"""tests/RACES.md names tests that exist, and each of the historic races has its line."""
import re
import subprocess
import sys

from tap import run

races, *programs = sys.argv[1:]


def existing():
    names = set()
    for program in programs:
        listing = subprocess.run([program, "--list", "--color=never"],
                                 capture_output=True, text=True, check=True)
        suite = None
        for line in re.sub(r"\x1b\[[0-9;]*m", "", listing.stdout).splitlines():
            heading = re.match(r"(\w+):", line)
            entry = re.match(r"\W+\s(\w+)", line)
            if heading:
                suite = heading.group(1)
            elif entry:
                names.add(f"{suite}::{entry.group(1)}")
    assert len(names) > 100, names
    return names


def text():
    with open(races) as file:
        return file.read()


def test_names():
    """every test that is named exists"""
    named = set(re.findall(r"\b[a-z_]+::[a-z_0-9]+", text())) - {"suite::test"}
    assert named, "no test is named"
    missing = named - existing()
    assert not missing, sorted(missing)


def test_complete():
    """races 1 to 26 and merges 1 to 8 have a line each"""
    lines = text().splitlines()
    numbers = [int(m.group(1)) for m in (re.match(r"\| (\d+) \|", line) for line in lines) if m]
    assert numbers == list(range(1, 27)), numbers
    merges = [int(m.group(1)) for m in (re.match(r"\| (\d) \w", line) for line in lines) if m]
    assert merges == list(range(1, 9)), merges


run(globals())
