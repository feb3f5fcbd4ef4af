"""The table of the cases: their phases, rates, communication and memory."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

import pandas as pd
from pandas.api.types import is_numeric_dtype

from .. import repeats
from ..formatting import label, text
from ..plan_rows import EXPERIMENT
from ..result_file import ResultError
from ..results import Results, Run
from .spread import Spread
from .table import GIB, Column, Table, figures, texts

PERCENT, GB, MB, MIB = 100.0, 1e-9, 1e-6, 1 / 2**20
STATISTICS = re.compile(r".*_(median|ci_low|ci_high|mean|std|min|max|p95)_s")
COUNTS = {"communication_calls"}  # whole numbers
# Columns of /summary shown beside the phases: header, and factor of its unit.
RATES = {
    "tokens_per_s": ("tokens/s", 1.0),
    "mfu_measured": ("MFU, measured (%)", PERCENT),
    "mfu_datasheet": ("MFU, datasheet (%)", PERCENT),
    "forward_tflops_per_s": ("forward (TFLOP/s)", 1.0),
    "backward_tflops_per_s": ("backward (TFLOP/s)", 1.0),
    "both_tflops_per_s": ("both (TFLOP/s)", 1.0),
    "algbw_bytes_per_s": ("algorithm bandwidth (GB/s)", GB),
    "busbw_bytes_per_s": ("bus bandwidth (GB/s)", GB),
    "link_share": ("share of the link (%)", PERCENT),
    "communication_calls": ("collectives", 1.0),
    "sent_bytes": ("sent (MB)", MB),
    "exposed_share": ("exposed (%)", PERCENT),
    "communication_overlap": ("overlapped (%)", PERCENT),
    "saved_bytes": ("kept for backward (MiB)", MIB),
    "optimizer_state_bytes": ("optimizer state (GiB)", 1 / GIB),
    "peak_bytes": ("peak memory (GiB)", 1 / GIB),
    "predicted_peak_bytes": ("predicted peak (GiB)", 1 / GIB),
}
# Values of sync whose names say too little.
EXCHANGES = {"none": "no exchange", "naive": "one all_reduce per gradient"}
# Without phases, tables show all columns but these.
NOT_MEASURED = {"case", "run", "status", "reason", "slurm_job_id", "array_task", "restart"}


def build(results: Results, spread: Spread) -> list[Table]:
    if results.experiment == EXPERIMENT:  # a plan has no cases
        return []
    frame = results.frame
    columns = [texts(label(name), factor_cells(frame, name)) for name in results.varying]
    columns += [spread.column(results, phase, label(phase)) for phase in results.phases]
    columns += [] if results.phases else others(results)
    columns += rates(results)
    if frame.get("warnings", pd.Series(dtype=str)).map(text).any():
        columns.append(Column("warnings", [text(value) for value in frame["warnings"]], False))
    if (frame["status"] != "ok").any():
        columns.append(Column("status", [status_text(row) for _, row in frame.iterrows()], False))
    return [
        Table(
            name="cases",
            title=f"Cases of {results.experiment}",
            caption=caption(results, spread),
            columns=columns or [Column("status", list(frame["status"]), False)],
            data=data(results, spread),
            commands=[line for run in results.runs for line in run.command.split("\n") if line],
        )
    ]


def of_columns(results: Results, names: Sequence[str]) -> list[Table]:
    """The cases with their varying factors and these columns. Raises ResultError."""
    frame = results.frame
    for name in names:
        if name not in frame:
            close = get_close_matches(name, frame, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ResultError(f"--columns: {results.runs[0].name} has no column '{name}'{hint}")
    factors = [name for name in results.varying if name not in names]
    columns = [texts(label(name), factor_cells(frame, name)) for name in factors]
    return [
        Table(
            name="cases",
            title=f"Cases of {results.experiment}",
            caption=[f"In every case: {same}."] if (same := constants(results)) else [],
            columns=columns + [chosen(results, name) for name in names],
            data=frame[[*results.factors, *(n for n in names if n not in results.factors)]],
        )
    ]


def chosen(results: Results, name: str) -> Column:
    values = results.frame[name]
    if not is_numeric_dtype(values):
        return Column(header(results, name), list(map(text, values)), False)
    if results.units.get(name) == "bytes":
        return figures(f"{label(name.removesuffix('_bytes'))} (MiB)", values * MIB)
    return Column(header(results, name), list(map(figure_of, values)))


def rates(results: Results) -> list[Column]:
    frame = results.frame
    return [
        texts(header, [text(value) for value in frame[name]])
        if name in COUNTS
        else figures(header, frame[name] * scale_of(results, name, scale))
        for name, (header, scale) in RATES.items()
        if name in frame and frame[name].notna().any()
    ]


def scale_of(results: Results, name: str, scale: float) -> float:
    """The factor of a share: 1 if the file has it in percent."""
    return 1.0 if scale == PERCENT and results.units.get(name) == "%" else scale


def others(results: Results) -> list[Column]:
    shown = {*results.factors, *RATES, *NOT_MEASURED}
    columns = []
    for name in results.frame:
        if name in shown:
            continue
        column = chosen(results, name)
        if name not in EXPECTED and results.frame[name].map(text).any():
            columns.append(column)
    return columns


# Columns that every frame has, measured or not.
EXPECTED = {"step_median_s", "step_ci_low_s", "step_ci_high_s", "warnings"}


def header(results: Results, name: str) -> str:
    unit = results.units.get(name, "")
    return (
        label(name) if unit in ("", "1", "text") else f"{label(name.removesuffix('_s'))} ({unit})"
    )


def figure_of(value: float) -> str:
    """Six digits, enough for an error of 2e-5 and for a sum of 10.0002."""
    return "" if pd.isna(value) else f"{value:.6g}"


def factor_cells(frame: pd.DataFrame, name: str) -> list[str]:
    return [text(value) for value in frame[name]]


def status_text(row: pd.Series) -> str:
    reason = text(row.get("reason"))
    return f"{row['status']}: {reason}" if reason else str(row["status"])


def data(results: Results, spread: Spread) -> pd.DataFrame:
    """Every factor, then the columns of /summary, with the phases' statistics of `spread`."""
    frame = results.frame
    factors = {name: frame[name].map(text) for name in results.factors}
    statistics = [f"{phase}_{name}_s" for phase in results.phases for name in spread.statistics]
    skipped = {*factors, *statistics, *NOT_MEASURED, "warnings"}
    rest = [name for name in frame if name not in skipped and not STATISTICS.fullmatch(name)]
    last = [name for name in ("warnings", "status", "reason") if name in frame]
    names = [*(name for name in statistics if name in frame), *rest, *last]
    return pd.DataFrame(factors | {name: frame[name] for name in names})


def caption(results: Results, spread: Spread) -> list[str]:
    lines = []
    if results.phases:
        lines.append(
            f"{spread.words}, {results.count('repetitions')}; each counts as long as its slowest "
            "rank took."
        )
    elif results.headline_is_expected:
        lines.append("No case was measured.")
    if results.lacks_intervals and spread == Spread.INTERVAL:
        other = " or other software recorded none" if "variant" in results.frame else ""
        lines.append(
            f"Where no interval is given, there were too few repetitions (below 6) for one{other}."
        )
    if "variant" in results.frame and "busbw_bytes_per_s" in results.frame:
        lines.append(
            "Bus bandwidth is as nccl-tests defines it, that of other software computed from its "
            "times."
        )
    kinds = set(results.frame["sync"].map(text)) if "sync" in results.varying else set()
    told = [f"{kind} is {words}" for kind, words in EXCHANGES.items() if kind in kinds]
    if told:
        lines.append(f"Of sync, {', '.join(told)}.")
    if same := constants(results):
        lines.append(f"In every case: {same}.")
    if results.implied:
        sizes = "; ".join(f"{size} is {shape}" for size, shape in results.implied.items())
        lines.append(f"Sizes: {sizes}.")
    lines += [run_text(run) for run in results.runs]
    return lines + repeats.sentences(results)


def constants(results: Results) -> str:
    return ", ".join(f"{label(name)} {value}" for name, value in results.constant.items())


def run_text(run: Run) -> str:
    ending = "" if run.complete else " The sweep was not completed."
    origin = f": {run.origin}" if run.origin else ""
    return f"{run.name}{origin}.{ending}"
