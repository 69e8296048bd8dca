# SPDX-License-Identifier: MIT
"""Each public header compiles alone, without a warning, as C and as C++."""
import os
import shlex
import shutil
import subprocess

from tap import Skip, arguments, run

args = arguments("cc", "include")


def headers():
    for folder, _, files in os.walk(args.include):
        for name in sorted(files):
            if name.endswith(".h"):
                yield os.path.relpath(os.path.join(folder, name), args.include)


def compile_alone(compiler, language, standard):
    found = list(headers())
    assert "spf.h" in found, found
    for header in found:
        command = [*compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra",
                   "-Wpedantic", "-Werror", "-fsyntax-only", "-I" + args.include, "-"]
        text = f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
        if language == "c++":
            text = text.replace("(void)", "()")
        result = subprocess.run(command, input=text, capture_output=True, text=True)
        assert result.returncode == 0, f"{header}: {result.stderr}"


def test_c():
    """as C11"""
    compile_alone(shlex.split(args.cc), "c", "c11")


def test_c99():
    """as C99"""
    compile_alone(shlex.split(args.cc), "c", "c99")


def test_cxx():
    """as C++11"""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise Skip("no C++ compiler is installed")
    compile_alone([compiler], "c++", "c++11")


run(globals())
