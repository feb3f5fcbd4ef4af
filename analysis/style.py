"""The style of figures: colours for colour-blind readers, sizes in inches, plain axes."""

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib
import matplotlib.colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

# A character that the font lacks is a box in pixels; SVG has it as text, for the reader's fonts.
warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)

# Okabe and Ito's palette (2008).
PHASES = {
    "forward": "#0072B2", "backward": "#E69F00", "communication_exposed": "#CC79A7",
    "optimizer": "#009E73",
}  # fmt: skip
KINDS = {
    "parameter": "#0072B2", "gradient": "#E69F00", "optimizer_state": "#009E73",
    "activation": "#56B4E9", "communication": "#CC79A7", "gathered": "#F0E442",
    "workspace": "#8A94A0",
}  # fmt: skip
# Of activations by scope.
ACTIVATIONS = ("#56B4E9", "#A9DAF6", "#3C97CE")
OTHER_ACTIVATIONS = "#CDE7F7"
COLLECTIVES = {
    "all_reduce": "#CC79A7", "reduce_scatter": "#D55E00", "all_gather": "#56B4E9",
    "broadcast": "#F0E442",
}  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
NO_PHASES = OTHER = "#8A94A0"  # a step whose phases were not measured; anything without a colour
CROWD = "#A9B2BC"  # what is many, behind what counts
ALARM, ALARM_PALE = "#B5400B", "#FBEBE2"
INK, FAINT, GRID, SHADE = "#1B1F24", "#5A6470", "#DFE3E8", "#F1F3F5"

STATUS_WORDS = {"oom": "out of memory"}

CLEAR = {"fc": "white", "ec": "none", "pad": 0.8}  # behind text that a grid line would cross

TITLE, HEAD, TEXT, SMALL, TINY = 13.0, 10.5, 9.0, 8.0, 7.5  # points
MARGIN = 0.30  # inches
LINE = 0.19  # inches: a line of SMALL text

SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": TEXT,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.labelsize": SMALL,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # a file's text may have dollars
    # Text is kept as text: it can be searched, and the same input gives the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "paceline",
}


@dataclass(frozen=True)
class Page:
    """A figure laid out in inches from its top left corner."""

    figure: Figure
    width: float
    height: float

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        return self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )

    def heading(self, left: float, top: float, title: str, note: str) -> None:
        self.text(left, top, title, fontsize=HEAD, weight="bold", color=INK)
        self.text(left + text_width(title, HEAD, "bold") + 0.12, top + 0.03, note)

    def swatch(self, left: float, top: float, side: float, color: str, marker: str = "") -> None:
        """A square, or the marker of points."""
        x, y = left / self.width, 1 - (top + side) / self.height
        across, down = side / self.width, side / self.height
        if marker:
            middle = ([x + across / 2], [y + down / 2])
            point = Line2D(*middle, marker=marker, ms=6, color=color, lw=0)
            self.figure.add_artist(point)
        else:
            self.figure.add_artist(Rectangle((x, y), across, down, color=color, lw=0))

    def text(self, left: float, top: float, words: str, **style: object) -> None:
        place = {"ha": "left", "va": "top", "fontsize": SMALL, "color": FAINT} | style
        self.figure.text(left / self.width, 1 - top / self.height, words, **place)


def colors_for(names: Sequence[str]) -> dict[str, str]:
    """A colour for each; when colours run out, the rest share one."""
    return dict(zip(names, SERIES, strict=False)) | dict.fromkeys(names[len(SERIES) :], OTHER)


def legend(colors: dict[str, str]) -> list[tuple[str, str]]:
    entries = [(word, color) for word, color in colors.items() if color != OTHER]
    return entries + ([("other", OTHER)] if len(entries) < len(colors) else [])


def on(color: str) -> str:
    """A text colour that is readable on `color`."""
    red, green, blue = matplotlib.colors.to_rgb(color)
    return INK if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"


def page(width: float, height: float) -> Page:
    return Page(Figure(figsize=(width, height), facecolor="white"), width, height)


@cache
def text_width(words: str, size: float = TEXT, weight: str = "normal") -> float:
    """The width of `words` in inches, with a small margin: renderers round glyph widths up."""
    if not words.strip():
        return 0.0
    properties = matplotlib.font_manager.FontProperties(size=size, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(words, properties, ismath=False)
    return width * 1.05 / 72


def widest(words: Sequence[str], size: float = TEXT) -> float:
    return max((text_width(word, size) for word in words), default=0.0)


def wrap(words: str, width: float, size: float = SMALL, weight: str = "normal") -> list[str]:
    """Lines of `words` that fit into `width` inches; a wider word has a line of its own."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size, weight) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def shorten(words: str, width: float, size: float = SMALL) -> str:
    """`words`, cut to `width` inches with an ellipsis."""
    if text_width(words, size) <= width:
        return words
    # Measuring takes about a millisecond, and a reason may have hundreds of characters.
    lengths = range(len(words))
    fits = bisect_right(lengths, width, lo=1, key=lambda n: text_width(words[:n] + "…", size)) - 1
    return words[:fits].rstrip(" .,;:/") + "…"
