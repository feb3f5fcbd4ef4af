"""Optimizer state sharding (optimizer_state_sharding, its accounting)."""

from math import isnan

from .. import memory_marks, scaling_cases
from ..formatting import case_label
from ..results import Results
from ..tables import marks as marks_table
from ..tables import scaling as scaling_table
from . import comparisons_parallel, published
from .ddp import chosen_of as data_parallel
from .exchanges import alike, one_per_setting, same_setting
from .facts import Case, cases, distinct
from .section import Section, drawings
from .selection import cases_tables, of_experiment, tables_of
from .sentences import SETTING, compared, gib, percent, setting

SHARDED = ("broadcast", "zero1", "zero2", "fsdp")
# What a sharding leaves to choose.
CHOICES = ("bucket_mb", "prefetch", "reshard")


def section(found: list[Results]) -> Section:
    chosen = of_experiment(found, "zero")
    lines = sentences_of(cases(chosen))
    scaling = scaling_cases.together([*chosen, *steps_of_one_rank(found)]) if chosen else []
    return Section(
        name="sharding",
        title="What does sharding the optimizer's state save, and cost?",
        problem="optimizer_state_sharding, optimizer_state_sharding_accounting (a) to (c)",
        question="What is the peak after init, before and after the optimizer's step, of what is "
        "it made, and how does a step's time change? How does the course's design differ from ZeRO "
        "stage 1?",
        command="mpirun -np 2 build/paceline zero --preset course",
        sentences=lines,
        tables=[
            *tables_of(chosen, marks_table.build),
            *cases_tables(chosen),
            *tables_of(scaling, scaling_table.build),
        ],
        drawings=[
            *drawings("sharding", chosen, ["memory-marks", "steps"]),
            *drawings("sharding", scaling, ["scaling"]),
        ],
        published=published.tables(comparisons_parallel.sharding(cases(found))),
        headline=next((line for line in lines if "zero1 lowers" in line), ""),
    )  # fmt: skip


def steps_of_one_rank(found: list[Results]) -> list[Results]:
    """Data-parallel steps that exchange nothing: one rank has nothing to shard."""
    parts = []
    for results in data_parallel(found):
        every = range(len(results.frame))
        rows = [row for row in every if scaling_cases.exchanges_nothing(results.frame, row)]
        parts += [results.only(rows)] if rows else []
    return parts


def sentences_of(own: list[Case]) -> list[str]:
    settings = one_per_setting(own)
    same = [name for name in SETTING if len({case.get(name) for case in settings}) == 1]
    lines = []
    for case in settings:
        differing = setting(case.values, without=same)
        prefix = f"{differing}: " if differing else ""
        lines += [prefix + line for line in of_setting(own, case)]
    return lines


def of_setting(own: list[Case], case: Case) -> list[str]:
    """About the cases that differ from this one in what is sharded."""
    best = {kind: same_setting(own, case, shard=kind) for kind in ("none", *SHARDED)}
    whole, course, zero1 = best["none"], best["broadcast"], best["zero1"]
    names = {kind: name_of(own, one) for kind, one in best.items() if one}
    lines = [line for kind, name in names.items() for line in marks(best[kind], name)]
    for kind in SHARDED if whole else ():
        if (one := best[kind]) is None:
            continue
        name = names[kind]
        before, after = whole.number("peak_bytes"), one.number("peak_bytes")
        if not isnan(before) and not isnan(after):
            lines.append(
                f"{name} lowers the peak of a rank from {gib(before)} to {gib(after)}, by "
                f"{percent(1 - after / before)}."
                if after < before
                else f"{name} does not lower the peak of a rank: {gib(after)}, {gib(before)} whole."
            )
        lines.append(compared(one, whole, "step", name, "the whole state on every rank"))
    if course and zero1:
        sent = [one.number("sent_bytes") for one in (course, zero1)]
        if not any(map(isnan, sent)):
            lines.append(
                f"broadcast (gradients all-reduced, whole tensors owned by ranks and broadcast) "
                f"sends {sent[0] / 1e9:.1f} GB a step, ZeRO stage 1 (gradients reduce-scattered, "
                f"parameters all-gathered) {sent[1] / 1e9:.1f} GB."
            )
    return [line for line in lines if line]


def name_of(own: list[Case], case: Case) -> str:
    """What is sharded, with the choices that differ between the cases of this setting: fsdp
    (prefetch 2, reshard no)."""
    kind = case.get("shard")
    others = alike(own, case, shard=kind)
    differing = [name for name in CHOICES if len(distinct(others, name)) > 1]
    chosen = case_label(differing, [case.get(name) for name in differing])
    return f"{kind} ({chosen})" if chosen else kind


def marks(case: Case, name: str) -> list[str]:
    table = memory_marks.of_row(case.results, case.row)
    if table is None:
        return []
    peaks = ", ".join(f"{gib(row['peak'])} {mark}" for mark, row in table.iterrows())
    return [f"{name or case.label}: peak {peaks}."]
