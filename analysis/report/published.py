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
from . import method
from .facts import Case
from .section import grid

FOLDER = Path(__file__).parents[1] / "published"
CLOSED_FORM = "closed form"  # in place of hardware
MOST_DIGITS = 6
UNNAMED = ("", "none", "unnamed")  # hardware
# Columns with their units.
COLUMNS = {"message_mb": "message (MB)", "bandwidth_gb_s": "bandwidth (GB/s)"}
# Columns on how a figure was measured; all other columns are factors or figures.
DESCRIBING = {"source", "hardware", "unit", "memory_unit", "note"}


@dataclass(frozen=True)
class Ours:
    """Our figures for one published row."""

    values: dict[str, float | str]  # by the published column, in its unit
    hardware: str
    deviations: dict[str, float] | None = None
    case: Case | None = None  # that was measured with a setting of its own


@dataclass(frozen=True)
class Comparison:
    """How the rows of one file of published/ are matched."""

    name: str  # of the file
    title: str
    factors: Sequence[str]  # the columns that identify the measurement
    figures: Sequence[str]  # the columns that both have
    differs: str  # in method
    find: Callable[[pd.Series], Ours | None]
    # What a row leaves open without which it does not identify a measurement.
    unstated: method.Unstated = method.NOTHING
    absent: str = "not measured"  # of a row that states all, and has no figure of ours
    is_timed: bool = True  # whether figures are of a machine: no ratio to those of another


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
    unstated = [comparison.unstated(row) for _, row in rows.iterrows()]
    found = [
        None if unknown else comparison.find(row)
        for unknown, (_, row) in zip(unstated, rows.iterrows(), strict=True)
    ]
    factors = [name for name in comparison.factors if (rows[name] != "").any()]
    compared = [name for name in comparison.figures if (rows[name] != "").any()]
    ratios = [
        ours is not None and (not comparison.is_timed or is_same_hardware(hardware, ours.hardware))
        for hardware, ours in zip(rows["hardware"], found, strict=True)
    ]
    has_ratios = any(ratios) and any(map(is_number, rows[compared].to_numpy().ravel()))
    header = [named(name) for name in factors] + ["unit", "published on"]
    for name in compared:
        header += [f"{named(name)}, published", f"{named(name)}, ours"]
        header += [f"{named(name)}, published / ours"] if has_ratios else []
    header += ["ours on", "note"]
    cells = []
    for index, (_, row) in enumerate(rows.iterrows()):
        ours = found[index]
        line = [row[name] for name in factors] + [unit(row), row["hardware"]]
        for name in compared:
            line += [published_cell(row, name), ours_cell(ours, name, row[name])]
            if has_ratios:
                line.append(ratio_cell(row, ours, name) if ratios[index] else ABSENT)
        absent = method.absent(unstated[index], comparison.absent)
        cells.append([*line, (ours.hardware or "unnamed") if ours else absent, row["note"]])
    compared_table = grid(
        f"published-{comparison.name}-{source.replace(' ', '-')}",
        f"{comparison.title}: {source} beside ours",
        [counted(comparison, found), comparison.differs,
         *in_method(comparison, rows, found), *no_ratio(comparison, rows, found, any(ratios))],
        header,
        cells,
    )  # fmt: skip
    return replace(compared_table, is_aside=not any(found))


def named(column: str) -> str:
    return COLUMNS.get(column, label(column))


def counted(comparison: Comparison, found: Sequence[Ours | None]) -> str:
    """How many rows have a figure of ours, and of which kind."""
    matched = [ours for ours in found if ours]
    closed = sum(ours.hardware == CLOSED_FORM for ours in matched)
    beginning = f"{len(matched)} of {len(found)} rows"
    if matched and closed == len(matched):
        return f"{beginning} have a closed form here; none is a measurement."
    if not comparison.is_timed:
        also = f", {closed} as closed forms" if closed else ""
        return f"{beginning} have a counterpart in these files{also}."
    also = f", {closed} more are closed forms" if closed else ""
    return f"{len(matched) - closed} of {len(found)} rows are measured in these files{also}."


def in_method(
    comparison: Comparison, rows: pd.DataFrame, found: Sequence[Ours | None]
) -> list[str]:
    """What the columns of the rows that are compared say on the method."""
    pairs = [
        (row, ours.case)
        for (_, row), ours in zip(rows.iterrows(), found, strict=True)
        if ours and ours.case
    ]
    has_deviations = any(ours and ours.deviations for ours in found)
    return [
        *([method.spread(rows, comparison.figures)] if has_deviations else []),
        *method.differences(pairs),
    ]


def no_ratio(
    comparison: Comparison, rows: pd.DataFrame, found: Sequence[Ours | None], any_ratio: bool
) -> list[str]:
    """Why the table has no ratios."""
    both = [
        (hardware, ours.hardware)
        for hardware, ours in zip(rows["hardware"], found, strict=True)
        if ours and ours.hardware != CLOSED_FORM
    ]
    if any_ratio or not both or not comparison.is_timed:
        return []
    theirs = [name for name in dict.fromkeys(name for name, _ in both) if name not in UNNAMED]
    if not theirs:
        return ["No ratio: the text does not name its hardware."]
    ours_on = dict.fromkeys(name or "unnamed hardware" for _, name in both)
    return [f"No ratio: theirs are of {' and '.join(theirs)}, ours of {' and '.join(ours_on)}."]


def is_number(cell: str) -> bool:
    return cell[:1].isdigit()


def unit(row: pd.Series) -> str:
    units = [row.get("unit", ""), row.get("memory_unit", "")]
    return ", ".join(dict.fromkeys(one for one in units if one)) or ABSENT


def published_cell(row: pd.Series, name: str) -> str:
    deviation = method.deviation(row, name)
    return f"{row[name]} ± {deviation}" if deviation else row[name] or ABSENT


def ours_cell(ours: Ours | None, name: str, published: str = "") -> str:
    """Without a deviation with as many digits as are published, at least 4 and at most
    MOST_DIGITS."""
    if ours is None or name not in ours.values:
        return ABSENT
    value = ours.values[name]
    if isinstance(value, str):
        return value
    deviation = (ours.deviations or {}).get(name, float("nan"))
    if not pd.isna(value) and not pd.isna(deviation):
        return f"{figure(value)} ± {figure(deviation, 2)}"
    digits = min(MOST_DIGITS, max(4, len(published.replace(".", "").lstrip("0"))))
    return f"{value:,.0f}" if value == round(value, 0) else figure(value, digits)


def ratio_cell(row: pd.Series, ours: Ours | None, name: str) -> str:
    value = ours.values.get(name) if ours else None
    if value is None or isinstance(value, str) or not value or not is_number(row[name]):
        return ABSENT
    return figure(float(row[name]) / value, 3)


def is_same_hardware(published: str, ours: str) -> bool:
    """Whether our devices are those named in the text: H100 may be NVIDIA H100 80GB HBM3."""
    if published in UNNAMED:
        return False
    words = set(re.findall(r"\w+", ours))
    if words & set(TRANSPORT_SWITCHES):
        return False
    return all(word in words for word in published.split()) and ("PCIe" in words) == (
        "PCIe" in published
    )
