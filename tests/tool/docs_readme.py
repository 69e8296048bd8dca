# SPDX-License-Identifier: MIT
"""The README's program: extracted, compiled against the built library, and run."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

from tap import Skip, arguments, run

args = arguments("cc", "include", "library", "readme", "sanitizers")


def program():
    with open(args.readme) as file:
        block = re.search(r"^```c\n(.*?)^```$", file.read(), re.M | re.S)
    assert block, "README.md has no ```c block"
    return block.group(1)


def compile_program(folder):
    source, binary = os.path.join(folder, "sum.c"), os.path.join(folder, "sum")
    with open(source, "w") as file:
        file.write(program())
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"]
    if args.sanitizers not in ("", "none"):
        flags.append("-fsanitize=" + args.sanitizers)
    libraries = os.path.dirname(args.library)
    command = [*shlex.split(args.cc), *flags, "-I" + args.include, source, "-o", binary,
               args.library, "-Wl,-rpath," + libraries, "-pthread"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return binary


def test_length():
    """the program has about 40 lines"""
    lines = len(program().splitlines())
    assert lines <= 45, lines


def test_runs():
    """it compiles without a warning, runs, and its sum is right"""
    with tempfile.TemporaryDirectory(prefix="spf-readme-") as folder:
        binary = compile_program(folder)
        data = os.urandom(3 * 4096 + 1000)
        path = os.path.join(folder, "data")
        with open(path, "wb") as file:
            file.write(data)
        result = subprocess.run([binary, path], capture_output=True, text=True, timeout=60)
        if re.search("not permitted|denied|not implemented", result.stderr, re.I):
            raise Skip("userfaultfd is refused here: " + result.stderr.strip())
        assert result.returncode == 0, (result.returncode, result.stderr)
        print(result.stdout, file=sys.stderr)
        assert str(sum(data)) in result.stdout, (sum(data), result.stdout)


def test_no_argument():
    """without an argument it ends by itself too"""
    with tempfile.TemporaryDirectory(prefix="spf-readme-") as folder:
        result = subprocess.run([compile_program(folder)], capture_output=True, text=True,
                                timeout=60)
        assert result.returncode in (0, 1, 2), (result.returncode, result.stderr)


run(globals())
