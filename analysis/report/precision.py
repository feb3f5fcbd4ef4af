"""The effect of low precision on sums, dtypes and times (mixed_precision_accumulation,
benchmarking_mixed_precision)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..results import Results
from ..tables import norm_breaks, recorded, speedups
from ..tables.table import Table
from . import comparisons, comparisons_parallel, published
from .facts import Case, cases, matching
from .section import Section, drawings, grid
from .selection import cases_tables, is_precision, of_experiment, tables_of
from .speedups import of_files
from .step_breakdown import launches

COMMAND = "build/paceline precision"


def accumulation(found: list[Results]) -> Section:
    chosen = of_experiment(found, "precision")
    sums = [case for case in matching(cases(chosen), study="accumulation")
            if not np.isnan(case.number("sum"))]  # fmt: skip
    return Section(
        name="accumulation",
        title="How wrong do sums in low precision become?",
        problem="mixed_precision_accumulation",
        question="Add 0.01 a thousand times in fp32, in fp16, and fp16 addends into an fp32 sum. "
        "How accurate are the results?",
        command=COMMAND,
        sentences=sum_sentences(sums),
        tables=[sums_table(sums)] if sums else [],
        drawings=drawings("accumulation", chosen, ["accumulation"]),
        published=published.tables(comparisons_parallel.accumulation(cases(found))),
    )  # fmt: skip


def sums_table(sums: Sequence[Case]) -> Table:
    header = ["summation", "arithmetic", "addend", "count", "sum", "relative error"]
    rows = [
        [
            *(case.get(name) for name in ("summation", "arithmetic", "addend", "count")),
            f"{case.number('sum'):.6f}",
            f"{case.number('sum_error'):.2g}",
        ]
        for case in sums
    ]
    return grid("accumulation-sums", "Sums", ["Errors are relative to 10."], header, rows)


def sum_sentences(sums: Sequence[Case]) -> list[str]:
    one_by_one = list(matching(sums, summation="sequential"))
    if not one_by_one:
        return []
    worst = max(one_by_one, key=lambda case: case.number("sum_error"))
    best = min(one_by_one, key=lambda case: case.number("sum_error"))
    lines = [
        f"One by one, the sum is {case_sum(worst)} in {worst.get('arithmetic')} arithmetic, the "
        f"worst, and {case_sum(best)} in {best.get('arithmetic')}, the best."
    ]
    upcast = next(matching(one_by_one, arithmetic="fp16-into-fp32"), None)
    if upcast:
        share = upcast.number("addend_error") / upcast.number("sum_error")
        if share > 0.9:
            lines.append(
                f"With an fp32 sum of fp16 addends it is {case_sum(upcast)}: the error that is "
                "left is that of 0.01 in fp16, not of the additions."
            )
    return lines


def case_sum(case: Case) -> str:
    return f"{case.number('sum'):.4f}"


def mixed(found: list[Results]) -> Section:
    chosen = [results for results in found if is_precision(results)]
    studies = of_experiment(found, "precision")
    everything = cases(found)
    ratios = [line for lines in of_files(chosen, "precision") for line in lines]
    return Section(
        name="precision",
        title="What does mixed precision change?",
        problem="benchmarking_mixed_precision (a) to (c)",
        question="Which dtype does each component of a model have? Where is the norm sensitive, "
        "and is it with bf16? How much faster is bf16 than fp32 by size?",
        command="build/paceline model --preset precision, and " + COMMAND,
        sentences=[*ratios, *launches(cases(chosen)), *norm_sentences(studies)],
        tables=[
            *tables_of(chosen, speedups.build, "speedup-precision"),
            *cases_tables(chosen),
            *tables_of(studies, recorded.build, "dtypes"),
            *tables_of(studies, norm_breaks.build),
        ],
        drawings=drawings("precision", [*chosen, *studies], ["speedups", "norms"]),
        published=[
            *published.tables(comparisons.precision(everything)),
            *published.tables(comparisons_parallel.dtypes(everything)),
        ],
        headline=ratios[0] if ratios else "",
    )


def norm_sentences(studies: Sequence[Results]) -> list[str]:
    lines = []
    for table in filter(len, map(norm_breaks.of, studies)):
        plain = table[(table["norm"] == "layer_norm") & (table["mean"] == "0")]
        for dtype in ("fp16", "bf16"):
            told = [
                f"with {'fp32' if row['statistics'] == 'float32' else 'rounded'} statistics it "
                f"{break_of(row)}"
                for _, row in plain[plain["norm_dtype"] == dtype].iterrows()
            ]
            if told:
                lines.append(f"LayerNorm of {dtype} input of mean 0: {'; '.join(told)}.")
    return lines


def break_of(row: pd.Series) -> str:
    if not row["holds_from"]:
        return "has an error above 0.1 at every scale that was tried"
    scales = f"scales from {row['holds_from']} to {row['holds_to']}"
    end = row["breaks_at"]
    if not end:
        return f"has an error of at most 0.1 at all {scales}, the largest that was tried"
    return f"has an error of at most 0.1 at {scales} and a larger one at {end}"
