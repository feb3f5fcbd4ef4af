"""What a published row does not state or states differently from ours, read from its columns."""

from collections.abc import Callable, Sequence

import pandas as pd

from ..formatting import label
from .facts import Case
from .sentences import DIMENSIONS

# Columns of a setting, by what a sentence calls them.
SETTING = {
    "size": "size", "ranks": "ranks", "context": "context", "batch_size": "batch size",
    "precision": "precision", "attention": "attention", "warmup": "warm-up steps",
    "steps": "measured steps",
}  # fmt: skip
# The texts' names of implementations.
ALSO = {"triton": "flash", "torch": "naive"}
# What columns are called that a row needs to be compared.
NEEDED = {"bucket_mb": "bucket size", "eager": "eager time"}
Unstated = Callable[[pd.Series], list[str]]


def without(*columns: str) -> Unstated:
    """The columns among these that a row leaves empty."""
    return lambda row: [NEEDED.get(name, label(name)) for name in columns if not row[name]]


NOTHING = without()


def absent(unstated: Sequence[str], otherwise: str) -> str:
    """Why a row has no figure of ours."""
    return f"{' and '.join(unstated)} not stated" if unstated else otherwise


def ours(case: Case, name: str, row: pd.Series) -> str:
    """A column's value in our case."""
    samples = case.results.samples[case.row]
    match name:
        case "warmup" | "steps":
            steps = samples.warmup if name == "warmup" else samples.measured
            return str(max((table.shape[1] for table in steps.values()), default=0))
        case "size" if case.get(name) == "custom":  # as published: d_model 512, d_ff 2048, layers 6
            return ", ".join(f"{one} {case.get(one)}" for one in DIMENSIONS)
        case "batch_size" if "ranks" in row:  # of all ranks
            return f"{case.number('batch_size') * case.number('ranks'):.0f}"
        case _:
            return case.get(name)


def differences(pairs: Sequence[tuple[pd.Series, Case]]) -> list[str]:
    """One sentence on what rows do not state, and one on what they state otherwise."""
    open_, other = {}, {}
    for row, case in pairs:
        for name, words in SETTING.items():
            if name not in row or not (value := ours(case, name, row)):
                continue
            if not row[name]:
                open_.setdefault(words, {})[value] = None
            elif ALSO.get(row[name], row[name]) != value:
                other.setdefault(words, {})[row[name], value] = None
    lines = []
    if open_:
        told = (f"{words} (ours {' or '.join(values)})" for words, values in open_.items())
        lines.append(f"Not stated in all rows: {', '.join(told)}.")
    if other:
        told = (
            f"{words} {' or '.join(dict.fromkeys(theirs for theirs, _ in values))} there, "
            f"{' or '.join(dict.fromkeys(here for _, here in values))} here"
            for words, values in other.items()
        )
        lines.append(f"Different: {', '.join(told)}.")
    return lines


def deviation(row: pd.Series, name: str) -> str:
    """The standard deviation of a column, empty if there is none; `std` is that of `mean`."""
    return row.get(f"{name}_std", "") or (row.get("std", "") if name == "mean" else "")


def spread(rows: pd.DataFrame, figures: Sequence[str]) -> str:
    """A sentence on deviations; our figures are means with standard deviations."""
    given = sum(any(deviation(row, name) for name in figures) for _, row in rows.iterrows())
    if given == len(rows):
        return "Both are means with standard deviations."
    theirs = (
        f"{given} of {len(rows)} of theirs have a standard deviation"
        if given
        else "theirs are given without a deviation"
    )
    return f"Ours are means with standard deviations; {theirs}."
