"""A table, independent of the output format."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from ..formatting import ABSENT, decimals, figure

MILLISECONDS = 1e3
GIB = 2**30


@dataclass(frozen=True)
class Column:
    header: str  # for people, with its unit
    cells: list[str]
    numeric: bool = True  # right-aligned


@dataclass(frozen=True)
class Table:
    name: str  # used in file names
    title: str
    caption: list[str]  # sentences
    columns: list[Column]
    data: pd.DataFrame  # for programs: with the file's names and units
    commands: list[str] = field(default_factory=list)  # set in a fixed-width face
    is_aside: bool = False  # folded in a report, however short

    @property
    def header(self) -> list[str]:
        return [column.header for column in self.columns]

    @property
    def rows(self) -> list[list[str]]:
        return [list(row) for row in zip(*(c.cells for c in self.columns), strict=True)]

    @property
    def numeric(self) -> list[bool]:
        return [column.numeric for column in self.columns]


def grid(
    name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *caption: str
) -> Table:
    """A table of texts; columns without words are right-aligned."""
    cells = list(map(list, zip(*rows, strict=True))) or [[] for _ in header]
    columns = [
        Column(head, own, numeric=not any(cell[:1].isalpha() for cell in own))
        for head, own in zip(header, cells, strict=True)
    ]
    return Table(name, title, list(caption), columns, data=None)


def texts(header: str, cells: list[str]) -> Column:
    return Column(header, cells, all(is_number(cell) for cell in cells if cell))


def figures(header: str, values: pd.Series) -> Column:
    return Column(header, [figure(value) for value in values])


def interval(median: float, low: float, high: float) -> str:
    """A median with its interval, "21.57 [21.44, 21.70]"."""
    if math.isnan(median):
        return ABSENT
    digits = decimals(median)
    if math.isnan(low) or math.isnan(high):
        return f"{median:,.{digits}f}"
    return f"{median:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def deviation(mean: float, std: float) -> str:
    """A mean with its standard deviation, "21.57 ± 0.12"."""
    if math.isnan(mean):
        return ABSENT
    digits = decimals(mean)
    return f"{mean:,.{digits}f}" + ("" if math.isnan(std) else f" ± {std:,.{digits}f}")


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
