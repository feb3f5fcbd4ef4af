"""The parts of a step that add up to its median."""

from collections.abc import Sequence
from math import isnan

import numpy as np

from .result_file import Samples
from .results import Results

# In the order of the stack.
PARTS = ("forward", "backward", "communication_exposed", "optimizer")
REST = "rest"
# For these, exposed communication is within forward and backward.
SHARDED = ("zero1", "zero2", "fsdp")
PARTS_SHARDED = ("forward", "backward", "optimizer")


def of_row(results: Results, row: int) -> dict[str, float]:
    """Seconds of each part of the case's step, and of the rest; empty if there are none."""
    values = results.frame.iloc[row]
    names = (*PARTS, REST)
    recorded = {name: values.get(f"{name}_median_part_s", np.nan) for name in names}
    recorded = {name: seconds for name, seconds in recorded.items() if not isnan(seconds)}
    sharded = values.get("shard") in SHARDED
    return recorded or of_samples(results.samples[row], PARTS_SHARDED if sharded else PARTS)


def of_samples(samples: Samples, names: Sequence[str]) -> dict[str, float]:
    """The parts as paceline computes them since schema version 2 (src/measure/statistics.h):
    those of the repetition with the median step (mean of the two middle ones), on its slowest
    rank."""
    steps = samples.measured.get("step")
    phases = {name: samples.measured[name] for name in names if name in samples.measured}
    if steps is None or not steps.size or not phases:
        return {}
    slowest = steps.argmax(axis=0)
    repetitions = np.arange(steps.shape[1])
    longest = steps[slowest, repetitions]
    order = np.argsort(longest, kind="stable")
    middle = [order[(len(order) - 1) // 2], order[len(order) // 2]]
    parts = {
        name: float(values[slowest, repetitions][middle].mean()) for name, values in phases.items()
    }
    return parts | {REST: float(longest[middle].mean()) - sum(parts.values())}
