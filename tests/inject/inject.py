#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail every allocation and system call of the library, one at a time.

usage: inject.py --program SPF-INJECT --library LIBRARY --headers DIR [--most N]
                 [--only SCENARIO] [--jobs N] [--find] CALL ...

Each scenario is run once undisturbed, and its calls are counted by site.  Then it is
run again for each call and each way in which that may fail (calls.py); what a failure
leads to is looked at in turn, when it comes to calls that were not made before.  With
--most N, N calls of one site in one scenario are picked out; 0: all.

A failure that is told must be one that the header names for that call; nothing may be
lost or left behind (world.h); and a site where nothing ever failed fails the run.
CALL ... are the functions that wrap.c stands in for.  --find: the library is one with
a planted mistake, and the status is 0 if it is found.
"""
import argparse
import collections
import errno
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

import calls
import sites

DEPTH = 3  # failures in one run
LATER = 4  # calls of a site that only a failure leads to
SHOWN = 40  # violations that are not like another

Run = collections.namedtuple("Run", "scenario plan")  # plan: tuple of Failure
Failure = collections.namedtuple("Failure", "call source nth how onward err")


def plan_text(plan):
    return ",".join(f"{f.call:x}:{f.source:x}:{f.nth}{'+' if f.onward else ''}:{f.how}:{f.err}"
                    for f in plan)


class Answer:
    """What one run said: sites by (call, source), what was told, and how it ended."""

    def __init__(self, lines):
        self.counts, self.failed, self.kinds = {}, {}, {}
        self.told, self.end, self.why = [], "", ""
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "site":
                call, source, count, failed, kind = rest.split(" ", 4)
                key = int(call, 16), int(source, 16)
                self.counts[key], self.failed[key] = int(count), int(failed)
                self.kinds[key] = kind
            elif word == "told":
                name, err = rest.split()
                self.told.append((name, int(err)))
            elif word == "violation":
                self.why = rest
            elif word == "end":
                self.end = rest


class Server:
    def __init__(self, program, environment):
        self.process = subprocess.Popen([program], env=environment, text=True, errors="replace",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.first = Answer(self.lines("ready"))

    def lines(self, last):
        found = []
        for line in self.process.stdout:
            found.append(line.rstrip("\n"))
            if line.startswith(last):
                return found
        sys.exit("inject: the program ended by itself: " + "\n".join(found[-5:]))

    def run(self, wanted):
        self.process.stdin.write(f"{wanted.scenario} {plan_text(wanted.plan)}\n")
        self.process.stdin.flush()
        return Answer(self.lines("end"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Headers:
    """The errors that the public headers name, by call."""

    COMMON = {errno.EAGAIN, errno.ENOMEM, errno.ESHUTDOWN, errno.ESTALE}
    PASSED_ON = re.compile(r"error of the MMU|an error of the\s+MMU|the pager's error|"
                           r"error of `store`|An error of|others\s+the pager's error")

    def __init__(self, folder):
        self.text = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".h"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.read(file.read())

    def read(self, text):
        about, head = [""], re.search(r"/\*[^/]*\*/\s*(/\*.*?\*/)", text, flags=re.S)
        for part in re.split(r"(/\*.*?\*/)", text, flags=re.S):
            if part.startswith("/*"):
                about = [part] if "SPDX" not in part else about
            for call in re.findall(r"\b(spf_\w+)\(", part if not part.startswith("/*") else ""):
                self.text.setdefault(call, about[-1] + (head[1] if head else ""))

    def names(self, call, err, injected):
        text = self.text.get(call, "")
        if f"-{errno.errorcode[err]}" in text or err in self.COMMON:
            return True
        return err in injected and bool(self.PASSED_ON.search(text))


class Hunt:
    """All runs of all scenarios, and what they found."""

    def __init__(self, args, found):
        self.args, self.sites = args, found
        self.headers = Headers(args.headers)
        self.todo, self.lock = queue.Queue(), threading.Lock()
        self.baseline, self.planned, self.steps = {}, set(), set()
        self.failed = collections.Counter()
        self.runs = self.injected = 0
        self.violations, self.shown, self.skipped = [], set(), []

    # ---- which runs

    def chosen(self, count):
        """Which of so many calls: all, or the first, the last and some between."""
        most = self.args.most
        if not most or count <= most:
            return range(1, count + 1)
        return sorted({1 + i * (count - 1) // max(1, most - 1) for i in range(most)})

    def plan_for(self, run, key, kind, count):
        if kind not in calls.FAILS:
            self.report(run, f"calls.py does not know how {kind} may fail")
            return
        for err, how, onward in calls.ways(kind):
            for nth in self.chosen(count):
                more = run._replace(plan=run.plan + (Failure(*key, nth, how, onward, err),))
                if more not in self.planned:
                    self.planned.add(more)
                    self.todo.put(more)

    def follow(self, run, answer):
        """Plan what comes next after a run."""
        with self.lock:
            if not run.plan:
                self.baseline[run.scenario] = answer.counts
            elif len(run.plan) >= DEPTH:
                return
            for key, count in answer.counts.items():
                if not run.plan:
                    self.plan_for(run, key, answer.kinds[key], count)
                elif key not in self.baseline[run.scenario] and self.is_new(run, key):
                    self.plan_for(run, key, answer.kinds[key], min(count, LATER))

    def is_new(self, run, key):
        """Is it the first time in this scenario that a failure of this kind leads there?"""
        before = [(f.call, f.source) for f in run.plan]
        step = run.scenario, run.plan[-1].onward, key
        if step in self.steps or key in before:
            return False
        self.steps.add(step)
        return True

    # ---- what they said

    def report(self, run, why):
        self.violations.append((run, why))
        alike = why, run.plan[-1:] and self.place(run.plan[-1])
        if not self.args.find and alike not in self.shown and len(self.shown) < SHOWN:
            self.shown.add(alike)
            self.print_violation(run, why)

    def count(self, run, answer):
        with self.lock:
            self.runs += 1
            for key, n in answer.failed.items():
                self.failed[key] += n
                self.injected += n

    def judge(self, run, answer):
        injected = {f.err for f in run.plan}
        if answer.end == "skipped":
            self.skipped.append(run.scenario)
        elif answer.end != "good":
            self.report(run, answer.why or answer.end)
        for call, err in answer.told:
            if call.startswith("spf_") and not self.headers.names(call, err, injected):
                self.report(run, f"{call} says {errno.errorcode[err]}, which its header does not")

    # ---- the work

    def work(self, environment):
        server = Server(self.args.program, environment)
        while True:
            run = self.todo.get()
            if run is None:
                break
            if not (self.args.find and self.violations):
                answer = server.run(run)
                self.count(run, answer)
                self.judge(run, answer)
                self.follow(run, answer)
            self.todo.task_done()
        server.close()

    def go(self, scenarios, environment):
        for scenario in scenarios:
            self.todo.put(Run(scenario, ()))
        workers = [threading.Thread(target=self.work, args=(environment,))
                   for _ in range(self.args.jobs)]
        for worker in workers:
            worker.start()
        self.todo.join()
        for _ in workers:
            self.todo.put(None)
        for worker in workers:
            worker.join()

    def at_load(self, environment):
        """What the library calls before main fails in a process of its own."""
        first = Server(self.args.program, environment)
        first.close()
        for key, kind in first.first.kinds.items():
            for err, how, onward in calls.ways(kind):
                plan = (Failure(*key, 1, how, onward, err),)
                server = Server(self.args.program, environment | {"INJECT_PLAN": plan_text(plan)})
                self.count(Run("at load", plan), server.first)
                for scenario in ("threads.inline", "threads.radix"):
                    answer = server.run(Run(scenario, ()))
                    self.count(Run(scenario, ()), answer)
                    self.judge(Run(scenario, plan), answer)
                server.close()

    # ---- the end

    def never_failed(self):
        """Sites, in both senses, at which nothing ever failed."""
        direct = {call for (call, _), n in self.failed.items() if n}
        outer = {source for (_, source), n in self.failed.items() if n}
        return ([s for a, s in self.sites.direct.items() if a not in direct] +
                [s for a, s in self.sites.outer.items() if a not in outer])

    def place(self, failure):
        direct = self.sites.direct.get(failure.call)
        outer = self.sites.outer.get(failure.source)
        site = outer or direct
        return (f"call {failure.nth}{' and on' if failure.onward else ''} of {direct.callee} in "
                f"{site.function}, {site.place}, {errno.errorcode[failure.err]} {failure.how}")

    def print_violation(self, run, why):
        print(f"inject: VIOLATION in {run.scenario}: {why}")
        for failure in run.plan:
            print("    after " + self.place(failure))
        print(f"    again: INJECT_SITES={self.args.sites} {self.args.program} {run.scenario} "
              f"'{plan_text(run.plan)}'", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--headers", required=True)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--only", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--find", action="store_true")
    parser.add_argument("--sites", default="")
    parser.add_argument("calls", nargs="+")
    return parser.parse_args()


def scenarios_of(args):
    listed = subprocess.run([args.program, "--list"], check=True, capture_output=True,
                            text=True).stdout.split()
    chosen = [s for s in listed
              if not args.only or s in args.only or s.rpartition(".")[0] in args.only]
    if not chosen:
        sys.exit("inject: there is no such scenario")
    return chosen


def conclude(hunt, seconds):
    args = hunt.args
    if args.find:
        for run, why in hunt.violations[:1]:
            hunt.print_violation(run, why)
        print("inject: found" if hunt.violations else "inject: NOT FOUND")
        return 0 if hunt.violations else 1
    missed = [] if args.only else hunt.never_failed()
    for site in missed:
        print(f"inject: NEVER FAILED: {site.callee} in {site.function}, {site.place}")
    for problem in hunt.sites.problems:
        print(f"inject: {problem}")
    print(f"inject: {len(hunt.sites.direct)} call sites of what may fail, {len(hunt.sites.outer)} "
          f"of base/sys.c from outside, {len(missed)} of them never failed")
    print(f"inject: {hunt.injected} failures injected in {hunt.runs} runs of "
          f"{len(hunt.baseline)} scenarios, {len(hunt.violations)} violations, {seconds:.1f} s")
    return 1 if missed or hunt.sites.problems or hunt.violations else 0


def main():
    args = arguments()
    begun = time.monotonic()
    found = sites.Sites(args.program, args.library, set(args.calls))
    with tempfile.TemporaryDirectory() as folder:
        args.sites = args.sites or os.path.join(folder, "sites")
        found.write(args.sites)
        environment = os.environ | {"INJECT_SITES": args.sites,
                                    "GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}
        environment.pop("SPF_MASK_FEATURES", None)
        hunt = Hunt(args, found)
        hunt.go(scenarios_of(args), environment)
        if not args.only:
            hunt.at_load(environment)
    sys.exit(conclude(hunt, time.monotonic() - begun))


if __name__ == "__main__":
    main()
