"""The figure of a norm's error in low precision, over the scale and mean of its input."""

import math
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from .. import style
from ..layout import Sheet
from ..panels import power
from ..results import Results
from ..tables.norm_breaks import BREAKS, norms_of

NAMES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}
ERRORS = {
    "input_error": ("input rounded", style.OTHER),
    "float32_statistics_error": ("float32 inside", style.SERIES[0]),
    "rounded_statistics_error": ("every operation rounded", style.SERIES[1]),
}
LOWEST, HIGHEST = (
    1e-5,
    10.0,
)  # of the vertical axis; values that are not finite are drawn at its top
LINES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dash-dotted"}  # by mean
COLUMNS = 2
WIDTH, HEIGHT, LEFT, HEADING, BELOW, GAP = 3.6, 2.1, 0.62, 0.30, 0.52, 0.25  # inches


def draw(results: Results) -> Figure | None:
    """None if no norm was measured."""
    found = norms_of(results)
    if found is None:
        return None
    panels = list(found.frame.groupby(["norm", "norm_dtype"], sort=False))
    means = sorted(found.frame["mean"].unique())
    lines = dict(zip(means, cycle(LINES), strict=False))
    rows = math.ceil(len(panels) / COLUMNS)
    columns = min(COLUMNS, len(panels))
    pitch = (LEFT + WIDTH + GAP, HEADING + HEIGHT + BELOW)
    sheet = Sheet(
        found,
        title="Norms in low precision",
        notes=[
            "Errors relative to float64; above the pale line a norm counts as broken.",
            "Mean of the input, in units of its scale: "
            + ", ".join(f"{mean:g} {LINES[lines[mean]]}" for mean in means)
            + ".",
        ],
        body=(2 * style.MARGIN + columns * pitch[0], rows * pitch[1]),
        legend=list(ERRORS.values()),
    )
    for index, ((norm, dtype), frame) in enumerate(panels):
        left = style.MARGIN + index % COLUMNS * pitch[0]
        top = sheet.body_top + index // COLUMNS * pitch[1]
        sheet.page.heading(left, top, f"{NAMES.get(norm, norm)}, {dtype}", "")
        axes = sheet.page.axes(left + LEFT, top + HEADING, WIDTH, HEIGHT)
        draw_errors(axes, frame, lines)
        if index % COLUMNS == 0:
            axes.set_ylabel("relative error")
        if index + COLUMNS >= len(panels):
            axes.set_xlabel("scale of the input", loc="left")
    return sheet.figure


def draw_errors(axes: Axes, frame: pd.DataFrame, lines: dict[float, str]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(power)
    axes.set_ylim(LOWEST, HIGHEST)
    axes.grid(axis="y")
    axes.axhline(BREAKS, color=style.ALARM, lw=0.8, alpha=0.5)
    for mean, of_mean in frame.groupby("mean"):
        of_mean = of_mean.sort_values("scale")
        for name, (_, color) in ERRORS.items():
            errors = of_mean[name].to_numpy()
            shown = np.clip(np.where(np.isfinite(errors), errors, HIGHEST), LOWEST, HIGHEST)
            axes.plot(
                of_mean["scale"], shown, lines[mean], color=color, lw=1.4, marker="o", ms=3,
                clip_on=False,
            )  # fmt: skip
