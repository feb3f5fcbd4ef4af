"""Profiled cases for figures: what they are called, and what ran in one step of one rank."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from . import results, timeline
from .layout import FALLBACK
from .results import Results
from .timeline import Timeline, extents
from .words import case_label, text


@dataclass(frozen=True)
class Profiles:
    results: Results  # of the profiled cases alone
    timelines: list[Timeline]  # by row of results.frame

    @property
    def labels(self) -> list[str]:
        names = self.results.varying
        names = names or [name for name in FALLBACK if name in self.results.factors]
        values = self.results.frame[names].map(text).to_numpy().tolist()
        return [case_label(names, row) for row in values]


@dataclass(frozen=True)
class Step:
    """The last profiled step of rank 0: the one furthest from warm-up."""

    activities: pd.DataFrame  # on the device, in the order in which they begin
    scopes: pd.DataFrame  # extents of what computes

    def within(self, root: str) -> "Step":
        """What a scope and those in it launched to compute."""
        computing = self.activities[~self.activities["communication"]]
        return Step(*(rows[is_within(rows["path"], root)] for rows in (computing, self.scopes)))

    @property
    def kernels(self) -> tuple:
        """Names and grids: two cases that have them alike need one figure."""
        return tuple(zip(self.activities["name"], self.activities["blocks"], strict=True))


def read(paths: Sequence[Path]) -> Profiles | None:
    """The profiled cases of all files, if there are any. Throws ResultError."""
    names = results.file_names(paths)
    found = {
        (name, one.case): one
        for name, path in zip(names, paths, strict=True)
        for one in timeline.read(path)
        if len(one.ranks[0].on_device)
    }
    if not found:
        return None
    everything = results.read(paths, experiment=None)
    frame, profiled = everything.frame, {name for name, _ in found}
    files = frame["file"] if "file" in frame else names * len(frame)
    keys = list(zip(files, frame["case"], strict=True))
    rows = [row for row, key in enumerate(keys) if key in found]
    return Profiles(
        replace(
            everything,
            runs=[r for r, name in zip(everything.runs, names, strict=True) if name in profiled],
            frame=frame.iloc[rows].reset_index(drop=True),
            samples=[everything.samples[row] for row in rows],
        ),
        [found[keys[row]] for row in rows],
    )


def last_step(case: Timeline) -> Step:
    rank = case.ranks[0]
    rows = rank.on_device
    rows = rows[rows["step"] == rows["step"].max()].sort_values("begin", kind="stable")
    return Step(rows, extents(rank, rows[~rows["communication"]]))


def middle_block(step: Step) -> str:
    """The path of the middle block's forward pass; empty where there is no block."""
    blocks = [path for path in step.scopes["path"] if re.fullmatch(r"forward/block \d+", path)]
    blocks = sorted(set(blocks), key=lambda path: int(path.rpartition(" ")[2]))
    return blocks[len(blocks) // 2] if blocks else ""


def is_within(paths: pd.Series, root: str) -> pd.Series:
    return (paths == root) | paths.str.startswith(f"{root}/")
