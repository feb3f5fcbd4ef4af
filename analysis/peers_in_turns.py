"""Tables of a file of bench/peers/ whose two sides took turns: times, memory, and their ratio with
an interval from the pairs of turns."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from .comparison import Ratio
from .formatting import ABSENT, figure, label, text
from .tables import formats
from .tables.table import is_number

# Student's t at 97.5% by degrees of freedom, from 1.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
NORMAL = 1.95996
OURS = "paceline"
CASE = ("size", "context", "batch_size", "precision", "attention", "mode", "ranks")

Rows = list[dict[str, object]]


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The geometric mean of the ratios of pairs, and its 95% interval by Student's t of their
    logarithms (a paired t test; Student, "The probable error of a mean", Biometrika 6, 1908). It
    assumes that the logarithms of turns are independent and normal, and nothing of the repetitions
    within a turn, which are autocorrelated. One pair has no interval."""
    logs = np.log(np.asarray(ours) / np.asarray(theirs))
    n, mean = len(logs), float(np.mean(logs))
    if n < 2:
        return Ratio(math.exp(mean))
    half = student(n - 1) * float(np.std(logs, ddof=1)) / math.sqrt(n)
    return Ratio(*(float(np.exp(mean + side * half)) for side in (0, -1, 1)))


def student(degrees: int) -> float:
    """Beyond the table by an expansion (Abramowitz and Stegun, 26.7.5)."""
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    z, n = NORMAL, degrees
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2) + third


def shown(ratio: Ratio) -> str:
    interval = "" if math.isnan(ratio.low) else f" [{ratio.low:.3f}, {ratio.high:.3f}]"
    return f"{ratio.value:.3f}{interval}"


def tables(frame: pd.DataFrame) -> list[str]:
    """Markdown: ours beside the fastest peer, then every variant."""
    frame = frame.assign(**{name: frame[name].map(text) for name in CASE if name in frame})
    factors = [n for n in CASE if n in frame and (frame[n].nunique() > 1 or n == "size")]
    by_case = frame.groupby([n for n in CASE if n in frame], sort=False)
    groups = [rows.to_dict("records") for _, rows in by_case]
    best = [row for rows in groups for row in beside(rows, factors)]
    every = [row for rows in groups for row in all_variants(rows, factors)]
    return [
        *table(best),
        "",
        "Every variant. Times are medians [95% interval] of its first turn, memory is the peak:",
        "",
        *table(every),
    ]


def beside(rows: Rows, factors: Sequence[str]) -> list[dict[str, str]]:
    """A row for each of our variants, beside the fastest peer that does the same."""
    found = []
    for variant in dict.fromkeys(text(row["variant"]) for row in rows if is_ours(row)):
        ours = [row for row in rows if row["variant"] == variant]
        theirs = fastest([row for row in rows if not is_ours(row) and is_like(row, ours[0])])
        pairs = paired(ours, theirs)
        ratio = shown(ratio_of(*zip(*pairs, strict=True))) if pairs else ABSENT
        other = text(theirs[0]["variant"]) if theirs else ABSENT
        found.append({
            **{label(name): text(ours[0][name]) for name in factors},
            OURS: variant.removeprefix(f"{OURS} "), "ms": milliseconds(ours), "GB": peak(ours),
            "fastest peer": other, "its ms": milliseconds(theirs), "its GB": peak(theirs),
            "ratio [95%]": ratio, "pairs": str(len(pairs)),
        })  # fmt: skip
    return found


def all_variants(rows: Rows, factors: Sequence[str]) -> list[dict[str, str]]:
    return [
        {
            **{label(name): text(row[name]) for name in factors},
            "variant": text(row["variant"]),
            "ms": with_interval(row) if is_ok(row) else text(row["status"]),
            "GB": gigabytes(row.get("peak_bytes")),
            "reserved GB": gigabytes(row.get("reserved_bytes")),
            "SDPA": text(row.get("sdpa_backend")),
            "loss": figure(number(row.get("loss")), 5) if is_ok(row) else "",
            "set-up s": figure(number(row.get("setup_s")), 3) if is_ok(row) else "",
        }
        for row in rows
        if number(row["turn"]) == 1
    ]


def is_ours(row: dict[str, object]) -> bool:
    return text(row["variant"]).startswith(OURS)


def is_ok(row: dict[str, object]) -> bool:
    return text(row["status"]) == "ok"


def is_like(peer: dict[str, object], ours: dict[str, object]) -> bool:
    """Whether the peer may stand beside our variant: updates after backward beside those after
    backward; sharded states beside sharded ones."""
    serial = text(ours.get("optimizer")) != "in-backward"
    if serial and text(peer.get("optimizer")) == "in-backward":
        return False
    return bool(text(peer.get("shard"))) == bool(text(ours.get("shard")))


def fastest(rows: Rows) -> Rows:
    """All turns of the variant that was the fastest in its first."""
    timed = [row for row in rows if is_ok(row)]
    if not timed:
        return []
    first = min(number(row["turn"]) for row in timed)
    begun = [row for row in timed if number(row["turn"]) == first]
    best = min(begun, key=lambda row: number(row["step_median_s"]))
    return [row for row in timed if row["variant"] == best["variant"]]


def paired(ours: Rows, theirs: Rows) -> list[tuple[float, float]]:
    """The medians of both sides in the turns that both have."""
    of_ours, of_theirs = (
        {number(row["turn"]): number(row["step_median_s"]) for row in side if is_ok(row)}
        for side in (ours, theirs)
    )
    return [(of_ours[turn], of_theirs[turn]) for turn in of_ours if turn in of_theirs]


def number(value: object) -> float:
    return math.nan if value is None else float(value)


def over_turns(rows: Rows, name: str, summed: Callable[[list[float]], float]) -> float:
    values = [number(row.get(name)) for row in rows if is_ok(row)]
    return summed(values) if values else math.nan


def milliseconds(rows: Rows) -> str:
    """The median of the turns' medians; the status where there is none."""
    seconds = over_turns(rows, "step_median_s", lambda values: float(np.median(values)))
    if math.isnan(seconds):
        return text(rows[0]["status"]) if rows else ABSENT
    return figure(1e3 * seconds)


def peak(rows: Rows) -> str:
    return gigabytes(over_turns(rows, "peak_bytes", max))


def gigabytes(value: object) -> str:
    return "" if math.isnan(number(value)) else f"{number(value) / 1e9:.1f}"


def with_interval(row: dict[str, object]) -> str:
    median, low, high = (
        1e3 * number(row.get(f"step_{name}_s")) for name in ("median", "ci_low", "ci_high")
    )
    return (
        figure(median) if math.isnan(low) else f"{figure(median)} [{figure(low)}, {figure(high)}]"
    )


def table(rows: Sequence[dict[str, str]]) -> list[str]:
    header = [*dict.fromkeys(name for row in rows for name in row)]
    cells = [[row.get(name, "") for name in header] for row in rows]
    numeric = [any(map(is_number, column)) for column in zip(*cells, strict=True)]
    return formats.markdown_table(header, cells, numeric)
