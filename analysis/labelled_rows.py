"""Rows of a figure: each with its label on the left, marks on an axis, and words on the right."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from . import style
from .layout import Sheet

WIDTH, ROW, HEADING = 5.4, 0.26, 0.32  # inches: of the axes, of a row, of a panel's heading
BESIDE = 0.15  # inches from the axes to the words on their right


@dataclass(frozen=True)
class Columns:
    """Where labels, axes and words are, from the left, in inches."""

    labels: float
    words: float

    @staticmethod
    def of(labels: Sequence[str], words: Sequence[str]) -> "Columns":
        return Columns(max(style.widest(labels), 0.3) + 0.15, style.widest(words))

    @property
    def width(self) -> float:
        return 2 * style.MARGIN + self.labels + WIDTH + BESIDE + self.words

    def axes(self, sheet: Sheet, top: float, labels: Sequence[str], words: Sequence[str]) -> Axes:
        """Rows with these texts; the middle of row i is at i + 0.5, from the top."""
        left = style.MARGIN + self.labels
        axes = sheet.page.axes(left, top, WIDTH, len(labels) * ROW)
        axes.set_ylim(len(labels), 0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        for index, texts in enumerate(zip(labels, words, strict=True)):
            middle = top + (index + 0.5) * ROW
            for place, text in zip((style.MARGIN, left + WIDTH + BESIDE), texts, strict=True):
                sheet.page.text(place, middle, text, va="center_baseline",
                                fontsize=style.TEXT, color=style.INK)  # fmt: skip
        return axes
