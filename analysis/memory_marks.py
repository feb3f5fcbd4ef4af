"""Memory at the marks of a step, by kind, on the rank with the most."""

import pandas as pd

from .results import Results
from .table_columns import KINDS, required

MARKS = ("after init", "before optimizer", "after step")  # the write-ups' three


def of_row(results: Results, row: int) -> pd.DataFrame | None:
    """By mark of the first step, in bytes: active, peak and each kind; None if they were not
    recorded. Raises ResultError."""
    table = results.case_tables[row].get("memory")
    if table is None:
        return None
    table = required(f"{results.runs[0].path}: memory", "memory", table)
    first = table[(table["step"] == "first") & table["mark"].isin(MARKS)]
    if first.empty:
        return None
    most = first.loc[first.groupby("mark")["active"].idxmax()].set_index("mark")
    kinds = [kind for kind in KINDS if kind in most]
    return most.reindex([mark for mark in MARKS if mark in most.index])[["active", "peak", *kinds]]
