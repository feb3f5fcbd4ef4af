"""The work on a GPU's streams, and the regions of the host that launched it."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .timeline import RankTimeline, extents
from .trace_events import (
    Event,
    Place,
    Slice,
    collective,
    flow,
    in_nanoseconds,
    link,
    name_of,
    process,
    thread,
)

CATEGORIES = {"kernel": "kernel", "copy": "gpu_memcpy", "memset": "gpu_memset"}


def device_events(rank: RankTimeline, place: Place) -> list[Event]:
    rows = in_nanoseconds(rank.on_device).sort_values("begin", kind="stable")
    tracks = tracks_of(rows)
    rows = rows.assign(track=tracks)
    events = process(place.device, f"rank {rank.rank}", f"GPU {rank.device}", 2 * rank.rank + 1)
    for track, stream in dict(zip(tracks, rows["stream"], strict=True)).items():
        events += thread(place.device, track, f"stream {stream}")
    for row in annotations(rank, rows).itertuples():
        arguments = {"External id": row.span + 1}
        one = Slice(row.begin, row.end, name_of(row.path), "gpu_user_annotation", arguments)
        events.append(one.event(place.device, row.track, place.origin))
    launching = dict(zip(rank.launches["correlation"], rank.launches["span"], strict=True))
    for row in rows.itertuples():
        # The launch of a captured graph is in a scope of the step; its kernels' scopes are not.
        external = launching.get(row.correlation, row.span) + 1
        arguments = {"External id": external} | arguments_of(row, rank, place.ranks)
        one = Slice(row.begin, row.end, kineto_name(row), CATEGORIES[row.kind], arguments)
        events.append(one.event(place.device, row.track, place.origin))
        if row.correlation in launching:
            events.append(flow(events[-1], rank.rank, "f"))
    return events


def kineto_name(row: NamedTuple) -> str:
    return {"copy": "Memcpy", "memset": "Memset (Device)"}.get(row.kind, row.name)


def arguments_of(row: NamedTuple, rank: RankTimeline, ranks: int) -> dict[str, Any]:
    found = {"device": rank.device, "stream": row.stream, "scope": row.path}
    found |= link(row.correlation)
    if row.kind == "kernel":
        found["blocks"] = row.blocks
    else:
        found["bytes"] = row.bytes
        found["memory bandwidth (GB/s)"] = row.bytes / max(row.end - row.begin, 1)
    if row.communication:
        found |= collective(row.path, row.elements, row.dtype, rank.rank, ranks)
    return found


def tracks_of(rows: pd.DataFrame) -> list[int]:
    """A tid for each of the rows, which are in order: the stream, or an additional tid if kernels
    of one stream overlap, as in parallel branches of a graph."""
    free = int(rows["stream"].max()) + 1 if len(rows) else 0
    ends: dict[int, dict[int, int]] = {}  # by stream and track
    tracks = []
    for stream, begin, end in zip(rows["stream"], rows["begin"], rows["end"], strict=True):
        busy_until = ends.setdefault(stream, {stream: begin})
        track = next((track for track, until in busy_until.items() if until <= begin), None)
        if track is None:
            track, free = free, free + 1
        busy_until[track] = end
        tracks.append(track)
    return tracks


def annotations(rank: RankTimeline, rows: pd.DataFrame) -> pd.DataFrame:
    """The extents of regions on each track. Branches of a graph may interleave the work of two
    regions: the one that begins first is kept."""
    found = extents(rank, rows, "step", "track")
    found = found[found["operation"] == 0]
    # Of equal extents the outer one comes first, since it was entered first.
    order = {"track": True, "begin": True, "end": False, "span": True}
    found = found.sort_values(list(order), ascending=list(order.values()))
    return found[nests(found)]


def nests(rows: pd.DataFrame) -> np.ndarray:
    """Whether each row is nested in the rows that are open when it begins."""
    kept, around = [], []  # around: (track, end)
    for track, begin, end in zip(rows["track"], rows["begin"], rows["end"], strict=True):
        while around and (around[-1][0] != track or around[-1][1] <= begin):
            around.pop()
        kept.append(not around or end <= around[-1][1])
        if kept[-1]:
            around.append((track, end))
    return np.array(kept, dtype=bool)
