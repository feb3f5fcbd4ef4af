"""Figures of result files: their list, and the files to write.

A figure is a module whose draw(results) returns it, or None if the results lack its data.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import matplotlib
from matplotlib.figure import Figure

from .. import plan_rows, profiles, style
from ..output import whole
from ..panels import greatest
from ..result_file import ResultError
from ..results import Results, as_written, load
from . import (
    accumulation,
    attention,
    attention_kernels,
    block,
    collectives,
    marks,
    memory,
    norms,
    overhead,
    peers,
    predicted,
    scaling,
    speedups,
    steps,
    streams,
    warmup,
)

EXTENSIONS = (".svg", ".pdf", ".png")
FOLDER_EXTENSIONS = (".svg", ".png")
# By name, in the order in which they are drawn.
OF_RESULTS = {
    "peers": peers.draw,
    "steps": steps.draw,
    "attention-time": attention.draw_time,
    "attention-throughput": attention.draw_throughput,
    "attention-memory": attention.draw_memory,
    "attention-speedup": attention.draw_speedup,
    "attention-precision": attention.draw_precision,
    "collectives": collectives.draw,
    "speedups": speedups.draw,
    "scaling": scaling.draw,
    "overhead": overhead.draw,
    "memory-marks": marks.draw,
    "memory": memory.draw,
    "predicted-memory": predicted.draw,
    "warmup": warmup.draw,
    "norms": norms.draw,
    "accumulation": accumulation.draw,
}
OF_PROFILES = {
    "streams": streams.draw,
    "block": block.draw,
    "attention-kernels": attention_kernels.draw,
}
NAMES = frozenset({*OF_RESULTS, *OF_PROFILES})


@dataclass(frozen=True)
class Targets:
    """A file for the first figure, with the others beside it; or a folder for all."""

    path: Path
    is_folder: bool

    def of(self, name: str, is_first: bool) -> list[Path]:
        """The files to write for a figure."""
        if self.is_folder:
            return [self.path / f"{name}{extension}" for extension in FOLDER_EXTENSIONS]
        if is_first:
            return [self.path]
        return [self.path.with_name(f"{self.path.stem}-{name}{self.path.suffix}")]


def targets_for(path: Path) -> Targets:
    """Raises ResultError for an unknown extension."""
    if path.suffix.lower() in EXTENSIONS and not path.is_dir():
        return Targets(path, is_folder=False)
    if path.suffix and not path.is_dir():
        raise ResultError(
            f"{path}: no figure is made with the extension '{path.suffix}': "
            "use .svg, .pdf or .png, or a folder for all"
        )
    return Targets(path, is_folder=True)


def of(results: Results, names: Collection[str] = NAMES) -> list[tuple[str, Figure]]:
    """Every figure among `names` for which these results have the data, by name. Raises
    ResultError."""
    if results.experiment == plan_rows.EXPERIMENT:  # it has no cases
        return []
    with matplotlib.rc_context(style.SETTINGS):
        drawn = [(name, draw(results)) for name, draw in OF_RESULTS.items() if name in names]
        of_profiles = {name: draw for name, draw in OF_PROFILES.items() if name in names}
        profiled = profiles.of(results.only(longest(results))) if of_profiles else None
        if profiled:
            drawn += [(name, draw(profiled)) for name, draw in of_profiles.items()]
        return [(name, figure) for name, figure in drawn if figure]


def longest(results: Results) -> list[int]:
    """Rows of profiled cases, those with the longest steps."""
    medians = results.medians.fillna(0)
    rows = [row for row, one in enumerate(results.case_tables) if "trace/ranks" in one]
    return greatest(rows, lambda row: medians[row])


def write(paths: Sequence[Path], targets: Targets) -> list[Path]:
    """Returns the paths written. Raises ResultError."""
    found = load(paths)
    with as_written(paths):
        drawn = [
            (f"{results.experiment}-{name}" if len(found) > 1 else name, figure)
            for results in found
            for name, figure in of(results)
        ]
    if not drawn:
        names = ", ".join(map(str, paths))
        raise ResultError(f"{names}: nothing to draw: see python3 -m analysis tables")
    return [
        path
        for index, (name, figure) in enumerate(drawn)
        for path in save(figure, targets.of(name, index == 0))
    ]


def save(figure: Figure, paths: Sequence[Path]) -> list[Path]:
    for path in paths:
        with whole(path) as file:
            save_to(figure, file, path.suffix.lower().removeprefix("."))
    return list(paths)


def save_to(figure: Figure, target: Path | BinaryIO, form: str = "svg") -> None:
    # Without a date, equal input gives equal files.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context(style.SETTINGS):
        figure.savefig(target, format=form, dpi=160, metadata=dates.get(form))
