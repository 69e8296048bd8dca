#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hold the table of conflicts in a document to what the recorder finds.

    written.py --program CONFLICTS --document ARCHITECTURE.md [--write]

It stands there between two marks.  A line that differs fails, and is shown; --write puts
what was found into the document.
"""
import argparse
import difflib
import pathlib
import subprocess
import sys

BEGIN, END = "<!-- conflicts -->\n", "<!-- end of conflicts -->\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--document", required=True, type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = subprocess.run([args.program], check=True, stdout=subprocess.PIPE, text=True).stdout
    before, rest = args.document.read_text().split(BEGIN)
    written, after = rest.split(END)
    if args.write:
        args.document.write_text(before + BEGIN + found + END + after)
        return 0
    lines = [text.splitlines() for text in (written, found)]
    differences = list(difflib.unified_diff(*lines, "written", "found", lineterm="", n=0))
    print("\n".join(differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
