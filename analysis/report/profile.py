"""Where the kernels' time goes (nsys_profile)."""

from collections.abc import Iterator
from math import isnan

import pandas as pd

from ..results import Results
from ..tables import recorded
from . import comparisons, published
from .facts import Case, cases, largest
from .section import Section, drawings
from .selection import has_profile, tables_of
from .sentences import milliseconds, percent, setting
from .step_breakdown import cost

TABLES = ("profile-forward", "profile-costliest", "profile-products", "profile-softmax")


def section(found: list[Results]) -> Section:
    chosen = [results for results in found if has_profile(results)]
    own = cases(chosen)
    case = largest(own, cost)
    answers = clocks(own) + (of_case(case) if case else [])
    if not any("softmax takes" in line for line in answers):
        answers += next((line for other in own if (line := softmax(other))), [])
    return Section(
        name="profile",
        title="Where does the time of the kernels go?",
        problem="nsys_profile (a) to (e)",
        question="What does forward take by the profiler, and does the host's clock agree? Which "
        "kernel costs most and how often is it launched? What else than matrix products takes "
        "time? How does their share differ in a whole training step? How do softmax and the "
        "products of attention compare in time and in FLOPs?",
        command="build/paceline model --preset profile",
        sentences=answers,
        tables=tables_of(chosen, recorded.build, *TABLES),
        drawings=drawings("profile", chosen, ["streams", "block", "attention-kernels"]),
        published=[
            *published.tables(comparisons.profile(cases(found))),
            *published.tables(comparisons.kernels(cases(found))),
        ],
        headline=products_share(case),
    )


def rows(case: Case, group: str) -> Iterator[pd.Series]:
    """The rows of the case in a table of its file."""
    table = case.results.file_tables.get(group)
    if table is not None:
        yield from (row for _, row in table[table["case"] == case.get("case")].iterrows())


def clocks(own: list[Case]) -> list[str]:
    """Forward of the largest case, of those that the host's clock timed too if there are any."""
    timed = [(case, row) for case in own for row in rows(case, "profile/forward")
             if not isnan(cost(case) + row["busy"])]  # fmt: skip
    by_host = [(case, row) for case, row in timed if not isnan(row["host"])]
    if not timed:
        return []
    case, row = max(by_host or timed, key=lambda one: cost(one[0]))
    host = f"{milliseconds(row['host'])} by the host's clock, " if by_host else ""
    return [
        f"{setting(case.values)}: forward takes {host}{milliseconds(row['events'])} by events "
        f"while it is profiled; kernels run in {milliseconds(row['busy'])} of these "
        f"({away(row['busy'], row['events'])})."
    ]


def of_case(case: Case) -> list[str]:
    lines = []
    for row in rows(case, "profile/products"):
        lines.append(
            f"Matrix products take {percent(row['forward'])} of the kernels' time in forward and "
            f"{percent(row['step'])} in the whole step."
        )
    for row in rows(case, "profile/costliest"):
        passes = row["phases"].replace("_", " + ")
        lines.append(
            f"In {passes} the costliest kernel is {row['kernel']}: {percent(row['share'])} of the "
            f"kernels' time in {row['calls']:.0f} launches a step; the costliest that are no "
            f"matrix product: {row['other_kernels'] or 'none'}."
        )
    lines[:1] = [f"{setting(case.values)}: {line[0].lower()}{line[1:]}" for line in lines[:1]]
    return lines + softmax(case)


def softmax(case: Case) -> list[str]:
    return [
        f"In attention's forward pass of {setting(case.values)}, softmax takes "
        f"{percent(row['time_ratio'])} of the products' time with {percent(row['flops_ratio'])} of "
        "their FLOPs."
        for row in rows(case, "profile/softmax")
    ]


def away(value: float, other: float) -> str:
    return f"{100 * (value / other - 1):+.1f}%"


def products_share(case: Case | None) -> str:
    for row in rows(case, "profile/products") if case else ():
        return (
            f"Matrix products take {percent(row['step'])} of the kernels' time of a step of "
            f"{setting(case.values)}; everything else {percent(1 - row['step'])}."
        )
    return ""
