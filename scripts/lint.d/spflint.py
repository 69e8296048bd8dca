# SPDX-License-Identifier: MIT
"""What the lint steps share: which files there are, and C without its comments."""
import os
import re
import subprocess
import sys
from pathlib import Path

C_DIRS = ("include", "libspf", "tools", "bench", "examples", "tests", "stress")


def all_files():
    """Every file of the project, tracked or about to be, sorted."""
    try:
        out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                             capture_output=True, text=True).stdout
        names = [name for name in out.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = walk()  # a release tarball, or no git on this machine
    return sorted(name for name in set(names) if os.path.isfile(name))


def walk():
    for root, dirs, names in os.walk("."):
        dirs[:] = [d for d in dirs if d not in (".git", ".cache", "__pycache__")
                   and not (root == "." and d.startswith("build"))]
        for name in names:
            yield os.path.relpath(os.path.join(root, name), ".")


def c_files(*dirs, suffixes=(".c", ".h")):
    """C sources and headers under the folders (default: all that hold C)."""
    tops = tuple(d.rstrip("/") + "/" for d in (dirs or C_DIRS))
    return [name for name in all_files() if name.startswith(tops) and name.endswith(suffixes)]


def read(name):
    return Path(name).read_text(encoding="utf-8", errors="replace")


def is_text(name):
    return b"\0" not in Path(name).read_bytes()[:8192]


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text, strings=True):
    """The code, line for line: comments, and (strings=True) what is quoted, are blanks."""
    def replace(match):
        token = match.group(0)
        if token.startswith("/"):
            return blank(token)
        return token[0] + blank(token[1:-1]) + token[-1] if strings else token
    return TOKEN.sub(replace, text)


def comments_only(text):
    """The comments, line for line: everything else is blanks."""
    out, end = [], 0
    for match in TOKEN.finditer(text):
        out.append(blank(text[end:match.start()]))
        token = match.group(0)
        out.append(token if token.startswith("/") else blank(token))
        end = match.end()
    out.append(blank(text[end:]))
    return "".join(out)


class Report:
    """Findings, one a line; the step's exit status."""

    def __init__(self):
        self.count = 0

    def add(self, name, line, text):
        self.count += 1
        print(f"{name}:{line}: {text}")

    def finish(self):
        sys.exit(1 if self.count else 0)


def skip(reason):
    print(reason)
    sys.exit(77)
