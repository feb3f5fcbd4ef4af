"""Weak scaling: cases that differ only in the number of ranks, with the same work per rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from .factors import NOTHING
from .formatting import case_label, text
from .result_file import device_of
from .results import Results, file_names, joined

# Factors that change with the number of ranks.
WITH_RANKS = ("ranks", "file", "threads", "global_batch")
# Factors of the exchange, of which one rank has none.
EXCHANGE = ("sync", "shard", "bucket_mb", "comm_dtype", "registration")


@dataclass(frozen=True)
class Scaling:
    setting: str
    exchange: str
    rows: list[int]  # of Results.frame, by rising number of ranks

    @property
    def label(self) -> str:
        return ", ".join(filter(None, (self.setting, self.exchange)))


def of(results: Results) -> list[Scaling]:
    """Empty for an experiment without steps, or if each case has only one number of ranks. One
    rank's step without an exchange is the first of every exchange on the same model of GPU."""
    frame = results.frame
    if "ranks" not in frame or "batch_size" not in frame or results.headline != "step":
        return []
    names = [name for name in results.varying if name not in WITH_RANKS]
    alone = [name for name in names if name not in EXCHANGE]
    exchange = [name for name in names if name in EXCHANGE]
    gpus = gpu_of_rows(results)
    timed = [row for row in range(len(frame)) if results.medians[row] > 0]
    groups: dict[tuple, list[int]] = {}
    for row in timed:
        key = values(frame, row, alone), gpus[row], values(frame, row, exchange)
        groups.setdefault(key, []).append(row)
    without: dict[tuple, int] = {}
    for row in timed:
        if exchanges_nothing(frame, row):
            without.setdefault((values(frame, row, alone), gpus[row]), row)
    found = []
    for (setting, gpu, kind), rows in groups.items():
        first = without.get((setting, gpu))
        if first is not None and not (frame["ranks"][rows] == 1).any():
            rows.append(first)
        if frame["ranks"][rows].nunique() > 1:
            rows.sort(key=lambda row: frame["ranks"][row])
            found.append(Scaling(case_label(alone, setting), case_label(exchange, kind), rows))
    return found


def together(parts: Sequence[Results]) -> list[Results]:
    """The cases of several files that scale, by groups of files with settings in common."""
    if len(parts) < 2:
        return []
    whole = joined(parts)
    groups: list[set[str]] = []
    for one in of(whole):
        files = set(whole.frame["file"][one.rows])
        linked = [group for group in groups if group & files]
        groups = [group for group in groups if group not in linked] + [files.union(*linked)]
    names = file_names([part.runs[0].path for part in parts])
    of_groups = [
        joined([part for part, name in zip(parts, names, strict=True) if name in group])
        for group in groups
    ]
    return [results.only(rows_that_scale(results)) for results in of_groups]


def rows_that_scale(results: Results) -> list[int]:
    return sorted({row for one in of(results) for row in one.rows})


def values(frame: pd.DataFrame, row: int, names: list[str]) -> tuple[str, ...]:
    return tuple(text(frame[name][row]) for name in names)


def gpu_of_rows(results: Results) -> list[str]:
    devices = [device_of(run.hardware) for run in results.runs]
    if "file" not in results.frame:
        return devices[:1] * len(results.frame)
    of_file = dict(zip(file_names([run.path for run in results.runs]), devices, strict=True))
    return [of_file[text(name)] for name in results.frame["file"]]


def exchanges_nothing(frame: pd.DataFrame, row: int) -> bool:
    kinds = [name for name in ("sync", "shard") if name in frame]
    return frame["ranks"][row] == 1 and all(text(frame[name][row]) in NOTHING for name in kinds)
