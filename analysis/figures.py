"""Figures of result files: where they go, and which a file has the data for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from . import attention, blocks, norms, profiles, results, steps, streams, style, warmup
from .results import ResultError

EXTENSIONS = (".svg", ".png")


@dataclass(frozen=True)
class Targets:
    """A file for the figure of steps, beside which the others are; or a folder for all."""

    path: Path
    is_folder: bool

    def of(self, name: str) -> list[Path]:
        """The files to write of a figure."""
        if self.is_folder:
            return [self.path / f"{name}{extension}" for extension in EXTENSIONS]
        if name == "steps":
            return [self.path]
        return [self.path.with_name(f"{self.path.stem}-{name}{self.path.suffix}")]


def targets_for(path: Path) -> Targets:
    """Throws ResultError for an extension that is neither svg nor png."""
    if path.suffix.lower() in EXTENSIONS and not path.is_dir():
        return Targets(path, is_folder=False)
    if path.suffix and not path.is_dir():
        raise ResultError(
            f"{path}: no figure is made with the extension '{path.suffix}': "
            "use .svg or .png, or a folder for all"
        )
    return Targets(path, is_folder=True)


def write(paths: Sequence[Path], targets: Targets) -> list[Path]:
    """The paths written: of `model` files step time by phase and, where it was recorded, the
    warm-up; of profiled cases of any experiment the timelines; of `precision` the norms. Throws
    ResultError."""
    profiled = profiles.read(paths)
    of_norms = norms.read(paths)
    runs = (profiled.results.runs if profiled else []) + (of_norms.runs if of_norms else [])
    others = {run.path for run in runs if run.experiment != results.EXPERIMENT}
    of_steps = [path for path in paths if path not in others]
    measured = results.read(of_steps) if of_steps else None
    with plt.rc_context(style.SETTINGS):
        figures = {}
        if measured:
            figures["steps"] = steps.draw(measured)
            if warmup.recorded(measured):
                figures["warmup"] = warmup.draw(measured)
        if profiled:
            figures["streams"] = streams.draw(profiled)
            figures["block"] = blocks.draw(profiled)
            figures["attention"] = attention.draw(profiled)
        if of_norms:
            figures["norms"] = norms.draw(of_norms)
        return [
            path
            for name, figure in figures.items()
            if figure
            for path in save(figure, targets.of(name))
        ]


def save(drawing: Figure, paths: Sequence[Path]) -> list[Path]:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A date would make equal input give unequal files.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        drawing.savefig(path, dpi=160, metadata=metadata)
    plt.close(drawing)
    return list(paths)
