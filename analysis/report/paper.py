"""Questions that closed forms answer: communication accounting, and how good predictions are."""

import re

import pandas as pd

from ..formatting import ABSENT, change, figure, gib
from ..plan_rows import EXPERIMENT, GROUP
from ..tables.spread import Spread
from ..tables.table import grid
from .answer import MOST_BARS, Answer, Bar
from .parallel import WORDS
from .selection import Pool

STATE = {"weights": "weights_bytes", "gradients": "gradients_bytes", "optimizer": "optimizer_bytes"}


def count(number: float) -> str:
    """None if there is no such number of tokens."""
    return f"{number:,.0f}" if number > 0 else ABSENT


def gb(size: float) -> str:
    return f"{figure(size / 1e9, 4)} GB"


def accounting(pool: Pool, spread: Spread) -> Answer | None:
    """Of the largest model that was planned."""
    plans = [case for case in pool.of(EXPERIMENT) if case.number("parameters") > 0]
    case = max(plans, key=lambda case: case.number("parameters"), default=None)
    if case is None:
        return None
    tables = {name.removeprefix(GROUP): one for name, one in case.results.file_tables.items()}
    state, kept, bound, shared = (
        tables[name].iloc[0] if name in tables else {}
        for name in ("state", "activations", "compute_bound", "sharded_activations")
    )
    devices, other = (tables.get(name, pd.DataFrame()) for name in ("devices", "what_if"))
    told = [("a", "The state fits into " + ", ".join(
             f"{one.read_as_gb:.0f} {one.hardware} of {one.memory:g} GB"
             for one in devices.itertuples()) + ".")]  # fmt: skip
    if "saved_bytes_per_token" in kept:
        told.append(("a", f"A token keeps {kept['saved_bytes_per_token'] / 1e6:.1f} MB."))
    if len(shared):
        told.append(("b", f"{shared['devices_gb']:.0f} devices hold the state, "
                     f"{shared['devices_with_activations_gb']:.0f} also the activations of the "
                     "planned batch, half of them sharded."))  # fmt: skip
    if len(bound):
        told.append(("c", f"Compute bound from {count(bound['overlapped_tokens'])} tokens "
                     f"({count(bound['overlapped_tokens_per_device'])} a device) if all "
                     f"communication overlaps, from {count(bound['serial_tokens'])} "
                     f"({count(bound['serial_tokens_per_device'])}) if none does."))  # fmt: skip
    if len(other):
        least = other.loc[other["overlapped"].idxmin()]
        told.append(("d", f"Of the alternatives, {least['what']} has the smallest such batch: "
                     f"{least['overlapped']:,.0f} tokens."))  # fmt: skip
    return Answer(
        gb(state["state_bytes"]),
        f"Weights, gradients and optimizer state of {state['parameters'] / 1e9:,.3g} billion "
        f"parameters take {gb(state['state_bytes'])}.",
        [Bar(name, state[column], gb(state[column])) for name, column in STATE.items()],
        case,
        "weights, gradients and optimizer state",
        [(f"communication_accounting ({part})", one) for part, one in told],
        [grid("alternatives", "Alternatives: from which batch on is it compute bound?",
              ["plan", "overlapped (tokens)", "serial (tokens)", "peak"],
              [[one.what, count(one.overlapped), count(one.serial), gb(one.peak_bytes)]
               for one in other.itertuples()])] if len(other) else [],
    )  # fmt: skip


def predictions(pool: Pool, spread: Spread) -> Answer | None:
    checked = [c for c in pool.of(EXPERIMENT) if GROUP + "check" in c.results.file_tables]
    if not checked:
        return None
    table = checked[0].results.file_tables[GROUP + "check"].dropna(subset="step_error_percent")
    step, peak = (table[f"{name}_error_percent"].abs() for name in ("step", "peak"))
    names = [name_of(str(case)) for case in table["case"]]
    rows = [
        [name, figure(1e3 * row.predicted_step_s), figure(1e3 * row.measured_step_s),
         change(1 + row.step_error_percent / 100), gib(row.predicted_peak_bytes),
         gib(row.measured_peak_bytes)]
        for name, row in zip(names, table.itertuples(), strict=True)
    ]  # fmt: skip
    bars = [Bar(name, size, f"{size:.1f}%") for name, size in zip(names, step, strict=True)]
    return Answer(
        f"{step.median():.2g}%",
        f"Predicted steps are {step.median():.2g}% off in the median of {len(table)} cases, at "
        f"most {step.max():.2g}%; predicted memory at most {peak.max():.2g}%.",
        sorted(bars, key=lambda bar: -bar.value)[:MOST_BARS],
        checked[0],
        "median error of a predicted step",
        tables=[grid("predictions", "Predicted and measured",
                     ["case", "predicted (ms)", "measured (ms)", "error", "predicted peak",
                      "peak"], rows)],
    )  # fmt: skip


def name_of(case: str) -> str:
    """The exchange of a data-parallel case, by its id; the id of any other."""
    kinds = re.findall(r"-(none|naive|flat|overlap|bucketed)-(\d+)-", case)
    sync, megabytes = kinds[-1] if kinds else (case, "0")
    return f"{WORDS.get(sync, sync)} {megabytes} MB".removesuffix(" 0 MB")
