"""HolisticTraceAnalysis (HTA) reads the traces and agrees with the timelines in the file."""

from functools import partialmethod
from pathlib import Path

import h5py
import pytest

from analysis import timeline, trace
from analysis.intervals import covered, length, union
from analysis.timeline import times
from analysis.trace_events import in_nanoseconds
from synthetic import case, case_id, write_file
from synthetic_profile import profile, write_profile

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning:hta.*"), pytest.mark.long]

EXACT = {"abs": 2e-3}  # µs: HTA adds times in floating point
PERCENT = {"abs": 0.005 + 1e-9}  # HTA rounds to two decimals


def synthetic(folder: Path) -> Path:
    syncs = [("bucketed", False), ("overlap", False), ("bucketed", True)]
    gpus = [("GPU", f"GPU-{rank}", "node1") for rank in range(2)]
    cases = [case({"sync": sync, "device": "cuda"}, {"step": [[0.1] * 6]}) for sync, _ in syncs]
    path = write_file(folder / "sweep.h5", cases, gpus)
    with h5py.File(path, "r+") as file:
        for index, (sync, captured) in enumerate(syncs):
            group = file["cases"][case_id(index)]
            write_profile(group, profile(ranks=2, steps=3, sync=sync, captured=captured))
    return path


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """[(profiled case, HTA's TraceAnalysis of its traces)]. Tests must not modify it."""
    hta = pytest.importorskip("hta.trace_analysis")  # here: it takes seconds, also of make test
    folder = tmp_path_factory.mktemp("hta")
    path = synthetic(folder)
    trace.write([path], folder / "t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
        yield [(one, view(hta, one, folder)) for one in timeline.read(path)]


def view(hta, one, folder):
    """In this process alone: a pool forked beside a library's threads may never end."""
    traces = {rank.rank: str(folder / f"t.{one.case}.rank{rank.rank}.json") for rank in one.ranks}
    with pytest.MonkeyPatch.context() as patch:
        load = partialmethod(hta.Trace.load_traces, use_multiprocessing=False)
        patch.setattr(hta.Trace, "load_traces", load)
        return hta.TraceAnalysis(traces, include_last_profiler_step=True)


def kinds(rank):
    """Begin and end in µs [n, 2] of compute kernels, communication kernels and all activities."""
    kernels = rank.on_device[rank.on_device["kind"] == "kernel"]
    is_compute = ~kernels["communication"]
    return [
        1e-3 * times(in_nanoseconds(rows))  # rounded to nanoseconds, as in the trace
        for rows in (kernels[is_compute], kernels[~is_compute], rank.on_device)
    ]


def test_temporal_breakdown(analysed):
    for one, found in analysed:
        table = found.get_temporal_breakdown(visualize=False).set_index("rank")
        assert sorted(table.index) == [rank.rank for rank in one.ranks]
        for rank in one.ranks:
            compute, _, everything = kinds(rank)
            row = table.loc[rank.rank]
            elapsed = everything.max() - everything.min()
            idle = elapsed - length(union(everything))
            busy = length(union(compute))
            assert row["kernel_time(us)"] == pytest.approx(elapsed, **EXACT)
            assert row["compute_time(us)"] == pytest.approx(busy, **EXACT)
            assert row["idle_time(us)"] == pytest.approx(idle, **EXACT)
            assert row["non_compute_time(us)"] == pytest.approx(elapsed - idle - busy, **EXACT)


def test_overlap_of_communication_and_computation(analysed):
    for one, found in analysed:
        table = found.get_comm_comp_overlap(visualize=False).set_index("rank")
        for rank in one.ranks:
            compute, communication, _ = kinds(rank)
            communication = union(communication)
            share = covered(communication, compute) / length(communication)
            percent = table["comp_comm_overlap_pctg"][rank.rank]
            assert percent == pytest.approx(100 * share, **PERCENT)


def test_profiler_steps_are_the_profiled_steps(analysed):
    for one, found in analysed:
        assert found.get_profiler_steps() == one.ranks[0].steps["step"].tolist()
