"""The rows of a sweep of bench/peers/: paceline beside other software, a JSON object a line."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from . import json_rows
from .json_rows import Row, Value
from .result_file import ResultError

# Factors common to both sides; each side has further options.
FACTORS = (
    "software", "variant", "op", "size", "causal", "head_dim", "heads", "context", "batch_size",
    "precision", "mode", "ranks", "bytes",
)  # fmt: skip
STEPS = "model-peers"
# The experiment of a sweep, by a column that only its rows have.
EXPERIMENTS = {"op": "collective-peers", "head_dim": "attention-peers", "size": STEPS}
# The factors that all rows of an experiment have, beside `variant`.
REQUIRED = {
    "collective-peers": ("op", "ranks", "bytes"),
    "attention-peers": ("head_dim", "context", "batch_size"),
    STEPS: ("size", "context", "batch_size"),
}
NUMBERS = {"head_dim", "heads", "context", "batch_size", "ranks", "bytes", "steps"}
TEXTS = {
    "software", "variant", "case", "op", "backend", "size", "causal", "precision", "attention",
    "exec", "mode", "sync", "shard", "device", "status", "reason", "warnings",
}  # fmt: skip
UNITS = ("_s", "_bytes", "_share")

VERSION = re.compile(r" \d")  # where it begins in "PyTorch 2.11.0+cu130"


def read(path: Path, rows: Sequence[Row]) -> tuple[str, pd.DataFrame]:
    """Returns the experiment and the rows. Raises ResultError."""
    names = {name for row in rows for name in row.values}
    experiment = next((name for column, name in EXPERIMENTS.items() if column in names), None)
    if experiment is None:
        raise ResultError(f"{path}: has no rows of bench/peers/ or of paceline plan --json")
    json_rows.require(rows, ("variant", *REQUIRED[experiment]))
    for row in rows:
        check_medians(row)
    frame = json_rows.frame(rows, is_number)
    frame["software"] = frame.get("software", pd.Series("", frame.index)).replace("", "paceline")
    if "status" in frame:
        frame["status"] = frame["status"].replace("", "ok")
    return experiment, with_bandwidths(frame)


def is_number(name: str, values: Sequence[Value]) -> bool:
    return name not in TEXTS and (
        name in NUMBERS
        or name.endswith(UNITS)
        or any(isinstance(value, int | float) for value in values)
    )


def with_bandwidths(frame: pd.DataFrame) -> pd.DataFrame:
    """Other software's collectives have only times: their bandwidths as paceline defines its own,
    algorithm bandwidth as bytes over time, and bus bandwidth as that times the factor of the same
    collective on as many ranks."""
    if not {"algbw_bytes_per_s", "busbw_bytes_per_s", "time_median_s"} <= set(frame):
        return frame
    algorithm = frame["algbw_bytes_per_s"].fillna(frame["bytes"] / frame["time_median_s"])
    factor = frame["busbw_bytes_per_s"] / frame["algbw_bytes_per_s"]
    factor = factor.groupby([frame["op"], frame["ranks"]]).transform("median")
    bus = frame["busbw_bytes_per_s"].fillna(algorithm * factor)
    return frame.assign(algbw_bytes_per_s=algorithm, busbw_bytes_per_s=bus)


def check_medians(row: Row) -> None:
    """A phase that was not measured is missing or null."""
    if row.values.get("status") not in (None, "", "ok"):
        return
    for name in row.values:
        if name.endswith("_median_s") and json_rows.number(row, name) < 0:
            json_rows.refuse(row, name)


def factors(frame: pd.DataFrame) -> set[str]:
    """The factors that every row has."""
    return {name for name in FACTORS if name in frame and frame[name].notna().all()}


def variants(frame: pd.DataFrame) -> list[str]:
    """The variants, prefixed with the name of the software."""
    return [
        variant
        if variant.startswith("paceline")
        else f"{VERSION.split(software)[0]} {variant}".strip()
        for software, variant in zip(frame["software"], frame["variant"], strict=True)
    ]
