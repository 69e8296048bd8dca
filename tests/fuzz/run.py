#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run one fuzzer, from the corpus in the tree.

usage: run.py --fuzzer PROGRAM --encode PROGRAM [--corpus DIR] [--seconds N]
              [--keep DIR] [--must-find TEXT]

Files of the corpus are text: NAME.calls (calls, as of oracle --replay), NAME.hex (bytes
in hexadecimal, # begins a comment), or anything else, taken as it is without the last
newline.  What the fuzzer finds beside goes into the folder --keep, or away.  Bytes that
make it fail are printed in hexadecimal, to be put into the corpus.

--must-find: it has a planted mistake, and must fail by saying TEXT.
Status 0: nothing was found (or just that); 1 else.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def bytes_of(path, encode):
    if path.suffix == ".calls":
        with path.open("rb") as file:
            return subprocess.run([encode], stdin=file, stdout=subprocess.PIPE,
                                  check=True).stdout
    data = path.read_bytes()
    if path.suffix == ".hex":
        return bytes.fromhex(re.sub(r"#.*", "", data.decode()))
    return data.removesuffix(b"\n")


def seed(args, folder):
    for path in sorted(args.corpus.iterdir()):
        (folder / path.name).write_bytes(bytes_of(path, args.encode))


def fuzz(args, scratch):
    found, seeds = args.keep or scratch / "found", scratch / "seeds"
    found.mkdir(parents=True, exist_ok=True)
    seeds.mkdir()
    if args.corpus:
        seed(args, seeds)
    command = [args.fuzzer, f"-max_total_time={args.seconds}", "-timeout=30",
               "-rss_limit_mb=2048", "-print_final_stats=1", "-max_len=402", "-len_control=0",
               # Keeping its figures costs more than the short runs here.
               "-entropic=0",
               f"-artifact_prefix={scratch}/failed-", str(found), str(seeds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def print_failed(scratch):
    for path in scratch.glob("failed-*"):
        data = path.read_bytes()
        print(f"{path.name}, {len(data)} bytes:")
        for at in range(0, len(data), 32):
            print(data[at:at + 32].hex(" "))


def report(args, status, output):
    """One line of figures; what is wrong, or None."""
    name = Path(args.fuzzer).name
    runs = re.search(r"^stat::number_of_executed_units: (\d+)$", output, re.M)
    covered = re.findall(r"\bcov: (\d+)", output)
    print(f"{name}: {runs.group(1) if runs else '?'} executions, "
          f"{covered[-1] if covered else '?'} edges covered")
    if args.must_find:
        return None if status and args.must_find in output else "the mistake was not found"
    if status:
        return f"status {status}"
    return None if runs and int(runs.group(1)) else "nothing was run"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzzer", required=True)
    parser.add_argument("--encode", required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--must-find")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        status, output = fuzz(args, Path(scratch))
        wrong = report(args, status, output)
        if wrong or args.must_find:
            print(output[-8000:])
            print_failed(Path(scratch))
    if wrong:
        sys.exit(f"run.py: {wrong}")


if __name__ == "__main__":
    main()
