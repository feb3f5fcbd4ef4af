"""Profiled cases for figures: their names, and the work in one step of one rank."""

import re
from dataclasses import dataclass, replace

import pandas as pd

from . import timeline
from .formatting import printable
from .result_file import stem
from .results import Results, file_names
from .timeline import Timeline, extents


@dataclass(frozen=True)
class Profiles:
    results: Results  # of the profiled cases alone
    timelines: list[Timeline]  # by row of results.frame


@dataclass(frozen=True)
class Step:
    """The last profiled step of rank 0: the one furthest from warm-up."""

    activities: pd.DataFrame  # on the device, in the order in which they begin
    scopes: pd.DataFrame  # extents of what computes

    def within(self, root: str) -> "Step":
        """The kernels launched by a scope and the scopes within it."""
        computing = self.activities[~self.activities["communication"]]
        return Step(*(rows[is_within(rows["path"], root)] for rows in (computing, self.scopes)))

    @property
    def kernels(self) -> tuple:
        """Names and grids of kernels: two cases with the same kernels need only one figure."""
        return tuple(zip(self.activities["name"], self.activities["blocks"], strict=True))


def of(results: Results) -> Profiles | None:
    """The profiled cases, if there are any. Raises ResultError."""
    if not any("trace/ranks" in tables for tables in results.case_tables):
        return None
    paths = [run.path for run in results.runs]
    found = {
        (name, one.case): one
        for name, path in zip(file_names(paths), paths, strict=True)
        for one in timeline.read(path, set(results.frame["case"]))
        if len(one.ranks[0].on_device)
    }
    if not found:
        return None
    frame = results.frame
    files = frame["file"] if "file" in frame else file_names(paths) * len(frame)
    keys = list(zip(files, frame["case"], strict=True))
    rows = [row for row, key in enumerate(keys) if key in found]
    profiled = {keys[row][0] for row in rows}
    runs = [run for run in results.runs if profiled & {stem(run.path), printable(str(run.path))}]
    return Profiles(replace(results.only(rows), runs=runs), [found[keys[row]] for row in rows])


def last_step(case: Timeline) -> Step:
    rank = case.ranks[0]
    rows = rank.on_device
    rows = rows[rows["step"] == rows["step"].max()].sort_values("begin", kind="stable")
    return Step(rows, extents(rank, rows[~rows["communication"]]))


def middle_block(step: Step) -> str:
    """The path of the middle block's forward pass; empty if there is no block."""
    blocks = [path for path in step.scopes["path"] if re.fullmatch(r"forward/block \d+", path)]
    blocks = sorted(set(blocks), key=lambda path: int(path.rpartition(" ")[2]))
    return blocks[len(blocks) // 2] if blocks else ""


def is_within(paths: pd.Series, root: str) -> pd.Series:
    return (paths == root) | paths.str.startswith(f"{root}/")
