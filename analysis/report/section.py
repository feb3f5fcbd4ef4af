"""The parts of a report, independent of the output format."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from matplotlib.figure import Figure

from .. import figures
from ..result_file import stem
from ..results import Results
from ..tables.table import Column, Table

# Tables with more rows are folded.
LONGEST_OPEN = 24
# Sentences that open a section; further ones are folded.
LEAD = 3
# A figure in a table of texts: 12, 1,024.5 ± 0.1, 3.2e-05, 5 to 7, +1.5%, or none.
FIGURE = re.compile(r"[\d.,±%–+ -]*(e[+-]\d+)?( to [\d.,%]+)?")
# By the names of figures.
CAPTIONS = {
    "peers": "Steps of paceline and of other software, over the time of the fastest peer.",
    "steps": "Step time by phase, each case's median with its 95% interval.",
    "attention-time": "Time of attention over context.",
    "attention-throughput": "FLOP/s of attention over context.",
    "attention-memory": "Memory of attention over context: kept for backward, and the peak.",
    "attention-speedup": "Speed-up of attention by context.",
    "collectives": "Time and bus bandwidth of collectives over message size.",
    "speedups": "Pairs of cases that differ in one factor, with the ratio of their medians.",
    "scaling": "Weak scaling: the step and its efficiency by number of ranks.",
    "overhead": "Exposed communication by bucket size, predicted and measured.",
    "memory-marks": "Memory by kind at the marks of the first step.",
    "memory": "Memory in use over one step.",
    "predicted-memory": "Peak memory, predicted against measured.",
    "warmup": "Step time from cold.",
    "norms": "Errors of norms in low precision.",
    "accumulation": "Errors of sums in low precision.",
    "streams": "A step on its streams: computation and communication.",
    "block": "The forward pass of one block, by scope and kernel.",
    "attention-kernels": "The attention kernels of one block.",
}


@dataclass(frozen=True)
class Drawing:
    name: str  # of its file
    caption: str  # a sentence
    source: str  # the figure's name and its files
    figure: Figure


@dataclass(frozen=True)
class Section:
    """One question of the course."""

    name: str  # its anchor
    title: str
    problem: str  # the course's name for it
    question: str
    command: str  # the command that measures it
    sentences: list[str] = field(default_factory=list)  # the answer first
    tables: list[Table] = field(default_factory=list)
    ahead: int = 0  # tables that stand before the figures
    drawings: list[Drawing] = field(default_factory=list)
    published: list[Table] = field(default_factory=list)
    headline: str = ""  # for the summary

    @property
    def is_measured(self) -> bool:
        return bool(self.tables or self.drawings)

    @property
    def lead(self) -> list[str]:
        return self.sentences[:LEAD]

    @property
    def rest(self) -> list[str]:
        return self.sentences[LEAD:]


def drawings(section: str, found: Iterable[Results], names: Sequence[str]) -> list[Drawing]:
    """The figures of `names` for which each of the results has the data."""
    return [
        Drawing(
            f"{section}-{stem(results.runs[0].path)}-{name}",
            CAPTIONS[name],
            f"{name}: {', '.join(run.name for run in results.runs)}",
            figure,
        )
        for results in found
        for name, figure in figures.of(results, names)
    ]


REPEATED = (
    "Several files measured some settings, with different times. Sentences on these settings name "
    "the file. Where a single figure is needed, it is that of the newer file of a machine."
)


def first_figures(sections: Sequence[Section]) -> list[int]:
    """The number of each section's first figure; figures are counted through the report."""
    counts = [len(section.drawings) for section in sections]
    return [1 + sum(counts[:index]) for index in range(len(counts))]


def narrowed(table: Table, dropped: Iterable[str]) -> Table:
    """The table without columns whose header begins with one of `dropped`."""
    prefixes = tuple(dropped)
    kept = [column for column in table.columns if not column.header.startswith(prefixes)]
    return replace(table, columns=kept or table.columns)


def grid(
    name: str, title: str, caption: list[str], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> Table:
    """A table of texts; columns of figures are right-aligned."""
    columns = [
        Column(head, cells, numeric=any(cells) and all(map(FIGURE.fullmatch, cells)))
        for head, cells in zip(header, map(list, zip(*rows, strict=True)), strict=True)
    ]
    return Table(name, title, caption, columns, data=None)
