"""`--profile` under mpirun: its tables add up, and analysis reads its timeline."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from analysis import intervals, timeline
from analysis.__main__ import main
from result_files import columns_of, rows, summary

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")
SMALL = ("--size", "tiny", "--vocab", 128, "--context", 16, "--batch-size", 2, *CPU)
ONCE = ("--warmup", 0, "--steps", 2)
SCORES = "scaled dot product attention/computing attention scores"


def table(group, name):
    return {column: np.array(values) for column, values in columns_of(group[name]).items()}


COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"}


@pytest.fixture
def profiled(paceline, tmp_path):
    """profiled(ranks, *arguments): the path of the file of a run that must succeed."""

    def run(ranks, *args):
        done = paceline(*args, ranks=ranks)
        assert done.code == 0, done.err
        return tmp_path / "out.h5"

    return run


def assert_adds_up(case, ranks):
    kernels, scopes, phases = (table(case, f"kernels{part}") for part in ("", "/scopes", "/phases"))
    for rank in range(ranks):
        mine, of_scopes = kernels["rank"] == rank, scopes["rank"] == rank
        total = kernels["total"][mine].sum()
        assert kernels["share"][mine].sum() == pytest.approx(1)
        assert np.all(np.diff(kernels["total"][mine]) <= 0)
        # A region does not include its collectives.
        parts = of_scopes & [
            "/" not in path or path.rpartition("/")[2] in COLLECTIVES for path in scopes["scope"]
        ]
        assert scopes["total"][parts].sum() == pytest.approx(total)
        step = (phases["rank"] == rank) & (phases["phase"] == "step")
        assert phases["kernels"][step] == pytest.approx(total)
        assert np.all(phases["busy"][phases["rank"] == rank] > 0)
        assert np.all(phases["gaps"][phases["rank"] == rank] >= 0)


def test_a_model_s_scopes_are_those_of_its_parts(profiled):
    path = profiled(0, "model", *SMALL, *ONCE, "--profile", 2)
    with h5py.File(path) as f:
        (case,) = f["cases"].values()
        assert case.attrs["profile"] == 2
        assert_adds_up(case, 1)
        kernels, scopes, phases = (
            table(case, f"kernels{part}") for part in ("", "/scopes", "/phases")
        )
        calls = dict(zip(scopes["scope"], scopes["calls"], strict=True))
        # One pass through the two blocks of a step.
        assert calls["forward"] == calls["backward"] == 1
        for part in ("attention", "ffn", f"attention/{SCORES}/matmul"):
            assert calls[f"forward/blocks/{part}"] == 2
        assert calls["forward/blocks/attention/matmul"] == calls["forward/blocks/ffn/matmul"] == 4
        products = kernels["operation"] == "matmul"
        assert dict(zip(kernels["phase"][products], kernels["calls"][products], strict=True)) == {
            "forward": 2 * 6 + 1,
            "backward": 2 * (2 * 6 + 1),
        }
        flops = dict(zip(scopes["scope"], scopes["flops"], strict=True))
        tokens, width = 2 * 16, 64
        assert flops["forward/blocks/ffn"] == 2 * 2 * tokens * 3 * width * 192
        assert flops[f"forward/blocks/attention/{SCORES}"] == 2 * 2 * tokens * 16 * width
        assert list(phases["phase"]) == ["forward", "backward", "optimizer", "step"]
        assert np.all(phases["extent"][:3] <= 1.02 * phases["events"][:3])
        trace = case["trace"]
        assert set(trace["steps/step"][:]) == {0, 1}
        assert trace["steps/begin"][0] == 0
        assert set(trace["ranks/source"].asstr()[:]) == {"events"}
    (row,) = rows(path)
    costliest = np.argmax(kernels["total"] * (kernels["phase"] == "forward"))
    assert row["forward_costliest_kernel"] == kernels["kernel"][costliest]
    assert row["forward_costliest_calls"] == kernels["calls"][costliest]
    assert 0 < row["forward_products_share"] < 1
    assert row["attention_products_flops"] == 2 * flops[f"forward/blocks/attention/{SCORES}"]
    for column in ("profiled_headline_s", "headline_after_profile_s", "softmax_s"):
        assert row[column] > 0


@pytest.mark.parametrize(
    "args",
    [
        ("ddp", "--sync", "naive,overlap,bucketed", *SMALL),
        ("zero", "--shard", "broadcast,zero1,zero2,fsdp", *SMALL),
        ("ddp", "--optimizer", "in-backward", "--recompute", "block", *SMALL),
        ("collectives", "--op", "all_reduce,all_to_all", "--bytes", "1KB,1MB", *CPU),
        ("attention", "--context", 32, "--cache", "warm", *CPU),
    ],
    ids=["ddp", "zero", "in-backward", "collectives", "attention"],
)
@pytest.mark.parametrize("ranks", [2, pytest.param(5, marks=pytest.mark.long)])
def test_every_experiment_s_profile_adds_up(profiled, ranks, args):
    path = profiled(ranks, *args, *ONCE, "--profile", 4)
    found = {one.case: one for one in timeline.read(path)}
    columns = summary(path)
    overlaps = columns.get("communication_overlap", [np.nan] * len(found))
    assert set(found) == set(columns["case"])
    with h5py.File(path) as f:
        for name, overlap in zip(columns["case"], overlaps, strict=True):
            assert_adds_up(f["cases"][name], ranks)
            one = found[name]
            assert timeline.overlap_fraction(one) == pytest.approx(overlap, abs=1e-6, nan_ok=True)
            assert [rank.rank for rank in one.ranks] == list(range(ranks))
            for rank in one.ranks:
                assert_consistent(rank)


def assert_consistent(rank):
    """Activities and spans of three steps, each within its step."""
    assert rank.steps["step"].tolist() == [0, 1, 2]
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
    path = profiled(2, "ddp", "--sync", "overlap", *SMALL, *ONCE, "--profile")
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
    with h5py.File(profiled(0, *args)) as f:
        before = table(f, "summary")
    assert {"forward_costliest_kernel", "softmax_s", "step_products_share"} < set(before)
    with h5py.File(profiled(0, *args, "--resume")) as f:
        for name, values in table(f, "summary").items():
            np.testing.assert_array_equal(values, before[name])


def test_the_screen_shows_the_largest_parts(paceline, tmp_path):
    """Which scopes take a hundredth of the time is up to the machine: the file says."""
    done = paceline("model", *SMALL, *ONCE, "--profile", 1)
    for title in ("kernels of model:", "kernels/scopes of model:"):
        assert f"\n{title}\n" in done.out
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        scopes = table(case, "kernels/scopes")
    large = (scopes["share"] >= 0.01) & (scopes["operation"] == 0)
    paths = [path.split("/") for path in scopes["scope"][large]]
    printed = done.out.split("\nkernels/scopes of model:\n")[1].split("\n\n")[0]
    # The head is one line or, where that is too wide for the screen, two.
    shown = re.split("^scope .*\n", printed, flags=re.MULTILINE)[1].splitlines()
    assert [re.split(r"(?<=\S)  +", line)[0] for line in shown] == [
        "  " * (len(path) - 1) + path[-1] for path in paths
    ]
    assert 0 < len(paths) < len(scopes["scope"])
