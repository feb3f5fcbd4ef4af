"""Our figures beside those of the write-ups: a table for each of their tables."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

from ..formatting import ABSENT, figure, label
from ..result_file import TRANSPORT_SWITCHES
from ..tables.table import Table
from .section import grid

FOLDER = Path(__file__).parents[1] / "published"
# Columns on how a figure was measured; all other columns are factors or figures.
DESCRIBING = {"source", "hardware", "unit", "memory_unit", "note"}


@dataclass(frozen=True)
class Ours:
    """Our figures for one published row."""

    values: dict[str, float | str]  # by the published column, in its unit
    hardware: str
    deviations: dict[str, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """How the rows of one file of published/ are matched."""

    name: str  # of the file
    title: str
    factors: Sequence[str]  # the columns that identify the measurement
    figures: Sequence[str]  # the columns that both have
    differs: str  # in method
    find: Callable[[pd.Series], Ours | None]
    needs: Sequence[str] = ()  # columns without which a row does not identify a measurement


@cache
def read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)


def tables(comparison: Comparison) -> list[Table]:
    """One table for each source."""
    rows = read(comparison.name)
    return [
        table(comparison, source, rows[rows["source"] == source])
        for source in dict.fromkeys(rows["source"])
    ]


def table(comparison: Comparison, source: str, rows: pd.DataFrame) -> Table:
    stated = [all(row[name] for name in comparison.needs) for _, row in rows.iterrows()]
    found = [
        comparison.find(row) if known else None
        for known, (_, row) in zip(stated, rows.iterrows(), strict=True)
    ]
    factors = [name for name in comparison.factors if (rows[name] != "").any()]
    compared = [name for name in comparison.figures if (rows[name] != "").any()]
    ratios = [
        ours is not None and is_same_hardware(hardware, ours.hardware)
        for hardware, ours in zip(rows["hardware"], found, strict=True)
    ]
    header = [label(name) for name in factors] + ["unit", "published on"]
    for name in compared:
        header += [f"{label(name)}, published", f"{label(name)}, ours"]
        header += [f"{label(name)}, published / ours"] if any(ratios) else []
    header += ["ours on", "note"]
    cells = []
    for index, (_, row) in enumerate(rows.iterrows()):
        ours = found[index]
        line = [row[name] for name in factors] + [unit(row), row["hardware"]]
        for name in compared:
            line += [published_cell(row, name), ours_cell(ours, name)]
            if any(ratios):
                line.append(ratio_cell(row, ours, name) if ratios[index] else ABSENT)
        absent = "not measured" if stated[index] else "setting not stated"
        cells.append([*line, (ours.hardware or "unnamed") if ours else absent, row["note"]])
    matched = sum(ours is not None for ours in found)
    compared_table = grid(
        f"published-{comparison.name}-{source.replace(' ', '-')}",
        f"{comparison.title}: {source} beside ours",
        [
            f"{matched} of {len(rows)} rows are measured in these files.",
            comparison.differs,
            *([] if any(ratios) else ["No ratio: no row is of the same hardware."]),
        ],
        header,
        cells,
    )
    return replace(compared_table, is_aside=matched == 0)


def unit(row: pd.Series) -> str:
    units = [row.get("unit", ""), row.get("memory_unit", "")]
    return ", ".join(dict.fromkeys(one for one in units if one)) or ABSENT


def published_cell(row: pd.Series, name: str) -> str:
    deviation = row.get(f"{name}_std", "")
    return f"{row[name]} ± {deviation}" if deviation else row[name] or ABSENT


def ours_cell(ours: Ours | None, name: str) -> str:
    if ours is None or name not in ours.values:
        return ABSENT
    value = ours.values[name]
    if isinstance(value, str):
        return value
    deviation = (ours.deviations or {}).get(name, float("nan"))
    cell = f"{value:,.0f}" if value == round(value, 0) else figure(value)
    return cell if pd.isna(deviation) or cell == ABSENT else f"{cell} ± {figure(deviation, 2)}"


def ratio_cell(row: pd.Series, ours: Ours | None, name: str) -> str:
    value = ours.values.get(name) if ours else None
    return figure(float(row[name]) / value, 3) if row[name] and value else ABSENT


def is_same_hardware(published: str, ours: str) -> bool:
    """Whether our devices are those named in the text: H100 may be NVIDIA H100 80GB HBM3."""
    if published in ("", "none", "unnamed"):
        return False
    words = set(re.findall(r"\w+", ours))
    if words & set(TRANSPORT_SWITCHES):
        return False
    return all(word in words for word in published.split()) and ("PCIe" in words) == (
        "PCIe" in published
    )
