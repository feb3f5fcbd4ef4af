"""Files of JSON objects, one a line, whose values are numbers and texts."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pandas as pd

from .formatting import text
from .result_file import ResultError

Value = float | str | None


@dataclass(frozen=True)
class Row:
    place: str  # file and line
    values: dict[str, Value]


def read(path: Path) -> list[Row]:
    """Raises OSError, ResultError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ResultError(f"{path}: is not UTF-8") from None
    return [row_of(f"{path}: line {n}", line) for n, line in enumerate(lines, 1) if line.strip()]


def row_of(place: str, line: str) -> Row:
    try:
        row = json.loads(line)
    except (RecursionError, ValueError):
        raise ResultError(f"{place}: is not JSON") from None
    if not isinstance(row, dict):
        raise ResultError(f"{place}: is not an object")
    for name, value in row.items():
        if isinstance(value, list | dict):
            raise ResultError(f"{place}: {name} is neither a number nor a text")
    return Row(place, {text(n): text(v) if isinstance(v, str) else v for n, v in row.items()})


def require(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Raises ResultError, as do the following."""
    for row in rows:
        for name in names:
            if name not in row.values:
                raise ResultError(f"{row.place}: has no {name}")


def frame(rows: Sequence[Row], is_number: Callable[[str, list[Value]], bool]) -> pd.DataFrame:
    """Columns of numbers, NaN where there is none, and of texts, empty where there is none;
    `is_number` tells them apart by name and values."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        values = [row.values.get(name) for row in rows]
        columns[name] = (
            [number(row, name) for row in rows]
            if is_number(name, values)
            else [text(value) for value in values]
        )
    return pd.DataFrame(columns)


def number(row: Row, name: str) -> float:
    """Some factors' numbers are written as text; NaN if there is none."""
    value = row.values.get(name)
    if value is None or value == "":
        return math.nan
    try:
        found = value if isinstance(value, int) else float(value)
        if math.isfinite(found):
            return found
    except (OverflowError, ValueError):
        pass
    refuse(row, name)


def refuse(row: Row, name: str) -> NoReturn:
    raise ResultError(f"{row.place}: {name} is {text(row.values[name])[:40] or 'NaN'}")
