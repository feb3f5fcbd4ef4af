"""The columns that are read of a result file's tables, beside those of /summary."""

import pandas as pd
from pandas.api.types import is_numeric_dtype

from .result_file import ResultError

# Of memory, each a column of numbers if any has it.
KINDS = (
    "parameter", "gradient", "optimizer_state", "activation", "communication", "gathered",
    "workspace",
)  # fmt: skip
# By table: its columns of numbers, and of texts.
NUMBERS = {
    "trace/activities": ("rank", "step", "kind", "stream", "name", "span", "begin", "end",
                         "correlation", "bytes", "blocks"),
    "trace/spans": ("rank", "step", "scope", "operation", "begin", "end", "flops", "bytes",
                    "elements"),
    "trace/steps": ("rank", "step", "begin", "end"),
    "trace/ranks": ("rank", "clock_offset", "clock_error", "lost"),
    "ranks": ("rank", "local_rank", "memory_bytes"),
    "profile/forward": ("host", "busy"),
    "profile/costliest": ("calls", "share"),
    "profile/softmax": ("time_ratio", "flops_ratio"),
    "profiled/kernels": ("rank", "total"),
    "fit": ("ranks", "latency_s", "bandwidth_bytes_per_s"),
    "predict": ("bucket_mb", "buckets", "predicted_overhead_s", "predicted_best_bucket_mb"),
    "memory": ("active", "peak"),
    "memory/phases": ("peak",),
    "memory/blocks": ("bytes",),
    "memory/timeline": ("seconds", "bytes"),
}  # fmt: skip
TEXTS = {
    "trace/spans": ("dtype",), "trace/ranks": ("source",), "ranks": ("device", "device_kind"),
    "profile/forward": ("case",), "profile/costliest": ("case", "phases", "kernel"),
    "profile/softmax": ("case",), "profiled/kernels": ("case", "phase", "operation"),
    "fit": ("backend", "op"), "memory": ("step", "mark"), "memory/phases": ("step",),
    "memory/blocks": ("kind", "scope"), "memory/timeline": ("kind", "scope", "phase"),
    "dtypes": ("model", "component", "fp16"),
}  # fmt: skip


def required(place: str, name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table. Raises ResultError if it lacks a column, or has one of another kind."""
    for columns, are_numbers in ((NUMBERS, True), (TEXTS, False)):
        for column in columns.get(name, ()):
            if column not in table:
                raise ResultError(f"{place}/{column} is missing")
            if is_numeric_dtype(table[column]) != are_numbers:
                raise ResultError(f"{place}/{column} has texts for numbers, or numbers for texts")
    for kind in KINDS if name.startswith("memory") else ():
        if kind in table and not is_numeric_dtype(table[kind]):
            raise ResultError(f"{place}/{kind} has texts for numbers")
    return table
