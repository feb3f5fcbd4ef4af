"""Traces of profiled cases in the format of PyTorch's profiler (Kineto): for Perfetto,
chrome://tracing and HolisticTraceAnalysis. One per rank and, with several ranks, one of all."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from . import timeline
from .device_events import device_events
from .host_events import host_events
from .output import write_text
from .result_file import ResultError
from .results import as_written
from .timeline import RankTimeline, Timeline
from .trace_events import Place, in_nanoseconds

SCHEMA_VERSION = 1  # of Kineto's files
HOST_PID = 1_000_000  # of rank 0; devices have their indices or ranks


def write(paths: Sequence[Path], output: Path) -> list[Path]:
    """Writes `output`.<case>.rank<r>.json for every rank of every profiled case and, with several
    ranks, `output`.<case>.json. Raises ResultError."""
    cases: dict[str, Timeline] = {}
    for path in paths:
        found = timeline.read(path)
        if not found:
            raise ResultError(f"{path}: no case has a profile")
        for one in found:
            if one.case in cases:
                raise ResultError(f"{path}: case {one.case} is in another file too: choose one")
            cases[one.case] = one
    with as_written(paths):
        return [path for one in cases.values() for path in write_case(one, output)]


def write_case(case: Timeline, output: Path) -> list[Path]:
    written = []
    name = f"{output.name}.{case.case}"
    traces = {f"{name}.rank{rank.rank}.json": [rank] for rank in case.ranks}
    if len(case.ranks) > 1:
        traces[f"{name}.json"] = case.ranks
    for file_name, ranks in traces.items():
        written.append(output.with_name(file_name))
        write_text(written[-1], dumped(trace(case, ranks, file_name)))
    return written


def dumped(trace: dict[str, Any]) -> str:
    return json.dumps(trace, ensure_ascii=False, allow_nan=False)


def trace(case: Timeline, ranks: Sequence[RankTimeline], name: str) -> dict[str, Any]:
    """The trace of one rank, or of all. A device's pid is its index, as in Kineto's traces; in a
    trace of all ranks, which may be on several hosts, it is the rank."""
    origin = origin_of(case)
    single = len(ranks) == 1
    events = []
    for rank in ranks:
        device = rank.device if single else rank.rank
        place = Place(HOST_PID + rank.rank, device, len(case.ranks), origin)
        events += host_events(rank, place)
        if not rank.by_events:
            events += device_events(rank, place)
    info = {"backend": case.backend, "world_size": len(case.ranks)}
    created = int(datetime.fromisoformat(case.created).timestamp())
    return {
        "schemaVersion": SCHEMA_VERSION,
        "deviceProperties": [
            {"id": rank.device, "name": rank.device_name, "totalGlobalMem": rank.memory_bytes}
            for rank in ranks
            if not rank.by_events
        ],
        "distributedInfo": info | {"rank": ranks[0].rank} if single else info,
        "clocks": [clock(rank) for rank in ranks],
        "displayTimeUnit": "ms",
        # The file has the time of measurement, to the second.
        "baseTimeNanoseconds": created * 10**9 + origin,
        "traceName": name,
        "traceEvents": events,
    }


def clock(rank: RankTimeline) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "source": rank.source,
        "offset_us": round(rank.clock_offset * 1e6, 3),
        "error_us": round(rank.clock_error * 1e6, 3),
        "lost": rank.lost,
    }


def origin_of(case: Timeline) -> int:
    """The begin of the first event of any rank, in ns, so that a trace has no negative times."""
    begins = [
        in_nanoseconds(rows)["begin"].min()
        for rank in case.ranks
        for rows in (rank.steps, rank.activities, rank.spans[rank.spans["step"] >= 0])
        if len(rows)
    ]
    return int(min(begins, default=0))
