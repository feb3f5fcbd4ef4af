"""Predictions of `paceline plan` beside the cases of a result file."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from .formatting import text
from .rates import Program, Step, fit, predicted, read, steps_in
from .result_file import opened
from .results import Results, load

# By quantity: its unit, and the unit and scale in the table for people.
QUANTITIES = {
    "step": ("s", "ms", 1e3),
    "peak": ("bytes", "GB", 1e-9),
    "sent": ("bytes", "GB", 1e-9),
}


def step_times(steps: list[Step], files: Sequence[Path], program: Program) -> list[float]:
    """Each predicted from the files without the cases of its own plan; NaN without rates."""
    others, links = read(files, program)
    fits: dict[tuple[int, ...], dict] = {}
    times = []
    for step in steps:
        used = tuple(i for i, other in enumerate(others) if other.key != step.key)
        if used not in fits:
            fits[used] = fit([others[i] for i in used], links)
        has_rates = step.plan["group"] in {rates["group"] for rates in fits[used]["steps"]}
        times.append(predicted(step, fits[used])["step_s"] if has_rates else np.nan)
    return times


def checked(steps: list[Step], times: list[float]) -> pd.DataFrame:
    columns: dict[str, list] = {"case": [step.case for step in steps]}
    predictions = {
        "step": times,
        "peak": [step.plan["peak_bytes"] for step in steps],
        "sent": [step.plan["sent_bytes"] for step in steps],
    }
    for name, (unit, _, _) in QUANTITIES.items():
        told = np.array(predictions[name], float)
        measured = np.array([step.measured[f"{name}_{unit}"] for step in steps], float)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(told == measured, 0, 100 * (told / measured - 1))
        columns[f"predicted_{name}_{unit}"] = told
        columns[f"measured_{name}_{unit}"] = measured
        columns[f"{name}_error_percent"] = error
    return pd.DataFrame(columns)


def table(found: Results, frame: pd.DataFrame) -> str:
    """The factors that vary; of each quantity the prediction, the measurement and the error."""
    own = found.frame[found.frame["status"] == "ok"].reset_index(drop=True)
    shown = own[found.names].map(text)
    header = list(found.names)
    for name, (unit, small, scale) in QUANTITIES.items():
        error = frame[f"{name}_error_percent"]
        if error.isna().all():
            continue
        for what in ("predicted", "measured"):
            shown[what, name] = (scale * frame[f"{what}_{name}_{unit}"]).map("{:.4g}".format)
        shown["error", name] = ["-" if np.isnan(e) else f"{e:+.2f}" for e in error]
        header += [f"{name} [{small}]", "measured", "error %"]
    return shown.to_string(index=False, header=header)


def errors(frame: pd.DataFrame) -> list[str]:
    lines = []
    for name in QUANTITIES:
        error = frame[f"{name}_error_percent"].abs().dropna()
        if len(error):
            lines.append(
                f"{name}: median error {error.median():.1f}%, worst {error.max():.1f}%, "
                f"of {len(error)} cases"
            )
    return lines


def predictions(path: Path, files: Sequence[Path], program: Program) -> pd.DataFrame:
    """A row per case of the file; without files to fit rates to, no step is predicted."""
    with opened(path) as file:
        steps = steps_in(path, file, program)
    return checked(steps, step_times(steps, files, program) if files else [np.nan] * len(steps))


def lines(path: Path, files: Sequence[Path], paceline: Path, as_json: bool) -> list[str]:
    frame = predictions(path, files, Program(paceline))
    if as_json:
        return [json.dumps(row) for row in rows(frame)]
    return [table(load([path])[0], frame), *errors(frame)]


def rows(frame: pd.DataFrame) -> list[dict]:
    """None for an unknown value."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
