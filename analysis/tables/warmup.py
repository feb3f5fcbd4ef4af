"""The table of what 0, 1, 2 and 5 warm-up steps give, of launches that measure one size each."""

import re

import numpy as np
import pandas as pd

from ..formatting import text
from ..result_file import Samples
from ..results import Results
from . import recorded
from .spread import Spread
from .table import Table

COUNTS = (0, 1, 2, 5)
PHASES = ("forward", "backward", "step")


def is_study(results: Results) -> bool:
    """Whether each case was measured from the first step of a process on: it has a launch of one
    rank to itself. Of a single case, the command must ask for the study too."""
    if results.constant.get("cold_start") == "true":  # of older files
        return True
    frame = results.frame
    alone = (
        {"run", "ranks"} <= set(frame) and frame["run"].is_unique and (frame["ranks"] == 1).all()
    )
    asked = any(re.search(r"--preset[ =]warmup\b", run.command) for run in results.runs)
    return alone and (len(frame) > 1 or asked)


def longest_of_each_run(results: Results) -> Results:
    """Cases of older files that differ only in warm-up are parts of one series of steps: the one
    with the longest warm-up represents all."""
    if "warmup" not in results.varying:
        return results
    others = [name for name in results.factors if name != "warmup"]
    by_warmup = results.frame.reset_index(drop=True).sort_values("warmup", kind="stable")
    kept = sorted(by_warmup.drop_duplicates(others, keep="last").index)
    return results.only(kept)


def from_cold(samples: Samples, phase: str, warmup: int, steps: int) -> np.ndarray | None:
    """Seconds of `steps` steps of the slowest rank, after the first `warmup` of all; None if not
    all were recorded."""
    parts = [table[phase] for table in (samples.warmup, samples.measured) if phase in table]
    if not parts:
        return None
    chosen = np.concatenate([part.max(axis=0) for part in parts])[warmup : warmup + steps]
    return chosen if len(chosen) == steps else None


def of(results: Results) -> pd.DataFrame:
    """Mean and standard deviation of each phase, in seconds, for each number of warm-up steps."""
    if not is_study(results):
        return pd.DataFrame()
    results = longest_of_each_run(results)
    rows = []
    for row, samples in enumerate(results.samples):
        factors = results.frame[results.names].iloc[row].map(text)
        steps = samples.measured["step"].shape[1] if "step" in samples.measured else 0
        for warmup in COUNTS:
            taken = {phase: from_cold(samples, phase, warmup, steps) for phase in PHASES}
            taken = {phase: values for phase, values in taken.items() if values is not None}
            if steps < 2 or "step" not in taken:
                continue
            statistics = {
                f"{phase}_{name}_s": value
                for phase, values in taken.items()
                for name, value in (("mean", values.mean()), ("std", values.std(ddof=1)))
            }
            rows.append({**factors, "warmup_steps": warmup, **statistics})
    return pd.DataFrame(rows)


def build(results: Results, _: Spread) -> list[Table]:
    data = of(results)
    if data.empty:
        return []
    return [
        Table(
            name="warmup",
            title="Warm-up",
            caption=["Computed from every step since the first of a process."],
            columns=[recorded.column("", name, values) for name, values in data.items()],
            data=data,
        )
    ]
