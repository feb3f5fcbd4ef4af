"""The table of weak scaling: the step on each number of ranks, and its efficiency."""

import pandas as pd

from .. import scaling_cases
from ..results import Results
from .spread import Spread
from .table import Column, Table, figures, texts


def build(results: Results, spread: Spread) -> list[Table]:
    found = scaling_cases.of(results)
    if not found:
        return []
    rows = [(one.label, row, one.rows[0]) for one in found for row in one.rows]
    middle = results.statistic("step", spread.statistics[0])
    efficiency = [middle[first] / middle[row] for _, row, first in rows]
    own = results.only([row for _, row, _ in rows])
    ranks = own.frame["ranks"]
    data = {"case": [label for label, _, _ in rows], "ranks": ranks}
    data |= {f"step_{name}_s": own.statistic("step", name) for name in spread.statistics}
    data |= {"tokens_per_s": own.frame["tokens_per_s"]} if "tokens_per_s" in own.frame else {}
    columns = [
        Column("case", [label for label, _, _ in rows], False),
        texts("ranks", [str(count) for count in ranks]),
        spread.column(own, "step", "step"),
        figures("efficiency (%)", pd.Series(efficiency) * 100),
    ]
    if "tokens_per_s" in own.frame:
        columns.append(figures("tokens/s", own.frame["tokens_per_s"]))
    return [
        Table(
            name="scaling",
            title="Weak scaling",
            caption=[
                f"{spread.words}. Efficiency: the step on the fewest ranks over that on these, "
                "each rank with the same batch."
            ],
            columns=columns,
            data=pd.DataFrame(data | {"efficiency": efficiency}),
        )
    ]
