"""The figure of a norm's error in low precision over the scale of its input, a panel for each norm,
dtype and mean."""

from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from .. import style
from ..layout import Sheet
from ..panels import MOST, Grid, power
from ..results import Results
from ..tables.norm_breaks import BREAKS, norms_of

NAMES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}
ERRORS = {
    "input_error": ("input rounded", style.OTHER),
    "float32_statistics_error": ("float32 inside", style.SERIES[0]),
    "rounded_statistics_error": ("every operation rounded", style.SERIES[1]),
}
LOWEST, HIGHEST = 1e-5, 10.0  # of the vertical axis; what is not finite is drawn at its top
COLUMNS = 4
WIDTH, HEIGHT = 2.6, 1.8  # inches


def draw(results: Results) -> Figure | None:
    """None if no norm was measured."""
    found = norms_of(results)
    if found is None:
        return None
    panels = list(found.frame.groupby(["norm", "norm_dtype", "mean"], sort=False))
    shown = panels[:MOST]
    grid = Grid(ceil(len(shown) / COLUMNS), min(COLUMNS, len(shown)), WIDTH, HEIGHT)
    sheet = Sheet(
        found,
        title="Norms in low precision",
        notes=[
            f"The first {MOST} of {len(panels)} panels." * (len(panels) > MOST),
            "Errors relative to float64; those above the axis are at its top.",
        ],
        body=grid.body,
        legend=[*ERRORS.values(), ("broken above", style.ALARM, "_")],
    )
    for index, ((norm, dtype, mean), frame) in enumerate(shown):
        line, column = divmod(index, grid.columns)
        note = f"mean {mean:g} × scale" if mean else "mean 0"
        axes = grid.axes(sheet, line, column, f"{NAMES.get(norm, norm)}, {dtype}", note)
        draw_errors(axes, frame.sort_values("scale"))
        if column == 0:
            axes.set_ylabel("relative error")
        else:
            axes.tick_params(labelleft=False)
        if index + grid.columns >= len(shown):
            axes.set_xlabel("scale of the input", loc="left")
    return sheet.figure


def draw_errors(axes: Axes, frame: pd.DataFrame) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(power)
    axes.set_ylim(LOWEST, HIGHEST)
    axes.grid(axis="y")
    axes.axhline(BREAKS, color=style.ALARM, lw=0.8)
    for name, (_, color) in ERRORS.items():
        errors = frame[name].to_numpy()
        shown = np.clip(np.where(np.isfinite(errors), errors, HIGHEST), LOWEST, HIGHEST)
        axes.plot(frame["scale"], shown, color=color, lw=1.4, marker="o", ms=3, clip_on=False)
