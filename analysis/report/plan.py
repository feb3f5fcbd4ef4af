"""What closed forms predict of a step, and how far off they are (plan, ddp --predict)."""

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from ..formatting import figure, label, text
from ..plan_rows import EXPERIMENT, GROUP
from ..result_file import stem
from ..results import Results
from ..tables import recorded
from ..tables.table import Table
from .exchanges import of_dtype
from .facts import Case, cases
from .section import Section, grid
from .selection import of_experiment, tables_of
from .sentences import gib, milliseconds, percent, setting, spanned

# The parts that add up to a step. exposed: the part of the exchange that is not overlapped;
# contention: what an overlapped exchange slows down the rest by.
PARTS = {
    "products_s": "matrix products", "traffic_s": "other memory traffic", "fixed_s": "fixed costs",
    "tensor_s": "tensor-parallel collectives", "exposed_s": "exposed exchange",
    "contention_s": "contention with the overlapped exchange",
}  # fmt: skip
MULTIPLE = ("plan-what-if", "plan-scaling", "plan-memory-by-ranks", "plan-check")


def section(found: list[Results]) -> Section:
    plans = of_experiment(found, EXPERIMENT)
    predicted = [results for results in of_experiment(found, "ddp")
                 if "predict" in results.file_tables]  # fmt: skip
    lines = [
        *(line for results in plans for line in step_time(results)),
        *(line for results in plans for line in compute_bound(results)),
        *(line for results in plans for line in checked(results)),
        *(line for results in predicted for line in buckets(results)),
        *(line for results in plans for line in scaling(results)),
    ]
    return Section(
        name="plan",
        title="What do closed forms predict of a step, and how far off are they?",
        problem="communication_accounting (d), ddp_bucketed_benchmarking (b)",
        question="How long does a step take by closed form, and of what is it made? From which "
        "batch on is it compute bound? How far off are predictions beside measured cases?",
        command="build/paceline plan --size xl --ranks 8 --json > plan.jsonl, python3 -m analysis "
        "check-plan F.h5 --json > check.jsonl, and ddp --predict F.json",
        sentences=lines,
        tables=[
            *(table for results in plans for table in parts(results)),
            *tables_of(plans, recorded.build, *MULTIPLE),
            *([bucket_table(predicted)] if predicted else []),
        ],
    )


def row_of(results: Results, name: str) -> pd.Series | None:
    """The only row of a section of the plan."""
    table = results.file_tables.get(GROUP + name)
    return None if table is None else table.iloc[0]


def name_of(results: Results) -> str:
    return f"the plan in {results.runs[0].name}"


def step_time(results: Results) -> list[str]:
    step = row_of(results, "step_time")
    if step is None or isnan(step["step_s"]):
        return []
    (whole,) = cases([results])
    told = ", ".join(
        f"{words} {percent(step[name] / step['step_s'])}"
        for name, words in PARTS.items()
        if step.get(name, 0) > 0
    )
    return [
        f"By {name_of(results)} ({figure(whole.number('parameters') / 1e9, 3)} billion parameters, "
        f"{whole.number('tokens'):,.0f} tokens a step), a step takes "
        f"{milliseconds(step['step_s'])}: {told}."
    ]


def compute_bound(results: Results) -> list[str]:
    bound = row_of(results, "compute_bound")
    if bound is None:
        return []
    (whole,) = cases([results])
    tokens, least = whole.number("tokens"), bound["overlapped_tokens"]
    if isnan(least):
        return [f"By {name_of(results)}, the layout is compute bound at no batch size."]
    serial, overlapped = bound["serial_tokens"], f"from {least:,.0f}"
    then = "at no batch size" if isnan(serial) else f"from {serial:,.0f}"
    told = (
        f"{overlapped} tokens on, whether communication is overlapped or its kinds run one after "
        "another"
        if then == overlapped
        else f"{overlapped} tokens on if communication is overlapped, {then} if the kinds of "
        "communication run one after another"
    )
    return [
        f"By {name_of(results)}, the layout is compute bound {told}; the planned batch has "
        f"{tokens:,.0f}."
    ]


def scaling(results: Results) -> list[str]:
    table = results.file_tables.get(f"{GROUP}scaling")
    if table is None or len(table) < 2:
        return []
    planned = planned_row(results, table)
    extrapolated = row_of(results, "extrapolated")
    noted = "" if extrapolated is None else f" Extrapolated: {extrapolated['note']}."
    return [
        f"By {name_of(results)}, {planned['ranks']:,.0f} ranks have an efficiency of "
        f"{figure(planned['efficiency'], 3)} and a peak of {gib(planned['peak_bytes'])} each."
        f"{noted}"
    ]


def planned_row(results: Results, table: pd.DataFrame) -> pd.Series:
    """The row of the planned number of ranks; the last if that has none. Older files, which
    do not state `ranks`, have it where the step is the plan's."""
    layout, step = row_of(results, "layout"), row_of(results, "step_time")
    if layout is not None and "ranks" in layout:
        fits = table["ranks"] == layout["ranks"]
    elif step is not None:
        fits = table["step_s"] == step["step_s"]
    else:
        return table.iloc[-1]
    return table[fits].iloc[0] if fits.any() else table.iloc[-1]


def checked(results: Results) -> list[str]:
    table = results.file_tables.get(f"{GROUP}check")
    if table is None:
        return []
    told = []
    for name, words in (("step", "steps"), ("peak", "peaks"), ("sent", "bytes sent")):
        errors = table[f"{name}_error_percent"].dropna().abs().tolist()
        told.append(
            f"{words} by {spanned(errors, '%')} ({len(errors)} of {len(table)} cases)" if errors
            else f"{words} not compared"
        )  # fmt: skip
    file = results.runs[0].name
    return [f"The predictions in {file} differ from the measured cases: {', '.join(told)}."]


def parts(results: Results) -> Iterator[Table]:
    """The predicted step, and the compute-bound batch."""
    step, bound = row_of(results, "step_time"), row_of(results, "compute_bound")
    name = stem(results.runs[0].path)
    if step is not None:
        rows = [[words, figure(1e3 * step[part]), percent(step[part] / step["step_s"])]
                for part, words in PARTS.items() if part in step]  # fmt: skip
        rows += [["step", figure(1e3 * step["step_s"]), ""],
                 ["exchange, overlapped or not", figure(1e3 * step["exchange_s"]), ""]]  # fmt: skip
        yield grid(f"{name}-step", f"The predicted step ({name})",
                   ["Closed forms; with --rates, at the rates of measured files."],
                   ["part", "ms", "of the step"], rows)  # fmt: skip
    if bound is not None:
        rows = [
            [
                label(kind),
                *(tokens_of(bound.get(f"{kind}_tokens{end}")) for end in ("", "_per_device")),
            ]
            for kind in ("overlapped", "serial", "serial_rings")
        ]
        yield grid(f"{name}-compute-bound", f"The least compute-bound batch ({name})",
                   ["overlapped: all collectives beside the products; serial: one kind of "
                    "collectives after the other; rings: each sends (n - 1) / n of the bytes."],
                   ["communication", "tokens", "tokens per device"], rows)  # fmt: skip


def tokens_of(count: float | None) -> str:
    return "no batch" if count is None or isnan(count) else f"{count:,.0f}"


def ratios(table: pd.DataFrame) -> list[float]:
    found = table["predicted_overhead_s"] / table["measured_exposed_s"]
    return found[table["measured_exposed_s"] > 0].dropna().tolist()


def buckets(results: Results) -> list[str]:
    """On ddp --predict, whose rows are in the section on bucket sizes: a sentence for each best
    size, predicted and measured, with the settings that have it, if there are several."""
    table = results.file_tables["predict"]
    groups = list(table.groupby([f"{kind}_best_bucket_mb" for kind in ("predicted", "measured")],
                                sort=False))  # fmt: skip
    own = {case.get("case"): case for case in cases([results])}
    places = [[own[name] for name in rows["case"].map(text) if name in own] for _, rows in groups]
    return [
        f"By ddp --predict ({stem(results.runs[0].path)})"
        f"{settings_of(place) if len(groups) > 1 else ''}, buckets of {figure(predicted, 3)} MB "
        f"are the best{beside(ratios(rows))}; the fastest measured: {figure(measured, 3)} MB."
        for ((predicted, measured), rows), place in zip(groups, places, strict=True)
    ]


def settings_of(own: Sequence[Case]) -> str:
    told = dict.fromkeys(
        ", ".join(filter(None, (setting(case.values), of_dtype(case).strip()))) for case in own
    )
    return f" for {'; '.join(told)}" if told else ""


def beside(times: Sequence[float]) -> str:
    return f", with a wait of {spanned(times, ' times')} the measured one" if times else ""


def bucket_table(predicted: Sequence[Results]) -> Table:
    rows = [
        [
            stem(results.runs[0].path),
            figure(row["bucket_mb"]),
            figure(1e3 * row["predicted_overhead_s"]),
            figure(1e3 * row["measured_exposed_s"]),
            figure(1e3 * row["measured_step_s"]),
        ]
        for results in predicted
        for _, row in results.file_tables["predict"].iterrows()
    ]
    return grid("predict", "Exposed communication by bucket size, predicted and measured", [],
                ["file", "bucket (MB)", "predicted (ms)", "measured (ms)", "step (ms)"],
                rows)  # fmt: skip
