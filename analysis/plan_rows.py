"""What `paceline plan --json` prints, an object a line: sections, and the cases of --check."""

import json
from pathlib import Path

import pandas as pd

EXPERIMENT = "plan"
GROUP = "plan/"
# Sections of one row, which are of the plan as a whole.
WHOLE = ("layout", "state")


def read(path: Path) -> dict[str, pd.DataFrame]:
    """A table for each section, its name prefixed with GROUP; empty if these are no rows of plan.
    Raises OSError, ValueError."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        if "section" in row:
            found.setdefault(str(row.pop("section")), []).append(row)
        elif "predicted_step_s" in row:
            found.setdefault("check", []).append(row)
    return {GROUP + section: frame_of(own) for section, own in found.items()}


def frame_of(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Texts as texts, everything else as a number; null is NaN."""
    frame = pd.DataFrame(rows)
    texts = {"case", "hardware", "what", "note"}
    return frame.assign(
        **{name: frame[name].map(str) if name in texts else pd.to_numeric(frame[name])
           for name in frame}
    )  # fmt: skip


def summary(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The plan as one row."""
    whole = [tables[GROUP + name] for name in WHOLE if GROUP + name in tables]
    return pd.concat(whole, axis=1) if whole else pd.DataFrame([{}])
