"""Settings that several files of one machine measured with different times."""

from itertools import combinations

import pandas as pd

from .factors import EFFORT
from .formatting import figure, text
from .results import Results, file_names

THRESHOLD = 1.02  # the ratio up to which two times count as the same


def sentences(results: Results) -> list[str]:
    """One for each pair of files of one machine that measured the same setting with different
    medians; the older file, or that without a date, is the first of a pair."""
    if len(results.runs) < 2:
        return []
    names = [name for name in results.factors if name not in EFFORT | {"file"}]
    factors = results.frame[names].map(text)
    files = file_names([run.path for run in results.runs])
    parts = [factors[results.frame["file"] == file] for file in files]
    dated = sorted(zip(results.runs, files, parts, strict=True), key=lambda one: one[0].created)
    found = []
    for (old, first, a), (new, second, b) in combinations(dated, 2):
        if old.hardware != new.hardware:
            continue
        pairs = [results.medians[list(rows)] for rows in in_common(a, b)]
        ratios = [after / before for before, after in pairs if before > 0 and after > 0]
        differ = [ratio for ratio in ratios if not 1 / THRESHOLD <= ratio <= THRESHOLD]
        if differ:
            low, high = figure(min(differ), 3), figure(max(differ), 3)
            found.append(
                f"In {len(differ)} of the {len(ratios)} settings that {second} and {first} have in "
                f"common, the median of {second} is {low if low == high else f'{low} to {high}'} "
                f"times that of {first}; python3 -m analysis compare judges such changes."
            )
    return found


def in_common(a: pd.DataFrame, b: pd.DataFrame) -> list[tuple[int, int]]:
    """Rows of two files with the same factors. A factor that a file lacks, because its version has
    no such choice, excludes nothing, unless the other file has several cases that only it tells
    apart."""
    names = [name for name in a if a[name].any() and b[name].any()]
    if not names:
        return []
    before, after = (part[~part.duplicated(names, keep=False)] for part in (a, b))
    rows = {tuple(key): row for row, *key in before[names].itertuples()}
    return [
        (rows[tuple(key)], row) for row, *key in after[names].itertuples() if tuple(key) in rows
    ]
