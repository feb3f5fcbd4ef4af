"""The tables that paceline itself computes over all cases of a file (/fit, /predict, ...)."""

import pandas as pd
from pandas.api.types import is_numeric_dtype

from .. import plan_rows
from ..formatting import figure, label, text
from ..results import Results
from .spread import Spread
from .table import Column, Table, texts

# By group: the title, and the contents of the columns.
TITLES = {
    "fit": ("Fit", "time = latency + bytes / bandwidth, fitted over the sizes of the sweep."),
    "fit_residuals": ("Sizes beside the fit", "relative error: fitted over measured, less 1."),
    "predict": (
        "Overhead by bucket size",
        "Predicted: n latency + s / (n bandwidth), n buckets of s bytes in all.",
    ),
    "recompute": ("Recomputation", "What keeps the least memory, and what is the fastest."),
    "profile/forward": ("The forward pass by three clocks", "On rank 0."),
    "profile/costliest": ("The costliest kernels", "On rank 0."),
    "profile/products": ("Matrix products' share of the kernels' time", "On rank 0."),
    "profile/softmax": ("Softmax beside the matrix products of attention", "Forward, on rank 0."),
    "profiled/kernels": ("The kernels of a step", "The costliest on rank 0, in a step."),
    "profiled/scopes": ("The scopes of a step", "On rank 0, all blocks together, in a step."),
    "profiled/phases": ("The phases of a step by three clocks", "Collectives are in step alone."),
    "dtypes": ("Dtypes of each component", "Under every precision, beside PyTorch's autocast."),
    "plan/state": ("The planned model", "Unsharded."),
    "plan/device_memory": ("Predicted memory of a device", "Of that with the largest shard."),
    "plan/step_time": ("The predicted step", "Exposed: the exchange that is not overlapped."),
    "plan/what_if": (
        "Alternatives to the plan",
        "The least compute-bound batch in tokens, by how communication is scheduled.",
    ),
    "plan/scaling": ("Predicted weak scaling", "The same batch per data-parallel rank."),
    "plan/memory_by_ranks": (
        "Predicted peak of a device",
        "By the number of data-parallel ranks and what is sharded.",
    ),
    "plan/check": ("Predicted and measured", "A row per case of the file that was checked."),
}
# Suffixes of column names that state the unit: displayed unit, and its factor.
UNITS = {
    "_bytes_per_s": ("GB/s", 1e-9),
    "_per_s": ("1/s", 1.0),
    "_percent": ("%", 1.0),
    "_bytes": ("MB", 1e-6),
    "_flops": ("GFLOP", 1e-9),
    "_mb": ("MB", 1.0),
    "_s": ("ms", 1e3),
}
PLANNED = UNITS | {"_bytes": ("GB", 1e-9)}
# Columns of /profile without suffix: in seconds.
SECONDS = {
    "host", "events", "busy", "softmax", "products", "total", "extent", "gaps", "kernels",
}  # fmt: skip
LEAST_SHARE, MOST_KERNELS = 0.01, 12  # of the kernels' time; of a case
RATES = {"flops_per_s": ("TFLOP/s", 1e-12), "bytes_per_s": ("GB/s", 1e-9)}
OF_USES = {"share", "flops_share", "bytes_share"}
SHARES = {
    "fit": {"worst_relative_error"},
    "profile/products": {"forward", "step"},
    "profile/costliest": {"share"},
    "profile/softmax": {"time_ratio", "flops_ratio"},
    "profiled/kernels": OF_USES,
    "profiled/scopes": OF_USES,
}


def build(results: Results, _: Spread) -> list[Table]:
    return [
        Table(
            name=group.replace("/", "-").replace("_", "-"),
            title=title,
            caption=[sentence],
            columns=[column(group, name, values) for name, values in people.items()],
            data=results.file_tables[group],
        )
        for group, (title, sentence) in TITLES.items()
        if group in results.file_tables
        for people in [with_labels(results, shown(group, results.file_tables[group]))]
        if len(people)
    ]


def shown(group: str, table: pd.DataFrame) -> pd.DataFrame:
    """Of kernels, scopes and phases what takes long on rank 0: the 12 costliest kernels of a case,
    and the regions among the scopes as a tree."""
    if "rank" not in table or not group.startswith("profile"):
        return table
    table = table[table["rank"] == 0]
    if "share" in table:
        table = table[table["share"] >= LEAST_SHARE]
    if "kernel" in table:
        table = table.groupby("case", sort=False).head(MOST_KERNELS)
    if "scope" in table:
        table = table[table["operation"] == 0].drop(columns="operation")
        paths = [path.split("/") for path in table["scope"]]
        table = table.assign(scope=["  " * (len(path) - 1) + path[-1] for path in paths])
    hidden = ["rank", "mean", "flops", "bytes"]
    columns = ["case", *(name for name in table if name not in ("case", *hidden))]
    return table[columns].dropna(axis="columns", how="all")


def with_labels(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """The table with the names of cases, without columns that are the same in every row."""
    table = table.copy()
    if "case" in table and "case" in results.frame:
        keys = [name for name in ("file", "case") if name in table]
        labels = dict(zip(rows_of(results.frame[keys]), results.labels, strict=True))
        table["case"] = [labels.get(key, key[-1]) or "the case" for key in rows_of(table[keys])]
    constant = [
        name for name in table
        if len(table) > 1 and name in results.factors and table[name].map(text).nunique() == 1
    ]  # fmt: skip
    return table.drop(columns=constant)


def rows_of(frame: pd.DataFrame) -> list[tuple]:
    return list(frame.itertuples(index=False, name=None))


def column(group: str, name: str, values: pd.Series) -> Column:
    if not is_numeric_dtype(values):
        return Column(label(name), [text(value) for value in values], False)
    if name in SHARES.get(group, ()):
        return Column(f"{label(name)} (%)", [figure(100 * value) for value in values])
    if group.startswith("profile") and name in RATES:
        unit, scale = RATES[name]
        return Column(unit, [figure(value * scale) for value in values])
    for ending, (unit, scale) in (PLANNED if group.startswith(plan_rows.GROUP) else UNITS).items():
        if name.endswith(ending):
            header = f"{label(name.removesuffix(ending))} ({unit})"
            return Column(header, [figure(value * scale) for value in values])
    if group.startswith("profile") and name in SECONDS:
        return Column(f"{label(name)} (ms)", [figure(1e3 * value) for value in values])
    if group.startswith(plan_rows.GROUP):
        return Column(label(name), [whole_or_figure(value) for value in values])
    return texts(label(name), [text(value) for value in values])


def whole_or_figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value, 0) else figure(value)
