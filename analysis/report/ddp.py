"""Data-parallel training, exchange by exchange (naive_ddp to ddp_overlap_bucketed)."""

from collections.abc import Sequence
from math import isnan

from .. import scaling_cases
from ..results import Results
from ..tables import recorded
from ..tables import scaling as scaling_table
from ..tables.table import Table
from . import (
    bucket_model,
    bucket_sizes,
    buckets,
    comparisons_parallel,
    exchange_table,
    published,
)
from .exchanges import ORDER, alike, device_seconds, one_per_setting, same_setting
from .facts import Case, cases, matching
from .section import Section, drawings
from .selection import cases_tables, has_profile, methods, of_experiment, tables_of
from .sentences import differ

LITTLE = 0.05  # of a step
# The exchanges that each is compared with; all are compared with no exchange.
BESIDE: dict[str, list[str]] = {
    "naive": [],
    "flat": ["naive"],
    "overlap": ["flat", "naive"],
    "bucketed": ["overlap", "flat", "naive"],
}
PRESET = "mpirun -np 2 build/paceline ddp --preset course"


def chosen_of(found: list[Results]) -> list[Results]:
    return [results for results in of_experiment(found, "ddp") if not has_profile(results)]


def restricted(found: list[Results], kinds: Sequence[str]) -> list[Results]:
    """The cases with one of these exchanges, from files that have the last of these exchanges."""
    parts = []
    for results in chosen_of(found):
        values = list(results.frame.get("sync", ()))
        rows = [row for row, value in enumerate(values) if value in kinds]
        if kinds[-1] in values:
            parts.append(results.only(rows))
    return parts


def against(found: list[Results], sync: str) -> list[exchange_table.Row]:
    """The cases of an exchange beside the others of their file."""
    return exchange_table.rows(cases(chosen_of(found)), sync, BESIDE[sync])


def answer(rows: Sequence[exchange_table.Row], sync: str) -> list[str]:
    return exchange_table.lead(rows, sync, BESIDE[sync] or ["none"])


def device_seconds_in(found: list[Results], sync: str) -> list[Table]:
    """One table of every exchange, in the section of the first that was measured."""
    own = cases(chosen_of(found))
    measured = {case.get("sync") for case in own if not isnan(case.seconds("step"))}
    is_first = sync == next((kind for kind in ORDER[1:] if kind in measured), "")
    return device_seconds(own) if is_first else []


def tables_in(found: list[Results], sync: str, rows: Sequence[exchange_table.Row]) -> list[Table]:
    """The cases of a file are in the section of its last exchange, all of them in one table."""
    until = ORDER.index(sync) + 1
    last = [one for one in found if not methods(one, "sync") & set(ORDER[until:])]
    return [
        *exchange_table.table(rows, sync),
        *device_seconds_in(found, sync),
        *cases_tables(restricted(last, ORDER[:until])),
    ]


def naive(found: list[Results]) -> Section:
    chosen = restricted(found, ("none", "naive"))
    rows = against(found, "naive")
    return Section(
        name="ddp-naive",
        title="What does naive data-parallel training cost?",
        problem="naive_ddp, naive_ddp_benchmarking",
        question="With an all-reduce for each parameter after backward: how long is a step, and "
        "how much of it goes to communication?",
        command=PRESET,
        sentences=answer(rows, "naive"),
        tables=tables_in(found, "naive", rows),
        ahead=1,
        drawings=drawings("ddp-naive", chosen, ["steps"]),
        published=published.tables(comparisons_parallel.ddp(cases(found))),
    )


def flat(found: list[Results]) -> Section:
    chosen = restricted(found, ("none", "naive", "flat"))
    rows = against(found, "flat")
    return Section(
        name="ddp-flat",
        title="Is one all-reduce of all gradients better?",
        problem="minimal_ddp_flat_benchmarking",
        question="With all gradients in one all-reduce after backward: how does it compare with "
        "one for each parameter?",
        command=PRESET,
        sentences=answer(rows, "flat"),
        tables=tables_in(found, "flat", rows),
        ahead=1,
        drawings=drawings("ddp-flat", chosen, ["steps"]),
    )


def overlap(found: list[Results]) -> Section:
    chosen = restricted(found, ("none", "naive", "flat", "overlap"))
    rows = against(found, "overlap")
    profiled = [results for results in of_experiment(found, "ddp") if has_profile(results)]
    return Section(
        name="ddp-overlap",
        title="What does overlapping communication with backward bring?",
        problem="ddp_overlap_individual_parameters_benchmarking (a), (b)",
        question="With each gradient's all-reduce as soon as it is ready: how does a step compare, "
        "and do traces show the overlap?",
        command=PRESET + "; with --profile for the streams",
        sentences=answer(rows, "overlap"),
        tables=tables_in(found, "overlap", rows),
        ahead=1,
        drawings=[
            *drawings("ddp-overlap", chosen, ["steps"]),
            *drawings("ddp-overlap", profiled, ["streams"]),
        ],
    )


def bucketed(found: list[Results]) -> Section:
    chosen = [r for r in chosen_of(found) if "bucketed" in methods(r, "sync")]
    scaling = scaling_cases.together(chosen_of(found))
    exchanges = [r for r in chosen if methods(r, "sync") - {"none", "bucketed"}] or chosen
    rows = against(exchanges, "bucketed")
    return Section(
        name="ddp-bucketed",
        title="Is bucketing worth it, and which size?",
        problem="ddp_overlap_bucketed, ddp_bucketed_benchmarking (a), (b)",
        question="How long is a step by bucket size, does it agree with expectation, and what "
        "models the overhead and the best size?",
        command=PRESET + "; with --predict for the model",
        sentences=[
            *answer(rows, "bucketed")[:1],
            *bucket_sizes.lead(cases(exchanges)),
            *bucket_model.sentences(found, exchanges),
        ] if chosen else [],
        tables=[
            *exchange_table.table(rows, "bucketed"),
            *bucket_sizes.table(cases(exchanges)),
            *device_seconds_in(found, "bucketed"),
            *cases_tables(exchanges),
            *tables_of(chosen, recorded.build, "predict"),
            *tables_of(scaling, scaling_table.build),
        ],
        ahead=2,
        drawings=[
            *drawings("ddp-bucketed", exchanges, ["steps"]),
            *drawings("ddp-bucketed", chosen, ["overhead"]),
            *drawings("ddp-bucketed", scaling, ["scaling"]),
        ],
        headline=verdict(cases(chosen)),
    )  # fmt: skip


def verdict(own: Sequence[Case]) -> str:
    """Whether the best bucket size is faster than one message per parameter, where the most bucket
    sizes were measured beside it, and in how many settings this holds."""
    pairs = [
        (best, single)
        for case in one_per_setting(matching(own, sync="bucketed"))
        if (best := same_setting(own, case, sync="bucketed"))
        and (single := same_setting(own, case, sync="overlap"))
    ]
    if not pairs:
        return ""
    best, single = max(pairs, key=lambda pair: len(alike(own, pair[0], sync="bucketed")))
    gains = "Yes, a little" if saving(best, single) < LITTLE else "Yes"
    answers = {-1: gains, 0: "No difference here", 1: "No, it is slower", None: "Undecided"}
    signs = [differ(*pair, "step") for pair in pairs]
    sign = differ(best, single, "step")
    is_same = len(set(signs)) == 1
    extent = "" if is_same else f", in {signs.count(sign)} of {len(signs)} settings"
    answer = answers[sign] + extent
    group = buckets.equal_to(own, best)
    line = buckets.compared(group, single, "overlap of single gradients")
    naive_case = same_setting(own, best, sync="naive")
    gain = buckets.compared(group, naive_case) if naive_case else ""
    told = [f"{answer}.", line, gain, *buckets.equality(group)]
    return " ".join(filter(None, told))


def saving(a: Case, b: Case) -> float:
    return 1 - a.seconds("step") / b.seconds("step")
