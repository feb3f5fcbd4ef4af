"""`compare`: verdicts, the cases that it matches, its output and exit codes."""

import json

import h5py
import numpy as np
import pytest

from analysis.compare import unit_of
from analysis.result_file import decompressed
from conftest import ROOT
from synthetic import by_turns, case


def around(seconds, spread=0.002, ranks=1):
    """Ten repetitions with this median, whose longest is 1 + spread times the shortest."""
    return [list(seconds * (1 + spread / (2 + spread) * by_turns(np.linspace(-1, 1, 10))))] * ranks


def timed(seconds, spread=0.002, **factors):
    return case({"size": "small", "context": 128} | factors, {"step": around(seconds, spread)})


def oom(**factors):
    return case({"size": "small", "context": 128} | factors, status="oom", reason="2 GB asked for")


def told(done):
    """The output as one line."""
    return " ".join(done.out.split())


def rows_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def verdicts(compare, write):
    """verdicts([case, ...], [case, ...], *options): of the rows, and the exit code."""

    def run(a, b, *options):
        write("a.h5", *a)
        write("b.h5", *b)
        done = compare("a.h5", "b.h5", "--json", *options)
        return [row["verdict"] for row in rows_of(done)], done.code

    return run


TABLE = """\
A = a.h5
B = b.h5
size small
verdict    A (ms)  B (ms)                    B / A  pairs  repetitions  case
slower      10.00   20.00     2.000 [1.981, 2.020]      1       10, 10  context 128
faster      500.0   250.0  0.5000 [0.4951, 0.5049]      1       10, 10  context 256
only in B       –       –                        –      –            –  context 2
only in A       –       –                        –      –            –  context 1
A, B: medians over repetitions of the slowest rank. B / A: with the interval that the verdict
follows from (docs/measuring.md).
1 faster, 1 only in A, 1 only in B, 1 slower
"""


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(1.0, ("s", 1)), (0.9, ("ms", 1e3)), (2e-6, ("µs", 1e6)), (5e-9, ("ns", 1e9))],
)
def test_the_unit_is_the_largest_with_a_whole_one(seconds, unit):
    assert unit_of(seconds) == unit


def test_the_table(compare, write):
    write("a.h5", timed(0.01), timed(0.5, context=256), timed(1, context=1))
    write("b.h5", timed(0.02), timed(0.25, context=256), timed(1, context=2))
    done = compare("a.h5", "b.h5")
    assert (done.code, done.out) == (1, TABLE)


def test_a_table_is_as_wide_as_the_terminal(compare, write, monkeypatch):
    cases = [timed(1, context=context, mode=mode) for context in (8, 16) for mode in "xy"]
    cases.append(oom(context=32, mode="z"))
    write("a.h5", *cases)
    for columns, last in ((80, "\n      context 32, z (A: "), (140, "  context 32, z (A: ")):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = compare("a.h5", "a.h5").out
        assert max(map(len, out.splitlines())) <= columns
        assert f"{last}oom, 2 GB asked for; B: oom, 2 GB asked for)\n" in out


@pytest.mark.parametrize(
    ("a", "b", "threshold", "verdict", "code"),
    [
        (1, 1.04, 2, "slower", 1), (1.04, 1, 2, "faster", 0), (1, 1.01, 2, "same", 0),
        (1, 1.04, 0, "slower", 1), (1, 1.04, 4, "undecided", 0), (1, 1.04, 10, "same", 0),
        (1, 2, 200, "same", 0),
    ],
)  # fmt: skip
def test_verdicts(verdicts, a, b, threshold, verdict, code):
    found = verdicts([timed(a)], [timed(b)], "--threshold", threshold)
    assert found == ([verdict], code)


@pytest.mark.parametrize("seconds", [0.5, 0.9, 1.01, 1.1, 2.0])
def test_runs_of_a_wide_spread_are_undecided(compare, write, seconds):
    write("a.h5", timed(1, 0.2))
    write("b.h5", timed(seconds, 0.2))
    done = compare("a.h5", "b.h5")
    assert done.code == 0
    assert "10 pairs on" in told(done)
    assert done.out.endswith("\n1 undecided\n")


def test_a_file_with_itself(compare, write):
    write("a.h5", timed(1, 0.2))
    (row,) = rows_of(compare("a.h5", "a.h5", "--json"))
    assert (row["verdict"], row["ratio_low"], row["ratio_high"]) == ("same", 1, 1)


def test_without_an_interval_the_verdict_is_undecided(compare, write):
    write("a.h5", case({"context": 8}, {"step": [[1.0] * 5]}))
    write("b.h5", case({"context": 8}, {"step": around(9)}))
    done = compare("a.h5", "b.h5")
    assert done.code == 0
    assert "undecided 1.000 9.000 9.000 1 5, 10 context 8 " in told(done)
    assert "undecided without an interval" in done.out
    assert "10 pairs on" not in told(done)


@pytest.mark.parametrize(
    ("a", "b", "verdict", "code"),
    [
        (timed(1), oom(), "no longer ok", 1), (oom(), timed(1), "ok now", 0),
        (oom(), oom(), "not ok", 0),
    ],
)  # fmt: skip
def test_statuses(compare, verdicts, a, b, verdict, code):
    assert verdicts([a], [b]) == ([verdict], code)
    of_b = "oom, 2 GB asked for" if b["status"] == "oom" else "ok"
    assert f" B: {of_b}) 1 {verdict}" in told(compare("a.h5", "b.h5"))


def test_the_headline_decides(verdicts):
    a, b = (case({}, {"forward": around(s), "step": around(2)}) for s in (1, 9))
    assert verdicts([a], [b]) == (["same"], 0)


def test_the_slowest_rank_of_each_repetition_counts(compare, write):
    write("a.h5", case({}, {"step": around(1) + around(3)}))
    write("b.h5", case({}, {"step": around(3) + around(2)}))
    (row,) = rows_of(compare("a.h5", "b.h5", "--json"))
    assert (row["verdict"], row["a_median_s"]) == ("same", pytest.approx(3))


def test_seed_steps_and_warmup_do_not_distinguish_cases(compare, verdicts):
    a, b = timed(1, seed=1, steps=10), timed(1, seed=2, warmup=7, memory_timeline=True)
    assert verdicts([a], [b]) == (["same"], 0)
    assert verdicts([a], [timed(1, lr=0.5)]) == ([], 2)
    done = compare("a.h5", "b.h5")
    assert done.err == "analysis: no case of b.h5 has the factors of one in a.h5\n"


@pytest.mark.parametrize("factor", ["warmup", "ranks", "memory_timeline"])
def test_cases_of_a_sweep_over_such_factors_are_matched_by_them(compare, verdicts, factor):
    one, two = timed(1, **{factor: 1}), timed(5, **{factor: 2})
    assert verdicts([one, two], [two, one], "--any-machine") == (["same"] * 2, 0)
    found, _ = verdicts([one, two], [two], "--any-machine")
    assert sorted(found) == ["only in A", "same"]
    (missing,) = (line for line in compare("a.h5", "b.h5").out.splitlines() if "only in A " in line)
    assert missing.endswith(f"{factor.replace('_', ' ')} 1")


def test_steps_that_vary_with_the_context_do_not_distinguish_cases(verdicts):
    a = timed(1, steps=10), timed(1, context=256, steps=5)
    b = timed(1, steps=7), timed(1, context=256, steps=7)
    assert verdicts(a, b) == (["same"] * 2, 0)


def test_repeated_cases_are_matched_in_order(verdicts):
    a = timed(1, seed=1), timed(2, seed=2)
    b = timed(1, seed=3), timed(2, seed=4), timed(3, seed=5)
    assert verdicts(a, b) == (["same", "same", "only in B"], 0)


def test_other_machines_are_refused_without_any_machine(compare, write):
    write("a.h5", timed(1))
    anyway = "; --any-machine compares them anyway\n"
    others = {
        "devices differ: AMD EPYC in a.h5, GPU in b.h5": [("GPU", "", "node1")] * 2,
        "rank counts differ: 2 in a.h5, 1 in b.h5": [("AMD EPYC", "", "node1")],
    }
    for says, ranks in others.items():
        write("b.h5", timed(1), ranks=ranks)
        done = compare("a.h5", "b.h5")
        assert (done.code, done.out) == (2, "")
        assert done.err == f"analysis: {says}{anyway}"
        assert compare("a.h5", "b.h5", "--any-machine").code == 0
    with h5py.File(write("b.h5", timed(1)), "a") as file:
        file["ranks/cpu"][:] = "Other"
    says = f"analysis: the hosts' CPUs differ: AMD EPYC in a.h5, Other in b.h5{anyway}"
    assert compare("a.h5", "b.h5").err == says


def test_on_any_machine_threads_and_device_are_no_factors(verdicts):
    a, b = timed(1, threads=2, device="cpu"), timed(1, threads=64, device="cuda")
    assert verdicts([a], [b]) == ([], 2)
    assert verdicts([a], [b], "--any-machine") == (["same"], 0)


def test_other_experiments_are_refused(compare, write):
    write("a.h5", timed(1))
    write("b.h5", timed(1), experiment="ddp")
    done = compare("a.h5", "b.h5", "--any-machine")
    says = "a.h5 holds results of 'model', b.h5 of 'ddp': nothing to compare"
    assert (done.code, says in done.err) == (2, True)


@pytest.fixture
def pairs(write):
    """pairs([(a, b), ...]): files A1 B1 A2 B2 ... with these medians; each run spreads by 1.2."""
    return lambda medians: [
        write(f"{side}{n}.h5", timed(seconds, 0.2)).name
        for n, pair in enumerate(medians, 1)
        for side, seconds in zip("AB", pair, strict=True)
    ]


def test_ten_pairs_with_b_slower_in_each(compare, pairs):
    medians = [(level, 1.05 * level) for level in (1, 3, 2, 5, 1.5, 4, 1.2, 6, 2.5)]
    nine = compare(*pairs(medians))
    assert nine.code == 0
    assert "from 10 pairs on the variation between runs decides 1 undecided" in told(nine)
    ten = compare(*pairs([*medians, (7, 7 * 1.03)]))
    assert ten.code == 1
    assert "  1.050 [1.030, 1.050]     10     100, 100  " in ten.out
    assert ten.out.startswith("A = A1.h5, A2.h5, ")
    assert "10 pairs on" not in told(ten)


def test_a_case_is_judged_by_the_pairs_that_have_it(compare, write, pairs):
    files = pairs([(1, 2)] * 3)
    write("A2.h5", timed(1, context=256), oom())
    write("B3.h5", timed(1, context=256))
    one, other = rows_of(compare(*files, "--json"))
    assert (one["pairs"], one["a_repetitions"]) == (1, 10)
    assert (other["verdict"], other["context"]) == ("in no pair", 256)


def test_a_case_that_one_run_of_b_lost_is_a_regression(compare, write, pairs):
    files = pairs([(1, 1), (1, 1)])
    write("B2.h5", oom())
    done = compare(*files)
    assert done.code == 1
    assert "no longer ok" in done.out
    assert "(A: ok; B: oom, 2 GB asked for)" in told(done)


def test_json_has_a_line_per_case(compare, write):
    write("a.h5", timed(1), timed(1, context=256), timed(1, context=1))
    write("b.h5", timed(2), oom(context=256), timed(1, context=2))
    slower, lost, *unmatched = rows_of(compare("a.h5", "b.h5", "--json"))
    assert (slower["context"], slower["verdict"], slower["pairs"]) == (128, "slower", 1)
    assert (slower["a_median_s"], slower["b_median_s"]) == pytest.approx((1, 2))
    assert slower["ratio"] == pytest.approx(2)
    assert slower["ratio_low"] < 2 < slower["ratio_high"]
    assert (slower["a_repetitions"], slower["b_repetitions"]) == (10, 10)
    assert (lost["verdict"], lost["b_reason"], lost["ratio"]) == (
        "no longer ok", "2 GB asked for", None
    )  # fmt: skip
    found = {(row["context"], row["verdict"]) for row in unmatched}
    assert found == {(1, "only in A"), (2, "only in B")}


@pytest.mark.parametrize(
    "name",
    ["results/reference/ddp-course-h200.h5", "results/reference/weak-ddp-1-h200.h5.xz",
     "tests/golden/attention-schema1.h5.xz", "tests/golden/model-schema1.h5.xz"],
)  # fmt: skip
def test_published_files_of_both_versions(compare, name):
    done = compare(ROOT / name, ROOT / name, "--json")
    assert done.code == 0, done.err
    with h5py.File(decompressed(ROOT / name)) as file:
        assert len(rows_of(done)) == len(file["cases"])
    assert {row["verdict"] for row in rows_of(done)} == {"same"}


@pytest.mark.parametrize(
    ("of_version_1", "of_version_2"),
    [
        ({"sync": "none", "comm_dtype": "none", "registration": "none", "verify": "0"},
         {"sync": "none"}),
        ({"sync": "flat", "bucket_mb": "0", "comm_dtype": "fp32"},
         {"sync": "flat", "comm_dtype": "fp32"}),
        ({"sync": "bucketed", "bucket_mb": "25"}, {"sync": "bucketed", "bucket_mb": "25"}),
        ({"shard": "zero1", "bucket_mb": "25", "comm_dtype": "fp32"},
         {"shard": "zero1", "bucket_mb": "25", "comm_dtype": "fp32"}),
        ({"mode": "inference", "recompute": "none"}, {"mode": "inference"}),
        ({"op": "broadcast", "redop": "none", "in_place": "yes"}, {"op": "broadcast"}),
        ({"op": "all_reduce", "redop": "sum", "in_place": "yes"},
         {"op": "all_reduce", "redop": "sum", "in_place": "yes"}),
        ({"precision": "fp32", "fp32_attention": "near"},
         {"precision": "fp32", "fp32_attention": "bf16x3"}),
        ({"precision": "tf32", "fp32_attention": "tf32"}, {"precision": "tf32"}),
    ],
)  # fmt: skip
def test_cases_of_version_1_are_matched(compare, write, of_version_1, of_version_2):
    """It recorded factors that did not apply to a case, and called bf16x3 near."""
    write("a.h5", timed(1, **of_version_1), schema_version=1)
    write("b.h5", timed(1, **of_version_2))
    assert [row["verdict"] for row in rows_of(compare("a.h5", "b.h5", "--json"))] == ["same"]


def test_results_without_times_need_no_repetitions(compare, write):
    write("p.h5", case({"study": "bits"}))
    done = compare("p.h5", "p.h5")
    assert done.code == 0
    assert "these results have no times; --reference F.toml judges their values" in done.out
    assert "--steps" not in done.out
