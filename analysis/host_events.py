"""What a rank's host did: its steps and scopes, and the launches in them."""

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

THREAD = 1  # the one that enters the scopes and launches; on a CPU, stream 0


def host_events(rank: RankTimeline, place: Place) -> list[Event]:
    events = process(place.host, f"rank {rank.rank}", "CPU", 2 * rank.rank)
    events += thread(place.host, THREAD, "host")
    for one in nested(steps(rank) + scopes(rank, place.ranks) + launches(rank)):
        events.append(one.event(place.host, THREAD, place.origin))
        if is_launch(one):
            events.append(flow(events[-1], rank.rank, "s"))
    return events + (workers(rank, place) if rank.on_host_clock else [])


def is_launch(one: Slice) -> bool:
    return one.category.startswith("cuda_")


def steps(rank: RankTimeline) -> list[Slice]:
    """Named as torch.profiler names them."""
    return [
        Slice(row.begin, row.end, f"ProfilerStep#{row.step}", "user_annotation", {})
        for row in in_nanoseconds(rank.steps).itertuples()
    ]


def scopes(rank: RankTimeline, ranks: int) -> list[Slice]:
    """Those of the profiled steps. Scopes of a captured graph were entered before them."""
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


def launches(rank: RankTimeline) -> list[Slice]:
    """Each within its scope: CUPTI's clock and the host's differ a little."""
    rows = in_nanoseconds(rank.launches)
    spans = in_nanoseconds(rank.spans).reindex(rows["span"]).set_axis(rows.index)
    for name in ("begin", "end"):
        within = rows[name].clip(spans["begin"], spans["end"])
        rows[name] = within.where(rows["span"] >= 0, rows[name]).astype("int64")
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
    """In the order in which they begin, the outer first. A launch is made to end before the next
    slice begins, and every slice with the one around it."""
    ordered = sorted(slices, key=lambda one: (one.begin, is_launch(one), -one.end))
    around: list[Slice] = []
    for one in ordered:
        while around and (around[-1].end <= one.begin or is_launch(around[-1])):
            last = around.pop()
            last.end = min(last.end, one.begin)
        if around:
            one.end = min(one.end, around[-1].end)
        around.append(one)
    return ordered


def workers(rank: RankTimeline, place: Place) -> list[Event]:
    """What ran on a CPU's other streams. That on the caller's thread is among the scopes."""
    rows = in_nanoseconds(rank.activities[rank.activities["stream"] != 0])
    events = [
        event
        for stream in sorted(rows["stream"].unique().tolist())
        for event in thread(place.host, THREAD + stream, f"stream {stream}")
    ]
    for row in rows.itertuples():
        arguments = {"External id": row.span + 1, "scope": row.path}
        arguments |= collective(row.path, row.elements, row.dtype, rank.rank, place.ranks)
        one = Slice(row.begin, row.end, row.name, "cpu_op", arguments)
        events.append(one.event(place.host, THREAD + row.stream, place.origin))
    return events
