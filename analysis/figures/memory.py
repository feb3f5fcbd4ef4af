"""The figure of memory in use over one step, by kind: a panel per case with a timeline."""

from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import style
from ..formatting import figure, label
from ..layout import Sheet
from ..results import Results

GIB, MIB = 2**30, 2**20
COLUMNS = 3
WIDTH, HEIGHT, LEFT, HEADING, BELOW, GAP = 3.9, 1.5, 0.55, 0.28, 0.48, 0.30  # inches
BLOCKS = 4  # the largest that are listed below a panel
LINE = 0.15  # inches: a line of them


def draw(results: Results) -> Figure | None:
    """None without --memory-timeline."""
    rows = [row for row, tables in enumerate(results.case_tables)
            if len(tables.get("memory/timeline", ()))]  # fmt: skip
    if not rows:
        return None
    curves = {row: by_kind(results.case_tables[row]["memory/timeline"]) for row in rows}
    blocks = {row: largest_blocks(results, row) for row in rows}
    listed = max(map(len, blocks.values()))
    columns = min(COLUMNS, len(rows))
    across = LEFT + WIDTH + GAP
    pitch = HEADING + HEIGHT + BELOW + listed * LINE + 0.15
    kinds = [kind for kind in style.KINDS if any(kind in curve for curve in curves.values())]
    sheet = Sheet(
        results,
        title="Memory in use over one step",
        notes=[
            "Of one step after the measured ones, on rank 0, in the order of allocations and "
            "releases: the host makes them ahead of the device, so their times say little. Shaded "
            "by turns: the phases. Below each panel: the largest blocks of the step, with the "
            "scope that allocated them. All panels have one scale of memory."
        ],
        body=(2 * style.MARGIN + columns * across - GAP, ceil(len(rows) / columns) * pitch),
        legend=[(label(kind), style.KINDS[kind]) for kind in kinds],
    )
    most = max(curve[list(kinds_of(curve))].sum(axis=1).max() for curve in curves.values()) / GIB
    for index, row in enumerate(rows):
        line, column = divmod(index, columns)
        left = style.MARGIN + column * across
        top = sheet.body_top + line * pitch
        peak = curves[row][kinds_of(curves[row])].sum(axis=1).max() / GIB
        sheet.page.heading(left, top, results.labels[row], f"peak {figure(peak, 4)} GiB")
        axes = sheet.page.axes(left + LEFT, top + HEADING, WIDTH, HEIGHT)
        draw_kinds(axes, curves[row], most)
        shade_phases(axes, results.case_tables[row]["memory/timeline"], most)
        if column == 0:
            axes.set_ylabel("in use (GiB)")
        for place, words in enumerate(blocks[row]):
            at = top + HEADING + HEIGHT + BELOW + place * LINE
            words = style.shorten(words, WIDTH, style.TINY)
            sheet.page.text(left + LEFT, at, words, fontsize=style.TINY)
    return sheet.figure


def by_kind(timeline: pd.DataFrame) -> pd.DataFrame:
    """Bytes in use after each allocation and release, a column per kind."""
    used = pd.get_dummies(timeline["kind"]).mul(timeline["bytes"], axis=0).cumsum()
    return used.iloc[first_shown(timeline) :]


def first_shown(timeline: pd.DataFrame) -> int:
    """The row at which the curve begins: the last of the blocks that were there before the step,
    which the timeline lists first, at 0 s."""
    return max(int((timeline["seconds"] <= 0).sum()) - 1, 0)


def kinds_of(curve: pd.DataFrame) -> list[str]:
    return [kind for kind in style.KINDS if kind in curve]


def draw_kinds(axes: Axes, curve: pd.DataFrame, most: float) -> None:
    kinds = kinds_of(curve)
    sizes = (curve[kinds] / GIB).to_numpy().T
    axes.stackplot(np.arange(len(curve)), sizes, step="post",
                   colors=[style.KINDS[kind] for kind in kinds], lw=0)  # fmt: skip
    axes.set_xlim(0, len(curve))
    axes.set_ylim(0, most * 1.22)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y")
    axes.set_xlabel("allocations and releases, in order", loc="left")


def shade_phases(axes: Axes, timeline: pd.DataFrame, most: float) -> None:
    """Each phase's name in a band above the curves."""
    named = timeline[timeline["phase"] != ""].reset_index(names="event")
    starts = (named.groupby("phase", sort=False)["event"].min() - first_shown(timeline)).to_dict()
    ends = [*list(starts.values())[1:], axes.get_xlim()[1]]
    inch = axes.get_xlim()[1] / WIDTH
    for index, ((phase, start), end) in enumerate(zip(starts.items(), ends, strict=True)):
        color = style.GRID if index % 2 else style.SHADE
        axes.axvspan(start, end, color=color, lw=0, zorder=0)
        if style.text_width(phase, style.SMALL) < (end - start) / inch:
            axes.text(
                (start + end) / 2, most * 1.13, phase, ha="center", va="center",
                fontsize=style.SMALL, color=style.INK,
            )  # fmt: skip


def largest_blocks(results: Results, row: int) -> list[str]:
    """MiB, kind, shape (if the file has it) and scope of each as text; equal blocks once."""
    table = results.case_tables[row].get("memory/blocks")
    if table is None or table.empty:
        return []
    shapes = table.get("shape", [""] * len(table))
    keys = zip(table["bytes"], table["kind"], shapes, table["scope"], strict=True)
    return [f"{figure(size / MIB, 4)} MiB  {f'{label(kind)} {shape}'.strip()}: {scope}"
            for size, kind, shape, scope in list(dict.fromkeys(keys))[:BLOCKS]]  # fmt: skip
