"""The sources of the figures: files, machines, versions and commands."""

from collections.abc import Sequence

from ..formatting import ABSENT
from ..results import Run
from ..tables.table import Table
from .section import grid


def table(runs: Sequence[Run]) -> Table:
    header = ["file", "experiment", "on", "created", "by", "complete"]
    rows = [
        [
            run.name,
            run.experiment,
            run.hardware or ABSENT,
            run.created or ABSENT,
            run.software or ABSENT,
            "yes" if run.complete else "no: stopped early",
        ]
        for run in runs
    ]
    return grid("files", "Files", [], header, rows)


def commands(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(line for run in runs for line in run.command.split("\n") if line))
