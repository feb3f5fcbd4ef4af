"""Factors and numbers as text, the same in tables and figures."""

import math
from collections.abc import Sequence

import numpy as np

ABSENT = "–"
# Words that need their factor's name.
NEED_NAME = ("yes", "no", "true", "false", "none")
# Figures outside of this range have an exponent: they would be longer than their place.
SMALLEST_PLAIN, LARGEST_PLAIN = 1e-9, 1e10


def text(value: object) -> str:
    """A factor's value as paceline writes it: 128, 0.001, true, naive; empty for None."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.10g}"
    return "" if value is None else printable(str(value))


def lines(value: object) -> str:
    """As text(), but a text of several lines stays one."""
    return "\n".join(map(text, str(value).split("\n")))


def printable(words: str) -> str:
    """With control characters escaped, as backslash n and x1b: terminals would obey them, rows of
    tables would end at them, and neither SVG nor HTML may contain them."""
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def label(name: str) -> str:
    """A factor's display name; d_model and d_ff are kept, as usual in the field."""
    if name == "bucket_mb":
        return "bucket MB"
    return name if name.startswith("d_") else name.replace("_", " ")


def case_label(names: Sequence[str], values: Sequence[str]) -> str:
    """The name of one case: numbers are prefixed with their factor's name, words are not."""
    words = [
        f"{label(name)} {value}" if needs_name(name, value) else value
        for name, value in zip(names, values, strict=True)
        if value
    ]
    return ", ".join(words)


def needs_name(name: str, value: str) -> bool:
    return name != "size" and (value[:1].isdigit() or value in NEED_NAME)


def capitalized(words: str) -> str:
    """Capitalizes a sentence; `n = 10` is kept."""
    return words if words.startswith("n =") else words[0].upper() + words[1:]


def decimals(value: float, digits: int = 4) -> int:
    """The number of decimals for `digits` significant digits."""
    if value == 0 or math.isinf(value):
        return 0
    # Of the rounded value: 9.9996 is 10.00, with as many digits as 10.01.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return max(0, digits - 1 - exponent)


def figure(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits."""
    if math.isnan(value):
        return ABSENT
    is_plain = value == 0 or SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN or math.isinf(value)
    return f"{value:,.{decimals(value, digits)}f}" if is_plain else f"{value:.{digits - 1}e}"


def ms(seconds: float) -> str:
    return f"{figure(seconds * 1e3, 3)} ms" if seconds < 1 else f"{figure(seconds, 3)} s"


def gib(size: float) -> str:
    """MiB below a quarter of a GiB."""
    small = abs(size) < 2**28
    return f"{figure(size / 2**20, 3)} MiB" if small else f"{figure(size / 2**30, 3)} GiB"


def percent(share: float) -> str:
    return ABSENT if math.isnan(share) else f"{100 * share:.1f}%"


def change(ratio: float) -> str:
    """The change by a ratio, with a minus sign: 0.763 is 23.7% less."""
    return f"{100 * (ratio - 1):+.1f}%".replace("-", "\u2212")


def more(ratio: float) -> str:
    """The same in a sentence: "23.7% less"."""
    return f"{percent(abs(ratio - 1))} {'less' if ratio < 1 else 'more'}"


def times(ratio: float) -> str:
    return f"{figure(ratio, 3)}×"


def grouped(number: str) -> str:
    """A context or a head dimension: 1,024."""
    return f"{float(number):,.10g}" if number.replace(".", "", 1).isdigit() else number
