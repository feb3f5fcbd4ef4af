"""Sentences of the report state only what the figures support."""

import h5py
import numpy as np
import pytest

from analysis.report import (
    attention,
    bucket_model,
    bucket_sizes,
    buckets,
    collectives,
    ddp,
    devices,
    exchange_table,
    memory,
    sharding,
    step_breakdown,
)
from analysis.report.facts import cases, first
from analysis.report.published import is_same_hardware
from analysis.report.sentences import compared, differ, gib, setting, spanned
from analysis.results import load
from synthetic import case, write_column

XL = {
    "size": "xl", "context": 128, "batch_size": 2, "precision": "fp32", "ranks": 2,
    "device": "cuda", "registration": "symmetric",
}  # fmt: skip


def around(seconds, count=6):
    """Samples [1 rank][count], within 1% of the median."""
    return [list(np.linspace(0.99 * seconds, 1.01 * seconds, count))]


def step(sync, seconds, bucket=np.nan, count=6, exposed=0.001):
    samples = {"communication_exposed": around(exposed, count), "step": around(seconds, count)}
    return case(XL | {"sync": sync, "bucket_mb": bucket}, samples)


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
        "100.0 ms with flat, 200.0 ms with naive: 50.0% shorter with flat, and the 95% intervals "
        "do not overlap."
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
    [(0.2, 0.1, "yes."), (0.105, 0.102, "yes, a little."), (0.1, 0.1, "no difference here."),
     (0.1, 0.2, "no, it is slower.")],
)  # fmt: skip
def test_the_verdict_on_bucketing(exchanges, overlap, bucketed, answer):
    found = exchanges(step("overlap", overlap), step("bucketed", bucketed, bucket=25.0))
    assert ddp.verdict(cases(found)).startswith(f"Is bucketing worth it: {answer}")


def test_the_verdict_is_where_the_most_bucket_sizes_were_measured(exchanges):
    def at(context, *given, **named):
        made = step(*given, **named)
        made["factors"]["context"] = context
        return made

    found = exchanges(
        at(64, "overlap", 0.1), at(64, "bucketed", 0.1, bucket=25.0),
        at(128, "overlap", 0.2), at(128, "bucketed", 0.1, bucket=25.0),
        at(128, "bucketed", 0.15, bucket=1.0),
    )  # fmt: skip
    assert ddp.verdict(cases(found)).startswith("Is bucketing worth it: yes. 100.0 ms")


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
    assert overlap.caption[-1] == "The collectives run beside backward."
    assert naive.rows[0][1:] == [
        "one all_reduce per gradient (naive)", "150.0", "40.00", "26.7%", "100.0: 50.0% longer",
        "none",
    ]  # fmt: skip
    assert not any("beside backward" in line for line in naive.caption)
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
        "25.0% shorter on 2 × NVIDIA H100 (the 95% intervals do not overlap).",
        "Its wait for gradients (exposed), as a share of the step: 0.3 to 1.0% on 2 × NVIDIA H200; "
        "0.7% on 2 × NVIDIA H100.",
    ]
    (table,) = exchange_table.table(rows, "flat")
    assert table.caption[-1] == "All steps: xl, batch size 2 per rank, fp32, 2 ranks."
    assert [row[0] for row in table.rows] == [
        "context 128, on 2 × NVIDIA H200", "context 256, on 2 × NVIDIA H200",
        "context 512, on 2 × NVIDIA H200", "context 128, on 2 × NVIDIA H100",
    ]  # fmt: skip


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


def test_the_memory_headline_is_of_the_first_file(make_file):
    def peaks(gigabytes):
        factors = XL | {"layers": 2, "d_model": 64}
        row = case(factors, {"step": around(0.1)}, summary={"peak_bytes": gigabytes * 1e9})
        return cases(load([make_file([row], f"{gigabytes}.h5")]))

    own = [*peaks(20), *peaks(40)]
    (told,) = memory.headlines(own)
    assert "needs 18.6 GiB (20.0 GB) at context 128" in told


@pytest.mark.parametrize("longest", [1024, 2048])
def test_the_memory_headline_has_the_longest_context_of_all_precisions(make_file, longest):
    def peak(context, gigabytes, **named):
        shape = {"layers": 2, "d_model": 64, "context": context, "attention": "naive"}
        factors = XL | shape | named
        return case(factors, {"step": around(0.1)}, summary={"peak_bytes": gigabytes * 1e9})

    bf16 = {"precision": "bf16", "attention": "flash"}
    rows = [peak(512, 20), peak(1024, 70), peak(512, 10, **bf16), peak(1024, 40, **bf16)]
    rows += [peak(longest, 90, **bf16)] if longest > 1024 else []
    (told,) = memory.headlines(cases(load([make_file(rows)])))
    shared = "At context 1024, the longest that every precision has: 65.2 GiB (70.0 GB) with batch "
    assert told.count("At context 1024") == told.count(shared) == (longest > 1024)
    assert "70.0 GB) at context 1024 with" in told
    assert ("; 37.3 GiB (40.0 GB) with batch" in told) == (longest > 1024)


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
    assert lead.endswith(f"model and measurement {answer} on the size.")
    assert "1000 MB is the fastest" in lead
    ideal = {"agree": "632 MB", "do not agree": "6.32 MB"}[answer]
    assert f"buckets of {ideal}" in told
    assert bucket_model.sentences(steps, steps) == [formula]


def test_collectives_of_two_machines_are_told_apart(make_file):
    def swept(name, gpu, registrations, seconds):
        factors = {"op": "all_reduce", "dtype": "float32", "bytes": 10**6}
        rows = [
            case(factors | {"backend": backend, "registration": one, "ranks": 2},
                 {"time": around(seconds * (10 if backend == "mpi" else 1))},
                 summary={"busbw_bytes_per_s": 1e6 / seconds})
            for backend in ("mpi", "nccl") for one in registrations
        ]  # fmt: skip
        gpus = [(gpu, f"GPU-{rank}", "a") for rank in range(2)]
        path = make_file(rows, name, experiment="collectives", ranks=gpus)
        fits = [
            {"op": op, "backend": backend, "registration": one, "ranks": 2, "latency_s": seconds,
             "bandwidth_bytes_per_s": 1e6 / seconds, "worst_relative_error": 1e4 * seconds}
            for op in ("all_reduce", "broadcast") for backend in ("mpi", "nccl")
            for one in registrations
        ]  # fmt: skip
        with h5py.File(path, "r+") as file:
            for key in fits[0]:
                write_column(file.require_group("fit"), key, [fit[key] for fit in fits])
        return path

    paths = [swept("a.h5", "NVIDIA H200", ["none", "symmetric"], 1e-5),
             swept("b.h5", "NVIDIA H100", ["none"], 2e-5)]  # fmt: skip
    told = collectives.section([one for path in paths for one in load([path])]).sentences
    assert told[1] == (
        "nccl reaches a bus bandwidth of 100 GB/s (all_reduce of 1.00 MB, 2 ranks on 2 × NVIDIA "
        "H200)."
    )
    assert told[2].count("10.0 times as long for all_reduce of 1.00 MB on 2 ranks") == 2
    fitted = (
        "2 ranks on NVIDIA H200, NVIDIA H100: 10.0 to 20.0 µs + bytes / (50.0 to 100 GB/s); the "
        "measured time furthest from a fit is 10 to 20% off."
    )
    assert told[3:] == [f"3 fits of all_reduce, {backend}, {fitted}" for backend in ("mpi", "nccl")]


def test_shares_of_a_step_add_up(make_file):
    samples = {
        "forward": around(0.03), "backward": around(0.06), "optimizer": around(0.01),
        "step": around(0.1),
    }  # fmt: skip
    found = load([make_file([case({"size": "small", "context": 64, "batch_size": 2}, samples)])])
    told = step_breakdown.where_a_step_goes(cases(found)[0])
    assert "backward 60.0%, forward 30.0%, optimizer 10.0% of the 100.0 ms" in told
    assert "rest" not in told


def test_the_first_headline_has_every_precision_and_the_exchanges(make_file):
    def model(precision, seconds):
        factors = {"size": "small", "context": 64, "batch_size": 2, "precision": precision,
                   "layers": 2, "d_model": 8, "attention": "naive"}  # fmt: skip
        return case(factors, {"forward": around(seconds / 4), "step": around(seconds)})

    (models,) = load([make_file([model("fp32", 0.1), model("bf16", 0.04)], "m.h5")])
    rows = [step("naive", 0.2, exposed=0.05), step("none", 0.1)]
    ddp_file = load([make_file(rows, "d.h5", experiment="ddp")])
    told = step_breakdown.headline(cases([models])[:1], [models, *ddp_file])
    assert (
        "of the 100.0 ms of a step of small, context 64, batch size 2, fp32, naive attention"
        in told
    )
    assert (
        "of the 40.00 ms of a step of small, context 64, batch size 2, bf16, naive attention"
        in told
    )
    assert "25.0% of 200.0 ms with one all_reduce per gradient (naive)" in told
    assert "with no exchange (none) it takes 100.0 ms" in told
    assert step_breakdown.headline([], []) == ""


@pytest.mark.parametrize(
    ("power", "law"),
    [(2, "with the square of the context"), (1, "about in proportion"), (1.5, "faster than")],
)
def test_the_growth_of_saved_attention_memory(make_file, power, law):
    rows = [
        case(
            {"head_dim": 64, "precision": precision, "context": context, "attention": "naive"},
            {"both": around(0.1)},
            summary={"saved_bytes": size * context**power},
        )
        for precision, size in (("fp32", 1e6), ("bf16", 5e5))
        for context in (1024, 2048)
    ]
    (told,) = attention.growth(cases(load([make_file(rows, experiment="attention")])))
    assert law in told
    assert told.endswith("(head dimension 64, fp32).")


def test_a_peak_that_sharding_does_not_lower_is_reported(make_file):
    rows = [
        case({"shard": shard, "size": "xl"}, {"step": around(0.1)}, summary={"peak_bytes": peak})
        for shard, peak in (("none", 1e9), ("zero1", 2e9))
    ]
    own = cases(load([make_file(rows, experiment="zero")]))
    told = sharding.sentences_of(own)
    assert told[0] == (
        "The peak of a rank beside that with the whole state on every rank: zero1 100.0% higher."
    )


def test_every_sharding_is_beside_the_whole_state_of_its_setting(make_file):
    peaks = {
        ("xl", "none"): 4e9,
        ("xl", "fsdp"): 3e9,
        ("10b", "none"): 8e9,
        ("10b", "zero2"): 6e9,
    }
    rows = [
        case({"shard": shard, "size": size}, {"step": around(0.1)}, summary={"peak_bytes": peak})
        for (size, shard), peak in peaks.items()
    ]
    own = cases(load([make_file(rows, experiment="zero")]))
    assert sharding.sentences_of(own) == [
        "The peak of a rank beside that with the whole state on every rank: zero2 25.0% lower, "
        "fsdp 25.0% lower.",
        "The step beside that with the whole state: zero2 equal within the intervals, fsdp equal "
        "within the intervals on AMD EPYC.",
    ]
    (table,) = sharding.table(own)
    assert [[*row[:2], *row[5:]] for row in table.rows] == [
        ["xl", "none", "3.725", "–", "100.0", "–"],
        ["xl", "fsdp", "2.794", "25.0% lower", "100.0", "no difference"],
        ["10b", "none", "7.451", "–", "100.0", "–"],
        ["10b", "zero2", "5.588", "25.0% lower", "100.0", "no difference"],
    ]
    assert [row[2:5] for row in table.rows] == [["–"] * 3] * 4


def test_the_bytes_of_both_designs_are_of_a_setting_that_has_both(make_file):
    def sent(shard, context, gigabytes):
        factors = {"size": "xl", "shard": shard, "context": context, "ranks": 2}
        return case(factors, {"step": around(0.1)}, summary={"sent_bytes": 1e9 * gigabytes})

    rows = [sent("zero1", 64, 5), sent("broadcast", 128, 12), sent("zero1", 128, 8)]
    (told,) = sharding.sentences_of(cases(load([make_file(rows, experiment="zero")])))
    assert "sends 12.0 GB a step" in told and told.endswith("all-gathered) 8.0 GB.")


def test_the_fastest_fsdp_is_named_by_what_was_chosen(make_file):
    base = {"size": "xl", "shard": "none", "prefetch": np.nan, "reshard": ""}
    rows = [case(base, {"step": around(0.1)}, summary={"peak_bytes": 4e9})]
    for prefetch, seconds in ((0, 0.08), (2, 0.05)):
        fsdp = {"size": "xl", "shard": "fsdp", "prefetch": prefetch, "reshard": "yes"}
        rows.append(case(fsdp, {"step": around(seconds)}, summary={"peak_bytes": 3e9 + prefetch}))
    (table,) = sharding.table(cases(load([make_file(rows, experiment="zero")])))
    assert [[row[1], *row[-2:]] for row in table.rows] == [
        ["none", "100.0", "–"],
        ["fsdp (prefetch 2)", "50.00", "50.0% shorter"],
    ]


@pytest.mark.parametrize(
    ("peak", "gpu"),
    [(20e9, "24 GB"), (23e9, "40 GB"), (79.5e9, "141 GB"), (98.8e9, "141 GB"), (3e11, "above")],
)
def test_the_smallest_gpu_leaves_room_for_libraries(peak, gpu):
    assert devices.smallest(peak).startswith(gpu)


@pytest.mark.parametrize(
    ("published", "ours", "same"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("H800 PCIe", "NVIDIA H800 PCIe", True),
        ("H100", "NVIDIA H100 PCIe", False),
        ("H100", "NVIDIA H200", False),
        ("H800 PCIe", "NVIDIA H800", False),
        ("unnamed", "unnamed", False),
        ("RTX 5090", "NVIDIA GeForce RTX 5090", True),
        ("H100", "2 × NVIDIA H100 80GB HBM3 with NCCL_P2P_DISABLE=1", False),
    ],
)
def test_a_ratio_needs_the_same_hardware(published, ours, same):
    assert is_same_hardware(published, ours) == same


def test_memory_names_the_tensor_and_has_every_context(make_file):
    path = make_file(
        [
            case(
                {"size": "small", "context": context, "batch_size": 4, "precision": precision,
                 "mode": "train-step", "layers": 2, "d_model": 8, "d_ff": 32, "heads": 2,
                 "vocab": 100},
                {"step": around(0.1)},
                summary={"peak_bytes": context * size},
            )
            for context in (64, 128)
            for precision, size in (("fp32", 1e7), ("bf16", 5e6))
        ]
    )  # fmt: skip
    with h5py.File(path, "r+") as file:
        group = file.require_group("cases/case-002/memory/blocks")
        for name, value in {"bytes": 4 * 128 * 64 * 4, "kind": "activation",
                            "scope": "forward/block */ffn"}.items():  # fmt: skip
            write_column(group, name, [value])
    own = cases(load([path]))
    assert memory.by_mode(own) == [
        "small, batch size 4, train-step, peak in fp32 and in bf16: context 64: 610.4 MiB (640.0 "
        "MB) and 305.2 MiB (320.0 MB), -50.0%; context 128: 1.2 GiB (1.3 GB) and 610.4 MiB "
        "(640.0 MB), -50.0%."
    ]
    stream, block = memory.blocks(own)
    assert "context 128, batch size 4, fp32 takes 0.0156 MiB: 4 x 128 x 8 x 4 bytes" in stream
    assert "gate and up projections of the feed-forward network (scope forward/block */f" in block


def test_sizes_below_a_gib_are_in_mib():
    assert gib(2**30) == "1.0 GiB (1.1 GB)"
    assert gib(3 * 2**20) == "3.0 MiB (3.1 MB)"
    assert gib(2048) == "2.0 KiB (2.0 kB)"


def test_a_setting_names_attention_and_ranks_in_words():
    factors = {"ranks": 2, "exec": "eager", "attention": "naive", "precision": "fp32",
               "batch_size": 2, "context": 128.0, "size": "2.7b", "seed": 1}  # fmt: skip
    assert setting(factors) == (
        "2.7b, context 128, batch size 2 per rank, fp32, naive attention, eager, 2 ranks"
    )
    assert setting(factors | {"ranks": 1}, without=("size", "exec")) == (
        "context 128, batch size 2, fp32, naive attention"
    )
    assert setting({"context": float("nan"), "precision": "", "size": "xl"}) == "xl"
    assert setting({}) == ""


def test_a_span_of_equal_values_is_one_figure():
    assert spanned([2.0], "×") == "2.00×"
    assert spanned([1.5, 3.0], "×") == "1.50 to 3.00×"


def test_a_measured_case_comes_before_one_out_of_memory(make_file):
    rows = [case({"size": "xl"}, status="oom"), case({"size": "xl"}, {"step": around(0.1)})]
    own = cases(load([make_file(rows)]))
    assert first(own, size="xl").is_measured
    assert first(own, size="2.7b") is None
