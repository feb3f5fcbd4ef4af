"""Optimizer state sharding (optimizer_state_sharding, its accounting)."""

from math import isnan

from .. import memory_marks
from ..results import Results
from . import comparisons_parallel, published
from .facts import Case, cases, fastest, matching
from .section import Section, drawings
from .selection import cases_tables, named, of_experiment
from .sentences import compared, gib, percent


def section(found: list[Results]) -> Section:
    chosen = of_experiment(found, "zero")
    lines = [line for results in chosen for line in of_file(cases([results]))]
    return Section(
        name="sharding",
        title="What does sharding the optimizer's state save, and cost?",
        problem="optimizer_state_sharding, optimizer_state_sharding_accounting (a) to (c)",
        question="What is the peak after init, before and after the optimizer's step, of what is "
        "it made, and how does a step's time change? How does the course's design differ from ZeRO "
        "stage 1?",
        command="mpirun -np 2 build/paceline zero --preset course",
        sentences=lines,
        tables=[*named(chosen, "memory-marks"), *cases_tables(chosen)],
        drawings=drawings("sharding", chosen, ["memory-marks", "steps"]),
        published=published.tables(comparisons_parallel.sharding(cases(found))),
        headline=next((line for line in lines if line.startswith("zero1 lowers")), ""),
    )  # fmt: skip


def of_file(own: list[Case]) -> list[str]:
    best = {kind: fastest(list(matching(own, shard=kind)), "step") for kind in
            ("none", "broadcast", "zero1")}  # fmt: skip
    whole = best["none"]
    lines = [line for case in best.values() if case for line in marks(case)]
    for kind in ("broadcast", "zero1"):
        case = best[kind]
        if case is None or whole is None:
            continue
        before, after = whole.number("peak_bytes"), case.number("peak_bytes")
        if not isnan(before) and not isnan(after):
            lines.append(
                f"{kind} lowers the peak of a rank from {gib(before)} to {gib(after)}, by "
                f"{percent(1 - after / before)}."
                if after < before
                else f"{kind} does not lower the peak of a rank: {gib(after)}, {gib(before)} whole."
            )
        lines.append(compared(case, whole, "step", kind, "the whole state on every rank"))
    course, zero1 = best["broadcast"], best["zero1"]
    if course and zero1:
        sent = [case.number("communication_sent_bytes") for case in (course, zero1)]
        if not any(map(isnan, sent)):
            lines.append(
                f"broadcast (gradients all-reduced, whole tensors owned by ranks and broadcast) "
                f"sends {sent[0] / 1e9:.1f} GB a step, ZeRO stage 1 (gradients reduce-scattered, "
                f"parameters all-gathered) {sent[1] / 1e9:.1f} GB."
            )
    return [line for line in lines if line]


def marks(case: Case) -> list[str]:
    table = memory_marks.of_row(case.results, case.row)
    if table is None:
        return []
    peaks = ", ".join(f"{gib(row['peak'])} {mark}" for mark, row in table.iterrows())
    return [f"{case.get('shard') or case.label}: peak {peaks}."]
