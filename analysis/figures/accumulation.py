"""The figure of sums in low precision: the relative error of each arithmetic and order."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from .. import style
from ..formatting import figure
from ..layout import Sheet
from ..panels import power
from ..results import Results

WIDTH, ROW, BESIDE = 6.0, 0.26, 1.6  # inches
AXIS = 0.55  # inches
LEAST = 1e-9  # smaller errors are drawn here


def draw(results: Results) -> Figure | None:
    """None without precision --study accumulation."""
    frame = results.frame
    if "sum_error" not in frame:
        return None
    rows = np.flatnonzero((frame["study"] == "accumulation") & frame["sum_error"].notna())
    if not len(rows):
        return None
    found = results.only(rows)
    labels = found.labels
    orders = list(found.frame["summation"].unique())
    colors = style.colors_for(orders)
    left = style.MARGIN + style.widest(labels, style.SMALL) + 0.15
    sheet = Sheet(
        found,
        title="Sums in low precision",
        notes=[
            "Right of each error the sum. The bar: the addend's rounding, and the bound of the "
            "additions'."
        ],
        body=(left + WIDTH + BESIDE + style.MARGIN, len(labels) * ROW + AXIS),
        legend=[(name, color, "o") for name, color in colors.items()],
    )
    axes = sheet.page.axes(left, sheet.body_top, WIDTH, len(labels) * ROW)
    errors = found.frame["sum_error"].abs().clip(lower=LEAST)
    allowed = found.frame["rounding_bound"] + found.frame["addend_error"].abs()
    for index, (error, bound, words) in enumerate(zip(errors, allowed, labels, strict=True)):
        case = found.frame.iloc[index]
        middle = sheet.body_top + (index + 0.5) * ROW
        axes.hlines(index + 0.5, LEAST, max(min(bound, 2.0), LEAST), color=style.GRID, lw=5)
        axes.plot(error, index + 0.5, "o", ms=5, color=colors[case["summation"]], clip_on=False)
        sheet.page.text(style.MARGIN, middle, words, va="center_baseline", color=style.INK)
        beside = f"{figure(case['sum'], 6)} for {figure(case['exact_sum'], 4)}"
        sheet.page.text(left + WIDTH + 0.15, middle, beside, va="center_baseline", color=style.INK)
    axes.set_xscale("log")
    axes.set_xlim(LEAST, 2)
    axes.set_ylim(len(labels), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,), numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(power)
    axes.grid(axis="x")
    axes.set_xlabel("relative error (log scale)", loc="left")
    return sheet.figure
