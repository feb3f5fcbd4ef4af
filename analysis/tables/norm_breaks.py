"""The table of the scales of the input at which a norm of `precision --study norms` is close to
float64."""

import numpy as np
import pandas as pd

from ..formatting import text
from ..results import Results
from . import recorded
from .spread import Spread
from .table import Table

BREAKS = 0.1  # a norm with a larger relative error counts as broken
STATISTICS = {"float32": "float32_statistics_error", "rounded": "rounded_statistics_error"}


def norms_of(results: Results) -> Results | None:
    """The finished cases of `precision --study norms`, if there are any."""
    frame = results.frame
    if "norm" not in frame:
        return None
    rows = np.flatnonzero((frame["study"] == "norms") & (frame["status"] == "ok"))
    return results.only(rows) if len(rows) else None


def of(results: Results) -> pd.DataFrame:
    """For each norm the longest run of measured scales at which it does not break, and the next
    scale above, at which it breaks: texts, empty if there is none."""
    found = norms_of(results)
    if found is None:
        return pd.DataFrame()
    keys = [name for name in ("file", "norm", "norm_dtype", "mean") if name in found.frame]
    rows = []
    for values, frame in found.frame.groupby(keys, sort=False):
        factors = dict(zip(keys, map(text, values), strict=True))
        frame = frame.sort_values("scale")
        scales = [text(scale) for scale in frame["scale"]]
        for statistics, error in STATISTICS.items():
            begin, end = longest_run(frame[error].to_numpy() <= BREAKS)
            rows.append(factors | {
                "statistics": statistics,
                "holds_from": scales[begin] if begin < end else "",
                "holds_to": scales[end - 1] if begin < end else "",
                "breaks_at": scales[end] if begin < end < len(scales) else "",
            })  # fmt: skip
    return pd.DataFrame(rows)


def longest_run(holds: np.ndarray) -> tuple[int, int]:
    """From the first index to behind the last of the longest run of True; the first of equals."""
    edges = np.flatnonzero(np.diff(holds.astype(int), prepend=0, append=0))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return 0, 0
    longest = np.argmax(ends - begins)
    return begins[longest], ends[longest]


def build(results: Results, _: Spread) -> list[Table]:
    data = of(results)
    if data.empty:
        return []
    shown = recorded.with_labels(results, data)
    return [
        Table(
            name="norm-breaks",
            title="Where norms break",
            caption=[f"Scales of the input with a relative error up to {BREAKS:g}."],
            columns=[recorded.column("", name, values) for name, values in shown.items()],
            data=data,
        )
    ]
