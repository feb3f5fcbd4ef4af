"""The report's tables and sentences on exchanges of gradients and bucket sizes."""

import h5py
import numpy as np
import pytest

from analysis.report import bucket_model, bucket_sizes, buckets, ddp, exchange_table
from analysis.report.facts import cases
from analysis.report.sentences import compared, differ
from analysis.results import load
from synthetic import XL, around, case, step, write_column


@pytest.fixture
def exchanges(make_file):
    def loaded(*rows):
        return load([make_file(list(rows), experiment="ddp")])

    return loaded


def test_a_difference_needs_intervals_that_do_not_overlap(exchanges):
    own = cases(exchanges(step("naive", 0.2), step("flat", 0.1), step("overlap", 0.101)))
    naive, flat, overlap = own
    assert differ(flat, naive, "step") == -1
    assert differ(naive, flat, "step") == 1
    assert differ(overlap, flat, "step") == differ(flat, overlap, "step") == 0
    assert compared(flat, naive, "step", "flat", "naive") == (
        "100.0 ms with flat, 200.0 ms with naive: 50.0% shorter with flat."
    )
    assert compared(overlap, flat, "step", "a", "b").endswith("no difference beyond the intervals.")


def test_a_comparison_of_few_repetitions_is_undecided(exchanges):
    flat, naive = cases(exchanges(step("flat", 0.1, count=5), step("naive", 0.2, count=5)))
    assert differ(flat, naive, "step") is None
    text = compared(flat, naive, "step", "flat", "naive")
    assert "undecided" in text and "shorter" not in text


def test_no_sentence_about_unmeasured_cases(exchanges):
    failed = case(XL | {"sync": "naive", "bucket_mb": np.nan}, status="oom", reason="too large")
    flat, naive = cases(exchanges(step("flat", 0.1), failed))
    assert compared(flat, naive, "step", "flat", "naive") == ""


@pytest.mark.parametrize(
    ("overlap", "bucketed", "answer"),
    [(0.2, 0.1, "Yes."), (0.105, 0.102, "Yes, a little."), (0.1, 0.1, "No difference here."),
     (0.1, 0.2, "No, it is slower.")],
)  # fmt: skip
def test_the_verdict_on_bucketing(exchanges, overlap, bucketed, answer):
    found = exchanges(step("overlap", overlap), step("bucketed", bucketed, bucket=25.0))
    assert ddp.verdict(cases(found)).startswith(answer)


def at(context, *given, **named):
    made = step(*given, **named)
    made["factors"]["context"] = context
    return made


def test_the_verdict_is_where_the_most_bucket_sizes_were_measured(exchanges):
    found = exchanges(
        at(64, "overlap", 0.1), at(64, "bucketed", 0.1, bucket=25.0),
        at(128, "overlap", 0.2), at(128, "bucketed", 0.1, bucket=25.0),
        at(128, "bucketed", 0.15, bucket=1.0),
    )  # fmt: skip
    assert ddp.verdict(cases(found)).startswith("Yes, in 1 of 2 settings. 100.0 ms")


def test_the_verdict_counts_the_settings_if_they_differ(exchanges):
    def told(seconds):
        found = exchanges(
            at(64, "overlap", 0.1), at(64, "bucketed", seconds, bucket=25.0),
            at(128, "overlap", 0.2), at(128, "bucketed", 0.1, bucket=25.0),
            at(128, "bucketed", 0.15, bucket=1.0),
        )  # fmt: skip
        return ddp.verdict(cases(found)).split(".")[0]

    assert [told(seconds) for seconds in (0.05, 0.1, 0.2)] == [
        "Yes", "Yes, in 1 of 2 settings", "Yes, in 1 of 2 settings",
    ]  # fmt: skip


def test_no_verdict_without_the_case_to_compare_with(exchanges):
    assert ddp.verdict(cases(exchanges(step("bucketed", 0.1, bucket=25.0)))) == ""


def test_a_step_beyond_one_without_an_exchange(make_file):
    def timed(sync, backward, whole, wait):
        samples = {"backward": around(backward), "step": around(whole)}
        samples |= {"communication_exposed": around(wait)} if wait else {}
        factors = {"sync": sync, "bucket_mb": np.nan}
        return case(XL | factors, samples)

    rows = [timed("none", 0.06, 0.1, 0), timed("naive", 0.06, 0.15, 0.04),
            timed("overlap", 0.08, 0.12, 0.001)]  # fmt: skip
    own = cases(load([make_file(rows, experiment="ddp")]))
    beside = {}
    for sync, others in (("naive", []), ("overlap", ["naive"])):
        found = exchange_table.rows(own, sync, others)
        (beside[sync],) = exchange_table.table(found, sync)
    overlap, naive = beside["overlap"], beside["naive"]
    assert overlap.header == [
        "setting", "exchange", "step (ms)", "wait (ms)", "wait, of the step", "beside naive (ms)",
        "beside none (ms)", "longer phases",
    ]  # fmt: skip
    assert overlap.rows == [
        ["xl, context 128, batch size 2 per rank, fp32, 2 ranks", "overlap", "120.0", "1.000",
         "0.8%", "150.0: 20.0% shorter", "100.0: 20.0% longer", "backward by 20.00 ms"]
    ]  # fmt: skip
    assert overlap.caption[-1] == "The collectives overlap with backward."
    assert naive.rows[0][1:] == [
        "one all_reduce per gradient (naive)", "150.0", "40.00", "26.7%", "100.0: 50.0% longer",
        "none",
    ]  # fmt: skip
    assert not any("overlap with backward" in line for line in naive.caption)
    (alone,) = exchange_table.table(exchange_table.rows(own[1:], "naive", []), "naive")
    assert "beside none (ms)" not in alone.header and alone.rows[0][-1] == "–"


def test_undecided_phases_are_not_said_to_be_equal(exchanges):
    own = cases(exchanges(step("none", 0.1, count=5), step("naive", 0.2, count=5)))
    (table,) = exchange_table.table(exchange_table.rows(own, "naive", []), "naive")
    assert table.rows[0][-2:] == ["100.0: undecided", "–"]
    told = exchange_table.lead(exchange_table.rows(own, "naive", []), "naive", ["none"])
    assert told[0].endswith("is of undecided length (below 6 repetitions) on AMD EPYC.")


def test_changes_are_counted_by_machine_and_by_kind(make_file):
    """Three settings on one machine, two of them decided; one on another."""

    def swept(name, gpu, times):
        rows = []
        for context, (flat, naive) in zip((128, 256, 512), times, strict=False):
            for sync, seconds in (("flat", flat), ("naive", naive)):
                row = step(sync, seconds)
                row["factors"] = row["factors"] | {"context": context}
                rows.append(row)
        gpus = [(gpu, f"GPU-{rank}", "a") for rank in range(2)]
        return load([make_file(rows, name, experiment="ddp", ranks=gpus)])

    first = swept("a.h5", "NVIDIA H200", [(0.1, 0.2), (0.3, 0.2), (0.2, 0.2)])
    own = cases([*first, *swept("b.h5", "NVIDIA H100", [(0.15, 0.2)])])
    rows = exchange_table.rows(own, "flat", ["naive"])
    assert exchange_table.lead(rows, "flat", ["naive"]) == [
        "Beside one all_reduce per gradient (naive), a step with flat is 50.0% shorter in 1 of 3 "
        "settings, 50.0% longer in 1, equal within the intervals in 1 on 2 × NVIDIA H200; "
        "25.0% shorter on 2 × NVIDIA H100.",
        "Its wait for gradients (exposed), as a share of the step: 0.3 to 1.0% on 2 × NVIDIA H200; "
        "0.7% on 2 × NVIDIA H100.",
    ]
    (table,) = exchange_table.table(rows, "flat")
    assert table.caption[-1] == "All steps: xl, batch size 2 per rank, fp32, 2 ranks."
    assert [row[0] for row in table.rows] == [
        "context 128, on 2 × NVIDIA H200", "context 256, on 2 × NVIDIA H200",
        "context 512, on 2 × NVIDIA H200", "context 128, on 2 × NVIDIA H100",
    ]  # fmt: skip


def test_every_group_of_a_machine_with_several_names_its_files(make_file):
    """Only a file that another contradicts has its name as a factor."""
    gpus = [("NVIDIA H100", f"GPU-{rank}", "a") for rank in range(2)]
    parts = []
    for name, file, seconds in (("a.h5", "a", 0.1), ("b.h5", "", 0.15), ("c.h5", "", 0.12)):
        rows = [step("flat", seconds), step("naive", 0.2)]
        for row in rows:
            row["factors"] = row["factors"] | ({"file": file} if file else {})
        parts += load([make_file(rows, name, experiment="ddp", ranks=gpus)])
    found = exchange_table.rows(cases(parts), "flat", ["naive"])
    told, _ = exchange_table.lead(found, "flat", ["naive"])
    assert told == (
        "Beside one all_reduce per gradient (naive), a step with flat is 50.0% shorter on 2 × "
        "NVIDIA H100 (file a); 25.0 to 40.0% shorter in both settings on 2 × NVIDIA H100 (files "
        "b, c)."
    )


def test_one_table_has_the_gpu_seconds_of_every_exchange(exchanges):
    alone = case(XL | {"sync": "none", "bucket_mb": np.nan, "ranks": 1}, {"step": around(0.1)})
    rows = [step("none", 0.1), step("flat", 0.15), step("bucketed", 0.12, 25.0),
            step("bucketed", 0.11, 100.0), alone]  # fmt: skip
    found = exchanges(*rows)
    tables = [
        table
        for section in (ddp.naive, ddp.flat, ddp.overlap, ddp.bucketed)
        for table in section(found).tables
        if table.name == "device-seconds"
    ]
    (table,) = tables
    assert table in ddp.flat(found).tables
    assert table.title == "What a step costs in GPU-seconds"
    assert table.header == ["setting", "no exchange (none)", "flat", "bucketed"]
    assert table.rows == [
        ["xl, context 128, batch size 2 per rank, fp32, 2 ranks", "0.2000", "0.3000",
         "0.2200 (100 MB)"]
    ]  # fmt: skip


def test_bucket_sizes_are_compared_at_one_dtype(exchanges):
    rows = [
        case(XL | {"sync": "bucketed", "bucket_mb": size, "comm_dtype": dtype}, samples)
        for dtype, seconds in (("fp32", (0.2, 0.3)), ("bf16", (0.1, 0.15)))
        for size, samples in zip((25.0, 100.0), ({"step": around(s)} for s in seconds), strict=True)
    ]
    (table,) = bucket_sizes.table(cases(exchanges(*rows)))
    assert [row[1:] for row in table.rows] == [
        ["25 MB", "200.0", "bucketed 100 MB", "300.0: 33.3% shorter", "–"],
        ["25 MB sent as bf16", "100.0", "bucketed 100 MB sent as bf16", "150.0: 33.3% shorter",
         "–"],
    ]  # fmt: skip


def bucket(size, seconds, calls=8):
    one = step("bucketed", seconds, bucket=size, exposed=0.002)
    one["summary"] = {"communication_calls": calls, "communication_bytes": 4e9}
    return one


def test_bucket_sizes_with_intervals_that_overlap_are_equal(exchanges):
    found = exchanges(bucket(1.0, 0.1), bucket(25.0, 0.101), bucket(1000.0, 0.2, calls=4),
                      step("overlap", 0.15))  # fmt: skip
    own = cases(found)
    group = buckets.equal_to(own, own[0])
    assert buckets.equality(group) == [
        "1 and 25 MB are equal within the intervals: 100.0 to 101.0 ms (xl, context 128, batch "
        "size 2 per rank, fp32, 2 ranks); they send equally many messages, 8 a step."
    ]
    told = buckets.compared(group, own[3])
    assert told.startswith("100.0 to 101.0 ms with bucketed 1 or 25 MB, 150.0 ms with overlap: 32")
    assert "equal within the intervals" in ddp.verdict(own)
    assert bucket_sizes.lead(own) == buckets.equality(group)
    (table,) = bucket_sizes.table(own)
    assert table.rows[0][1:] == [
        "1 and 25 MB", "100.0 to 101.0", "bucketed 1000 MB", "200.0: 50.0% shorter",
        "1 MB: 8, 25 MB: 8, 1000 MB: 4",
    ]  # fmt: skip
    assert bucket_sizes.lead([own[0], own[2]]) == [
        "Of 2 bucket sizes, 1 MB is the fastest: 100.0 ms a step (xl, context 128, batch size 2 "
        "per rank, fp32, 2 ranks)."
    ]
    (equal,) = bucket_sizes.table(own[:2])
    assert equal.rows[0][3:5] == ["none differs", "–"]
    assert buckets.equality(buckets.equal_to(own, own[2])) == []


def test_no_bucket_size_is_the_fastest_without_intervals(exchanges):
    few = [
        step("bucketed", seconds, bucket=size, count=5)
        for size, seconds in ((1.0, 0.1), (25.0, 0.2))
    ]
    own = cases(exchanges(*few))
    assert bucket_sizes.lead(own) == [
        "1 and 25 MB: 100.0 to 200.0 ms (xl, context 128, batch size 2 per rank, fp32, 2 ranks); "
        "the fastest is undecided, for one of them has too few repetitions (below 6) for an "
        "interval."
    ]
    (table,) = bucket_sizes.table(own)
    assert table.rows[0][1:5] == ["1 and 25 MB", "100.0 to 200.0", "undecided", "–"]
    assert buckets.equal_to(own, own[0]) == [own[0]]


def test_a_bucket_size_that_was_not_measured_is_not_among_the_fastest(exchanges):
    failed = case(XL | {"sync": "bucketed", "bucket_mb": 100.0}, status="oom", reason="too large")
    own = cases(exchanges(bucket(1.0, 0.1), bucket(25.0, 0.2), failed))
    assert buckets.possibly_fastest(own, own[0]) == [own[0]]
    assert bucket_sizes.lead(own)[0].startswith("Of 2 bucket sizes, 1 MB is the fastest")


def test_exchanges_are_compared_with_the_same_optimizer(exchanges):
    rows = []
    for optimizer, times in {"serial": (0.2, 0.1, 0.3), "in-backward": (0.4, 0.5, 0.6)}.items():
        of_optimizer = [step("naive", times[0])]
        of_optimizer += [bucket(size, t) for size, t in zip((1.0, 25.0), times[1:], strict=True)]
        for row in of_optimizer:
            row["factors"] = row["factors"] | {"optimizer": optimizer}
        rows += of_optimizer
    found = exchanges(*rows)
    own = cases(found)
    (table,) = exchange_table.table(exchange_table.rows(own, "bucketed", ["naive"]), "bucketed")
    column = table.header.index("beside naive (ms)")
    assert [[*row[1:3], row[column]] for row in table.rows] == [
        ["bucketed 1 MB", "100.0", "200.0: 50.0% shorter"],
        ["bucketed 1 MB", "500.0", "400.0: 25.0% longer"],
    ]
    setting = "xl, context 128, batch size 2 per rank, fp32"
    (sizes,) = bucket_sizes.table(own)
    assert [row[:5] for row in sizes.rows] == [
        [f"{setting}, 2 ranks", "1 MB", "100.0", "bucketed 25 MB", "300.0: 66.7% shorter"],
        [f"{setting}, in-backward, 2 ranks", "1 MB", "500.0", "bucketed 25 MB",
         "600.0: 16.7% shorter"],
    ]  # fmt: skip


@pytest.mark.parametrize(("latency", "answer"), [(1e-3, "agree"), (1e-7, "do not agree")])
def test_the_model_of_the_best_bucket_beside_the_measured(make_file, latency, answer):
    gpus = [("NVIDIA H200", f"GPU-{rank}", "a") for rank in range(2)]
    rows = [bucket(10.0, 0.2, calls=400), bucket(1000.0, 0.1, calls=4)]
    steps = load([make_file(rows, "ddp.h5", experiment="ddp", ranks=gpus)])
    swept = make_file([case({"op": "all_reduce", "ranks": 2}, {"time": around(0.1)})], "fit.h5",
                      experiment="collectives", ranks=gpus)  # fmt: skip
    with h5py.File(swept, "r+") as file:
        fit = {"op": "all_reduce", "backend": "nccl", "registration": "none", "ranks": 2,
               "latency_s": latency, "bandwidth_bytes_per_s": 1e11}  # fmt: skip
        for name, value in fit.items():
            write_column(file.require_group("fit"), name, [value])
    lead, formula, told = bucket_model.sentences([*steps, *load([swept])], steps)
    assert "sqrt(s o w)" in formula
    assert lead.startswith(
        "Of the sizes measured for xl, context 128, batch size 2 per rank, fp32, 2 ranks on "
        "2 × NVIDIA H200, the model of the overhead prefers "
    )
    assert lead.endswith(f"model and measurement {answer} on the size.")
    assert "1000 MB is the fastest" in lead
    ideal = {"agree": "632 MB", "do not agree": "6.32 MB"}[answer]
    assert f"buckets of {ideal}" in told
    assert "; the fastest size waits 2.000 ms in a step of 100.0 ms" in told
    assert bucket_model.sentences(steps, steps) == [formula]


def test_custom_sizes_are_settings_of_their_own(exchanges):
    def sized(width, *given):
        made = step(*given)
        return made | {"factors": made["factors"] | {"size": "custom", "d_model": width}}

    narrow, wide = [[sized(width, "naive", slow * 0.2), sized(width, "flat", slow * 0.1)]
                    for width, slow in ((64, 1), (128, 2))]  # fmt: skip
    (table,) = exchange_table.table(ddp.against(exchanges(*narrow, *wide), "flat"), "flat")
    column = table.header.index("beside naive (ms)")
    assert [row[column] for row in table.rows] == ["200.0: 50.0% shorter", "400.0: 50.0% shorter"]
