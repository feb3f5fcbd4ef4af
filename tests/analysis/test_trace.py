"""Traces in the format of PyTorch's profiler (Kineto), checked event by event."""

import json
import shutil
from itertools import groupby
from pathlib import Path

import h5py
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.device_events import nests, tracks_of
from analysis.host_events import Slice, nested
from synthetic import STEP, case, case_id
from synthetic_profile import ACTIVITIES, profile, write_profile

ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
KINDS = [
    {"sync": "naive"},
    {"sync": "bucketed", "ranks": 1},
    {"sync": "bucketed", "captured": True},
    {"sync": "overlap", "source": "events"},
]


@pytest.fixture
def make_profile(make_file):
    def make(**options):
        device = "cpu" if options.get("source") == "events" else "cuda"
        model = "AMD EPYC" if device == "cpu" else "GPU model"
        ranks = [(f"{model} {rank}", f"GPU-{rank}", "node1") for rank in range(2)]
        path = make_file([case({"size": "small", "device": device}, STEP)], ranks=ranks)
        with h5py.File(path, "r+") as file:
            write_profile(file["cases"][case_id(0)], profile(**options))
        return path

    return make


def written(capsys, path, output):
    """The traces written by one call, by the suffix of their file names."""
    main(["trace", str(path), "--output", str(output)])
    names = capsys.readouterr().out.splitlines()
    return {
        name.removeprefix(f"{output}."): json.loads(Path(name).read_text("utf-8")) for name in names
    }


@pytest.fixture
def traces(make_profile, tmp_path, capsys):
    return lambda **options: written(capsys, make_profile(**options), tmp_path / "new" / "t")


def slices(trace, *categories):
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    return [event for event in events if not categories or event["cat"] in categories]


def launches_of(trace):
    """The runtime calls that launch work: all except cudaGetDevice."""
    calls = slices(trace, "cuda_runtime")
    assert not calls or {"cudaGetDevice"} < {call["name"] for call in calls}
    return [call for call in calls if call["name"] != "cudaGetDevice"]


def span(event):
    """Begin and end in nanoseconds; asserts that both are whole."""
    begin, length = (round(event[name] * 1000, 6) for name in ("ts", "dur"))
    assert begin == int(begin) >= 0 and length == int(length) >= 0
    return int(begin), int(begin + length)


def assert_nested(trace):
    def track(event):
        return event["pid"], event["tid"]

    for _, events in groupby(sorted(slices(trace), key=track), track):
        around = []
        for begin, end in sorted(map(span, events), key=lambda one: (one[0], -one[1])):
            while around and around[-1] <= begin:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)


@pytest.mark.parametrize("options", KINDS)
def test_tracks_nest_and_arrows_join_launches_and_kernels(traces, options):
    for trace in traces(**options).values():
        assert_nested(trace)
        ends = {
            phase: [event for event in trace["traceEvents"] if event["ph"] == phase]
            for phase in ("s", "f")
        }
        assert all(event["cat"] == event["name"] == "ac2g" for event in ends["s"] + ends["f"])
        assert all(event["bp"] == "e" for event in ends["f"])
        assert {event["id"] for event in ends["s"]} == {event["id"] for event in ends["f"]}
        assert len(ends["s"]) == len({event["id"] for event in ends["s"]})
        places = {(e["pid"], e["tid"], e["ts"]) for e in slices(trace, *ON_GPU)}
        assert {(e["pid"], e["tid"], e["ts"]) for e in ends["f"]} == places
        launches = {(e["pid"], e["tid"], e["ts"]) for e in launches_of(trace)}
        assert {(e["pid"], e["tid"], e["ts"]) for e in ends["s"]} == launches


def test_header_and_steps_of_a_rank_s_trace(traces):
    found = traces(ranks=2, steps=2)
    id0 = case_id(0)
    assert list(found) == [f"{id0}.rank0.json", f"{id0}.rank1.json", f"{id0}.json"]
    trace = found[f"{id0}.rank1.json"]
    assert trace["schemaVersion"] == 1
    assert trace["distributedInfo"] == {"backend": "nccl", "rank": 1, "world_size": 2}
    assert trace["deviceProperties"] == [{"id": 1, "name": "GPU model 1", "totalGlobalMem": 2**36}]
    assert trace["traceName"] == f"t.{id0}.rank1.json"
    created = 1795226731  # 2026-11-21T02:05:31Z
    assert trace["baseTimeNanoseconds"] == created * 10**9
    (clock,) = trace["clocks"]
    assert clock == {
        "rank": 1, "source": "cupti", "offset_us": -1000, "error_us": 0.2, "lost": 0,
    }  # fmt: skip
    steps = [e["name"] for e in slices(trace, "user_annotation") if "Profiler" in e["name"]]
    assert steps == ["ProfilerStep#0", "ProfilerStep#1"]


def test_kernels_have_their_stream_launch_and_scope(traces):
    trace = traces()[f"{case_id(0)}.rank1.json"]
    launches = {e["args"]["correlation"]: e for e in slices(trace, "cuda_runtime")}
    scopes = {e["args"]["External id"]: e for e in slices(trace, "cpu_op")}
    kernels = slices(trace, "kernel")
    assert {kernel["tid"] for kernel in kernels} == {7, 20}
    for kernel in kernels:
        arguments = kernel["args"]
        assert (kernel["pid"], kernel["tid"]) == (1, arguments["stream"])
        assert arguments["device"] == 1
        launch, scope = launches[arguments["correlation"]], scopes[arguments["External id"]]
        assert launch["args"]["External id"] == arguments["External id"]
        assert scope["args"]["scope"] == arguments["scope"]
        outer, inner = span(scope), span(launch)
        assert outer[0] <= inner[0] <= inner[1] <= outer[1]
        assert inner[1] <= span(kernel)[0]
    (copy, _) = slices(trace, "gpu_memcpy")
    assert copy["name"] == "Memcpy"
    assert copy["args"]["bytes"] == 4096
    assert copy["args"]["memory bandwidth (GB/s)"] == pytest.approx(4.096 / copy["dur"])
    assert {memset["name"] for memset in slices(trace, "gpu_memset")} == {"Memset (Device)"}


def test_collectives_have_the_arguments_of_kineto(traces):
    trace = traces()[f"{case_id(0)}.rank1.json"]
    operations = [e for e in slices(trace, "cpu_op") if e["name"] == "all_reduce"]
    kernels = [e for e in slices(trace, "kernel") if e["name"].startswith("nccl")]
    assert len(operations) == len(kernels) == 4
    for event in operations + kernels:
        found = {key: event["args"][key] for key in event["args"] if key[0].isupper()}
        del found["External id"]
        assert found == {
            "Collective name": "allreduce",
            "In msg nelems": 100_001,
            "Out msg nelems": 100_001,
            "Group size": 2,
            "Rank": 1,
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]",
        }
        assert event["args"]["dtype"] == "Float"
    assert not any("Group size" in e["args"] for e in slices(trace) if "all_reduce" not in str(e))


def test_the_merged_trace_has_all_ranks_on_one_clock(traces):
    found = traces()
    merged = found[f"{case_id(0)}.json"]
    assert merged["distributedInfo"] == {"backend": "nccl", "world_size": 2}
    assert [device["name"] for device in merged["deviceProperties"]] == [
        "GPU model 0", "GPU model 1",
    ]  # fmt: skip
    parts = [found[f"{case_id(0)}.rank{rank}.json"] for rank in (0, 1)]
    assert {part["baseTimeNanoseconds"] for part in parts} == {merged["baseTimeNanoseconds"]}
    assert merged["traceEvents"] == [e for part in parts for e in part["traceEvents"]]
    names = {
        event["pid"]: event["args"]["name"]
        for event in merged["traceEvents"]
        if event["name"] == "process_name"
    }
    assert sorted(names.values()) == ["rank 0", "rank 0", "rank 1", "rank 1"]


def test_kernels_of_a_graph_keep_the_scopes_of_the_capture(traces):
    trace = traces(captured=True, ranks=1, steps=2)[f"{case_id(0)}.rank0.json"]
    launches = launches_of(trace)
    assert [launch["name"] for launch in launches] == ["cudaGraphLaunch"] * 2
    assert not slices(trace, "cpu_op")  # scopes were entered during capture, not in a step
    kernels = slices(trace, *ON_GPU)
    assert {k["args"]["correlation"] for k in kernels} == {
        launch["args"]["correlation"] for launch in launches
    }
    assert kernels[-1]["args"]["scope"] == "optimizer/adamw"
    regions = [e for e in slices(trace, "gpu_user_annotation") if e["name"] == "forward"]
    inside = [k for k in kernels if k["args"]["scope"].startswith("forward/")]
    assert len(regions) == 2
    for region in regions:
        begin, end = span(region)
        mine = [k for k in map(span, inside) if begin <= k[0] < end]
        assert len(mine) == len(inside) / 2
        assert mine[-1][1] == end


def test_cpu_collectives_are_on_a_separate_thread(traces):
    trace = traces(source="events")[f"{case_id(0)}.rank0.json"]
    assert trace["distributedInfo"]["backend"] == "mpi"
    assert trace["deviceProperties"] == []
    assert {e["cat"] for e in slices(trace)} == {"user_annotation", "cpu_op"}
    beside = [e for e in slices(trace) if e["tid"] != 1]
    assert [e["name"] for e in beside] == ["all_reduce"] * 4
    assert all(e["args"]["Collective name"] == "allreduce" for e in beside)


@pytest.mark.parametrize("late", [1e-6, -1e-6])
def test_launches_with_clock_skew_stay_within_their_scopes(make_profile, tmp_path, capsys, late):
    path = make_profile(ranks=1)
    with h5py.File(path, "r+") as file:
        timeline = file[f"cases/{case_id(0)}/trace"]
        is_launch = timeline["kind"][:] == ACTIVITIES.index("launch")
        for name in ("begin", "end"):
            timeline[name][...] = timeline[name][:] + late * is_launch
    (trace,) = written(capsys, path, tmp_path / "t").values()
    assert_nested(trace)
    scopes = {
        e["args"]["External id"]: e for e in slices(trace, "cpu_op", "user_annotation") if e["args"]
    }
    for launch in slices(trace, "cuda_runtime"):
        outer, inner = span(scopes[launch["args"]["External id"]]), span(launch)
        assert outer[0] <= inner[0] < inner[1] <= outer[1]


def test_regions_of_interleaved_graph_branches(make_profile, tmp_path, capsys):
    path = make_profile(ranks=1, steps=1, captured=True)
    with h5py.File(path, "r+") as file:
        timeline = file[f"cases/{case_id(0)}/trace"]
        spans = timeline["span"][:]
        paths = timeline["scopes/path"].asstr()[:][timeline["spans/scope"][:]][spans]
        last = max(i for i, path in enumerate(paths) if path.startswith("forward/block 0/"))
        spans[[last, last + 1]] = spans[[last + 1, last]]
        timeline["span"][...] = spans
    (trace,) = written(capsys, path, tmp_path / "t").values()
    assert_nested(trace)
    names = [e["name"] for e in slices(trace, "gpu_user_annotation")]
    assert names.count("block 0") == 2  # in forward and in backward
    assert names.count("block 1") == 1


def test_a_launch_is_cut_where_another_slice_begins():
    def one(begin, end, category):
        return Slice(begin, end, "", category, {})

    given = [
        one(0, 100, "user_annotation"), one(10, 30, "cuda_runtime"), one(20, 50, "cpu_op"),
        one(45, 60, "cuda_runtime"), one(50, 120, "cuda_runtime"),
    ]  # fmt: skip
    found = [(slice.begin, slice.end) for slice in nested(given)]
    assert found == [(0, 100), (10, 20), (20, 50), (45, 50), (50, 100)]


def test_concurrent_kernels_of_a_stream_are_on_several_tracks():
    rows = pd.DataFrame(
        [(7, 0, 10), (7, 5, 8), (7, 8, 12), (9, 8, 9), (7, 10, 11), (7, 11, 13)],
        columns=["stream", "begin", "end"],
    )
    assert tracks_of(rows) == [7, 10, 10, 9, 7, 7]


def test_of_two_crossing_regions_the_first_is_kept():
    rows = pd.DataFrame(
        [(7, 0, 10), (7, 2, 8), (7, 5, 9), (7, 10, 12), (20, 11, 13)],
        columns=["track", "begin", "end"],
    )
    assert nests(rows).tolist() == [True, True, False, True, True]


def test_a_file_without_profiled_cases_is_refused(make_file, tmp_path, refused):
    path = make_file([case({"size": "small"}, STEP)])
    line = refused("trace", path, "--output", tmp_path / "t")
    assert line == f"{path}: no case has a profile"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_same_case_twice_is_refused(make_profile, tmp_path, refused):
    path = make_profile()
    again = shutil.copy(path, tmp_path / "again.h5")
    assert "in another file too" in refused("trace", path, again, "--output", tmp_path / "t")


def put(file, name, value):
    """Replaces a value of a column, or all of it by texts."""
    place = f"cases/case-000/trace/{name}"
    values = list(file[place][:])
    del file[place]
    file[place] = [value] * len(values) if isinstance(value, str) else [value, *values[1:]]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("begin", float("nan"), "begin has nan"),
        ("end", 1e300, "end has 1e+300"),
        ("bytes", float("inf"), "bytes has inf"),
        ("stream", "first", "stream has texts for numbers, or numbers for texts"),
        ("spans/flops", float("nan"), "spans/flops has nan"),
        ("ranks/clock_offset", float("nan"), "ranks/clock_offset has nan"),
        ("ranks/clock_error", -float("inf"), "ranks/clock_error has -inf"),
        ("name", 10**9, "names/short_name has no row for some of those that refer to it"),
        ("kind", -1, "kinds/kind has no row for some of those that refer to it"),
    ],
)
def test_odd_values_are_refused_with_their_place(
    make_profile, tmp_path, refused, name, value, says
):
    path = make_profile()
    with h5py.File(path, "r+") as file:
        put(file, name, value)
    said = refused("trace", path, "--output", tmp_path / "t")
    assert said == f"{path}: /cases/case-000/trace/{says}"


@pytest.mark.parametrize("created", ["yesterday", "", 5.0])
def test_a_date_that_is_none(make_profile, tmp_path, refused, created):
    path = make_profile()
    with h5py.File(path, "r+") as file:
        file["cases/case-000"].attrs["created"] = created
    said = refused("trace", path, "--output", tmp_path / "t")
    assert said.startswith(f"{path}: /cases/case-000: created is '")
    assert said.endswith("', no date")
