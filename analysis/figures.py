"""Figures of result files: where they go, and which a file has the data for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from . import steps, style, warmup
from .results import ResultError, Results

EXTENSIONS = (".svg", ".png")


@dataclass(frozen=True)
class Targets:
    """The files to write of each figure."""

    steps: list[Path]
    warmup: list[Path]


def targets_for(path: Path) -> Targets:
    """Throws ResultError for an extension that is neither svg nor png."""
    if path.suffix.lower() in EXTENSIONS and not path.is_dir():
        return Targets([path], [path.with_name(f"{path.stem}-warmup{path.suffix}")])
    if path.suffix and not path.is_dir():
        raise ResultError(
            f"{path}: no figure is made with the extension '{path.suffix}': "
            "use .svg or .png, or a folder for both"
        )
    return Targets(
        steps=[path / f"steps{extension}" for extension in EXTENSIONS],
        warmup=[path / f"warmup{extension}" for extension in EXTENSIONS],
    )


def write(results: Results, targets: Targets) -> list[Path]:
    """The paths written: step time by phase and, where it was recorded, the warm-up."""
    with plt.rc_context(style.SETTINGS):
        written = save(steps.draw(results), targets.steps)
        if warmup.recorded(results):
            written += save(warmup.draw(results), targets.warmup)
    return written


def save(drawing: Figure, paths: Sequence[Path]) -> list[Path]:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A date would make equal input give unequal files.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        drawing.savefig(path, dpi=160, metadata=metadata)
    plt.close(drawing)
    return list(paths)
