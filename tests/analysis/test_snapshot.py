"""Memory snapshots for pytorch.org/memory_viz, checked field by field."""

import pickle
import pickletools
import shutil
from pathlib import Path

import h5py
import pytest

from analysis.__main__ import main
from analysis.snapshot import segment as segment_of
from synthetic import STEP, case, case_id, write_column

# The pickle opcodes that the viewer supports (MemoryViz.js).
OPCODES = {
    "PROTO", "FRAME", "MARK", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "EMPTY_LIST", "APPEND", "APPENDS",
    "LIST", "EMPTY_DICT", "SETITEM", "SETITEMS", "DICT", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
}  # fmt: skip

TIMELINE = [  # seconds, bytes, address, kind, scope, phase
    (0.0, 512, 4096, "parameter", "parameters", ""),
    (0.0, 256, 8192, "workspace", "step state", ""),
    (1e-3, 1024, 4608, "activation", "forward/block 0/ffn", "forward"),
    (2e-3, 256, 9000, "activation", "forward/head", "forward"),
    (3e-3, -1024, 4608, "activation", "forward/block 0/ffn", "backward"),
    (4e-3, 512, 5120, "activation", "backward/block 0/ffn", "backward"),
    (5e-3, -256, 9000, "activation", "forward/head", "backward"),
    (6e-3, 256, 9000, "activation", "backward/head", "backward"),
    (7e-3, -512, 5120, "activation", "backward/block 0/ffn", "optimizer"),
]
PARAMETERS = [  # array, kind, name, offset, bytes
    ("parameters", "parameter", "ln1.weight", 256, 128),
    ("parameters", "parameter", "lm_head.weight", 0, 200),
]


def add_table(group, names, rows):
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        write_column(group, name, list(values))


@pytest.fixture
def timed(make_file):
    """A file with a case that has a timeline, and a case out of memory."""
    path = make_file([case({"size": "small"}, STEP), case({"size": "xl"}, status="oom")])
    with h5py.File(path, "r+") as file:
        memory = file[f"cases/{case_id(0)}"].create_group("memory")
        names = ("seconds", "bytes", "address", "kind", "scope", "phase")
        add_table(memory.create_group("timeline"), names, TIMELINE)
        names = ("array", "kind", "name", "offset", "bytes")
        add_table(memory.create_group("parameters"), names, PARAMETERS)
    return path


def written(capsys, path, output):
    """The snapshots written by one call, by the suffix of their file names."""
    main(["snapshot", str(path), "--output", str(output)])
    names = capsys.readouterr().out.splitlines()
    return {name.removeprefix(f"{output}."): check(name) for name in names}


def check(path):
    """Asserts that the viewer can show the snapshot; returns it."""
    data = Path(path).read_bytes()
    opcodes = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(data)]
    assert opcodes[0] == ("PROTO", 2)
    assert {name for name, _ in opcodes} <= OPCODES
    assert all(abs(x) < 2**53 for _, x in opcodes if isinstance(x, int))
    snapshot = pickle.loads(data)
    assert set(snapshot) == {"segments", "device_traces"}
    (trace,) = snapshot["device_traces"]
    check_segments(snapshot["segments"])
    check_trace(trace, snapshot["segments"])
    return snapshot


def check_frames(frames):
    for frame in frames:
        assert list(map(type, map(frame.get, ("filename", "line", "name")))) == [str, int, str]


def check_segments(segments):
    last = 0
    for segment in segments:
        assert segment["address"] >= last  # ordered, without overlap
        at, in_use = segment["address"], 0
        for block in segment["blocks"]:
            assert block["address"] == at
            assert block["size"] > 0
            assert block["state"] in ("active_allocated", "inactive")
            check_frames(block["frames"])
            at += block["size"]
            if block["state"] == "active_allocated":
                assert block["frames"]
                assert 0 < block["requested_size"] <= block["size"]
                in_use += block["size"]
        last = segment["address"] + segment["total_size"]
        assert at == last
        assert in_use == segment["allocated_size"] == segment["active_size"]
        assert segment["requested_size"] <= in_use
        assert (segment["device"], segment["stream"], segment["is_expandable"]) == (0, 0, False)
        assert segment["segment_type"] in ("small", "large")
        check_frames(segment["frames"])


def check_trace(trace, segments):
    """Replays the trace backwards from the blocks of the segments, as the viewer does."""
    live = {
        block["address"]: block["size"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    times = [entry["time_us"] for entry in trace]
    assert times == sorted(times)
    for at in reversed(range(len(trace))):
        entry = trace[at]
        place = (entry["addr"], entry["size"])
        assert entry["stream"] == 0
        assert "category" not in entry
        assert entry["frames"]
        check_frames(entry["frames"])
        assert any(
            segment["address"] <= entry["addr"]
            and sum(place) <= segment["address"] + segment["total_size"]
            for segment in segments
        )
        if entry["action"] == "alloc":
            assert live.pop(entry["addr"]) == entry["size"]
        elif entry["action"] == "free_completed":
            begin, end = entry["addr"], sum(place)
            assert all(a + size <= begin or end <= a for a, size in live.items())
            live[entry["addr"]] = entry["size"]
            requested = trace[at - 1]
            assert requested["action"] == "free_requested"
            assert (requested["addr"], requested["size"]) == place
        else:
            assert entry["action"] == "free_requested"
            assert trace[at + 1]["action"] == "free_completed"


def test_blocks_segments_and_events_of_a_snapshot(timed, tmp_path, capsys):
    (snapshot,) = written(capsys, timed, tmp_path / "new" / "memory").values()
    parameters, state, activation = snapshot["segments"]
    assert [(b["address"], b["size"], b["state"]) for b in parameters["blocks"]] == [
        (4096, 256, "active_allocated"), (4352, 256, "active_allocated"), (4608, 1024, "inactive"),
    ]  # fmt: skip
    names = [[frame["name"] for frame in block["frames"]] for block in parameters["blocks"]]
    assert names == [["lm_head.weight", "parameters"], ["ln1.weight", "parameters"], []]
    assert state["blocks"][0]["frames"][0] == {
        "filename": "workspace", "line": 0, "name": "step state",
    }  # fmt: skip
    assert activation["blocks"][0]["frames"][-1]["name"] == "backward"
    (trace,) = snapshot["device_traces"]
    free = ["free_requested", "free_completed"]
    assert [entry["action"] for entry in trace] == [
        "alloc", "alloc", *free, "alloc", *free, "alloc", *free,
    ]  # fmt: skip
    assert trace[0]["time_us"] == 1000
    assert [frame["name"] for frame in trace[0]["frames"]] == ["ffn", "block 0", "forward"]


def test_a_file_per_measured_case(timed, tmp_path, capsys):
    assert list(written(capsys, timed, tmp_path / "memory")) == [f"{case_id(0)}.pickle"]


def test_a_case_that_cannot_be_read_does_not_block_the_others(make_file, timed, tmp_path, capsys):
    """One releases what was never allocated, one has no timeline, fsdp has no whole array."""
    with h5py.File(timed, "r") as whole:
        path = make_file([case({"size": size}, STEP) for size in ("a", "b", "c")], "three.h5")
        with h5py.File(path, "r+") as file:
            for number in (0, 1):
                whole.copy(f"cases/{case_id(0)}/memory", file[f"cases/{case_id(number)}"])
            file[f"cases/{case_id(0)}/memory/timeline/address"][4] = 1
            del file[f"cases/{case_id(1)}/memory/parameters"]
            file.create_group(f"cases/{case_id(1)}/memory/parameters")
    main(["snapshot", str(path), "--output", str(tmp_path / "s")])
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"{tmp_path}/s.{case_id(1)}.pickle"]
    assert err == (
        f"analysis: warning: {path}: case {case_id(0)}: its memory timeline cannot be read, left "
        "out\n"
    )


@pytest.mark.parametrize(("size", "kind"), [(2**20 - 1, "small"), (2**20, "large")])
def test_a_segment_is_large_from_1_mib_on(size, kind):
    assert segment_of(4096, 4096 + size, [])["segment_type"] == kind


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (case({"size": "small"}, STEP),
         f"case {case_id(0)} has no memory timeline: measure it with --memory-timeline"),
        (case({"size": "small"}, status="oom"), "no case was measured"),
    ],
    ids=["no timeline", "out of memory"],
)  # fmt: skip
def test_a_file_that_has_no_timeline_is_refused(make_file, tmp_path, refused, one, says):
    path = make_file([one])
    assert says in refused("snapshot", path, "--output", tmp_path / "m")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_same_case_twice_is_refused(timed, tmp_path, refused):
    again = shutil.copy(timed, tmp_path / "again.h5")
    assert "in another file too" in refused("snapshot", timed, again, "--output", tmp_path / "m")


def test_snapshot_of_a_measured_timeline(paceline, tmp_path, capsys):
    """One step of a tiny model: final and peak bytes of the snapshot equal those of the ledger."""
    done = paceline(
        *("model", "--size", "tiny", "--vocab", 64, "--context", 8, "--precision", "bf16"),
        *("--device", "cpu", "--threads", 1, "--warmup", 0, "--steps", 1, "--memory-timeline"),
        *("--output", "o.h5"),
    )
    assert done.code == 0, done.err
    (snapshot,) = written(capsys, tmp_path / "o.h5", tmp_path / "memory").values()
    with h5py.File(tmp_path / "o.h5") as file:
        (measured,) = file["cases"].values()
        active = int(measured["memory/active"][-1])
        peak = int(measured["memory/peak"][-1])
    at_end = sum(segment["active_size"] for segment in snapshot["segments"])
    assert at_end == active
    changes = {"alloc": 1, "free_completed": -1}
    (trace,) = snapshot["device_traces"]
    moved = [changes.get(entry["action"], 0) * entry["size"] for entry in trace]
    bytes_now, most = at_end - sum(moved), 0
    for change in moved:
        bytes_now += change
        most = max(most, bytes_now)
    assert most == peak
    names = {
        block["frames"][0]["name"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["frames"]
    }
    assert {"layers.1.attn.k_proj.weight", "token_embeddings.weight", "rope table"} <= names
