"""Memory snapshots that pytorch.org/memory_viz opens: one per case with a timeline.

The viewer reads pickles of protocol 2 to 4 made of dicts, lists, strings and numbers below 2^53. It
shows `segments` as they are at the end and replays `device_traces` backwards from there. It knows
allocations before the trace only from the segments' blocks, so each block that a trace names must
lie in a segment. The frames of a stack are our scopes, innermost first, with the memory's kind.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py

from .formatting import printable, text
from .hdf5_file import warn
from .output import whole
from .result_file import ResultError, opened, texts

PROTOCOL = 2
DEVICE = STREAM = 0
LARGE = 2**20  # bytes; the viewer colours segments from this size on as large


@dataclass(frozen=True)
class Event:
    seconds: float
    bytes: int  # negative: a release
    address: int
    kind: str
    scope: str
    phase: str  # empty: in use when the recording began


@dataclass(frozen=True)
class Block:
    address: int
    bytes: int
    kind: str
    path: str  # scopes joined by "/", the outermost first

    @property
    def end(self) -> int:
        return self.address + self.bytes


def write(paths: Sequence[Path], output: Path) -> list[Path]:
    """Writes `output`.<case>.pickle for every measured case. Raises ResultError."""
    snapshots: dict[str, dict[str, Any]] = {}
    for path in paths:
        for name, found in read(path):
            if name in snapshots:
                raise ResultError(f"{path}: case {name} is in another file too: choose one")
            snapshots[name] = found
    written = []
    for name, found in snapshots.items():
        written.append(output.with_name(f"{output.name}.{name}.pickle"))
        with whole(written[-1]) as path:
            path.write_bytes(pickle.dumps(found, protocol=PROTOCOL))
    return written


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The snapshot of every measured case whose timeline can be read; others are named on stderr.
    Raises ResultError if there is none."""
    with opened(path) as file:
        measured = {
            text(name): case
            for name, case in file.get("cases", {}).items()
            if text(case.attrs["status"]) == "ok"
        }
        if not measured:
            raise ResultError(f"{path}: no case was measured")
        timed = {name: case for name, case in measured.items() if "memory/timeline" in case}
        if not timed:
            raise ResultError(
                f"{path}: case {next(iter(measured))} has no memory timeline: measure it with "
                "--memory-timeline"
            )
        for name, case in timed.items():
            try:
                yield name, snapshot(read_events(case), read_ranges(case))
            except (AttributeError, LookupError, TypeError, ValueError):
                case_of = f"{printable(str(path))}: case {name}"
                warn(f"{case_of}: its memory timeline cannot be read, left out")


def columns(group: h5py.Group, *names: str) -> Iterator[tuple]:
    """Rows of these columns, as Python's own numbers and strings."""
    data = (group[name] for name in names)
    lists = [texts(d) if h5py.check_string_dtype(d.dtype) else d[:] for d in data]
    return zip(*(values.tolist() for values in lists), strict=True)


def read_events(case: h5py.Group) -> list[Event]:
    names = ("seconds", "bytes", "address", "kind", "scope", "phase")
    return [Event(*row) for row in columns(case["memory/timeline"], *names)]


def read_ranges(case: h5py.Group) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """By kind and array: the offset of each parameter in bytes, and its name."""
    ranges: dict[tuple[str, str], list[tuple[int, str]]] = {}
    parameters = case.get("memory/parameters", {})
    if len(parameters) == 0:  # with fsdp there is no whole array
        return ranges
    rows = columns(parameters, "kind", "array", "offset", "name")
    for kind, array, offset, name in rows:
        ranges.setdefault((kind, array), []).append((offset, name))
    return {key: sorted(found) for key, found in ranges.items()}


def snapshot(
    events: Sequence[Event], ranges: dict[tuple[str, str], list[tuple[int, str]]]
) -> dict[str, Any]:
    """These events in the form that torch.cuda.memory._snapshot() returns."""
    live: dict[int, Block] = {}
    touched: list[Block] = []
    released = {event.address for event in events if event.bytes < 0}
    trace: list[dict[str, Any]] = []
    for event in events:
        if event.bytes < 0:
            block = live.pop(event.address)
            trace += [entry(f"free_{state}", event, block) for state in ("requested", "completed")]
            continue
        block = Block(event.address, event.bytes, event.kind, event.scope)
        touched.append(block)
        if event.phase:
            trace.append(entry("alloc", event, block))
        stays = not event.phase and event.address not in released
        for piece in by_parameter(block, ranges) if stays else [block]:
            live[piece.address] = piece
    return {"segments": segments(touched, live), "device_traces": [trace]}


def by_parameter(block: Block, ranges: dict[tuple[str, str], list[tuple[int, str]]]) -> list[Block]:
    """An array of the parameter store as one block per parameter, the padding after it included."""
    found = ranges.get((block.kind, block.path.rpartition("/")[2]))
    if not found:
        return [block]
    ends = [offset for offset, _ in found[1:]] + [block.bytes]
    return [
        Block(block.address + offset, end - offset, block.kind, f"{block.path}/{name}")
        for (offset, name), end in zip(found, ends, strict=True)
    ]


def entry(action: str, event: Event, block: Block) -> dict[str, Any]:
    return {
        "action": action,
        "addr": block.address,
        "size": block.bytes,
        "stream": STREAM,
        "time_us": round(event.seconds * 1e6),
        "frames": frames(block.path, block.kind),
    }


@cache
def frames(path: str, kind: str) -> list[dict[str, Any]]:
    """The same list object for equal frames, so that pickle writes it once."""
    return [{"filename": kind, "line": 0, "name": scope} for scope in reversed(path.split("/"))]


def segments(touched: Sequence[Block], live: dict[int, Block]) -> list[dict[str, Any]]:
    """Contiguous ranges of memory used by blocks, and their contents at the end."""
    spans: list[list[int]] = []
    for block in sorted(touched, key=lambda block: block.address):
        if spans and block.address <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], block.end)
        else:
            spans.append([block.address, block.end])
    at_end = sorted(live.values(), key=lambda block: block.address)
    made = []
    for begin, end in spans:
        inside = [block for block in at_end if begin <= block.address < end]
        made.append(segment(begin, end, inside))
    return made


def segment(begin: int, end: int, live: Sequence[Block]) -> dict[str, Any]:
    in_use = sum(block.bytes for block in live)
    borders = [begin, *(x for block in live for x in (block.address, block.end)), end]
    blocks = [piece(block.address, block.bytes, block) for block in live]
    gaps = list(pairwise(borders))[::2]  # before each block, and after the last
    blocks += [piece(low, high - low, None) for low, high in gaps if high > low]
    return {
        "device": DEVICE,
        "address": begin,
        "total_size": end - begin,
        "allocated_size": in_use,
        "active_size": in_use,
        "requested_size": in_use,
        "stream": STREAM,
        "segment_type": "large" if end - begin >= LARGE else "small",
        "is_expandable": False,
        "frames": [],
        "blocks": sorted(blocks, key=lambda block: block["address"]),
    }


def piece(address: int, size: int, block: Block | None) -> dict[str, Any]:
    """A part of a segment: a block in use, or free memory."""
    return {
        "address": address,
        "size": size,
        "requested_size": size if block else 0,
        "state": "active_allocated" if block else "inactive",
        "frames": frames(block.path, block.kind) if block else [],
    }
