"""The table of speed-ups: pairs of cases that differ only in one factor, phase by phase."""

import pandas as pd

from .. import pairs
from ..formatting import label
from ..pairs import Pair
from ..results import Results
from .spread import Spread
from .table import MILLISECONDS, Column, Table, deviation, interval, texts


def build(results: Results, spread: Spread) -> list[Table]:
    return [
        table(results, factor, rows, spread)
        for factor in pairs.BASELINES
        if (rows := timed(results, pairs.of_factor(results, factor)))
    ]


def timed(results: Results, found: list[Pair]) -> list[tuple[Pair, str]]:
    """Each pair with each phase that was timed in both its cases."""
    measured = {
        phase: results.statistic(phase, "median").notna().to_numpy() for phase in results.phases
    }
    return [
        (pair, phase)
        for pair in found
        for phase in measured
        if measured[phase][[pair.baseline, pair.other]].all()
    ]


def table(results: Results, factor: str, rows: list[tuple[Pair, str]], spread: Spread) -> Table:
    baseline = pairs.BASELINES[factor]
    names = rows[0][0].names
    columns = [
        texts(label(name), [pair.shared[index] for pair, _ in rows])
        for index, name in enumerate(names)
    ]
    columns += [
        Column(label(factor), [pair.labels[1] for pair, _ in rows], False),
        Column("phase", [label(phase) for _, phase in rows], False),
        Column(f"{baseline} (ms)", [cell(results, pair.baseline, phase, spread)
                                    for pair, phase in rows]),
        Column("this (ms)", [cell(results, pair.other, phase, spread) for pair, phase in rows]),
        Column(f"speed-up over {baseline}", [ratio_cell(results, pair, phase, spread)
                                             for pair, phase in rows]),
    ]  # fmt: skip
    how = (
        "The interval of a speed-up is of the opposite ends of the two intervals."
        if spread == Spread.INTERVAL
        else "The deviation of a speed-up is to first order, the two times taken as independent."
    )
    return Table(
        name=f"speedup-{factor}",
        title=f"Speed-up over {factor} {baseline}",
        caption=[f"{spread.words}. {how}"],
        columns=columns,
        data=pd.DataFrame([record(results, pair, phase, spread) for pair, phase in rows]),
    )


def cell(results: Results, row: int, phase: str, spread: Spread) -> str:
    values = [results.statistic(phase, name)[row] * MILLISECONDS for name in spread.statistics]
    return spread.cell(values)


def ratio_cell(results: Results, pair: Pair, phase: str, spread: Spread) -> str:
    if spread == Spread.INTERVAL:
        found = pairs.ratio(results, pair, phase)
        return interval(found.value, found.low, found.high)
    return deviation(*pairs.mean_ratio(results, pair, phase))


def record(results: Results, pair: Pair, phase: str, spread: Spread) -> dict[str, object]:
    row: dict[str, object] = dict(zip(pair.names, pair.shared, strict=True))
    row |= {pair.factor: pair.labels[1], "baseline": pair.labels[0], "phase": phase}
    for name in spread.statistics:
        values = results.statistic(phase, name)
        row[f"baseline_{name}_s"], row[f"{name}_s"] = values[pair.baseline], values[pair.other]
    if spread == Spread.INTERVAL:
        found = pairs.ratio(results, pair, phase)
        return row | {"speed_up": found.value, "speed_up_low": found.low,
                      "speed_up_high": found.high}  # fmt: skip
    value, std = pairs.mean_ratio(results, pair, phase)
    return row | {"speed_up": value, "speed_up_std": std}
