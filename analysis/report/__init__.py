"""The report: the course's questions in order, each answered from the files.

A section is a module whose function takes the loaded files and returns a Section; html and
markdown write the same sections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..results import ResultError, Results, Run, as_written, load
from . import (
    accounting,
    attention,
    benchmarking,
    collectives,
    ddp,
    html,
    markdown,
    memory,
    peers,
    precision,
    profile,
    sharding,
)
from .section import Section

# In the course's order.
SECTIONS = (
    benchmarking.timings, benchmarking.warmup, profile.section, precision.accumulation,
    precision.mixed, memory.section, attention.pytorch, attention.compiled, attention.flash,
    collectives.section, ddp.naive, ddp.flat, ddp.overlap, ddp.bucketed, accounting.section,
    sharding.section, peers.section,
)  # fmt: skip

WRITERS = {".html": html.write, ".md": markdown.write}


@dataclass(frozen=True)
class Report:
    sections: list[Section]
    runs: list[Run]

    title = "How language models train: the course's questions, measured"

    @property
    def origin(self) -> str:
        """The files and their machines, in one line."""
        named = (name for run in self.runs for name in run.hardware.split(", "))
        devices = ", ".join(dict.fromkeys(name.split(" × ")[-1] for name in named if name))
        count = f"{len(self.runs)} file{'s' * (len(self.runs) > 1)}"
        return f"Made by paceline's analysis from {count} of {devices or 'unnamed machines'}."


def of(paths: Sequence[Path]) -> Report:
    """Raises ResultError."""
    found: list[Results] = [results for path in paths for results in load([path])]
    with as_written(paths):
        return Report([build(found) for build in SECTIONS], [run for r in found for run in r.runs])


def write(paths: Sequence[Path], target: Path) -> list[Path]:
    """Returns the paths written: the HTML file, or the Markdown file and its images. Raises
    ResultError."""
    writer = WRITERS.get(target.suffix.lower())
    if writer is None:
        raise ResultError(f"{target}: no report is made with the extension '{target.suffix}': "
                          "use .html or .md")  # fmt: skip
    report = of(paths)
    target.parent.mkdir(parents=True, exist_ok=True)
    return writer(report, target)
