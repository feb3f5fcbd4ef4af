"""The places of the figures of analysis/published in their texts, for tools/check_published.py:
published_tables.csv has a row for each kind of rows that a text's table gives, and
published_prose.csv one for figures in prose."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# The numbers with which the names of the texts begin.
NUMBERS = {
    "write-up 0": 0, "write-up 1": 1, "write-up 2": 2, "assignment": 3, "write-up 4": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows of a file that come from a table of a text, with a template for the table's lines.

    A template has the names of columns in braces in place of their cells, and all other text
    literally. Lines with an empty cell and lines that do not match are left to other templates.
    `fixed` are cells that the lines do not have.
    """

    file: str
    template: str
    fixed: dict[str, str]


@dataclass(frozen=True)
class Prose:
    """Rows whose figures are in prose, within `lines` lines from the last of the anchors.

    `cells` are the rows' labels: one for all rows, or one for each. All other figures of the rows
    must be in the text.
    """

    file: str
    anchors: tuple[str, ...]
    lines: int
    cells: dict[str, str | Sequence[str]]

    def rows(self) -> list[dict[str, str]]:
        """The labels of each row."""
        several = [cell for cell in self.cells.values() if not isinstance(cell, str)]
        return [
            {name: cell if isinstance(cell, str) else cell[i] for name, cell in self.cells.items()}
            for i in range(max(map(len, several), default=1))
        ]


def read(name: str) -> Iterator[dict[str, str]]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, strict=True)


def cells_of(written: str) -> dict[str, str | Sequence[str]]:
    """ "unit=ms; size=small|medium": cells of one value, or of one for each row."""
    pairs = (cell.split("=") for cell in written.split("; "))
    return {name: tuple(cell.split("|")) if "|" in cell else cell for name, cell in pairs}


TABLES: dict[str, list[list[Rows]]] = {}
for row in read("published_tables.csv"):
    tables = TABLES.setdefault(row["source"], [])
    if len(tables) < int(row["table"]):
        tables.append([])
    tables[-1].append(Rows(row["file"], row["template"], cells_of(row["cells"])))

PROSE: dict[str, list[Prose]] = {}
for row in read("published_prose.csv"):
    places = tuple(row["anchors"].split(" / "))
    one = Prose(row["file"], places, int(row["lines"]), cells_of(row["cells"]))
    PROSE.setdefault(row["source"], []).append(one)
