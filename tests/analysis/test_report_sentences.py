"""Sentences of the report state only what the figures support."""

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis.report import (
    attention,
    benchmarking,
    collectives,
    comparisons_parallel,
    devices,
    memory,
    profile,
    sharding,
    step_breakdown,
)
from analysis.report.facts import cases, first
from analysis.report.published import is_same_hardware
from analysis.report.sentences import gib, setting, settings, spanned
from analysis.results import load
from reference_figures import reference
from synthetic import XL, around, case, step, write_column


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
    shared = "At context 1024, the longest measured in every precision: 65.2 GiB (70.0 GB) with "
    assert told.count("At context 1024") == told.count(shared) == (longest > 1024)
    assert "70.0 GB) at context 1024 with" in told
    assert ("; 37.3 GiB (40.0 GB) with batch" in told) == (longest > 1024)


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
    assert told[0] == (
        "MPI reaches a bus bandwidth of 100 GB/s (all_reduce of 1.00 MB, 2 ranks on 2 × NVIDIA "
        "H200); NCCL reaches a bus bandwidth of 100 GB/s (all_reduce of 1.00 MB, 2 ranks on 2 × "
        "NVIDIA H200)."
    )
    assert told[1].count("10.0 times as long for all_reduce of 1.00 MB on 2 ranks") == 2
    fitted = (
        "2 ranks on NVIDIA H200, NVIDIA H100: 10.0 to 20.0 µs + bytes / (50.0 to 100 GB/s); the "
        "measured time furthest from a fit is 10 to 20% off."
    )
    assert told[2:] == [
        f"3 fits of all_reduce, {backend.upper()}, {fitted}" for backend in ("mpi", "nccl")
    ]


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


def test_cases_out_of_memory_are_counted_among_those_of_naive_attention(make_file):
    def one(kind, status):
        factors = {"attention": kind, "head_dim": 64, "context": 128, "precision": "fp32"}
        return case(factors, {"both": around(0.1)} if status == "ok" else {}, status=status)

    def told(status):
        rows = [one("naive", status), one("fused", "oom")]
        return attention.pytorch(load([make_file(rows, experiment="attention")])).sentences[0]

    assert told("oom").startswith("1 of 1 cases of naive attention ran out of memory; the smallest")
    assert told("ok") == "No case of naive attention ran out of memory on AMD EPYC."


def test_why_the_first_step_is_longer_is_told_of_a_sweep_that_has_it_alone(make_file):
    def sentences(*steps):
        rows = [
            case({"size": "small", "warmup": count - 1, "cold_start": True}, {"step": around(0.1)},
                 warmup={"step": [list(steps[:count])]})
            for count in (1, 2)
        ]  # fmt: skip
        path = make_file(rows, command="build/paceline model --preset warmup")
        return benchmarking.warmup(load([path])).sentences

    assert sentences(0.5, 0.1) == [
        "The first step of a process takes 5.00 times the median of the measured ones: libraries "
        "load their kernels and choose algorithms in it, and memory is reserved.",
        "Step 2, after 1 warm-up step, takes 1.00 times that median.",
    ]
    assert sentences(0.5, 0.5)[0].endswith("of the measured ones.")
    assert sentences(0.1, 0.1)[0].endswith("of the measured ones.")


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
    peaks = {("xl", "none"): 4e9, ("xl", "fsdp"): 3e9, ("10b", "none"): 8e9, ("10b", "zero2"): 6e9}
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
    assert memory.bf16_sentence(own) == [
        "bf16 instead of fp32 changes the peak of small, batch size 4 by: train-step -50.0% "
        "at context 64 to 128."
    ]
    (table,) = memory.bf16_table(own)
    assert table.rows == [["train-step", "64", "0.5960", "0.2980", "-50.0%"],
                          ["train-step", "128", "1.192", "0.5960", "-50.0%"]]  # fmt: skip
    assert table.caption == ["Peaks of small, batch size 4."]
    (told,) = memory.blocks(own)
    assert "context 128, batch size 4, fp32 takes 0.0156 MiB: 4 x 128 x 8 x 4 bytes" in told
    assert "gate and up projections of the feed-forward network (scope forward/block */f" in told


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


def test_a_custom_size_is_told_with_its_dimensions(make_file):
    small = {"size": "custom", "d_model": 512, "d_ff": 2048, "layers": 6, "heads": 8}
    assert setting(small) == "custom (d_model 512, d_ff 2048, 6 layers, 8 heads)"
    assert setting({"size": "custom"}) == "custom"
    assert setting(small | {"size": "xl"}) == "xl"
    rows = [case(small | {"layers": layers, "context": 8}, {"step": around(0.1)})
            for layers in (6, 7)]  # fmt: skip
    common, told = settings(cases(load([make_file(rows)])))
    assert common == "context 8"
    assert told == [
        f"custom (d_model 512, d_ff 2048, {layers} layers, 8 heads)" for layers in (6, 7)
    ]


def test_a_span_of_equal_values_is_one_figure():
    assert spanned([2.0], "×") == "2.00×"
    assert spanned([1.5, 3.0], "×") == "1.50 to 3.00×"


def test_a_measured_case_comes_before_one_out_of_memory(make_file):
    rows = [case({"size": "xl"}, status="oom"), case({"size": "xl"}, {"step": around(0.1)})]
    own = cases(load([make_file(rows)]))
    assert first(own, size="xl").is_measured
    assert first(own, size="2.7b") is None


@pytest.mark.parametrize(
    ("quantity", "unit", "change"),
    [("step longer by", "ms", 50), ("step longer by", "s", 0.05), ("step longer by", "%", 50),
     ("peak saved", "GB", 2), ("peak saved", "%", 20), ("peak saved", "ms", None)],
)  # fmt: skip
def test_the_change_by_sharding_is_in_the_unit_of_the_row(make_file, quantity, unit, change):
    made = [
        case(XL | {"shard": shard}, {"step": around(seconds)}, summary={"peak_bytes": peak})
        for shard, seconds, peak in (("broadcast", 0.15, 8e9), ("none", 0.1, 10e9))
    ]
    sharded, whole = cases(load([make_file(made, experiment="zero")]))
    row = pd.Series({"quantity": quantity, "unit": unit})
    ours = comparisons_parallel.changed(row, sharded, whole)
    assert ours is None if change is None else ours.values["value"] == pytest.approx(change)


def test_settings_with_a_whole_state_are_first_in_the_table_of_sharding(make_file):
    made = [
        case(XL | {"shard": shard, "context": context}, {"step": around(0.1)})
        for shard, context in (("zero1", 512), ("zero1", 128), ("none", 128))
    ]
    (table,) = sharding.table(cases(load([make_file(made, experiment="zero")])))
    assert [(row[0].split(",")[0], row[1]) for row in table.rows] == [
        ("context 128", "none"), ("context 128", "zero1"), ("context 512", "zero1"),
    ]  # fmt: skip


def launched(size, precision, seconds, share, kernels=600, execution="eager"):
    """A step with launches of `share` of the 80% before its optimizer."""
    factors = {"size": size, "context": 128, "precision": precision, "exec": execution}
    summary = {"launch_s": 0.8 * share * seconds, "graph_kernels": kernels}
    samples = {"optimizer": around(0.2 * seconds), "step": around(seconds)}
    return case(factors, samples, summary=summary)


def launches(make_file, *rows):
    return step_breakdown.launches(cases(load([make_file(rows)])))


def test_launch_bound_steps_are_told(make_file):
    rows = [
        launched("small", "bf16", 0.006, 0.98),
        launched("medium", "bf16", 0.014, 0.95),
        launched("large", "bf16", 0.024, 0.85),
        launched("small", "bf16", 0.006, 0.99, execution="compiled"),
    ]
    assert launches(make_file, *rows) == [
        "2 of 3 eager steps are launch-bound (context 128, bf16, eager): the host is launching "
        "kernels during 98.0% (small), 95.0% (medium) of the step, the optimizer aside. --exec "
        "compiled launches a step as one graph."
    ]
    assert launches(make_file, *rows[2:]) == []


def test_launches_of_a_forward_pass_are_compared_with_all_of_it(make_file):
    factors = {"size": "small", "context": 128, "mode": "forward", "exec": "eager"}
    rows = [case(factors | {"batch_size": batch}, {"step": around(0.01)},
                 summary={"launch_s": launch_s, "graph_kernels": 300})
            for batch, launch_s in ((1, 0.0095), (2, 0.008))]  # fmt: skip
    (told,) = launches(make_file, *rows)
    assert told.startswith("1 of 2 eager steps are launch-bound: the host is launching kernels ")
    assert "during 95.0% (small, context 128, batch size 1, eager) of the step" in told


def test_a_host_that_waits_for_a_full_queue_is_not_launch_bound(make_file):
    # The last 1,024 of 20,000 launches are queued while the others run: 95% of the step.
    assert launches(make_file, launched("xl", "fp32", 2.0, 0.95, kernels=20_000)) == []
    (told,) = launches(make_file, launched("xl", "fp32", 0.1, 0.95, kernels=2_000))
    assert "1 of 1 eager steps are launch-bound" in told


def test_many_launch_bound_steps_are_told_as_a_range(make_file):
    rows = [launched("small", "bf16", 0.01, 0.92 + 0.01 * index) for index in range(5)]
    (told,) = launches(make_file, *rows)
    assert "during 92.0 to 96.0% of the step" in told


@pytest.mark.parametrize("seconds", [0.01, 0.0])
def test_a_step_without_launch_times_or_without_time_is_not_launch_bound(make_file, seconds):
    factors = {"size": "small", "context": 128, "precision": "bf16", "exec": "eager"}
    launch = {} if seconds else {"launch_s": 0.01}
    row = case(factors, {"step": around(seconds)}, summary=launch)
    assert launches(make_file, row) == []


def test_forward_is_told_by_the_clocks_that_timed_it():
    by_events, by_all = reference("model-profile"), reference("model-profile-sizes")
    (first_of_one, *_) = profile.section(load([by_events])).sentences
    assert "16, bf16, flash attention, eager: forward takes 193.7 ms by events" in first_of_one
    (first_of_two, *_) = profile.section(load([by_events, by_all])).sentences
    assert "forward takes 650.0 ms by the host's clock, 650.6 ms by events" in first_of_two
