"""What `paceline plan --json` prints, an object a line: sections, and the cases of check-plan."""

from collections.abc import Sequence

import pandas as pd

from . import json_rows
from .json_rows import Row, Value

EXPERIMENT = "plan"
GROUP = "plan/"
# Sections of one row, which are of the plan as a whole.
WHOLE = ("layout", "state")
TEXTS = {"case", "hardware", "what", "note"}
# What the report reads of a section.
REQUIRED = {
    "layout": ("tokens",),
    "state": ("parameters",),
    "step_time": ("step_s", "exchange_s"),
    "compute_bound": ("overlapped_tokens", "serial_tokens"),
    "scaling": ("ranks", "step_s", "efficiency", "peak_bytes"),
    "extrapolated": ("note",),
    "check": ("step_error_percent", "peak_error_percent", "sent_error_percent"),
}


def is_of_plan(row: Row) -> bool:
    return "section" in row.values or "predicted_step_s" in row.values


def read(rows: Sequence[Row]) -> dict[str, pd.DataFrame]:
    """A table for each section, its name prefixed with GROUP. Raises ResultError."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if "predicted_step_s" not in row.values:
            json_rows.require([row], ["section"])
        section = str(row.values.pop("section", "check"))
        found.setdefault(section, []).append(row)
    for section, own in found.items():
        json_rows.require(own, REQUIRED.get(section, ()))
    return {GROUP + section: json_rows.frame(own, is_number) for section, own in found.items()}


def is_number(name: str, _: Sequence[Value]) -> bool:
    return name not in TEXTS


def summary(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The plan as one row."""
    whole = [tables[GROUP + name] for name in WHOLE if GROUP + name in tables]
    found = pd.concat(whole, axis=1) if whole else pd.DataFrame([{}])
    return found.loc[:, ~found.columns.duplicated()]
