"""Common parts of figures: cases in panels, and a sheet with heading and caption."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from . import style
from .factors import IMPLIED_BY
from .formatting import case_label, label, text
from .results import Results, Run

# Factors shown in the heading if all cases have the same value.
HEADLINE = (
    "op", "size", "causal", "head_dim", "context", "batch_size", "heads", "precision", "attention",
    "exec", "mode", "launch", "dtype", "cadence", "device", "ranks",
)  # fmt: skip
LEGEND_LINE = 0.22  # inches
# Cases are in panels if there are more, or their times differ more, than this.
MANY_ROWS, LARGEST_RATIO = 16, 20.0
# A factor that splits a sweep into panels, the first of these that does.
PANEL_FACTORS = ("size", "precision", "head_dim", "op", "ranks", "context")
# Options of a command that only name the file or say what to do with an earlier one.
ABOUT_THE_FILE = re.compile(
    r" (?:'--output=[^']*'|--(?:output[ =](?:'[^']*'|\S+)|resume|force|quiet))(?=\s|$)"
)


@dataclass(frozen=True)
class Panel:
    """Cases in one panel: those of one size, of one context, or all."""

    title: str
    note: str
    rows: list[int]  # of Results.frame
    labels: list[str]  # of its rows: the factors that differ between them


def panels_of(results: Results) -> list[Panel]:
    names = results.names
    values = results.frame[names].map(text)
    by = panel_factor(names, values) if needs_panels(results) else None
    if by is None:
        return [Panel("", "", list(range(len(values))), results.labels)]
    rest = [name for name in names if name != by]
    return [
        Panel(
            title=value if by == "size" else f"{label(by)} {value}",
            note=results.implied.get(value, "") if by == "size" else "",
            rows=list(group.index),
            labels=[case_label(rest, row) for row in group[rest].to_numpy().tolist()],
        )
        for value, group in values.groupby(by, sort=False)
    ]


def needs_panels(results: Results) -> bool:
    """Whether the cases need panels, because there are many or some bars would be too short on a
    common scale."""
    medians = results.medians
    return len(medians) > MANY_ROWS or medians.max() > LARGEST_RATIO * medians.min()


def panel_factor(names: Sequence[str], values: pd.DataFrame) -> str | None:
    """A factor with which at least two panels have several rows each, or None."""
    for name in PANEL_FACTORS:
        if name in names and values[name].nunique() > 1 and values[name].value_counts().min() > 1:
            return name
    return None


def time_unit(seconds: pd.Series) -> tuple[str, float]:
    """The unit of time, milliseconds unless every case takes seconds, and its number per second."""
    return ("s", 1.0) if seconds.min() >= 1 and seconds.max() >= 10 else ("ms", 1e3)


def time_axis(axes: Axes, length: float, rows: float, label: str = "") -> None:
    """Rows from the top over a span of time; without a label the axis has no figures."""
    axes.set_xlim(0, length)
    axes.set_ylim(rows, 0)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(labelbottom=bool(label))
    axes.set_xlabel(label, loc="left")


class Sheet:
    """A figure of a given body, in inches, between its heading and its caption."""

    def __init__(
        self,
        results: Results,
        title: str,
        notes: Sequence[str],
        body: tuple[float, float],
        legend: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """`legend`: text, colour and, for points, marker."""
        width, height = body
        wide = width - 2 * style.MARGIN
        constants = [
            name
            for name in HEADLINE
            if name in results.constant and IMPLIED_BY.get(name) not in results.factors
        ]
        shared = case_label(constants, [results.constant[name] for name in constants])
        subtitle = style.wrap(shared, wide, style.TEXT)
        # One line on the figure, one on its source.
        told = filter(None, [" ".join(filter(None, notes)), source(results)])
        caption = [style.shorten(line, wide, style.TINY) for line in told]
        lines = legend_lines(legend, wide)
        self.body_top = (
            style.MARGIN
            + 0.30
            + len(subtitle) * style.LINE
            + len(lines) * LEGEND_LINE
            + (0.08 if lines else 0.0)
            + 0.16
        )
        caption_top = self.body_top + height
        total = caption_top + 0.12 + len(caption) * style.LINE * 0.86 + style.MARGIN * 0.8
        self.page = style.page(width, total)
        self.figure = self.page.figure
        self._draw_heading(title, subtitle, lines)
        for index, line in enumerate(caption):
            top = caption_top + 0.12 + index * style.LINE * 0.86
            self.page.text(style.MARGIN, top, line, fontsize=style.TINY)

    def _draw_heading(
        self, title: str, subtitle: Sequence[str], legend: Sequence[Sequence[tuple[str, ...]]]
    ) -> None:
        top = style.MARGIN
        self.page.text(
            style.MARGIN, top, title, fontsize=style.TITLE, weight="bold", color=style.INK
        )
        top += 0.30
        for line in subtitle:
            self.page.text(style.MARGIN, top, line, fontsize=style.TEXT)
            top += style.LINE
        top += 0.08
        for entries in legend:
            left = style.MARGIN
            for word, color, *marker in entries:
                self.page.swatch(left, top + 0.015, 0.12, color, *marker)
                self.page.text(left + 0.19, top, word, fontsize=style.TEXT, color=style.INK)
                left += entry_width(word)
            top += LEGEND_LINE


def legend_lines(legend: Sequence[tuple[str, ...]], width: float) -> list[list[tuple[str, ...]]]:
    """The entries by line; a line with several entries is at most `width` inches long."""
    lines: list[list[tuple[str, ...]]] = []
    used = width
    for entry in legend:
        needed = entry_width(entry[0])
        if not lines or used + needed > width:
            lines.append([])
            used = 0.0
        lines[-1].append(entry)
        used += needed
    return lines


def entry_width(word: str) -> float:
    return 0.19 + style.text_width(word) + 0.22


def source(results: Results) -> str:
    """How the numbers were measured, by the first file."""
    first, *others = results.runs
    origin = ", ".join(filter(None, (first.software, first.created[:10], first.hardware)))
    told = ": ".join(filter(None, (origin or first.name, commands(first))))
    more = f" (and {len(others)} more file{'s' * (len(others) > 1)})" if others else ""
    return told + ("" if first.complete else " (not completed)") + more


def commands(run: Run) -> str:
    """On one line, without the options about the file itself. A file of bench/peers/ has a command
    per line."""
    return "; ".join(ABOUT_THE_FILE.sub("", line) for line in run.command.split("\n"))
