"""Timelines of profiled cases, and the fraction of communication that overlaps computation."""

from math import isnan

import h5py
import numpy as np
import pytest

from analysis import intervals, timeline
from synthetic import STEP, case, case_id
from synthetic_profile import profile, write_profile


def overlap(**options):
    """(overlap_fraction() of a simulated case, the same counted on a grid of 10 ns)."""
    (found,) = options.pop("read")(**options)
    total = hidden = 0
    for rank in found.ranks:
        kernels = rank.activities[rank.activities["kind"] == "kernel"]
        grid = np.arange(0, kernels["end"].max(), 1e-8)
        running = {
            kind: sum((row.begin <= grid) & (grid < row.end) for row in rows.itertuples()) > 0
            for kind, rows in kernels.groupby("communication")
        }
        total += running[True].sum()
        hidden += (running[True] & running[False]).sum()
    return timeline.overlap_fraction(found), hidden / total


@pytest.fixture
def read(make_file):
    def make(**options):
        factors = {"size": "small", "device": "cuda", "ranks": options.get("ranks", 2)}
        path = make_file([case(factors, STEP), case(factors, STEP)])
        with h5py.File(path, "r+") as file:
            write_profile(file["cases"][case_id(1)], profile(**options))
        return timeline.read(path)

    return make


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([[1, 2]], [[1, 2]]),
        ([[3, 4], [0, 1]], [[0, 1], [3, 4]]),
        ([[0, 2], [1, 3]], [[0, 3]]),
        ([[0, 9], [1, 2], [3, 4], [9, 10]], [[0, 10]]),
    ],
)
def test_union_of_intervals(given, expected):
    assert intervals.union(np.array(given, dtype=float).reshape(-1, 2)).tolist() == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [([], 0), ([[0, 1]], 0), ([[0, 3]], 1), ([[2, 4], [5, 6]], 3), ([[0, 9], [1, 2]], 5)],
)
def test_length_covered_by_other_intervals(by, expected):
    given = np.array([[2.0, 5.0], [5.0, 7.0]])
    assert intervals.covered(given, np.array(by, dtype=float).reshape(-1, 2)) == expected


def test_only_profiled_cases_have_a_timeline(read):
    (found,) = read(ranks=2, steps=2)
    assert found.case == case_id(1)
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert [len(rank.steps) for rank in found.ranks] == [2, 2]


def test_activities_have_the_scope_that_launched_them(read):
    (found,) = read()
    kernels = found.ranks[1].activities.query("kind == 'kernel'")
    softmax = kernels[kernels["name"] == "softmax"]["path"].unique().tolist()
    attention = "attention/scaled dot product attention/computing softmax/softmax"
    assert softmax == [f"forward/block {block}/{attention}" for block in (0, 1)]
    exchanges = kernels[kernels["communication"]]
    assert exchanges["path"].str.fullmatch(r"backward/all_reduce").all()
    assert exchanges["elements"].unique().tolist() == [100_001]


def test_scopes_have_the_parent_scope(read):
    rank = read(captured=True)[0].ranks[0]
    paths = ["", *rank.spans["path"]]  # parent -1 means no parent
    for path, parent in zip(rank.spans["path"], rank.parents, strict=True):
        assert paths[parent + 1] == path.rpartition("/")[0]


def test_a_scope_extends_over_its_kernels(read):
    rank = read()[0].ranks[0]
    found = timeline.extents(rank, rank.on_device, "step").set_index(["step", "path"])
    for (step, path), row in found.iterrows():
        inside = rank.on_device.query("step == @step")
        inside = inside[(inside["path"] + "/").str.startswith(f"{path}/")]
        assert row["begin"] <= inside["begin"].max()
        if found.index.to_list().count((step, path)) == 1:
            assert (row["begin"], row["end"]) == (inside["begin"].min(), inside["end"].max())


@pytest.mark.parametrize("sync", ["overlap", "bucketed"])
@pytest.mark.parametrize("source", ["cupti", "events"])
def test_overlap_agrees_with_a_10_ns_grid(read, sync, source):
    found, expected = overlap(read=read, sync=sync, source=source, steps=1)
    assert 0.3 < found < 0.9
    assert found == pytest.approx(expected, abs=1e-3)


def test_communication_after_backward_does_not_overlap(read):
    assert timeline.overlap_fraction(read(sync="naive")[0]) == 0


def test_overlap_without_communication_is_nan(read):
    assert isnan(timeline.overlap_fraction(read(sync="none")[0]))
