"""The memory tables of a case: by kind and phase, against the closed forms, as a timeline; and the
values of --recompute with the least memory."""

import h5py
import numpy as np
import pandas as pd
import pytest

from result_files import columns_of, rows

CPU = ("--device", "cpu", "--threads", 1, "--warmup", 1, "--steps", 1)
DEEP = ("model", "--d-model", 32, "--d-ff", 64, "--layers", 8, "--heads", 2, "--vocab", 64)
TINY = ("model", "--size", "tiny", "--vocab", 64, "--context", 8, *CPU)
KINDS = (
    "parameter", "gradient", "optimizer_state", "activation", "communication", "workspace",
)  # fmt: skip


def table(group, path):
    return pd.DataFrame(columns_of(group[path]))


@pytest.fixture
def run(paceline, tmp_path):
    """run(*args, ranks=0): runs the program and returns the cases of its result file."""

    def cases(*args, ranks=0):
        done = paceline(*args, "--output", "o.h5", "--force", "--quiet", ranks=ranks)
        assert done.code == 0, done.err
        return list(h5py.File(tmp_path / "o.h5")["cases"].values())

    return cases


@pytest.mark.parametrize(
    ("layers", "vocab", "context", "attention", "precisions"),
    [
        (3, 128, 32, "naive", "fp32,bf16"),
        (2, 512, 32, "flash", "fp16"),
        pytest.param(4, 128, 64, "fused", "fp32,bf16,fp16", marks=pytest.mark.long),
        pytest.param(2, 1000, 128, "naive", "fp32,bf16,fp16", marks=pytest.mark.long),
        pytest.param(2, 1000, 128, "flash", "fp32,bf16,fp16", marks=pytest.mark.long),
        pytest.param(3, 10000, 64, "naive", "fp32,bf16,fp16", marks=pytest.mark.long),
    ],
)
def test_every_closed_form_is_within_two_percent(
    run, layers, vocab, context, attention, precisions
):
    cases = run(
        *("model", "--d-model", 128, "--d-ff", 384, "--layers", layers, "--heads", 4),
        *("--vocab", vocab, "--context", context, *CPU, "--recompute", "none,swiglu,block,2"),
        *("--mode", "inference,forward,train-step", "--precision", precisions),
        *("--attention", attention),
    )
    assert len(cases) == 9 * len(precisions.split(","))
    for case in cases:
        forms = table(case, "memory/closed_form").set_index("what")
        np.testing.assert_allclose(forms["measured"], forms["predicted"], rtol=0.02, err_msg=case)
        np.testing.assert_allclose(forms["ratio"], forms["measured"] / forms["predicted"], 1e-5)
        assert forms.loc["parameters", "measured"] > 0
        # The printed formulas, except these two, evaluate to the predicted value.
        for what, row in forms.drop(["peak", "activations, at most"], errors="ignore").iterrows():
            value = eval(row["formula"].replace(" x ", " * ").replace("^", "**"))
            assert value == row["predicted"], what


def test_lines_of_the_closed_form_by_option(run):
    def lines(*args):
        (case,) = run(*TINY, *args)
        return list(table(case, "memory/closed_form")["what"])

    state = ["parameters", "gradients", "optimizer state"]
    head = ["the head", "its logits", "activations before backward", "peak"]
    block = ["residual stream", "a block", "its attention probabilities"]
    assert lines() == [*state, *block, *head]
    assert lines("--recompute", "swiglu") == lines()
    assert lines("--recompute", "block") == [*state, *head]
    flash = [line.replace("attention probabilities", "logsumexp") for line in block]
    assert lines("--attention", "flash") == [*state, *flash, *head]
    assert lines("--mode", "inference") == ["parameters", "activations, at most", "peak"]


def test_peaks_by_rank_phase_and_kind(run):
    (case,) = run(*TINY, ranks=2)
    phases, marks = table(case, "memory/phases"), table(case, "memory")
    assert list(phases["phase"]) == ["forward", "backward", "optimizer"] * 4
    assert list(phases["step"]) == (["first"] * 3 + ["steady"] * 3) * 2
    assert list(phases["rank"]) == [0] * 6 + [1] * 6
    for (rank, step), part in phases.groupby(["rank", "step"]):
        at = marks[(marks["rank"] == rank) & (marks["step"] == step)].set_index("mark")
        assert part["peak"].max() == at.loc["after step", "peak"]
        ends = at.loc[["before backward", "before optimizer", "after step"]]
        for kind in ("peak", *KINDS):
            assert (part[kind].to_numpy() >= ends[kind.replace("peak", "active")]).all()
        assert (part[list(KINDS)].sum(axis=1) >= part["peak"]).all()
    steady = phases[phases["step"] == "steady"].set_index("phase")
    assert (steady.loc["optimizer", "activation"] == 0).all()
    assert (steady.loc["forward", "activation"] > 0).all()


def test_every_parameter_has_a_range_in_every_array(run):
    (case,) = run(*TINY, "--precision", "bf16", "--memory-timeline")
    ranges = table(case, "memory/parameters")
    element = {"parameters": 4, "low-precision copy": 2, "gradients": 4, "adam m": 4, "adam v": 4}
    assert set(ranges["array"]) == set(element)
    kinds = dict(zip(ranges["array"], ranges["kind"], strict=True))
    assert kinds["low-precision copy"] == "parameter"
    assert kinds["adam v"] == "optimizer_state"
    first = ranges[ranges["array"] == "parameters"].set_index("name")
    assert first.loc["layers.1.attn.k_proj.weight", "bytes"] == 64 * 64 * 4
    assert len(first) == 2 * 9 + 3
    for array, part in ranges.groupby("array"):
        part = part.sort_values("offset")
        ends = (part["offset"] + part["bytes"]).to_numpy()
        assert (ends[:-1] <= part["offset"].to_numpy()[1:]).all()
        in_order = part.set_index("name").reindex(first.index)
        assert (in_order["bytes"] * 4 == first["bytes"] * element[array]).all()


def test_the_largest_blocks_say_where_they_come_from(run):
    (case,) = run("model", "--size", "tiny", "--vocab", 512, "--context", 64, *CPU)
    blocks = table(case, "memory/blocks")
    scopes = list(blocks["scope"])
    scores = "forward/block */attention/scaled dot product attention/computing attention scores"
    assert scores in scopes
    of_scores = blocks.iloc[scopes.index(scores)]
    assert (of_scores["shape"], of_scores["dtype"]) == ("[4, 4, 64, 64]", "float32")
    assert of_scores["bytes"] == 16 * 64 * 64 * 4
    assert "forward/block */ffn" in scopes
    assert "forward/head/logits" in scopes
    assert len(set(scopes)) > 8


def test_memory_of_the_ledger_allocator_and_driver(run):
    (case,) = run(*TINY)
    assert "timeline" not in case["memory"]
    assert not case.attrs["memory_timeline"]
    counts = table(case, "memory/driver").pivot(index="when", columns="line", values="bytes")
    ledger, reserved = counts["ledger"], counts["reserved by the allocator"]
    driver, others = counts["driver says in use"], counts["context and libraries"]
    assert set(counts.index) == {"before the case", "after set-up", "at the end"}
    assert ledger["before the case"] == reserved["before the case"] == 0
    assert (driver > 1e6).all()
    assert others["before the case"] == driver["before the case"]
    assert 0 < ledger["after set-up"] <= reserved["after set-up"] < driver["after set-up"]
    assert others["at the end"] == driver["at the end"] - reserved["at the end"]


def test_the_timeline_records_one_steady_step(run):
    (case,) = run(*TINY, "--memory-timeline")
    events, marks = table(case, "memory/timeline"), table(case, "memory")
    after = marks[(marks["step"] == "steady") & (marks["mark"] == "after step")].iloc[0]
    start = events[events["phase"] == ""]
    assert (start["bytes"] > 0).all()
    assert (start["seconds"] == 0).all()
    assert start["bytes"].sum() == after["active"] == events["bytes"].sum()
    assert events["bytes"].cumsum().max() == after["peak"]
    assert list(events["phase"].drop_duplicates())[:3] == ["", "forward", "backward"]
    assert events["seconds"].is_monotonic_increasing
    live = {}
    for event in events.itertuples():
        if event.bytes > 0:
            assert event.address not in live
            live[event.address] = (event.bytes, event.kind, event.scope)
        else:
            assert live.pop(event.address) == (-event.bytes, event.kind, event.scope)
    scope = "forward/block 1/attention/scaled dot product attention/computing attention scores"
    assert len(events[events["scope"] == scope]) == 2  # one allocation, one release
    assert case.attrs["memory_timeline"]


def test_data_parallel_training_has_a_timeline_too(run):
    (case,) = run(*("ddp", *TINY[1:], "--memory-timeline"), ranks=2)
    assert table(case, "memory/timeline")["bytes"].cumsum().min() > 0


def test_an_oom_case_is_explained_and_leaves_no_memory_behind(run):
    args = ("--size", "tiny", *CPU, "--precision", "bf16")
    big, small = run("model", *args, "--context", "512,16", "--memory-limit", "40MB")
    (alone,) = run("model", *args, "--context", 16, "--memory-limit", "40MB")
    if big.attrs["context"] == 16:
        big, small = small, big
    assert (big.attrs["status"], small.attrs["status"]) == ("oom", "ok")
    for words in (
        "MB are needed", "'forward/block ", " asked for ", " of 40.0 MB in use (parameter ",
        ", activation ", ", workspace ",
    ):  # fmt: skip
        assert words in big.attrs["reason"]
    first = table(small, "memory/driver").iloc[:2]["bytes"]
    assert (first == 0).all()
    assert table(small, "memory").equals(table(alone, "memory"))


def test_a_sweep_over_recompute_names_least_memory_and_fastest(paceline, tmp_path):
    sweep = ("--context", "16,64", "--recompute", "none,block,2,4")
    done = paceline(*DEEP, *CPU, *sweep, "--quiet", "--output", "out.h5")
    assert done.code == 0, done.err
    table = rows(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as f:
        named = {name: column[:] for name, column in f["recompute"].items()}
    assert [of.decode() for of in named["of"]] == ["context 16", "context 64"]
    for i, context in enumerate((16, 64)):
        of_context = [row for row in table if row["context"] == context]
        least = min(of_context, key=lambda row: row["peak_bytes"])
        fastest = min(of_context, key=lambda row: row["step_median_s"])
        assert named["least_memory"][i].decode() == least["recompute"]
        assert named["least_memory_peak_bytes"][i] == least["peak_bytes"]
        assert named["least_memory_step_s"][i] == least["step_median_s"]
        assert named["fastest"][i].decode() == fastest["recompute"]
        assert named["fastest_peak_bytes"][i] == fastest["peak_bytes"]
        assert named["fastest_step_s"][i] == fastest["step_median_s"]
        assert least["recompute"] != "none"
    assert "least_memory" in done.out or "least memory" in done.out


@pytest.mark.parametrize(("recompute", "shown"), [("none,block", True), ("block", False)])
def test_all_cases_are_one_group_and_a_single_value_has_no_table(
    paceline, tmp_path, recompute, shown
):
    done = paceline(*DEEP, *CPU, "--recompute", recompute, "--quiet", "--output", "out.h5")
    assert done.code == 0, done.err
    assert ("of all cases" in done.out) == shown
    with h5py.File(tmp_path / "out.h5") as f:
        assert ("recompute" in f) == shown
