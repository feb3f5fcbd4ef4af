"""Result files of any experiment as data frames: the package's interface for other programs."""

from os import PathLike
from pathlib import Path

import pandas as pd

from .formatting import text
from .result_file import ResultError, Samples, opened, read_samples, read_table


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """/summary: a row per case. Text is str, empty if a case has none; missing numbers are NaN.
    attrs["units"] and attrs["descriptions"] have each column's unit and description; the unit is
    "1" for a dimensionless number, "text" for text, "" if an older file has none.

    Raises ResultError, a ValueError, if the path is not a result file.
    """
    path = Path(path)
    with opened(path) as file:
        frame, units = read_table(path, file["summary"])
        frame.attrs["units"] = units
        frame.attrs["descriptions"] = {
            name: text(dataset.attrs.get("description", ""))
            for name, dataset in file["summary"].items()
        }
        return frame


def samples(path: str | PathLike[str], case: str) -> pd.DataFrame:
    """Every repetition of a case, one of load()'s `case`: phase, rank, repetition (from 0), seconds
    and warmup (whether it is a warm-up repetition; these are numbered separately).

    Raises ResultError, a ValueError, if there is no such file or case.
    """
    path = Path(path)
    with opened(path) as file:
        cases = {text(name): group for name, group in file.get("cases", {}).items()}
        if case not in cases:
            known = ", ".join(cases) or "none"
            raise ResultError(f"{path}: no case '{case}'; there are {known}")
        return long_form(read_samples(path, cases[case]))


def long_form(samples: Samples) -> pd.DataFrame:
    """A row per phase, rank and repetition; warm-up first."""
    parts = [
        pd.DataFrame(values)
        .rename_axis(index="rank", columns="repetition")
        .stack()
        .rename("seconds")
        .reset_index()
        .assign(phase=phase, warmup=warmup)
        for warmup, phases in ((True, samples.warmup), (False, samples.measured))
        for phase, values in phases.items()
        if values.size
    ]
    columns = ["phase", "rank", "repetition", "seconds", "warmup"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
