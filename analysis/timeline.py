"""Timelines of profiled cases: the work on each rank's streams, and the host's scopes around it."""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from . import intervals
from .formatting import text
from .result_file import LONGEST, ResultError, opened, read_table, texts
from .table_columns import NUMBERS, required

NCCL_KERNEL = r"(?:void )?nccl\w*Kernel"
TIMES = ("begin", "end", "clock_offset", "clock_error")
EVENTS = "events"  # the source of profiles without launches: the CPU, and GPUs without CUPTI


@dataclass(frozen=True)
class RankTimeline:
    """One rank's part, in seconds on rank 0's clock since the first profiled step began.

    `activities` has a row per kernel, copy, memset, launch and other call of the host: step, kind,
    stream, name, short_name (as in tables), span, begin, end, correlation, bytes, blocks; path,
    elements and dtype of the span that launched it; and whether it is a communication kernel.
    `spans` has a row per scope, in the order in which they were entered: step, path, operation,
    begin, end, flops, bytes, elements, dtype.
    """

    rank: int
    device: int  # its index on the host
    device_kind: str  # "cpu" or "cuda"
    device_name: str
    memory_bytes: int
    source: str
    clock_offset: float
    clock_error: float
    lost: int
    activities: pd.DataFrame
    spans: pd.DataFrame
    steps: pd.DataFrame  # step, begin, end

    @property
    def by_events(self) -> bool:
        return self.source == EVENTS

    @property
    def launches(self) -> pd.DataFrame:
        return self.activities[self.activities["kind"] == "launch"]

    @property
    def calls(self) -> pd.DataFrame:
        """API calls of the host: launches and others."""
        return self.activities[self.activities["kind"].isin(["launch", "call"])]

    @property
    def on_device(self) -> pd.DataFrame:
        """Kernels, copies and memsets."""
        return self.activities[~self.activities["kind"].isin(["launch", "call"])]

    @cached_property
    def parents(self) -> np.ndarray:
        """The span around each span; -1: none."""
        found, open_spans = [], []
        depths = self.spans["path"].str.count("/").to_numpy()
        for span, depth in enumerate(depths):
            while open_spans and depths[open_spans[-1]] >= depth:
                open_spans.pop()
            found.append(open_spans[-1] if open_spans else -1)
            open_spans.append(span)
        return np.array(found, dtype=int)


@dataclass(frozen=True)
class Timeline:
    """One profiled case."""

    case: str
    created: str  # ISO 8601
    backend: str  # of its collectives
    ranks: list[RankTimeline]


def read(path: Path, wanted: Container[str] | None = None) -> list[Timeline]:
    """Every profiled case of a file, or those `wanted`; empty if nothing was profiled. Raises
    ResultError."""
    with opened(path) as file:
        return [
            read_case(path, file, name)
            for name, case in file.get("cases", {}).items()
            if (wanted is None or text(name) in wanted)
            and case.attrs.get("profile", 0) > 0
            and "trace/spans" in case
        ]


def read_case(path: Path, file: h5py.File, name: str) -> Timeline:
    case = file["cases"][name]
    group = case["trace"]
    spans, ranks, steps = (
        checked(path, group[part], f"trace/{part}") for part in ("spans", "ranks", "steps")
    )
    activities = checked(path, group, "trace/activities")
    spans["path"] = looked_up(path, group["scopes/path"], spans["scope"])
    activities["kind"] = looked_up(path, group["kinds/kind"], activities["kind"])
    activities["short_name"] = looked_up(path, group["names/short_name"], activities["name"])
    activities["name"] = looked_up(path, group["names/name"], activities["name"])
    own_ranks = f"runs/{text(case.attrs.get('run'))}/ranks"  # of the launch that measured the case
    devices = checked(path, file[own_ranks if own_ranks in file else "ranks"], "ranks")
    devices = devices.set_index("rank")
    return Timeline(
        case=text(name),
        created=date(path, case),
        backend="nccl" if text(case.attrs.get("device")) == "cuda" else "mpi",
        ranks=[
            RankTimeline(
                rank=row.rank,
                device=int(devices["local_rank"][row.rank]),
                device_kind=devices["device_kind"][row.rank],
                device_name=devices["device"][row.rank],
                memory_bytes=int(devices["memory_bytes"][row.rank]),
                source=row.source,
                clock_offset=row.clock_offset,
                clock_error=row.clock_error,
                lost=row.lost,
                activities=with_spans(rows_of(activities, row.rank), own_spans, row.source),
                spans=own_spans,
                steps=rows_of(steps, row.rank),
            )
            for row in ranks.itertuples()
            for own_spans in [rows_of(spans, row.rank)]
        ],
    )


def checked(path: Path, group: h5py.Group, name: str) -> pd.DataFrame:
    """The table, all of whose numbers are finite. Raises ResultError."""
    table = required(f"{path}: {group.name}", name, read_table(path, group)[0])
    for column in NUMBERS[name]:
        most = LONGEST if column in TIMES else np.finfo(float).max
        wrong = table[column][~table[column].between(-most, most)]
        if len(wrong):
            raise ResultError(f"{path}: {group.name}/{column} has {wrong.iloc[0]}")
    return table


def looked_up(path: Path, words: h5py.Dataset, indices: pd.Series) -> np.ndarray:
    if not indices.between(0, len(words) - 1).all():
        raise ResultError(f"{path}: {words.name} has no row for some of those that refer to it")
    return texts(words)[indices]


def date(path: Path, case: h5py.Group) -> str:
    created = text(case.attrs.get("created"))
    try:
        datetime.fromisoformat(created)
    except ValueError:
        raise ResultError(f"{path}: {case.name}: created is '{created}', no date") from None
    return created


def rows_of(table: pd.DataFrame, rank: int) -> pd.DataFrame:
    """A rank's rows, numbered from 0."""
    return table[table["rank"] == rank].drop(columns="rank").reset_index(drop=True)


def with_spans(activities: pd.DataFrame, spans: pd.DataFrame, source: str) -> pd.DataFrame:
    """Activities, each with the path and collective of its span."""
    found = spans[["path", "elements", "dtype"]].reindex(activities["span"])
    found = found.fillna({"path": "", "elements": 0, "dtype": ""}).set_axis(activities.index)
    is_collective = found["elements"] > 0
    is_nccl = activities["name"].str.match(NCCL_KERNEL)
    communicates = is_collective if source == EVENTS else is_nccl
    communicates &= activities["kind"] == "kernel"
    return activities.join(found).assign(communication=communicates)


def times(rows: pd.DataFrame) -> np.ndarray:
    return rows[["begin", "end"]].to_numpy()


def extents(rank: RankTimeline, rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """For each scope, and each value of the columns `by`: from the first to the last of the
    activities `rows` that it launched. Columns: `by`, span, begin, end, path, operation."""
    keys = [*by, "span"]
    level = rows[[*keys, "begin", "end"]]
    levels = []
    while len(levels) == 0 or len(level):
        level = level[level["span"] >= 0]
        levels.append(level)
        level = level.assign(span=rank.parents[level["span"]])
    found = pd.concat(levels).groupby(keys, as_index=False).agg({"begin": "min", "end": "max"})
    return found.join(rank.spans[["path", "operation"]], on="span")


def overlap_fraction(timeline: Timeline) -> float:
    """The share of the time of all ranks' communication kernels during which a compute kernel runs
    on another stream of the same rank. NaN without communication."""
    total = hidden = 0.0
    for rank in timeline.ranks:
        kernels = rank.activities[rank.activities["kind"] == "kernel"]
        compute = kernels[~kernels["communication"]]
        for stream, rows in kernels[kernels["communication"]].groupby("stream"):
            total += intervals.length(times(rows))
            hidden += intervals.covered(times(rows), times(compute[compute["stream"] != stream]))
    return hidden / total if total > 0 else float("nan")
