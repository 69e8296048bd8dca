#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plant a bug: copy a source file with one exact piece of it replaced.

usage: plant.py INPUT OUTPUT --find TEXT --put TEXT

The protocol's code has no switches for bugs, so a bug is made by copying.  TEXT
must occur exactly once; leading and trailing blanks count.  Otherwise nothing is
written and the status is 1: a bug that was not planted must not pass as caught.
"""
import argparse
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--find", required=True)
    parser.add_argument("--put", required=True)
    args = parser.parse_args()

    with open(args.input, encoding="utf-8") as file:
        source = file.read()
    count = source.count(args.find)
    if count != 1:
        sys.exit(f"plant.py: {args.input} has {count} times, not once: {args.find}")
    line = source[: source.index(args.find)].count("\n") + 1
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(f'#line 1 "{args.input}"\n' + source.replace(args.find, args.put))
    print(f"plant.py: {args.input}:{line}: a bug was planted")


if __name__ == "__main__":
    main()
