"""The statistics shown for a distribution: median and 95% interval, or mean and deviation."""

from enum import StrEnum

from ..results import Results
from .table import MILLISECONDS, Column, deviation, interval


class Spread(StrEnum):
    INTERVAL = "interval"
    STD = "std"

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("median", "ci_low", "ci_high") if self == Spread.INTERVAL else ("mean", "std")

    @property
    def words(self) -> str:
        if self == Spread.INTERVAL:
            return "Medians with 95% intervals [low, high]"
        return "Means ± standard deviations"

    def cell(self, values: list[float]) -> str:
        return interval(*values) if self == Spread.INTERVAL else deviation(*values)

    def column(self, results: Results, phase: str, header: str) -> Column:
        values = zip(*(results.statistic(phase, one) for one in self.statistics), strict=True)
        cells = [self.cell([value * MILLISECONDS for value in row]) for row in values]
        return Column(f"{header} (ms)", cells)
