"""The transcribed tables are whole: every row names its source, and figures are numbers."""

import csv
from pathlib import Path

import pytest

TABLES = sorted((Path(__file__).parents[2] / "analysis" / "published").glob("*.csv"))
WORDS = {
    "source", "hardware", "unit", "size", "precision", "mode", "phase", "quantity", "note",
}  # fmt: skip
UNITS = {"ms", "s", "GB", "GiB", "MiB"}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_rows_are_whole(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert rows
    for row in rows:
        assert None not in row and None not in row.values(), "as many cells as columns"
        assert row["source"].startswith("write-up ")
        assert row["hardware"]
        figures = {name: cell for name, cell in row.items() if name not in WORDS and cell}
        assert all(float(cell) >= 0 for cell in figures.values())
        if figures.keys() - {"context", "batch_size", "warmup", "steps"}:
            assert row["unit"] in UNITS
        else:
            assert row["note"], "a row without a figure says why"


def test_the_tables_are_there():
    names = {path.stem for path in TABLES}
    assert names == {"timing", "warmup", "precision", "memory", "profile", "compile"}
