"""Factors and figures in words, alike in tables and figures."""

import math
from collections.abc import Sequence

import numpy as np

ABSENT = "–"
# Words that say nothing without their factor's name.
NEED_NAME = ("yes", "no", "true", "false", "none")


def text(value: object) -> str:
    """A factor's value as paceline writes it: 128, 0.001, true, naive; nothing for none."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.10g}"
    return "" if value is None else str(value)


def label(name: str) -> str:
    """A factor's name for people; d_model and d_ff are the field's own."""
    if name == "bucket_mb":
        return "bucket MB"
    return name if name.startswith("d_") else name.replace("_", " ")


def case_label(names: Sequence[str], values: Sequence[str]) -> str:
    """One case in words: numbers need their factor's name, words speak for themselves."""
    words = [
        f"{label(name)} {value}" if needs_name(name, value) else value
        for name, value in zip(names, values, strict=True)
        if value
    ]
    return ", ".join(words)


def needs_name(name: str, value: str) -> bool:
    return name != "size" and (value[:1].isdigit() or value in NEED_NAME)


def capitalized(words: str) -> str:
    """A sentence; `n = 10` stays."""
    return words if words.startswith("n =") else words[0].upper() + words[1:]


def decimals(value: float, digits: int = 4) -> int:
    """Decimals that leave so many significant digits."""
    if value == 0 or math.isinf(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def figure(value: float, digits: int = 4) -> str:
    """So many significant digits, never an exponent."""
    return ABSENT if math.isnan(value) else f"{value:,.{decimals(value, digits)}f}"
