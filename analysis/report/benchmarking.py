"""End-to-end timings, and the effect of warm-up (benchmarking_script)."""

from math import isnan

import numpy as np

from ..formatting import figure
from ..results import Results
from ..tables.table import Table
from . import comparisons, published, step_breakdown
from .facts import Case, cases, distinct, file_factor, largest, matching
from .section import Section, drawings, grid
from .selection import cases_tables, is_cold, is_timing
from .sentences import milliseconds, percent, setting, spanned
from .step_breakdown import cost

FIRST = 3  # steps from cold that are listed one by one
LONGER = 1.05  # ratio from which a first step is said to be longer than others


def timings(found: list[Results]) -> Section:
    chosen = [results for results in found if is_timing(results)]
    own = cases(chosen)
    return Section(
        name="timings",
        title="How long do the forward and backward passes take?",
        problem="benchmarking_script (b)",
        question="Time forward and backward of every size with 5 warm-up and 10 measured steps. "
        "How long do they take, and how much do they vary?",
        command="build/paceline model --preset sizes",
        sentences=[*two_passes(own), *variability(own), *step_breakdown.launches(own)],
        tables=cases_tables(chosen),
        drawings=drawings("timings", chosen, ["steps"]),
        published=[
            *published.tables(comparisons.timing(cases(found))),
            *published.tables(comparisons.sizes(cases(found))),
        ],
        headline=step_breakdown.headline(own, found),
    )


def two_passes(own: list[Case]) -> list[str]:
    """The largest case of each precision, and the ratio of all; recomputing lengthens backward."""
    timed = [case for case in own if not isnan(case.seconds("backward"))
             and case.get("recompute") in ("", "none")]  # fmt: skip
    if not timed:
        return []
    by_precision = [list(matching(timed, precision=name)) for name in distinct(timed, "precision")]
    ratios = [one.seconds("backward") / one.seconds("forward") for one in timed]
    told = [both_passes(largest(group, cost) or group[0]) for group in by_precision or [timed]]
    return [
        f"{'; '.join(told)}.",
        f"Backward takes {spanned(ratios, ' times')} as long as forward.",
    ]


def both_passes(case: Case) -> str:
    forward, backward = case.seconds("forward"), case.seconds("backward")
    return (
        f"{setting(case.values) or case.label}: forward {milliseconds(forward)}, backward "
        f"{milliseconds(backward)}"
    )


def variability(own: list[Case]) -> list[str]:
    shares = {
        (setting(case.values) or case.label, phase): case.seconds(phase, "std")
        / case.seconds(phase, "mean")
        for case in own
        for phase in ("forward", "backward")
    }
    shares = {key: share for key, share in shares.items() if not isnan(share)}
    if not shares:
        return []
    (name, phase), most = max(shares.items(), key=lambda item: item[1])
    middle = float(np.median(list(shares.values())))
    return [
        f"The standard deviation is {percent(middle)} of the mean in the median of "
        f"{len(shares)} timings and at most {percent(most)} ({phase}, {name})."
    ]


def warmup(found: list[Results]) -> Section:
    chosen = [results for results in found if is_cold(results)]
    cold = [case for case in cases(chosen) if "step" in case.results.samples[case.row].warmup]
    measured = [(case, steps) for case in cold if (steps := steps_from_cold(case))]
    rows = [steps for _, steps in measured]
    return Section(
        name="warmup",
        title="What do warm-up steps change?",
        problem="benchmarking_script (c)",
        question="What happens without warm-up steps, why, and why may 1 or 2 still not be enough?",
        command="jobs/workstation.sh warmup",
        sentences=cold_sentences(rows),
        tables=[cold_table(measured)] if measured else [],
        drawings=drawings("warmup", chosen, ["warmup"]),
        published=published.tables(comparisons.warmup(cases(found))),
    )


def steps_from_cold(case: Case) -> list[float] | None:
    """Seconds of the first steps, then the median of the measured ones."""
    steps = case.results.samples[case.row].warmup["step"].max(axis=0)
    median = case.seconds("step")
    if len(steps) == 0 or isnan(median):
        return None
    first = [float(step) for step in steps[:FIRST]]
    return [*first, *[float("nan")] * (FIRST - len(first)), median]


def cold_table(measured: list[tuple[Case, list[float]]]) -> Table:
    files = file_factor([case for case, _ in measured])
    header = [
        "size",
        *files,
        *(f"step {index + 1} (ms)" for index in range(FIRST)),
        "measured, median (ms)",
    ]
    cells = [
        [case.get("size") or case.label, *map(case.get, files),
         *(figure(1e3 * seconds) for seconds in steps)]
        for case, steps in measured
    ]  # fmt: skip
    caption = ["The first steps of a process, and the median of the steps that are measured."]
    return grid("warmup-first-steps", "Steps from cold", caption, header, cells)


def cold_sentences(rows: list[list[float]]) -> list[str]:
    if not rows:
        return []
    first = [row[0] / row[-1] for row in rows]
    slow = [row for row in rows if row[0] > LONGER * row[-1]]
    why = (
        ": libraries load their kernels and choose algorithms in it, and memory is reserved"
        if slow and all(isnan(row[1]) or row[0] > LONGER * row[1] for row in slow)
        else ""
    )
    sentences = [
        f"The first step of a process takes {spanned(first, ' times')} the median of the measured "
        f"ones{why}."
    ]
    for index in (1, 2):
        ratios = [row[index] / row[-1] for row in rows if not isnan(row[index])]
        if ratios:
            sentences.append(
                f"Step {index + 1}, after {index} warm-up step{'s' * (index > 1)}, takes "
                f"{spanned(ratios, ' times')} that median."
            )
    return sentences
