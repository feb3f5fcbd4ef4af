"""Tables and figures from paceline's result files: python3 -m analysis --help.

Installed by `pip install ./analysis` as paceline_analysis: load() and samples() read result files
of every experiment and schema version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

__all__ = ["load", "samples"]

# Imported only when needed, so that the command line can report missing packages.


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """/summary: a row per case. Text is str, empty if a case has none; missing numbers are NaN.
    attrs["units"] and attrs["descriptions"] have each column's unit and description; the unit is
    "1" for a dimensionless number, "text" for text, "" if an older file has none.

    Raises ResultError, a ValueError, if the path is not a result file.
    """
    from .frames import load

    return load(path)


def samples(path: str | PathLike[str], case: str) -> pd.DataFrame:
    """Every repetition of a case, one of load()'s `case`: phase, rank, repetition (from 0), seconds
    and warmup (whether it is a warm-up repetition; these are numbered separately).

    Raises ResultError, a ValueError, if there is no such file or case.
    """
    from .frames import samples

    return samples(path, case)
