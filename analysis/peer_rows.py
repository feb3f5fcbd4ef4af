"""The rows of a sweep of bench/peers/: paceline beside other software, a JSON object a line."""

import contextlib
import json
import math
import re
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype

from .formatting import text
from .result_file import ResultError

# Factors common to both sides; each side has further options.
FACTORS = (
    "software", "variant", "op", "size", "causal", "head_dim", "heads", "context", "batch_size",
    "precision", "mode", "ranks", "bytes",
)  # fmt: skip
STEPS = "model-peers"
# The experiment of a sweep, by a column that only its rows have.
EXPERIMENTS = {"op": "collective-peers", "head_dim": "attention-peers", "size": STEPS}

VERSION = re.compile(r" \d")  # where it begins in "PyTorch 2.11.0+cu130"


def read(path: Path) -> tuple[str, pd.DataFrame]:
    """Returns the experiment and the rows. Raises ResultError if a median is no time."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows, start=1):
        check_medians(f"{path}: line {number}", row)
    frame = pd.DataFrame(rows)
    frame["software"] = frame["software"].fillna("paceline")
    for name in frame:
        if not is_numeric_dtype(frame[name]):
            values = frame[name].fillna("")
            frame[name] = [text(one) if isinstance(one, str) else one for one in values]
            with contextlib.suppress(ValueError):  # some factors' numbers are written as text
                frame[name] = pd.to_numeric(frame[name])
    experiment = next(name for column, name in EXPERIMENTS.items() if column in frame)
    if "status" in frame:
        frame["status"] = frame["status"].replace("", "ok")
    return experiment, with_bandwidths(frame)


def with_bandwidths(frame: pd.DataFrame) -> pd.DataFrame:
    """Other software's collectives have only times: their bandwidths as paceline defines its own,
    algorithm bandwidth as bytes over time, and bus bandwidth as that times the factor of the same
    collective on as many ranks."""
    if not {"algbw_bytes_per_s", "busbw_bytes_per_s"} <= set(frame):
        return frame
    algorithm = frame["algbw_bytes_per_s"].fillna(frame["bytes"] / frame["time_median_s"])
    factor = frame["busbw_bytes_per_s"] / frame["algbw_bytes_per_s"]
    factor = factor.groupby([frame["op"], frame["ranks"]]).transform("median")
    bus = frame["busbw_bytes_per_s"].fillna(algorithm * factor)
    return frame.assign(algbw_bytes_per_s=algorithm, busbw_bytes_per_s=bus)


def check_medians(place: str, row: dict[str, object]) -> None:
    """A phase that was not measured is missing or null."""
    if row.get("status") not in (None, "", "ok"):
        return
    for name, value in row.items():
        if name.endswith("_median_s") and value is not None and not is_time(value):
            raise ResultError(f"{place}: {name} is {value}")


def is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


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
