"""The host side of a rank: its steps and scopes, and the calls in them."""

import re

from .timeline import RankTimeline
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

THREAD = 1  # the thread that enters scopes and makes calls


def host_events(rank: RankTimeline, place: Place) -> list[Event]:
    events = process(place.host, f"rank {rank.rank}", "CPU", 2 * rank.rank)
    events += thread(place.host, THREAD, "host")
    launching = {link(correlation)["correlation"] for correlation in rank.launches["correlation"]}
    for one in nested(steps(rank) + scopes(rank, place.ranks) + calls(rank)):
        events.append(one.event(place.host, THREAD, place.origin))
        if is_call(one) and one.arguments["correlation"] in launching:
            events.append(flow(events[-1], rank.rank, "s"))
    return events + (streams(rank, place) if rank.by_events else [])


def is_call(one: Slice) -> bool:
    return one.category.startswith("cuda_")


def steps(rank: RankTimeline) -> list[Slice]:
    """Steps, with the names that torch.profiler uses."""
    return [
        Slice(row.begin, row.end, f"ProfilerStep#{row.step}", "user_annotation", {})
        for row in in_nanoseconds(rank.steps).itertuples()
    ]


def scopes(rank: RankTimeline, ranks: int) -> list[Slice]:
    """Scopes of the profiled steps. Those of a captured graph were entered before."""
    rows = in_nanoseconds(rank.spans[rank.spans["step"] >= 0])
    return [
        Slice(
            row.begin,
            row.end,
            name_of(row.path),
            "cpu_op" if row.operation else "user_annotation",
            {"External id": row.Index + 1, "scope": row.path}
            | collective(row.path, row.elements, row.dtype, rank.rank, ranks),
        )
        for row in rows.itertuples()
    ]


def calls(rank: RankTimeline) -> list[Slice]:
    """Calls, each clipped to its scope: CUPTI's clock and the host's differ slightly."""
    rows = in_nanoseconds(rank.calls)
    spans = in_nanoseconds(rank.spans).reindex(rows["span"]).set_axis(rows.index)
    for name in ("begin", "end"):
        within = rows[name].clip(spans["begin"], spans["end"])
        rows[name] = within.where(rows["span"] >= 0, rows[name]).astype("int64")
    rows = rows[["begin", "end", "name", "span", "correlation"]]  # iterating over texts is slow
    return [
        Slice(
            row.begin,
            row.end,
            row.name,
            "cuda_driver" if re.match("cu[A-Z]", row.name) else "cuda_runtime",
            {"External id": row.span + 1} | link(row.correlation),
        )
        for row in rows.itertuples()
    ]


def nested(slices: list[Slice]) -> list[Slice]:
    """Slices in order of their begin, outer ones first. A call is clipped to the begin of the next
    slice, and every slice to the end of the one around it."""
    ordered = sorted(slices, key=lambda one: (one.begin, is_call(one), -one.end))
    around: list[Slice] = []
    for one in ordered:
        while around and (around[-1].end <= one.begin or is_call(around[-1])):
            last = around.pop()
            last.end = min(last.end, one.begin)
        if around:
            one.end = min(one.end, around[-1].end)
        around.append(one)
    return ordered


def streams(rank: RankTimeline, place: Place) -> list[Event]:
    """The work on the streams of a device timed by events. On a CPU stream 0 is the caller's
    thread, whose work is shown by the scopes."""
    rows = in_nanoseconds(rank.on_device)
    if rank.device_kind == "cpu":
        rows = rows[rows["stream"] != 0]
    events = [
        event
        for stream in sorted(rows["stream"].unique().tolist())
        for event in thread(place.host, THREAD + 1 + stream, f"stream {stream}")
    ]
    for row in rows.itertuples():
        arguments = {"External id": row.span + 1, "scope": row.path}
        arguments |= collective(row.path, row.elements, row.dtype, rank.rank, place.ranks)
        one = Slice(row.begin, row.end, row.name, "cpu_op", arguments)
        events.append(one.event(place.host, THREAD + 1 + row.stream, place.origin))
    return events
