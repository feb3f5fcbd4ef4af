"""Judges runs of B by runs of A, or by given values: one table, or a line of JSON for each case."""

import json
import math
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from . import factors, reference
from .comparison import Judged, judged, read
from .formatting import ABSENT, case_label, figure, label, printable, text
from .reference import Held
from .result_file import ResultError
from .results import FALLBACK

REGRESSIONS = ("slower", "no longer ok", "regression")
MEDIANS = ("a_median_s", "b_median_s")
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9))
NARROWEST = 24  # characters for the last column of a table beside the others

ON_TIMES = (
    "A, B: medians over repetitions of the slowest rank. B / A: with the interval that the verdict "
    "follows from (docs/measuring.md)."
)
UNTIMED = "undecided: these results have no times; --reference F.toml judges their values"
FEW_REPETITIONS = "undecided without an interval: that needs 6 repetitions of every run (--steps)"
FEW_PAIRS = (
    "undecided: run both sides alternately and give all files, A1.h5 B1.h5 A2.h5 B2.h5 ...: from "
    "10 pairs on the variation between runs decides"
)


def run(
    paths: Sequence[Path], threshold: float, any_machine: bool, values: Path | None, as_json: bool
) -> tuple[list[str], bool]:
    """The lines to print, and whether there is a regression. Raises ResultError."""
    if values:
        found = reference.held(reference.read(values), paths)
        lines = reference_table(found)
    else:
        require_pairs(paths)
        found = judged([read(path) for path in paths], threshold, any_machine)
        lines = table(paths, found)
    regressed = any(one.verdict in REGRESSIONS for one in found)
    return [json_line(one.row) for one in found] if as_json else lines, regressed


def require_pairs(paths: Sequence[Path]) -> None:
    if len(paths) % 2:
        raise ResultError(
            "files: needs 2, A.h5 B.h5, or more in pairs, A1.h5 B1.h5 A2.h5 B2.h5; "
            f"{len(paths)} given"
        )
    for one, other in combinations(paths, 2) if len(paths) > 2 else ():
        if one.exists() and other.exists() and one.samefile(other):
            raise ResultError(f"{other} is given twice: each pair needs two files of other runs")


def json_line(row: dict[str, object]) -> str:
    """NaN is null."""

    def plain(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps({name: plain(value) for name, value in row.items()})


def table(paths: Sequence[Path], cases: Sequence[Judged]) -> list[str]:
    keys = pd.DataFrame([case.key for case in cases]).fillna("")
    known = factors.in_order(set(keys))
    names = factors.varying(keys, known) or [name for name in FALLBACK if name in keys]
    same = [name for name in known if name not in names and keys[name].nunique() == 1]
    medians = [case.figures.get(name, math.nan) for case in cases for name in MEDIANS]
    unit, per_second = unit_of(pd.Series(medians).median())
    rows = [["verdict", f"A ({unit})", f"B ({unit})", "B / A", "pairs", "repetitions", "case"]]
    for case, key in zip(cases, keys[names].to_numpy().tolist(), strict=True):
        what = f"{case_label(names, key) or ABSENT}{why(case)}"
        rows.append([case.verdict, *cells(case, per_second), what])
    return [
        *(f"{side} = {', '.join(printable(str(path)) for path in paths[i::2])}"
          for i, side in enumerate("AB")),
        *wrapped(", ".join(f"{label(name)} {keys[name][0]}" for name in same)),
        *laid_out(rows),
        *(line for note in notes_on(cases) for line in wrapped(note)),
        counts(case.verdict for case in cases),
    ]  # fmt: skip


def unit_of(seconds: float) -> tuple[str, float]:
    """The largest unit of which it is at least one, and its number per second."""
    return next((unit for unit in UNITS if seconds * unit[1] >= 1), UNITS[0])


def cells(case: Judged, per_second: float) -> list[str]:
    if not case.figures.get("pairs"):
        return [ABSENT] * 5
    of = case.figures
    ratio, low, high = (figure(of[name]) for name in ("ratio", "ratio_low", "ratio_high"))
    return [
        *(figure(of[name] * per_second) for name in MEDIANS),
        ratio if math.isnan(of["ratio_low"]) else f"{ratio} [{low}, {high}]",
        str(of["pairs"]),
        f"{of['a_repetitions']}, {of['b_repetitions']}",
    ]


def why(case: Judged) -> str:
    """The statuses, unless both are ok."""
    sides = [
        (case.figures.get(f"{side}_status"), case.figures.get(f"{side}_reason")) for side in "ab"
    ]
    if {status for status, _ in sides} <= {None, "ok"}:
        return ""
    a, b = (", ".join(filter(None, side)) for side in sides)
    return f" (A: {a}; B: {b})"


def notes_on(cases: Sequence[Judged]) -> Iterator[str]:
    """What the columns are, and what would decide an undecided case."""
    if any(case.figures.get("pairs") for case in cases):
        yield ON_TIMES
    undecided = [case.figures for case in cases if case.verdict == "undecided"]
    timed = [of for of in undecided if of["a_repetitions"] + of["b_repetitions"]]
    with_interval = [of for of in timed if not math.isnan(of["ratio_low"])]
    if len(timed) < len(undecided):
        yield UNTIMED
    if len(with_interval) < len(timed):
        yield FEW_REPETITIONS
    if any(of["pairs"] < 10 for of in with_interval):
        yield FEW_PAIRS


def reference_table(found: Sequence[Held]) -> list[str]:
    rows = [["verdict", "measured", "reference", "tolerance", "better", "column and case"]]
    for one in found:
        value = one.value
        names, texts = list(value.case), [text(factor) for factor in value.case.values()]
        place = "".join(f", {word}" for word in (value.file, value.device) if word)
        numbers = [figure(one.measured), figure(value.value), f"{text(value.tolerance)}%"]
        what = f"{printable(value.column)}: {case_label(names, texts)}{printable(place)}"
        rows.append([one.verdict, *numbers, value.better, what])
    return [*laid_out(rows), counts(one.verdict for one in found)]


def counts(verdicts: Iterator[str]) -> str:
    """As in "1 faster, 2 slower"."""
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(verdicts).items()))


def laid_out(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with two spaces between columns. The first column is left-aligned, and so is the last,
    which is wrapped, or on lines of its own in a narrow terminal. The others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_narrow = sum(widths[:-1]) + 2 * len(widths) + NARROWEST > terminal_width()
    for first, *others, last in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:-1], strict=True)]
        line = "  ".join([first.ljust(widths[0]), *cells, ""])
        if is_narrow:
            yield line.rstrip()
        yield from wrapped(last, " " * 6 if is_narrow else line)


def wrapped(words: str, begin: str = "") -> list[str]:
    return textwrap.wrap(
        words, terminal_width(), initial_indent=begin, subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
    )  # fmt: skip


def terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns
