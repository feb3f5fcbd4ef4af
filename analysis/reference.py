"""Values that results must reach. The file is a list of

[[value]]
case = { size = "small", context = 512 }   # factors that one case of a file has
column = "tokens_per_s"                    # of its summary
value = 46510
tolerance = 5                              # percent of the value
better = "higher"                          # or "lower"
file = "sizes-small"                       # the file's name; without it every file is meant
device = "NVIDIA H200"                     # without it every device is meant
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from .comparison import Case, File
from .comparison import read as read_results
from .formatting import text
from .result_file import ResultError, refuse_pipe, stem

NUMBER = (int, float)
TYPES = {
    "case": ((dict,), "a table of factors"), "column": ((str,), "a text"),
    "value": (NUMBER, "a number"), "tolerance": (NUMBER, "a number"), "better": ((str,), "a text"),
    "file": ((str,), "a text"), "device": ((str,), "a text"),
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    case: dict[str, object]
    column: str
    value: float
    tolerance: float
    better: str
    file: str = ""
    device: str = ""


@dataclass(frozen=True)
class Held:
    """A value and what was measured."""

    value: Value
    measured: float  # the median over files; NaN if a case failed, or if there is none
    verdict: str  # regression, within, better; missing: no file has the case

    @property
    def row(self) -> dict[str, object]:
        value = self.value
        return value.case | {
            "column": value.column,
            "reference": value.value,
            "tolerance_percent": value.tolerance,
            "better": value.better,
            "measured": self.measured,
            "verdict": self.verdict,
        }


def read(path: Path) -> list[Value]:
    """Raises ResultError."""
    try:
        refuse_pipe(path)
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except (RecursionError, ValueError) as error:
        raise ResultError(f"{path}: is not TOML: {error}") from None
    entries = document.get("value")
    if (
        len(document) != 1
        or not isinstance(entries, list)
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        raise ResultError(f"{path}: a reference is a list of [[value]] tables and nothing else")
    return [value_of(f"{path}: value {n}", entry) for n, entry in enumerate(entries, 1)]


def value_of(place: str, entry: dict[str, object]) -> Value:
    for name in entry:
        if name not in TYPES:
            raise ResultError(f"{place}: '{name}' is none of {', '.join(TYPES)}")
    for name, (types, what) in TYPES.items():
        if name not in entry and name not in ("file", "device"):
            raise ResultError(f"{place}: '{name}' is missing")
        if name in entry and type(entry[name]) not in types:
            raise ResultError(f"{place}: '{name}' is not {what}")
    value = Value(**entry)
    if not math.isfinite(value.value):
        raise ResultError(f"{place}: 'value' is not a number")
    if not 0 <= value.tolerance < math.inf:
        raise ResultError(f"{place}: 'tolerance' is not a number from 0 on")
    if value.better not in ("higher", "lower"):
        raise ResultError(f"{place}: 'better' is '{value.better}': give higher or lower")
    if not value.case or any(isinstance(factor, dict | list) for factor in value.case.values()):
        raise ResultError(f"{place}: 'case' is not a table of factors, {{ size = \"small\" }}")
    return value


def held(values: Sequence[Value], paths: Sequence[Path]) -> list[Held]:
    """Raises ResultError."""
    named = {value.file for value in values}
    files = [read_results(path) for path in paths if {"", stem(path)} & named]
    return [held_to(value, files) for value in values]


def held_to(value: Value, files: Sequence[File]) -> Held:
    meant = [
        file for file in files
        if value.file in ("", stem(file.path)) and value.device in ("", *file.devices)
    ]  # fmt: skip
    known = {name for file in meant for case in file.cases for name in case.factors}
    for name in value.case if meant else ():
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ResultError(f"--reference: {meant[0].path} has no factor '{name}'{hint}")
    cases = [(file, case_of(file, value)) for file in meant]
    found = [measured(file, case, value.column) for file, case in cases if case]
    if not found:
        return Held(value, math.nan, "missing")
    median = float(np.median(found))
    return Held(value, median, verdict_on(median, value))


def case_of(file: File, value: Value) -> Case | None:
    found = [
        case for case in file.cases
        if all(text(case.factors.get(name)) == text(of) for name, of in value.case.items())
    ]  # fmt: skip
    if len(found) > 1:
        told = ", ".join(f"{name} {text(of)}" for name, of in value.case.items())
        raise ResultError(f"--reference: {file.path} has several cases with {told}: name more")
    return found[0] if found else None


def measured(file: File, case: Case, column: str) -> float:
    if not case.is_ok:
        return math.nan
    number = case.summary.get(column)
    if number is None or isinstance(number, str):
        raise ResultError(f"--reference: {file.path} has no column '{column}' of numbers")
    return float(number)


def verdict_on(measured: float, value: Value) -> str:
    margin = abs(value.value) * value.tolerance / 100
    gain = measured - value.value if value.better == "higher" else value.value - measured
    if gain > margin:
        return "better"
    return "within" if gain >= -margin else "regression"  # also of NaN
