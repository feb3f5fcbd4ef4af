"""The transcribed tables are complete, and tools/check_published.py detects differences."""

import csv
import re
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import check_published
from published_sources import NUMBERS, PROSE, TABLES, Prose, Rows

FOLDER = ROOT / "analysis/published"
COUNTS = {
    "accounting": 23, "accumulation": 12, "attention": 60, "attention_compile": 120,
    "collectives": 39, "compile": 22, "ddp": 34, "dtypes": 18, "flash": 345, "kernels": 7,
    "memory": 30, "precision": 20, "profile": 7, "sharding": 19, "sizes": 7, "timing": 25,
    "warmup": 17,
}  # fmt: skip
WORDS = {
    "source", "hardware", "unit", "memory_unit", "size", "precision", "mode", "phase", "quantity",
    "kernel", "method", "implementation", "attention", "optimizer", "collective", "backend",
    "device", "component", "dtype", "accumulator", "addend", "note",
}  # fmt: skip
# Columns without a unit, or with the unit in their name.
WITHOUT_UNIT = {
    "context", "batch_size", "warmup", "steps", "ranks", "d_model", "d_ff", "layers", "heads",
    "head_dim", "launches", "total_launches", "sum", "message_mb", "bucket_mb", "bandwidth_gb_s",
    "speedup", "forward_speedup", "backward_speedup", "both_speedup",
}  # fmt: skip
MEMORY = {"memory_before_backward", "peak_memory"}
UNITS = {"ms", "s", "GB", "GiB", "MB", "MiB", "%"}
HARDWARE = {
    "unnamed", "none", "A100", "H100", "H800", "H800 PCIe", "RTX 5090", "TPU v5p", "Tesla V100",
}  # fmt: skip


def rows_of(name):
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.mark.parametrize("name", COUNTS)
def test_rows_are_complete(name):
    rows = rows_of(name)
    assert len(rows) == COUNTS[name]
    for row in rows:
        assert None not in row and None not in row.values(), "as many cells as columns"
        assert row["source"] in NUMBERS
        assert row["hardware"] in HARDWARE
        figures = {column: cell for column, cell in row.items() if column not in WORDS and cell}
        assert all(float(cell) >= 0 for cell in figures.values())
        if figures.keys() - WITHOUT_UNIT - MEMORY:
            counted = name == "accounting" and not row["unit"]
            assert row["unit"] in UNITS or counted or "units not stated" in row["note"]
        assert (row.get("memory_unit") in UNITS) == bool(figures.keys() & MEMORY)
        if not figures.keys() - {"context", "batch_size", "warmup", "steps", "ranks", "head_dim"}:
            assert row["note"] or row["dtype"], "a row without a figure says why"


def test_no_row_is_repeated():
    for name in COUNTS:
        rows = [tuple(row.values())[:-1] for row in rows_of(name)]
        assert len(set(rows)) == len(rows), name


def test_the_readme_lists_every_file():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.csv" for name in COUNTS} | {
        "README.md"
    }
    listed = re.findall(r"^\| `(\w+)\.csv` \|", (FOLDER / "README.md").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(COUNTS)


def test_every_file_has_a_place_in_the_write_ups():
    placed = {kind.file for tables in TABLES.values() for table in tables for kind in table}
    placed |= {prose.file for proses in PROSE.values() for prose in proses}
    assert placed == set(COUNTS)


# Tests of the check itself use this text, because the write-ups are not in the repository.
TEXT = r"""# Times on a K80

| Size | Forward | Speedup | Both (MB) |
| ---- | ------: | ------: | --------- |
| Small | 1.25 ± 0.10 | \~1.5x | 12.00 MB |
| 2.7B | 20.50 ± 3.00 | - | 2.03 GB |
| XL | OOM | N/A | high |

procs	size	mean
2.000000	1.000000	0.3450
4.000000	1.000000	0.0345

## Sharding
Peak is 42 GB of 2.5 \cdot 10^{3} with 16 GB left; the sum is float16.
Another is 17 GB.
"""
MS = {"hardware": "K80", "unit": "ms"}
KINDS = [
    [
        Rows("times", "{size} | {forward} ± {std} | {speedup}x | ", MS),
        Rows("times", "{size} | {forward} ± {std} | - | ", MS),
        Rows("times", "{size} | {forward} | N/A | ", MS),
        Rows("memory", "{size} | | | {value} {unit}", {"hardware": "K80"}),
    ],
    [Rows("reduce", "{ranks} | {message_mb} | {mean}", {"hardware": "K80", "unit": "s"})],
]
PLACES = [
    Prose("peaks", ("Sharding",), 3, {"hardware": "K80", "unit": "GB", "of": ("whole", "other")}),
    Prose("types", ("Sharding",), 3, {"hardware": "K80"}),
]
ROWS = {
    "times": [
        {"unit": "ms", "size": "small", "forward": "1.25", "std": "0.10", "speedup": "1.5"},
        {"unit": "ms", "size": "2.7b", "forward": "20.50", "std": "3.00", "speedup": ""},
        {"unit": "ms", "size": "xl", "forward": "", "std": "", "speedup": ""},
    ],
    "memory": [
        {"unit": "MB", "size": "small", "value": "12.00"},
        {"unit": "GB", "size": "2.7b", "value": "2.03"},
    ],
    "reduce": [
        {"unit": "s", "ranks": "2", "message_mb": "1", "mean": "0.3450"},
        {"unit": "s", "ranks": "4", "message_mb": "1", "mean": "0.0345"},
    ],
    "peaks": [
        {"unit": "GB", "of": "whole", "value": "42", "parameters": "2.5e3"},
        {"unit": "GB", "of": "other", "value": "17", "parameters": ""},
    ],
    "types": [{"unit": "", "dtype": "fp16"}],
}


def synthetic_rows():
    return [
        check_published.Row(
            file, line, {"source": "own", "hardware": "K80"} | cells | {"note": "any"}
        )
        for file, table in ROWS.items()
        for line, cells in enumerate(table, 2)
    ]


def differences(rows, text=TEXT):
    return check_published.check({"own": text}, rows, {"own": KINDS}, {"own": PLACES})


def test_matching_text_and_rows_have_no_differences():
    assert differences(synthetic_rows()) == []


@pytest.mark.parametrize(
    ("index", "column"),
    [(i, column) for i, row in enumerate(synthetic_rows()) for column in row.cells],
)
def test_a_changed_cell_is_detected(index, column):
    rows = synthetic_rows()
    cell = rows[index].cells[column]
    rows[index].cells[column] = cell[:-1] + ("8" if cell[-1:] == "9" else "9")
    assert bool(differences(rows)) == (column != "note")


@pytest.mark.parametrize("index", range(len(synthetic_rows())))
def test_a_missing_or_repeated_row_is_detected(index):
    rows = synthetic_rows()
    again = synthetic_rows()[index]
    assert differences([*rows, again])
    assert differences(rows[:index] + rows[index + 1 :])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.25 ±", "1.24 ±"),
        ("| 12.00 MB", "| 12.01 MB"),
        ("2.03 GB", "2.03 MB"),
        ("0.0345", "0.0354"),
        ("4.000000", "6.000000"),
        ("42 GB", "43 GB"),
        ("10^{3}", "10^{4}"),
        ("17 GB", "7 GB"),
        ("float16", "float32"),
        ("| XL | OOM", "| XL | 77.00 ± 1.00"),
        ("## Sharding", "## Something else"),
        ("K80", "K40"),
        ("0.0345\n", "0.0345\n8\t1.000000\t0.9\n"),
        ("0.0345\n", "0.0345\n4.000000\t1.000000\t0.0345\n"),
        ("| high |", "| 3 |"),
        ("## Sharding", "a\tb\tc\n1\t2\t3\n\n## Sharding"),
    ],
)
def test_a_changed_text_is_detected(old, new):
    assert TEXT.count(old) == 1
    assert differences(synthetic_rows(), TEXT.replace(old, new))


def test_split_lines_and_reordered_rows_are_detected():
    apart = TEXT.replace("42 GB of", "42 GB\nof")
    turned = TEXT.replace("Another is 17 GB.\n", "").replace("Peak", "Another is 17 GB.\nPeak")
    assert differences(synthetic_rows(), apart)
    assert differences(synthetic_rows(), turned)


def test_a_missing_write_up_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"0 files 000\*.txt for write-up 0; one is needed"):
        check_published.read_texts(tmp_path)
