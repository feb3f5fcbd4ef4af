"""The table of memory at three marks of the first step, by kind."""

import pandas as pd

from .. import memory_marks
from ..formatting import label, text
from ..results import Results
from .spread import Spread
from .table import GIB, Column, Table, figures, texts


def build(results: Results, _: Spread) -> list[Table]:
    found = {row: memory_marks.of_row(results, row) for row in range(len(results.frame))}
    found = {row: marks for row, marks in found.items() if marks is not None}
    if not found:
        return []
    factors = results.frame[results.names].map(text)
    data = pd.concat(
        [marks.reset_index().assign(**factors.loc[row]) for row, marks in found.items()],
        ignore_index=True,
    )
    kinds = [kind for kind in memory_marks.KINDS if kind in data and data[kind].max() > 0]
    sizes = ["active", "peak", *kinds]
    columns = [texts(label(name), list(data[name])) for name in results.names]
    columns.append(Column("mark", list(data["mark"]), False))
    headers = {"active": "in use", "peak": "peak so far"}
    columns += [figures(f"{headers.get(name, label(name))} (GiB)", data[name] / GIB)
                for name in sizes]  # fmt: skip
    named = {name: f"{name}_bytes" for name in sizes}
    return [
        Table(
            name="memory-marks",
            title="Memory at the marks of the first step",
            caption=["On the rank with the most, as the memory ledger counts it."],
            columns=columns,
            data=data[[*results.names, "mark", *sizes]].rename(columns=named),
        )
    ]
