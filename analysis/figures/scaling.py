"""The figure of weak scaling: the step and its efficiency over the number of ranks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .. import scaling_cases, style
from ..layout import Sheet, time_unit
from ..panels import OWN_SCALE, Grid, Series, draw_points, legend
from ..results import Results
from ..words import capitalized

WIDTH, HEIGHT = 4.6, 2.9  # inches
SPREAD = 0.012  # of the axis, between the marks of series at one number of ranks


def draw(results: Results) -> Figure | None:
    """None if no case was measured with several numbers of ranks."""
    found = scaling_cases.of(results)
    if not found:
        return None
    series = [
        Series(one.label, one.rows, style.SERIES[i % len(style.SERIES)],
               style.MARKERS[i % len(style.MARKERS)])
        for i, one in enumerate(found)
    ]  # fmt: skip
    grid = Grid(1, 2, WIDTH, HEIGHT, OWN_SCALE)
    few = " (none below 6 steps)" if results.lacks_intervals else ""
    sheet = Sheet(
        results,
        title="Weak scaling",
        notes=[
            f"{capitalized(results.count('measured steps a case'))}, each rank with the same "
            f"batch. Bars over the medians: 95% intervals{few}. Efficiency: the step's median on "
            "the fewest ranks over that on n; its interval is of the intervals' opposite ends. "
            "Marks of one number of ranks stand side by side."
        ],
        body=grid.body,
        legend=legend(series),
    )
    unit, scale = time_unit(results.medians)
    time = grid.axes(sheet, 0, 0, "Step", f"time ({unit})")
    efficiency = grid.axes(sheet, 0, 1, "Efficiency", "% of the fewest ranks' rate a rank")
    low, median, high = (
        results.statistic("step", name).to_numpy() for name in ("ci_low", "median", "ci_high")
    )
    for index, one in enumerate(series):
        rows, first = one.rows, one.rows[0]
        x = results.frame["ranks"][rows].to_numpy(float)
        x *= 2 ** ((index - (len(series) - 1) / 2) * SPREAD * 5)
        values = [part[rows] * scale for part in (median, low, high)]
        draw_points(time, one, x, *values, joined=True)
        shares = [100 * median[first] / median[rows], 100 * low[first] / high[rows],
                  100 * high[first] / low[rows]]  # fmt: skip
        shares[1][0] = shares[2][0] = np.nan  # the first is 100% by definition
        draw_points(efficiency, one, x, *shares, joined=True)
    ranks = sorted({results.frame["ranks"][row] for one in series for row in one.rows})
    for axes in (time, efficiency):
        finish(axes, ranks)
    return sheet.figure


def finish(axes: Axes, ranks: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(ranks[0] / 1.25, ranks[-1] * 1.25)
    axes.xaxis.set_major_locator(FixedLocator(ranks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.grid(axis="y")
    axes.set_xlabel("ranks")
