"""The figure of memory in use over one step, by kind, activations by scope: a panel per case with a
timeline."""

import re
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
BLOCKS = 6  # the largest that are listed below a panel
LINE = 0.15  # inches: a line of them
INDENT = 6 * "\u00a0"  # SVG drops other spaces
PHASES = ("forward", "backward", "optimizer")  # of a step, in order
OTHERS = "activation: other"


def draw(results: Results) -> Figure | None:
    """None without --memory-timeline."""
    rows = [row for row, tables in enumerate(results.case_tables)
            if len(tables.get("memory/timeline", ()))]  # fmt: skip
    if not rows:
        return None
    timelines = {row: results.case_tables[row]["memory/timeline"] for row in rows}
    colors = layers([by_scope(timeline) for timeline in timelines.values()])
    curves = {row: in_layers(by_scope(timelines[row]), colors) for row in rows}
    blocks = {row: wrapped(largest_blocks(results, row)) for row in rows}
    listed = max(map(len, blocks.values()))
    columns = min(COLUMNS, len(rows))
    across = LEFT + WIDTH + GAP
    pitch = HEADING + HEIGHT + BELOW + listed * LINE + 0.15
    sheet = Sheet(
        results,
        title="Memory in use over one step",
        notes=[
            "One step on rank 0, in the order of allocations and releases. Below: the largest "
            "blocks."
        ],
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
        quiet = quiet_phases(results, row)
        draw_layers(axes, curves[row], colors, most, quiet)
        shade_phases(axes, timelines[row], most, quiet)
        if column == 0:
            axes.set_ylabel("in use (GiB)")
        for place, words in enumerate(blocks[row]):
            at = top + HEADING + HEIGHT + BELOW + place * LINE
            sheet.page.text(left + LEFT, at, words, fontsize=style.TINY)
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


def quiet_phases(results: Results, row: int) -> list[str]:
    """Phases that are timed, but neither allocate nor release; those after the others only."""
    timed = [phase for phase in PHASES if phase in results.samples[row].measured]
    active = set(results.case_tables[row]["memory/timeline"]["phase"])
    last = max((timed.index(phase) for phase in timed if phase in active), default=len(timed))
    return timed[last + 1 :]


def band(phase: str) -> float:
    """The width of a phase without events, in inches."""
    return style.text_width(phase, style.SMALL) + 0.1


def draw_layers(
    axes: Axes, curve: pd.DataFrame, colors: dict[str, str], most: float, quiet: list[str]
) -> None:
    events = len(curve)
    end = events * WIDTH / (WIDTH - sum(map(band, quiet)))
    sizes = np.pad((curve / GIB).to_numpy().T, ((0, 0), (0, 1)), mode="edge")
    axes.stackplot([*range(events), end], sizes, step="post", rasterized=True,
                   colors=[colors[name] for name in curve], lw=0)  # fmt: skip
    axes.set_xlim(0, end)
    axes.set_ylim(0, most * 1.22)
    axes.set_xticks([tick for tick in MaxNLocator(6).tick_values(0, events) if tick <= events])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y")
    axes.set_xlabel("allocations and releases, in order", loc="left")


def shade_phases(axes: Axes, timeline: pd.DataFrame, most: float, quiet: list[str]) -> None:
    """Each phase's name in a band above the curves."""
    named = timeline[timeline["phase"] != ""].reset_index(names="event")
    starts = (named.groupby("phase", sort=False)["event"].min() - first_shown(timeline)).to_dict()
    whole = axes.get_xlim()[1]
    inch = whole / WIDTH
    for phase in reversed(quiet):
        starts[phase] = whole = whole - band(phase) * inch
    starts = dict(sorted(starts.items(), key=lambda item: item[1]))
    ends = [*list(starts.values())[1:], axes.get_xlim()[1]]
    for index, ((phase, start), end) in enumerate(zip(starts.items(), ends, strict=True)):
        color = style.GRID if index % 2 else style.SHADE
        axes.axvspan(start, end, color=color, lw=0, zorder=0)
        if style.text_width(phase, style.SMALL) < (end - start) / inch:
            axes.text(
                (start + end) / 2, most * 1.13, phase, ha="center", va="center",
                fontsize=style.SMALL, color=style.INK,
            )  # fmt: skip


def wrapped(blocks: list[str]) -> list[str]:
    """Lines that fit below a panel, broken after a space or a slash."""
    lines = []
    for block in blocks:
        line = ""
        for part in re.findall(r"[^ /]+[ /]*", block):
            if line and style.text_width((line + part).rstrip(), style.TINY) > WIDTH:
                lines.append(line.rstrip())
                line = INDENT
            line += part
        lines.append(line)
    return lines


def largest_blocks(results: Results, row: int) -> list[str]:
    """MiB, kind, shape (if the file has it) and scope of each as text; equal blocks once."""
    table = results.case_tables[row].get("memory/blocks")
    if table is None or table.empty:
        return []
    shapes = table.get("shape", [""] * len(table))
    keys = zip(table["bytes"], table["kind"], shapes, table["scope"], strict=True)
    return [f"{figure(size / MIB, 4)} MiB  {f'{label(kind)} {shape}'.strip()}: {scope}"
            for size, kind, shape, scope in list(dict.fromkeys(keys))[:BLOCKS]]  # fmt: skip
