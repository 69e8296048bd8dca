# SPDX-License-Identifier: MIT
"""Where the library calls what may fail: read from the machine code.

A site is a call instruction, named by its function, file and line.  There are two
kinds: calls of what wrap.c stands in for, and calls of base/sys.c from outside of it,
of such functions there as come to the former.
"""
import collections
import os
import re
import subprocess

import calls

Site = collections.namedtuple("Site", "address callee function place")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def undefined(library):
    """By object file, the symbols that it wants from elsewhere."""
    wanted, member = collections.defaultdict(set), ""
    for line in output("nm", "--undefined-only", library).splitlines():
        if line.endswith(":"):
            member = line[:-1]
        elif line.split()[:1] == ["U"]:
            wanted[member].add(line.split()[1])
    return wanted


def defined(library):
    return {line.split()[-1] for line in output("nm", "--defined-only", library).splitlines()
            if len(line.split()) == 3}


class Code:
    """The program's machine code: its calls, functions, and the lines they come from."""

    CALL = re.compile(r"^\s*([0-9a-f]+):\s+(call|jmp)q?\s+[0-9a-f]+ <([^>+]+)>")
    HEAD = re.compile(r"^([0-9a-f]+) <([^>]+)>:")

    def __init__(self, program):
        self.program = program
        self.calls = []  # (return address, caller, callee)
        self.jumps = []
        text = output("objdump", "-d", "--no-show-raw-insn", "-j", ".text", program).splitlines()
        function = ""
        for line, following in zip(text, text[1:] + [""]):
            head, call = self.HEAD.match(line), self.CALL.match(line)
            if head:
                function = head[2]
            elif call and call[2] == "call":
                after = re.match(r"^\s*([0-9a-f]+):", following)
                self.calls.append((int(after[1], 16) if after else 0, function, call[3]))
            elif call and call[3] != function:
                self.jumps.append((function, call[3]))

    def places(self, addresses):
        """(function, file, line) of each call, by its return address."""
        wanted = "\n".join(hex(a - 1) for a in addresses)
        lines = subprocess.run(["addr2line", "-f", "-e", self.program], input=wanted, check=True,
                               capture_output=True, text=True).stdout.splitlines()
        found = {}
        for address, function, where in zip(addresses, lines[::2], lines[1::2]):
            path, _, line = where.partition(" ")[0].rpartition(":")
            found[address] = (function, os.path.normpath(path), line)
        return found


def reaching(edges, goals):
    """The functions from which some goal can be reached."""
    found = set(goals)
    while True:
        more = {caller for caller, callee in edges if callee in found} - found
        if not more:
            return found
        found |= more


class Sites:
    """direct: calls of wrapped functions; outer: of base/sys.c's, from outside."""

    def __init__(self, program, library, wrapped):
        self.problems = []
        self.wrapped = wrapped
        code = Code(program)
        wanted = {a: c for a, _, c in code.calls
                  if c.startswith(("__wrap_", "spf__sys_"))}
        places = {a: p for a, p in code.places(list(wanted)).items() if "/libspf/" in p[1]}
        inside = {a for a, p in places.items() if p[1].endswith("/base/sys.c")}
        fails = {"__wrap_" + name for name in wrapped - calls.GIVES_BACK}
        own = {places[a][0] for a in inside}
        can_fail = reaching([(caller, callee) for _, caller, callee in code.calls
                             if caller.startswith("spf__sys_") or caller in own], fails)
        can_fail -= calls.CANT_FAIL
        self.direct = self.pick(wanted, places, lambda a: wanted[a] in fails and
                                places[a][0] not in calls.CANT_FAIL)
        self.outer = self.pick(wanted, places, lambda a: a not in inside and
                               wanted[a] in can_fail and wanted[a] not in fails)
        self.every = sorted(a for a in places if wanted[a].startswith("__wrap_"))
        self.range = self.sys_range(program, code, places, inside)
        self.check(code, library)

    @staticmethod
    def pick(wanted, places, choose):
        return {a: Site(a, wanted[a].removeprefix("__wrap_"), places[a][0],
                        places[a][1].split("/libspf/")[1] + ":" + places[a][2])
                for a in sorted(places) if choose(a)}

    def sys_range(self, program, code, places, inside):
        """First byte and end of base/sys.c's functions, which lie together."""
        names = {places[a][0] for a in inside}
        names |= {callee for _, _, callee in code.calls if callee.startswith("spf__sys_")}
        first, end = None, 0
        for line in output("nm", "-S", program).splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[3] in names and fields[2] in "tT":
                start = int(fields[0], 16)
                first = start if first is None else min(first, start)
                end = max(end, start + int(fields[1], 16))
        strangers = [s.place for s in self.outer.values() if first <= s.address < end]
        if strangers:
            self.problems.append("base/sys.c is not in one piece: " + " ".join(strangers))
        return first, end

    def check(self, code, library):
        """Nothing that the objects want from elsewhere may escape."""
        own, known = defined(library), calls.never_fails()
        seen = collections.defaultdict(set)
        for site in self.direct.values():
            seen[os.path.basename(site.place.split(":")[0])[:-2]].add(site.callee)
        for member, names in undefined(library).items():
            base = member.removesuffix(".c.o").removesuffix(".o")
            for name in sorted(names - own | names & self.wrapped):
                if name in self.wrapped - calls.GIVES_BACK:
                    if not any(base.endswith("_" + b) and name in s for b, s in seen.items()):
                        self.problems.append(f"{member} wants {name}, but no call is seen")
                elif name not in known | calls.GIVES_BACK and not name.startswith(calls.SANITIZER):
                    self.problems.append(f"{member} wants {name}: may it fail?  Say so in calls.py")
        for caller, callee in code.jumps:
            if callee.startswith("__wrap_"):
                self.problems.append(f"{caller} jumps to {callee}, which can't be followed")

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("%x %x\n" % self.range)
            for address in self.every:
                file.write("%x\n" % address)
