"""The figure of predicted memory (closed form) against measured memory."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from .. import style
from ..layout import Sheet
from ..panels import OWN_SCALE, Grid, plain
from ..results import Results

GIB = 2**30
# The predicted quantities, with their labels.
QUANTITIES = {"peak_bytes": "peak", "saved_bytes": "kept for backward"}
WORKSPACE = "workspace_bytes"  # of attention; its size depends on the kernels, not on a formula
WIDTH, HEIGHT = 4.4, 3.2  # inches


def draw(results: Results) -> Figure | None:
    """None if nothing was predicted."""
    frame = results.frame
    found = {
        name: pd.DataFrame([frame[f"predicted_{name}"], counted(frame, name)]).T.dropna() / GIB
        for name in QUANTITIES
        if name in frame and f"predicted_{name}" in frame
    }
    found = {name: table[(table > 0).all(axis=1)] for name, table in found.items()}
    found = {name: table for name, table in found.items() if len(table)}
    if not found:
        return None
    grid = Grid(1, 2, WIDTH, HEIGHT, OWN_SCALE)
    colors = dict(zip(QUANTITIES, style.SERIES, strict=False))
    markers = dict(zip(QUANTITIES, style.MARKERS, strict=False))
    sheet = Sheet(
        results,
        title="Memory: predicted against measured",
        notes=[
            "Peaks of the ledger beside those of the closed form."
            + " Without the kernels' workspace." * (WORKSPACE in frame)
        ],
        body=grid.body,
        legend=[(QUANTITIES[name], colors[name], markers[name]) for name in found],
    )
    both = grid.axes(sheet, 0, 0, "Measured against predicted", "GiB")
    more = grid.axes(sheet, 0, 1, "Measured beyond predicted", "%")
    values = np.concatenate([table.to_numpy().ravel() for table in found.values()])
    low, high = values.min() / 1.5, values.max() * 1.5
    both.plot([low, high], [low, high], color=style.FAINT, lw=0.8, ls=(0, (4, 3)))
    more.axhline(0, color=style.FAINT, lw=0.8, ls=(0, (4, 3)))
    for axes, place in ((both, (low, low)), (more, (low, 0))):
        axes.annotate("equal", place, (4, 6), textcoords="offset points", fontsize=style.TINY,
                      color=style.FAINT)  # fmt: skip
    for name, table in found.items():
        predicted, measured = table.to_numpy().T
        point = {"marker": markers[name], "ms": 4, "color": colors[name], "ls": "", "alpha": 0.8}
        both.plot(predicted, measured, **point)
        more.plot(predicted, 100 * (measured / predicted - 1), **point)
    subs = (1, 2, 5) if high / low < 300 else (1,)
    for axes in (both, more):
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(plain)
        axes.set_xlabel("predicted (GiB)")
        axes.grid()
    both.set_yscale("log")
    both.set_ylim(low, high)
    both.yaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
    both.yaxis.set_minor_locator(NullLocator())
    both.yaxis.set_major_formatter(plain)
    return sheet.figure


def counted(frame: pd.DataFrame, name: str) -> pd.Series:
    """What the closed form of this quantity counts."""
    has_workspace = name == "peak_bytes" and WORKSPACE in frame
    return frame[name] - frame[WORKSPACE] if has_workspace else frame[name]
