"""The figure of memory in use over one step, by kind, activations by scope: a panel per case with a
timeline."""

import re
from itertools import pairwise
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import style
from ..formatting import figure, label
from ..layout import Sheet
from ..panels import MOST, greatest, plain
from ..results import Results

GIB, MIB = 2**30, 2**20
COLUMNS = 3
WIDTH, HEIGHT, LEFT, HEADING, BELOW, GAP = 3.9, 1.5, 0.55, 0.28, 0.75, 0.30  # inches
OTHERS = "activation: other"


def draw(results: Results) -> Figure | None:
    """None without --memory-timeline."""
    found = {row: tables["memory/timeline"] for row, tables in enumerate(results.case_tables)
             if len(tables.get("memory/timeline", ()))}  # fmt: skip
    if not found:
        return None
    used = {row: by_scope(timeline) for row, timeline in found.items()}
    rows = greatest(used, lambda row: used[row].sum(axis=1).max())
    colors = layers([used[row] for row in rows])
    curves = {row: in_layers(used[row], colors) for row in rows}
    columns = min(COLUMNS, len(rows))
    across = LEFT + WIDTH + GAP
    pitch = HEADING + HEIGHT + BELOW
    many = f"The {MOST} of {len(found)} cases with the highest peaks. "
    sheet = Sheet(
        results,
        title="Memory in use over one step",
        notes=[many * (len(found) > MOST) + "One step on rank 0."],
        body=(2 * style.MARGIN + columns * across - GAP, ceil(len(rows) / columns) * pitch),
        legend=[(label(layer), color) for layer, color in colors.items()],
    )
    most = max(curve.sum(axis=1).max() for curve in curves.values()) / GIB
    for index, row in enumerate(rows):
        line, column = divmod(index, columns)
        left = style.MARGIN + column * across
        top = sheet.body_top + line * pitch
        peak = curves[row].sum(axis=1).max() / GIB
        sheet.page.heading(left, top, results.labels[row], f"peak {figure(peak, 4)} GiB")
        axes = sheet.page.axes(left + LEFT, top + HEADING, WIDTH, HEIGHT)
        draw_layers(axes, curves[row], colors, most)
        shade_phases(axes, found[row], most)
        if column == 0:
            axes.set_ylabel("in use (GiB)")
        words = style.shorten(largest_activation(results, row), WIDTH, style.TINY)
        sheet.page.text(left + LEFT, top + HEADING + HEIGHT + 0.45, words, fontsize=style.TINY)
    return sheet.figure


def by_scope(timeline: pd.DataFrame) -> pd.DataFrame:
    """Bytes in use after each allocation and release, a column per kind, and for activations per
    scope."""
    names = [f"activation: {part_of(scope)}" if kind == "activation" else kind
             for kind, scope in zip(timeline["kind"], timeline["scope"], strict=True)]  # fmt: skip
    used = pd.get_dummies(pd.Series(names, timeline.index)).mul(timeline["bytes"], axis=0).cumsum()
    return used.iloc[first_shown(timeline) :]


def part_of(scope: str) -> str:
    """The innermost part of a scope, without a block's number: "ffn" of "forward/block 3/ffn"."""
    return re.sub(r"^block \d+$", "block", scope.rpartition("/")[2])


def layers(curves: list[pd.DataFrame]) -> dict[str, str]:
    """The colours of kinds in the order of the stack; of activations those of the largest scopes at
    the peaks, the others together."""
    sizes = pd.DataFrame([curve.loc[curve.sum(axis=1).idxmax()] for curve in curves]).max()
    scopes = [name for name in sizes.sort_values(ascending=False, kind="stable").index
              if name.startswith("activation: ")]  # fmt: skip
    found: dict[str, str] = {}
    for kind, color in style.KINDS.items():
        if kind != "activation":
            found |= {kind: color} if kind in sizes else {}
            continue
        found |= dict(zip(scopes, style.ACTIVATIONS, strict=False))
        if len(scopes) > len(style.ACTIVATIONS):
            found[OTHERS] = style.OTHER_ACTIVATIONS
    return found


def in_layers(curve: pd.DataFrame, colors: dict[str, str]) -> pd.DataFrame:
    """A column per layer that the case has."""
    others = curve[[name for name in curve if name not in colors]]
    whole = curve.assign(**{OTHERS: others.sum(axis=1)}) if len(others.columns) else curve
    return whole[[name for name in colors if name in whole]]


def first_shown(timeline: pd.DataFrame) -> int:
    """The row at which the curve begins: the last of the blocks that were there before the step,
    which the timeline lists first, at 0 s."""
    return max(int((timeline["seconds"] <= 0).sum()) - 1, 0)


def draw_layers(axes: Axes, curve: pd.DataFrame, colors: dict[str, str], most: float) -> None:
    events = len(curve)
    sizes = np.pad((curve / GIB).to_numpy().T, ((0, 0), (0, 1)), mode="edge")
    axes.stackplot(range(events + 1), sizes, step="post", rasterized=True,
                   colors=[colors[name] for name in curve], lw=0)  # fmt: skip
    axes.set_xlim(0, events)
    axes.set_ylim(0, most * 1.22)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(plain)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y")
    axes.set_xlabel("allocations and releases, in order", loc="left")


def shade_phases(axes: Axes, timeline: pd.DataFrame, most: float) -> None:
    """Each phase's name in a band above the curves; a phase that neither allocates nor releases has
    none."""
    named = timeline[timeline["phase"] != ""].reset_index(names="event")
    starts = named.groupby("phase", sort=False)["event"].min().sort_values()
    starts -= first_shown(timeline)
    whole = axes.get_xlim()[1]
    for index, (start, end) in enumerate(pairwise([*starts, whole])):
        phase = starts.index[index]
        axes.axvspan(start, end, color=style.GRID if index % 2 else style.SHADE, lw=0, zorder=0)
        if style.text_width(phase, style.SMALL) < (end - start) * WIDTH / whole:
            axes.text(
                (start + end) / 2, most * 1.13, phase, ha="center", va="center",
                fontsize=style.SMALL, color=style.INK,
            )  # fmt: skip


def largest_activation(results: Results, row: int) -> str:
    """Its size, shape (if the file has it) and scope; empty if unknown."""
    table = results.case_tables[row].get("memory/blocks", pd.DataFrame(columns=["kind"]))
    own = table[table["kind"] == "activation"]
    if own.empty:
        return ""
    block = own.loc[own["bytes"].idxmax()]
    size = f"{figure(block['bytes'] / MIB, 4)} MiB {block.get('shape', '')}".strip()
    return f"Largest activation: {size}, in {part_of(block['scope'])}"
