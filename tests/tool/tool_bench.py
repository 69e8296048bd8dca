# SPDX-License-Identifier: MIT
"""`spf bench`: its JSON, not its figures (those need a quiet machine)."""
from tap import Skip, Spf, arguments, check_status, run

args = arguments("spf", "deny", "sanitizers")
spf = Spf(args.spf, args.sanitizers)

KINDS = {"radix1", "radix16", "radix256", "hash_tracked", "hash_search", "hash_by_hash"}
HASHES = {"hash_tracked", "hash_search", "hash_by_hash"}
ATTEMPTS = {"bypass", "speculative", "locked"}


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_ratio(report, name, goal):
    """The ratio lies in its interval; a goal of a program that means it is in there too."""
    low, middle, high = (report[name + end] for end in ("_low", "", "_high"))
    assert 0 < low <= middle <= high, (name, low, middle, high)
    assert report.get(name + "_goal") == goal, (name, report.get(name + "_goal"))


def check_instructions(report, key, names):
    """A number for each, or null and why."""
    if report[key] is None:
        assert report["instructions_by"] is None and report["instructions_why"], report
        return
    assert report["instructions_by"] in ("processor", "callgrind"), report
    assert set(report[key]) == names and all(n > 100 for n in report[key].values()), report[key]


def test_keys():
    """--quick --json has each ratio as a plain number with its interval"""
    if spf.slow:
        raise Skip("figures under a sanitizer mean nothing")
    report = spf.json("bench", "fault", "--quick", "--pairs", "5", timeout=500)
    for name, goal in (("inline_vs_raw", 1.05), ("pool_vs_raw", 1.05), ("around_vs_kernel", 0.75)):
        check_ratio(report, name, goal)
    assert "mmu" not in report, report


def check_soft(mmu):
    report = spf.json("bench", "fault", "--mmu", mmu, "--quick", "--pairs", "3", timeout=500)
    assert report["mmu"] == mmu and report["threads"] == 2 and report["page_bytes"] == 4096
    assert set(report["ns_per_fault"]) == ATTEMPTS, report
    assert set(report["ns_per_fault_by_threads"]) == {"1", "2"}, report
    assert report["ns_per_fault_by_threads"]["2"] == report["ns_per_fault"], report
    for times in report["ns_per_fault_by_threads"].values():
        assert set(times) == ATTEMPTS and all(number(n) and n > 0 for n in times.values()), times
    check_instructions(report, "instructions_per_fault", ATTEMPTS)
    for name, goal in (("speculative_vs_bypass", 1.25), ("bypass_vs_locked", 1),
                       ("one_mm_vs_two_mms", 0.95), ("one_mm_with_writer_vs_two_mms", 0.9),
                       ("one_mm_with_writer_vs_two_mms_without", None),
                       ("one_mm_vs_two_mms_bypass", None)):
        check_ratio(report, name, goal)
    assert report["goals_failed"] in range(5), report


def test_soft_radix():
    """fault --mmu radix has the times of each attempt and the ratios with their goals"""
    check_soft("radix")


def test_soft_hash():
    """fault --mmu hash has the same"""
    check_soft("hash")


def test_attempt():
    """--attempt leaves one, and the comparisons within it; one thread has none of two"""
    report = spf.json("bench", "fault", "--mmu", "radix", "--attempt", "speculative", "--quick",
                      "--pairs", "3", "--threads", "1", timeout=500)
    assert set(report["ns_per_fault"]) == {"speculative"}, report
    assert set(report["ns_per_fault_by_threads"]) == {"1"}, report
    check_instructions(report, "instructions_per_fault", {"speculative"})
    assert not [key for key in report if "_vs_" in key], report


def test_soft_only():
    """--only leaves one comparison"""
    report = spf.json("bench", "fault", "--mmu", "radix", "--quick", "--pairs", "3", "--only",
                      "one_mm_vs_two_mms", timeout=500)
    check_ratio(report, "one_mm_vs_two_mms", 0.95)
    assert "ns_per_fault" not in report and "bypass_vs_locked" not in report, report


def test_without_userfaultfd():
    """fault --mmu and table need no userfaultfd"""
    for command in (("fault", "--mmu", "radix", "--attempt", "locked", "--run", "1"),
                    ("table", "--only", "radix16", "--run", "1")):
        result = spf("bench", *command, wrap=(args.deny,))
        check_status(result, 0)
        assert result.stdout == "", result.stdout


def test_table():
    """table has each object with each key, exactly, and the goals"""
    report = spf.json("bench", "table", "--quick", "--pairs", "3", timeout=500)
    for name in ("time_ratio", "time_ratio_low", "time_ratio_high", "ns_per_page",
                 "table_bytes_per_gib", "pte_bytes_per_gib", "group_reads"):
        assert set(report[name]) == KINDS, (name, report[name])
        assert all(map(number, report[name].values())), (name, report[name])
    for kind in KINDS:
        assert 0 < report["time_ratio_low"][kind] <= report["time_ratio"][kind] \
            <= report["time_ratio_high"][kind], kind
    for name, goal in (("radix256_vs_radix16", 1), ("hash_search_vs_tracked", 1),
                       ("hash_by_hash_vs_tracked", 1), ("radix256_table_bytes_vs_radix1", 0.1),
                       ("hash_search_pte_bytes_vs_tracked", 0.5),
                       ("hash_by_hash_pte_bytes_vs_tracked", 0.5)):
        check_ratio(report, name, goal)
    check_instructions(report, "instructions_per_page", KINDS)


def test_table_memory():
    """the page tables take what they should, however the GiB is touched"""
    if spf.slow:
        raise Skip("it takes minutes under a sanitizer")
    reports = [spf.json("bench", "table", "--pairs", "3", "--only", kind, *quick, timeout=500)
               for kind in sorted(KINDS) for quick in ((), ("--quick",))]
    bytes_of = {}
    for slow, quick in zip(reports[::2], reports[1::2]):
        assert slow["table_bytes_measured_over"] == quick["table_bytes_measured_over"] == 1 << 30
        assert slow["table_bytes_per_gib"] == quick["table_bytes_per_gib"], (slow, quick)
        bytes_of.update({kind: (slow["table_bytes_per_gib"][kind], slow["pte_bytes_per_gib"][kind],
                                slow["group_reads"][kind]) for kind in slow["group_reads"]})
    assert bytes_of["radix256"][0] * 10 <= bytes_of["radix1"][0], bytes_of
    assert [bytes_of[kind][1] for kind in ("radix1", "radix16", "radix256")] == \
        [512 << 16, 512 << 12, 512 << 8], bytes_of
    assert bytes_of["hash_tracked"][1] == 2 * bytes_of["hash_search"][1] == 64 << 12, bytes_of
    # A page's entry is found by its first group's first or second read, or its second's.
    assert 2048 <= bytes_of["hash_search"][2] <= 4 * 2048, bytes_of
    assert all(bytes_of[kind][2] == 0 for kind in KINDS - {"hash_search"}), bytes_of


def test_check():
    """a goal that failed is exit 1 with --check, and only then"""
    if spf.slow:
        raise Skip("it takes minutes under a sanitizer")
    options = ("bench", "table", "--quick", "--pairs", "3")
    result = spf(*options, "--check", "--json", timeout=500)
    assert result.returncode in (0, 1), result.stderr
    assert (result.returncode == 1) == ("FAILED" in result.stderr), result.stderr


def test_help():
    """help goes on to a benchmark"""
    for name, words in (("table", ("time_ratio", "--threads N", "--check")),
                        ("fault", ("--mmu KIND", "--attempt WORD", "ns_per_fault"))):
        result = spf("help", "bench", name)
        check_status(result, 0)
        assert all(word in result.stdout for word in words), result.stdout


def test_usage():
    """usage errors are exit 2, with nothing on stdout"""
    for command in ((), ("frobnicate",),
                    ("fault", "--threads", "0"), ("fault", "--threads", "1000000"),
                    ("fault", "--mmu", "uffd"), ("fault", "--mmu"),
                    ("fault", "--attempt", "bypass"), ("fault", "--run", "1"),
                    ("fault", "--mmu", "radix", "--attempt", "often"),
                    ("fault", "--mmu", "radix", "--workers", "1"),
                    ("fault", "--mmu", "radix", "--run", "1"),
                    ("fault", "--mmu", "radix", "--only", "inline_vs_raw"),
                    ("fault", "--only", "one_mm_vs_two_mms"),
                    ("table", "--threads", "0"), ("table", "--threads", "65"),
                    ("table", "--pairs", "2"), ("table", "--seed", "-1"),
                    ("table", "--only", "radix2"), ("table", "--run", "1"),
                    ("table", "--mmu", "radix"), ("table", "radix1"),
                    ("table", "--output", "/nowhere/at/all.json")):
        result = spf("bench", *command)
        check_status(result, 2)
        assert result.stdout == "" and result.stderr, command


run(globals())
