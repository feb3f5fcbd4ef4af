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

# Where a package is missing, the command line says so: it is imported only when it is needed.


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """/summary: a row per case. Text is str, empty where a case has none; a number that a case
    lacks is NaN. attrs["units"] and attrs["descriptions"] say what each column is; a unit is "1"
    for a number without one, "text" for text, "" where an older file does not say.

    Raises ResultError, which is a ValueError, for what is no result file.
    """
    from .frames import load

    return load(path)


def samples(path: str | PathLike[str], case: str) -> pd.DataFrame:
    """Every repetition of a case, one of load()'s `case`: phase, rank, repetition (from 0), seconds
    and warmup (whether it is a warm-up repetition, which are counted on their own).

    Raises ResultError, which is a ValueError, where there is no such file or case.
    """
    from .frames import samples

    return samples(path, case)
