"""Weak scaling: cases that differ only in the number of ranks, with the same work per rank."""

from dataclasses import dataclass

from .results import Results
from .words import case_label, text

# Factors that change with the number of ranks.
WITH_RANKS = ("ranks", "file", "threads", "global_batch")


@dataclass(frozen=True)
class Scaling:
    label: str
    rows: list[int]  # of Results.frame, by rising number of ranks


def of(results: Results) -> list[Scaling]:
    """None for an experiment without steps, or if each case has only one number of ranks."""
    frame = results.frame
    if "ranks" not in frame or "batch_size" not in frame or results.headline != "step":
        return []
    names = [name for name in results.varying if name not in WITH_RANKS]
    keys = [tuple(map(text, row)) for row in frame[names].itertuples(index=False)]
    groups: dict[tuple, list[int]] = {}
    for row, key in enumerate(keys):
        if results.medians[row] > 0:
            groups.setdefault(key, []).append(row)
    return [
        Scaling(case_label(names, key), sorted(rows, key=lambda row: frame["ranks"][row]))
        for key, rows in groups.items()
        if frame["ranks"][rows].nunique() > 1
    ]
