"""The events of Chrome's trace format, with the names and arguments that Kineto gives them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Event = dict[str, Any]

# PyTorch's names for paceline's collectives (ProcessGroupNCCL) and dtypes (c10::ScalarType).
COLLECTIVES = {
    "all_reduce": "allreduce",
    "reduce_scatter": "_reduce_scatter_base",
    "all_gather": "_allgather_base",
}
DTYPES = {
    "float64": "Double", "float32": "Float", "bfloat16": "BFloat16", "float16": "Half",
    "int32": "Int",
}  # fmt: skip

# HTA overwrites correlations with indices of events: in pandas 3 that fails if all correlations fit
# into 16 bits and not all indices do.
LEAST_CORRELATION = 2**16


@dataclass(frozen=True)
class Place:
    """The process ids and the clock of a rank's events."""

    host: int  # pids
    device: int
    ranks: int  # of the case
    origin: int  # ns: time 0 of the trace


@dataclass
class Slice:
    """A piece of a track, in nanoseconds."""

    begin: int
    end: int
    name: str
    category: str
    arguments: dict[str, Any]

    def event(self, pid: int, tid: int, origin: int) -> Event:
        return {
            "ph": "X",
            "cat": self.category,
            "name": self.name,
            "pid": pid,
            "tid": tid,
            "ts": microseconds(self.begin - origin),
            "dur": microseconds(self.end - self.begin),
            "args": self.arguments,
        }


def microseconds(time: int) -> float:
    return time / 1000


def in_nanoseconds(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with begin and end as integers."""
    return rows.assign(
        **{name: np.rint(rows[name] * 1e9).astype("int64") for name in ("begin", "end")}
    )


def name_of(path: str) -> str:
    """The innermost scope of a path."""
    return path.rpartition("/")[2]


def process(pid: int, name: str, labels: str, order: int) -> list[Event]:
    return [
        metadata("process_name", pid, 0, name=name),
        metadata("process_labels", pid, 0, labels=labels),
        metadata("process_sort_index", pid, 0, sort_index=order),
    ]


def thread(pid: int, tid: int, name: str) -> list[Event]:
    return [
        metadata("thread_name", pid, tid, name=name),
        metadata("thread_sort_index", pid, tid, sort_index=tid),
    ]


def metadata(what: str, pid: int, tid: int, **arguments: object) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": arguments}


def link(correlation: int) -> dict[str, int]:
    """The argument that a launch has in common with the kernel it launched."""
    return {"correlation": LEAST_CORRELATION + correlation} if correlation else {}


def flow(end: Event, rank: int, phase: str) -> Event:
    """One end of the arrow from a launch (phase "s") to its kernel (phase "f")."""
    event = {
        "ph": phase,
        "id": (rank << 32) + end["args"]["correlation"],
        "pid": end["pid"],
        "tid": end["tid"],
        "ts": end["ts"],
        "cat": "ac2g",
        "name": "ac2g",
    }
    return event | {"bp": "e"} if phase == "f" else event


def collective(path: str, elements: float, dtype: str, rank: int, ranks: int) -> dict[str, Any]:
    """The arguments of a collective; empty for other kernels. elements: sent by each rank; 0 for
    other kernels."""
    if elements == 0:
        return {}
    name, sent = name_of(path), int(elements)
    received = {"reduce_scatter": sent // ranks, "all_gather": sent * ranks}.get(name, sent)
    return {
        "Collective name": COLLECTIVES.get(name, name),
        "In msg nelems": sent,
        "Out msg nelems": received,
        "dtype": DTYPES.get(dtype, dtype),
        "Group size": ranks,
        "Rank": rank,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(ranks))),
    }
