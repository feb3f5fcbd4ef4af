"""`--profile` under mpirun: the tables made of its trace add up; analysis reads its timeline."""

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis import intervals, timeline
from analysis.__main__ import main
from analysis.results import load

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")
SMALL = ("--size", "tiny", "--vocab", 128, "--context", 16, "--batch-size", 2, *CPU)
ONCE = ("--warmup", 0, "--steps", 2)
SHORT = ("--memory-limit", "40MB")  # so are the messages that measure the links
SCORES = "scaled dot product attention/computing attention scores"


def profiles_of(path):
    """(/summary with the answers, kernels, scopes and phases of all cases)."""
    (results,) = load([path])
    names = ("kernels", "scopes", "phases")
    return results.frame, *(results.file_tables[f"profiled/{name}"] for name in names)


COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"}


@pytest.fixture
def profiled(paceline, tmp_path):
    """profiled(ranks, *arguments): the path of the file of a run that must succeed."""

    def run(ranks, *args):
        done = paceline(*args, ranks=ranks)
        assert done.code == 0, done.err
        return tmp_path / "out.h5"

    return run


def assert_adds_up(kernels, scopes, phases):
    """The tables of one case on one rank."""
    total = kernels["total"].sum()
    assert kernels["share"].sum() == pytest.approx(1)
    assert kernels["total"].is_monotonic_decreasing
    # A region does not include its collectives.
    parts = ["/" not in path or path.rpartition("/")[2] in COLLECTIVES for path in scopes["scope"]]
    assert scopes["total"][parts].sum() == pytest.approx(total)
    assert phases["kernels"][phases["phase"] == "step"].tolist() == [pytest.approx(total)]
    assert (phases["busy"] > 0).all()
    assert (phases["gaps"] >= 0).all()


def test_a_model_s_scopes_are_those_of_its_parts(profiled):
    path = profiled(0, "model", *SMALL, *ONCE, "--profile", 4)
    frame, kernels, scopes, phases = profiles_of(path)
    assert_adds_up(kernels, scopes, phases)
    calls = dict(zip(scopes["scope"], scopes["calls"], strict=True))
    # One pass through the two blocks of a step.
    assert calls["forward"] == calls["backward"] == 1
    for part in ("attention", "ffn", f"attention/{SCORES}/matmul"):
        assert calls[f"forward/blocks/{part}"] == 2
    assert calls["forward/blocks/attention/matmul"] == calls["forward/blocks/ffn/matmul"] == 4
    products = kernels[kernels["operation"] == "matmul"]
    assert dict(zip(products["phase"], products["calls"], strict=True)) == {
        "forward": 2 * 6 + 1,
        "backward": 2 * (2 * 6 + 1),
    }
    flops = dict(zip(scopes["scope"], scopes["flops"], strict=True))
    tokens, width = 2 * 16, 64
    assert flops["forward/blocks/ffn"] == 2 * 2 * tokens * 3 * width * 192
    assert flops[f"forward/blocks/attention/{SCORES}"] == 2 * 2 * tokens * 16 * width
    assert phases["phase"].tolist() == ["forward", "backward", "optimizer", "step"]
    assert (phases["extent"][:3] <= 1.02 * phases["events"][:3]).all()
    assert (phases["host"] > 0).all()
    with h5py.File(path) as f:
        (case,) = f["cases"].values()
        assert case.attrs["profile"] == 4
        trace = case["trace"]
        assert set(trace["steps/step"][:]) == set(trace["phases/step"][:]) == {0, 1, 2, 3}
        assert trace["steps/begin"][0] == 0
        assert set(trace["ranks/source"].asstr()[:]) == {"events"}
    (row,) = frame.to_dict("records")
    costliest = kernels[kernels["phase"] == "forward"].iloc[0]
    assert row["forward_costliest_kernel"] == costliest["kernel"]
    assert row["forward_costliest_calls"] == costliest["calls"]
    assert 0 < row["forward_products_share"] < 1
    assert row["attention_products_flops"] == 2 * flops[f"forward/blocks/attention/{SCORES}"]
    for column in ("profiled_headline_s", "headline_after_profile_s", "softmax_s"):
        assert row[column] > 0


@pytest.mark.parametrize(
    "args",
    [
        ("ddp", "--sync", "naive,bucketed", *SMALL),
        ("zero", "--shard", "broadcast,fsdp", *SMALL),
        pytest.param(
            ("ddp", "--optimizer", "in-backward", "--recompute", "block", *SMALL),
            marks=pytest.mark.long,
        ),
        ("collectives", "--op", "all_reduce,all_to_all", "--bytes", "1KB,1MB", *SHORT, *CPU),
        ("attention", "--context", 32, "--batch-size", 1, "--cache", "warm", *CPU),
    ],
    ids=["ddp", "zero", "in-backward", "collectives", "attention"],
)
@pytest.mark.parametrize("ranks", [2, pytest.param(5, marks=pytest.mark.long)])
def test_every_experiment_s_profile_adds_up(profiled, ranks, args):
    path = profiled(ranks, *args, *ONCE, "--profile", 2)
    found = {one.case: one for one in timeline.read(path)}
    frame, *tables = profiles_of(path)
    assert set(found) == set(frame["case"])
    for name, one in found.items():
        assert [rank.rank for rank in one.ranks] == list(range(ranks))
        for rank in one.ranks:
            assert_consistent(rank)
            assert_adds_up(
                *(table[(table["case"] == name) & (table["rank"] == rank.rank)] for table in tables)
            )


def assert_consistent(rank):
    """Activities and spans of all steps, each within its step."""
    assert rank.steps["step"].tolist() == [0, 1]
    assert rank.lost == 0
    assert abs(rank.clock_offset) <= rank.clock_error or rank.rank == 0
    assert (rank.activities["span"] >= 0).all()
    begins = rank.steps["begin"].to_numpy()
    ends = rank.steps["end"].to_numpy()
    for found in (rank.activities, rank.spans):
        step = found["step"].to_numpy()
        assert np.all(found["begin"] >= begins[step])
        assert np.all(found["end"] <= ends[step])
        assert np.all(found["begin"] <= found["end"])
    busy = intervals.union(rank.activities[["begin", "end"]].to_numpy())
    assert 0 < intervals.length(busy) < (ends - begins).sum()


def test_a_trace_is_made_of_a_profiled_run(profiled, tmp_path, capsys):
    path = profiled(2, "ddp", "--sync", "overlap", *SMALL, *ONCE, "--profile", 3)
    (case,) = timeline.read(path)
    main(["trace", str(path), "--output", str(tmp_path / "t")])
    written = capsys.readouterr().out.splitlines()
    parts = [name.removeprefix(f"{tmp_path}/t.{case.case}.") for name in written]
    assert parts == ["rank0.json", "rank1.json", "json"]  # the last is of both
    for name in written[:2]:
        events = json.loads(Path(name).read_text("utf-8"))["traceEvents"]
        names = [event["name"] for event in events if event["ph"] == "X"]
        assert names.count("ProfilerStep#0") == 1
        assert names.count("computing softmax") == 3 * 2 * 2  # steps, blocks, directions
        assert "all_reduce" in names


def test_what_is_resumed_keeps_its_answers(profiled):
    args = ("model", *SMALL, *ONCE, "--context", "8,16", "--profile", 1)
    before = profiles_of(profiled(0, *args))
    assert {"forward_costliest_kernel", "softmax_s", "step_products_share"} < set(before[0])
    for one, other in zip(before, profiles_of(profiled(0, *args, "--resume")), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_the_program_names_the_command_that_shows_the_profile(paceline, tmp_path, capsys):
    assert "paceline-analysis" not in paceline("model", *SMALL, *ONCE).out
    done = paceline("model", *SMALL, *ONCE, "--profile", 1, "--force")
    assert done.out.splitlines()[-2] == "kernels and scopes: paceline-analysis tables out.h5"
    main(["tables", str(tmp_path / "out.h5")])
    shown = capsys.readouterr().out
    for words in ("## The kernels of a step", "## The scopes of a step", "|   blocks"):
        assert words in shown
