#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check one model exhaustively, or see that a fault planted in it is found.

    verify.py MODEL [-DNAME...] [--ltl NAME] [--fails PATTERN]

Spin makes a verifier of the model, which looks at every state that can be reached: no
assertion may fail, no process may be stuck and, with --ltl, the claim must hold of every
fair run.  With --fails the verifier must report an error, and one that PATTERN is found in.
Prints what was defined, the number of states, and how deep it went.  Exit status 77: skipped.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

DEPTH = 1000000


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--ltl")
    parser.add_argument("--fails")
    known, rest = parser.parse_known_args()
    bad = [word for word in rest if not re.fullmatch(r"-D\w+(=\w+)?", word)]
    if bad:
        parser.error(f"unknown: {' '.join(bad)}")
    return known, rest


def run(command, where):
    # Spin leaves the preprocessor's file behind in the folder for such.
    return subprocess.run(command, cwd=where, env=dict(os.environ, TMPDIR=where),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def make(options, defines, where):
    """Messages if the verifier can't be made."""
    model = os.path.abspath(options.model)
    made = run(["spin", "-a", *defines, model], where)
    if made.returncode or not os.path.exists(os.path.join(where, "pan.c")):
        return made.stdout
    # A model without a claim is checked for safety alone, which is quicker.  In a fair run
    # of a claim no process that can go on is left out for ever.
    kind = ["-DNFAIR=3"] if options.ltl else ["-DSAFETY"]
    # What is planted is found soon: then the compiler's time counts, else the verifier's.
    made = run(["cc", "-O0" if options.fails else "-O1", "-w", *kind, "-o", "pan", "pan.c"], where)
    return made.stdout if made.returncode else ""


def search(options, where):
    claim = ["-a", "-f", "-N", options.ltl] if options.ltl else []
    return run(["./pan", f"-m{DEPTH}", "-w20", *claim], where).stdout


def judge(out, fails):
    """What is wrong with the outcome, or None."""
    errors = re.search(r"errors: (\d+)", out)
    if "max search depth too small" in out:
        return "the depth was not enough"
    if not errors or not re.search(r"states, stored", out):
        return "the search did not end"
    if not fails:
        return None if errors.group(1) == "0" else "the model is wrong"
    if errors.group(1) == "0":
        return "the planted fault was not found"
    found = "\n".join(re.findall(r"^pan:1: (.*)$", out, re.M))
    return None if re.search(fails, found) else f"another error than was planted: {found}"


def main():
    options, defines = arguments()
    missing = [tool for tool in ("spin", "cc") if not shutil.which(tool)]
    if missing:
        print(f"no {' and no '.join(missing)} on this machine")
        return 77
    with tempfile.TemporaryDirectory() as where:
        out = make(options, defines, where) or search(options, where)
    wrong = judge(out, options.fails)
    states = re.search(r"(\d+) states, stored", out)
    depth = re.search(r"depth reached (\d+)", out)
    print(f"{os.path.basename(options.model)} {' '.join(defines)}: "
          f"{states.group(1) if states else 'no'} states, "
          f"depth {depth.group(1) if depth else 'unknown'}")
    for error in re.findall(r"^pan:1: (.*)$", out, re.M):
        print(f"found: {error}")
    if wrong:
        print(out)
        print(f"FAILED: {wrong}")
        return 1
    return 0


sys.exit(main())
