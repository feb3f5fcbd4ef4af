"""The report: the course's questions in order, each answered from the files.

A section is a module whose function takes the loaded files and returns a Section; html and
markdown write the same sections.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import repeats
from ..repeats import Repeat
from ..result_file import device_of
from ..results import ResultError, Results, Run, as_written, by_experiment, file_names, load
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
    plan,
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
    plan.section, sharding.section, peers.section,
)  # fmt: skip

WRITERS = {".html": html.write, ".md": markdown.write}


@dataclass(frozen=True)
class Report:
    sections: list[Section]
    runs: list[Run]
    repeats: list[Repeat]

    title = "How language models train: the course's questions, measured"

    @property
    def origin(self) -> str:
        """The files and their machines, in one line."""
        named = (name for run in self.runs for name in run.hardware.split(", "))
        devices = ", ".join(dict.fromkeys(device_of(name) for name in named if name))
        count = f"{len(self.runs)} file{'s' * (len(self.runs) > 1)}"
        return f"Made by paceline's analysis from {count} of {devices or 'unnamed machines'}."


def of(paths: Sequence[Path]) -> Report:
    """Raises ResultError."""
    found: list[Results] = [results for path in paths for results in load([path])]
    runs = [run for results in found for run in results.runs]
    with as_written(paths):
        repeated = [one for results in by_experiment(found) for one in repeats.of(results)]
        found = ordered_and_named(found, repeated)
        return Report([build(found) for build in SECTIONS], runs, repeated)


def ordered_and_named(found: Sequence[Results], repeated: Sequence[Repeat]) -> list[Results]:
    """Orders the files for sections that need a single case and take the first: files that a newer
    one replaces come last, preceded by those of a machine with a transport switched off. Files
    whose times contradict another file's get their name as a factor, for sentences."""
    contradicted = {run.path for one in repeated for run in (one.first, one.second)}
    replaced = {one.first.path for one in repeated if one.is_newer}
    paths = [results.runs[0].path for results in found]
    named = [
        with_file(results, name) if path in contradicted else results
        for results, path, name in zip(found, paths, file_names(paths), strict=True)
    ]

    def rank(results: Results) -> tuple[bool, bool]:
        run = results.runs[0]
        return run.path in replaced, bool(run.switched_off)

    return sorted(named, key=rank)


def with_file(results: Results, name: str) -> Results:
    return replace(
        results, frame=results.frame.assign(file=name), factors=[*results.factors, "file"]
    )


def write(paths: Sequence[Path], target: Path) -> list[Path]:
    """Returns the paths written: the HTML file, or the Markdown file and its images. Raises
    ResultError."""
    writer = WRITERS.get(target.suffix.lower())
    if writer is None:
        raise ResultError(f"{target}: no report is made with the extension '{target.suffix}': "
                          "use .html or .md")  # fmt: skip
    return writer(of(paths), target)
