"""The tables of profiled cases: kernels, scopes and phases of a step."""

import pandas as pd

from ..formatting import label, text
from ..profile_of_trace import KERNELS, PHASES, SCOPES
from ..results import Results
from .spread import Spread
from .table import MILLISECONDS, Column, Table, figures, texts

LARGE = 0.01  # share of the kernels' time of what is shown
MOST_KERNELS = 12
TITLES = {
    KERNELS: ("Kernels of a step", "The costliest on rank 0: calls and time in a step."),
    SCOPES: ("Scopes of a step", "On rank 0, all blocks together: calls and time in a step."),
    PHASES: (
        "Phases of a step by three clocks",
        "On rank 0. Extent: from the first kernel to the last; only the step includes collectives.",
    ),
}
# Columns of numbers: header, and factor of its unit.
FIGURES = {
    "total": ("total (ms)", MILLISECONDS), "share": ("share (%)", 100.0),
    "flops_per_s": ("TFLOP/s", 1e-12), "flops_share": ("of the GEMM ceiling (%)", 100.0),
    "bytes_per_s": ("GB/s", 1e-9), "bytes_share": ("of the copy ceiling (%)", 100.0),
} | {
    name: (f"{name} (ms)", MILLISECONDS)
    for name in ("host", "events", "extent", "busy", "gaps", "kernels", "products")
}  # fmt: skip
TEXTS = ("phase", "operation", "scope", "kernel")


def build(results: Results, _: Spread) -> list[Table]:
    factors = results.frame[results.varying].map(text)
    found = []
    for group, (title, sentence) in TITLES.items():
        tables = [
            tables[group].assign(**factors.loc[row])
            for row, tables in enumerate(results.case_tables)
            if group in tables
        ]
        if not tables:
            continue
        data = pd.concat(tables, ignore_index=True)
        data = data[[*factors, *(name for name in data if name not in factors)]]
        shown = pd.concat([large(table) for table in tables])
        columns = [texts(label(name), list(shown[name])) for name in results.varying]
        columns += [Column(name, list(shown[name]), False) for name in TEXTS
                    if name in shown and not (group == SCOPES and name == "operation")]  # fmt: skip
        if "calls" in shown:
            columns.append(texts("calls", [f"{calls:.6g}" for calls in shown["calls"]]))
        columns += [figures(header, shown[name] * scale) for name, (header, scale) in
                    FIGURES.items() if name in shown and shown[name].notna().any()]  # fmt: skip
        name = f"profile-{group.rpartition('/')[2]}"
        found.append(Table(name, title, [sentence], columns, data))
    return found


def large(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of rank 0 to show: kernels and regions that take long, and every phase."""
    table = table[table["rank"] == 0]
    if "share" in table:
        table = table[table["share"] >= LARGE]
    if "kernel" in table:
        return table[:MOST_KERNELS]
    if "scope" not in table:
        return table
    table = table[table["operation"] == 0]
    names = [" " * 2 * path.count("/") + path.rpartition("/")[2] for path in table["scope"]]
    return table.assign(scope=names)
