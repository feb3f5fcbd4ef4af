"""Panels of curves in rows and columns, and the points with intervals that they show."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from . import style
from .formatting import case_label, figure, text
from .layout import Sheet

MOST = 12  # panels of a figure
LEFT, GAP, HEADING, BELOW = 0.68, 0.24, 0.28, 0.56  # inches around a panel's axes
OWN_SCALE = 0.8  # inches from a panel to the next, where each shows a scale of its own
MIN_TICKS = 3  # of a logarithmic axis
LOGARITHMIC_FROM = 2.0  # the greatest value over the least
LOST_STEP = 0.07  # of the axes' height, between the crosses of several series at one point
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def greatest(rows: Collection[int], key: Callable[[int], float]) -> list[int]:
    """At most MOST of the rows, those with the greatest keys, in ascending order."""
    ordered = sorted(rows)
    ranks = np.argsort([-key(row) for row in ordered], kind="stable")
    return sorted(ordered[rank] for rank in ranks[:MOST])


@dataclass(frozen=True)
class Grid:
    rows: int
    columns: int
    width: float  # of a panel's axes, in inches
    height: float
    gap: float = GAP
    above: float = 0.0  # for a heading of each row

    @property
    def row_height(self) -> float:
        return self.above + HEADING + self.height + BELOW

    @property
    def body(self) -> tuple[float, float]:
        """The size in inches, margins included."""
        across = self.columns * (self.width + self.gap) - self.gap
        return 2 * style.MARGIN + LEFT + across, self.rows * self.row_height

    def axes(self, sheet: Sheet, row: int, column: int, title: str, note: str = "") -> Axes:
        left = style.MARGIN + LEFT + column * (self.width + self.gap)
        top = sheet.body_top + row * self.row_height + self.above
        sheet.page.heading(left, top, title, note)
        return sheet.page.axes(left, top + HEADING, self.width, self.height)


@dataclass(frozen=True)
class Series:
    """Cases that differ only in the quantity of the horizontal axis."""

    label: str
    rows: list[int]  # of Results.frame, by what the axis shows
    color: str
    marker: str


def series_of(frame: pd.DataFrame, names: Sequence[str], along: str) -> list[Series]:
    """Series of cases that agree in the factors `names`, by which they are named."""
    ordered = frame.sort_values(along, kind="stable")
    values = ordered[list(names)].map(text)
    keys = pd.Series(list(map(tuple, values.to_numpy().tolist())), index=ordered.index)
    found = {key: list(keys.index[keys == key]) for key in dict.fromkeys(keys.sort_index())}
    looks = looks_of(list(found))
    return [Series(case_label(names, key), found[key], *looks[key]) for key in found]


def looks_of(keys: list[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, str]]:
    """The colour and marker of each series. Where there are more series than colours, the colour
    shows as many of the first factors as it can, and the marker the others."""

    def by_color(factors: int) -> list[tuple[str, ...]]:
        return list(dict.fromkeys(key[:factors] for key in keys))

    most = max(map(len, keys), default=0)
    shown = next((n for n in range(most, 0, -1) if len(by_color(n)) <= len(style.SERIES)), 0)
    if shown == 0 or shown == most:
        numbers = {key: (n, n + n // len(style.SERIES)) for n, key in enumerate(keys)}
    else:
        colors = by_color(shown)
        markers = list(dict.fromkeys(key[shown:] for key in keys))
        numbers = {key: (colors.index(key[:shown]), markers.index(key[shown:])) for key in keys}
    return {
        key: (
            style.SERIES[color % len(style.SERIES)],
            style.MARKERS[marker % len(style.MARKERS)],
        )
        for key, (color, marker) in numbers.items()
    }


def legend(series: Sequence[Series]) -> list[tuple[str, str, str]]:
    return [(one.label, one.color, one.marker) for one in series] if len(series) > 1 else []


def draw_points(
    axes: Axes,
    series: Series,
    x: np.ndarray,
    median: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    joined: bool,
) -> None:
    """A mark at each median, and a line over its interval; `joined`: the medians as one curve."""
    axes.plot(
        x, median, series.marker, color=series.color, ms=3.4, ls="-" if joined else "", lw=1.1
    )  # fmt: skip
    axes.vlines(x, low, high, color=series.color, lw=2.2, alpha=0.55)


def draw_lost(axes: Axes, series: Series, x: np.ndarray, level: int) -> None:
    """A cross for each case that ran out of memory; `level`: the series' row of crosses from the
    top."""
    top = np.full(len(x), 0.96 - LOST_STEP * level)
    transform = axes.get_xaxis_transform()
    axes.plot(x, top, "x", color=series.color, ms=5, mew=1.6, transform=transform, clip_on=False)


def log_axes(axes: Axes, x: Sequence[float], y: np.ndarray) -> None:
    """Makes both axes logarithmic, with ticks at `x` and a range that includes all of `y`."""
    axes.set_xscale("log")
    ticks = sorted(set(x))
    axes.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
    axes.xaxis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // 6)]))
    axes.xaxis.set_major_formatter(plain)
    axes.xaxis.set_minor_locator(NullLocator())
    y = y[np.isfinite(y) & (y > 0)]
    if len(y) == 0:
        return
    axes.set_yscale("log")
    axes.set_ylim(y.min() / 1.6, y.max() * 2.2)
    low, high = axes.get_ylim()
    steps = (1, 2, 5) if high / low < 300 else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(plain)
    axes.grid(axis="y")


def plain(value: float, _: int = 0) -> str:
    """A tick label, without exponent where that is short."""
    return f"{value:,.10g}" if value >= 1e-4 else figure(value, 1)


def power(value: float, _: int = 0) -> str:
    """A tick label at a power of ten, as 10⁻³."""
    return f"10{str(round(np.log10(value))).translate(SUPERSCRIPTS)}"


def span_axis(axes: Axes, low: float, high: float, label: str, unit: str = "") -> None:
    """A horizontal axis that need not begin at 0, with room beside these ends; a logarithmic one if
    they are far apart."""
    is_linear = high / low < LOGARITHMIC_FROM
    if is_linear:
        room = 0.1 * (high - low) or 0.1 * high
        axes.set_xlim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(plain)
    else:
        log_axis(axes, low, high)
    told = ", ".join(filter(None, [unit, "" if is_linear else "log scale"]))
    axes.set_xlabel(f"{label} ({told})" if told else label, loc="left")


def log_axis(axes: Axes, low: float, high: float) -> None:
    """A logarithmic horizontal axis with room beside these ends and at least three ticks."""
    low, high = low / 1.3, high * 1.3
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=subdivisions(low, high)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain)


def subdivisions(low: float, high: float) -> tuple[int, ...]:
    """The fewest multiples of powers of ten of which at least three are between these."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for subs in ((1,), (1, 2, 5)):
        ticks = np.outer(powers, subs)
        if ((ticks >= low) & (ticks <= high)).sum() >= MIN_TICKS:
            return subs
    return (1, 2, 3, 4, 6, 8)
