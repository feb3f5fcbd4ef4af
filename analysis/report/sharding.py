"""Optimizer state sharding (optimizer_state_sharding, its accounting)."""

from collections.abc import Sequence
from math import isnan, nan

from pandas import DataFrame

from .. import memory_marks, scaling_cases
from ..formatting import ABSENT, case_label, figure
from ..results import Results
from ..tables import marks as marks_table
from ..tables import scaling as scaling_table
from ..tables.table import Table
from . import changes, comparisons_parallel, published
from .ddp import chosen_of as data_parallel
from .exchanges import alike, one_per_setting, same_setting
from .facts import Case, cases, distinct
from .marks import without_repeats
from .section import Section, drawings, grid
from .selection import cases_tables, of_experiment, tables_of
from .sentences import decimal, settings

WHOLE = "none"
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
            *table(cases(chosen)),
            *tables_of(chosen, marks_table.build),
            *cases_tables(chosen),
            *tables_of(scaling, scaling_table.build),
        ],
        ahead=1,
        drawings=[
            *drawings("sharding", chosen, ["steps"]),
            *drawings("sharding", without_repeats(chosen), ["memory-marks"]),
            *drawings("sharding", scaling, ["scaling"]),
        ],
        published=published.tables(comparisons_parallel.sharding(cases(found))),
        headline=" ".join(line for line in lines if line.startswith(("The peak", "The step"))),
    )  # fmt: skip


def steps_of_one_rank(found: list[Results]) -> list[Results]:
    """Data-parallel steps that exchange nothing: one rank has nothing to shard."""
    parts = []
    for results in data_parallel(found):
        every = range(len(results.frame))
        rows = [row for row in every if scaling_cases.exchanges_nothing(results.frame, row)]
        parts += [results.only(rows)] if rows else []
    return parts


def kinds_of(own: list[Case], case: Case) -> dict[str, Case]:
    """The fastest case of each sharding in the setting of `case`."""
    found = {kind: same_setting(own, case, shard=kind) for kind in (WHOLE, *SHARDED)}
    return {kind: one for kind, one in found.items() if one}


def sentences_of(own: list[Case]) -> list[str]:
    """Peaks and steps beside the whole state on every rank, then the bytes that are sent."""
    settings_of = [kinds_of(own, case) for case in one_per_setting(own)]
    pairs = {
        kind: [(by[kind], by[WHOLE]) for by in settings_of if kind in by and WHOLE in by]
        for kind in SHARDED
    }
    peaks = [f"{kind} {told}" for kind in SHARDED if (told := changes.of_sizes(pairs[kind]))]
    timed = [pair for kind in SHARDED for pair in pairs[kind] if all(map(has_step, pair))]
    ranks = distinct([one for compared in pairs.values() for one, _ in compared], "ranks")
    every = f"each of {' or '.join(ranks)} ranks" if ranks else "every rank"
    lines = [
        f"The peak of a rank beside that with the whole state on {every}: "
        f"{', '.join(peaks)}." if peaks else "",
        f"The step beside that with the whole state: {changes.by_machine(timed, of_kinds)}."
        if timed else "",
        *next(filter(None, map(bytes_sent, settings_of)), []),
    ]  # fmt: skip
    return [line for line in lines if line]


def of_kinds(pairs: Sequence[changes.Pair]) -> str:
    by_kind = {kind: [pair for pair in pairs if pair[0].get("shard") == kind] for kind in SHARDED}
    return ", ".join(
        f"{kind} {changes.on_one_machine(own, 'step')}" for kind, own in by_kind.items() if own
    )


def has_step(case: Case) -> bool:
    return not isnan(case.seconds("step"))


def bytes_sent(by: dict[str, Case]) -> list[str]:
    sent = [by[kind].number("sent_bytes") if kind in by else nan for kind in ("broadcast", "zero1")]
    if any(map(isnan, sent)):
        return []
    return [
        f"broadcast (gradients all-reduced, whole tensors owned by ranks and broadcast) sends "
        f"{decimal(sent[0])} a step, ZeRO stage 1 (gradients reduce-scattered, parameters "
        f"all-gathered) {decimal(sent[1])}."
    ]


def table(own: list[Case]) -> list[Table]:
    """A row for every sharding of every setting; settings with a whole state to compare with are
    first."""
    settings_of = [kinds_of(own, case) for case in one_per_setting(own)]
    found = [
        (name_of(own, one), one, by.get(WHOLE))
        for by in sorted(settings_of, key=lambda by: WHOLE not in by)
        for one in by.values()
    ]
    if not found:
        return []
    common, told = settings([one for _, one, _ in found])
    marks = [memory_marks.of_row(one.results, one.row) for _, one, _ in found]
    rows = [
        [where, name, *at_marks(table), *beside(one, whole)]
        for where, (name, one, whole), table in zip(told, found, marks, strict=True)
    ]
    caption = ["Peaks are those of the rank with the most, in GiB: up to each mark of the first "
               "step, and of all steps. Changes are relative to the whole state on every rank "
               "(none), and stated where the 95% intervals do not overlap."]  # fmt: skip
    caption += [f"All steps: {common}."] if common else []
    header = ["setting", "sharded", *(f"peak {mark} (GiB)" for mark in memory_marks.MARKS),
              "peak (GiB)", "peak, change", "step (ms)", "step, change"]  # fmt: skip
    return [grid("sharding", "What each sharding saves and costs", caption, header, rows)]


def at_marks(marks: DataFrame | None) -> list[str]:
    if marks is None:
        return [ABSENT] * len(memory_marks.MARKS)
    peaks = marks["peak"].reindex(list(memory_marks.MARKS))
    return [figure(peak / 2**30) for peak in peaks]


def beside(one: Case, whole: Case | None) -> list[str]:
    peak, seconds = one.number("peak_bytes"), one.seconds("step")
    compared = whole is not None and one is not whole
    return [
        figure(peak / 2**30),
        changes.of_size(one, whole) if compared else ABSENT,
        figure(1e3 * seconds),
        changes.change(one, whole) if compared and has_step(one) and has_step(whole) else ABSENT,
    ]


def name_of(own: list[Case], case: Case) -> str:
    """What is sharded, with the choices that differ between the cases of this setting: fsdp
    (prefetch 2, reshard no)."""
    kind = case.get("shard")
    others = alike(own, case, shard=kind)
    differing = [name for name in CHOICES if len(distinct(others, name)) > 1]
    chosen = case_label(differing, [case.get(name) for name in differing])
    return f"{kind} ({chosen})" if chosen else kind
