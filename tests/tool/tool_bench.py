# SPDX-License-Identifier: MIT
"""`spf bench fault`: its JSON, not its figures (those need a quiet machine)."""
from tap import Skip, Spf, arguments, check_status, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)


def test_keys():
    """--quick --json has each ratio as a plain number with its interval"""
    if spf.slow:
        raise Skip("figures under a sanitizer mean nothing")
    report = spf.json("bench", "fault", "--quick", "--pairs", "5", timeout=500)
    for name in ("inline_vs_raw", "pool_vs_raw", "around_vs_kernel"):
        low, middle, high = (report[name + end] for end in ("_low", "", "_high"))
        assert 0 < low <= middle <= high, (name, low, middle, high)


def test_usage():
    """usage errors are exit 2"""
    check_status(spf("bench"), 2)
    check_status(spf("bench", "frobnicate"), 2)
    check_status(spf("bench", "fault", "--threads", "0"), 2)
    check_status(spf("bench", "fault", "--threads", "1000000"), 2)


run(globals())
