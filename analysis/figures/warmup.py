"""The figure of every step from cold: how much longer the first steps take than later ones."""

import numpy as np
from matplotlib.figure import Figure

from .. import style
from ..formatting import figure, times
from ..labelled_rows import ROW, Columns
from ..layout import Sheet, time_unit
from ..panels import MOST, greatest, span_axis
from ..result_file import Samples
from ..results import Results
from ..tables.warmup import longest_of_each_run

PHASE = "step"
AXIS = 0.5  # inches under the rows: figures, the axis' label, space
# The looks of the first two steps and of the others, with the size of their marks.
STEPS = (
    ("first step", style.SERIES[5], 6.0),
    ("second", style.SERIES[0], 5.0),
    ("later ones", style.CROWD, 3.5),
)


def draw(results: Results) -> Figure | None:
    """A row for each case, with a mark for each step. None if no warm-up was recorded."""
    results = longest_of_each_run(results)
    recorded = [row for row, samples in enumerate(results.samples) if has_warmup(samples)]
    if not recorded:
        return None
    medians = results.medians
    ratios = {row: all_steps(results.samples[row]) / medians[row] for row in recorded}
    rows = greatest(recorded, lambda row: ratios[row][0])
    unit, scale = time_unit(medians)
    labels = [results.labels[row] for row in rows]
    words = [
        f"{figure(ratios[row][0] * medians[row] * scale, 3)} → {figure(medians[row] * scale, 3)} "
        f"{unit}, {times(ratios[row][0])}"
        for row in rows
    ]
    columns = Columns.of(labels, words)
    many = f"The {MOST} of {len(recorded)} cases with the slowest first steps. "
    sheet = Sheet(
        results,
        title="Step time from cold",
        notes=[
            many * (len(recorded) > MOST)
            + f"Right: the first step, and the median of {results.count('measured steps')}."
        ],
        body=(columns.width, len(rows) * ROW + AXIS),
        legend=[(name, color, "o") for name, color, _ in STEPS],
    )
    axes = columns.axes(sheet, sheet.body_top, labels, words)
    axes.axvline(1, color=style.FAINT, lw=1)
    for index, row in enumerate(rows):
        parts = (ratios[row][:1], ratios[row][1:2], ratios[row][2:])
        for (_, color, size), steps in reversed(list(zip(STEPS, parts, strict=True))):
            axes.plot(steps, np.full(len(steps), index + 0.5), "o", ms=size, color=color, mew=0)
    shown = np.concatenate([ratios[row] for row in rows])
    span_axis(axes, shown.min(), shown.max(), "time over the median step")
    return sheet.figure


def has_warmup(samples: Samples) -> bool:
    return all(
        PHASE in phases and phases[PHASE].size > 0 for phases in (samples.warmup, samples.measured)
    )


def all_steps(samples: Samples) -> np.ndarray:
    """Seconds on the slowest rank of every step from the first on."""
    return np.concatenate([samples.warmup[PHASE], samples.measured[PHASE]], axis=1).max(axis=0)
