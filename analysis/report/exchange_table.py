"""An exchange of gradients beside others in every setting: one table, and a sentence on each."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from ..formatting import ABSENT, figure
from ..tables.table import Table
from . import buckets, changes
from .exchanges import NAMES, OVERLAPPED, name_of, of_dtype, one_per_setting, same_setting
from .facts import Case, matching
from .section import grid
from .sentences import differ, percent, settings


@dataclass(frozen=True)
class Row:
    """An exchange in one setting, with its fastest bucket size."""

    best: Case
    group: list[Case]  # the bucket sizes that are equally fast
    others: dict[str, Case]  # by exchange


def rows(own: Sequence[Case], sync: str, others: Sequence[str]) -> list[Row]:
    found = []
    for case in one_per_setting(matching(own, sync=sync)):
        best = same_setting(own, case, sync=sync)
        if best is None:
            continue
        beside = {kind: same_setting(own, best, sync=kind) for kind in (*others, "none")}
        measured = {kind: one for kind, one in beside.items() if one}
        found.append(Row(best, buckets.equal_to(own, best), measured))
    return found


def lead(found: Sequence[Row], sync: str, others: Sequence[str]) -> list[str]:
    """How much shorter its step is than with each of the others; what it waits for gradients."""
    lines = []
    name = NAMES.get(sync, sync)
    for kind in others:
        pairs = [(row.best, row.others[kind]) for row in found if kind in row.others]
        if pairs:
            lines.append(
                f"Beside {NAMES.get(kind, kind)}, a step with {name} is {changes.of_times(pairs)}."
            )
    waits = [(row.best, row.best) for row in found if not isnan(share(row.best))]
    if waits:
        told = changes.by_machine(
            waits, lambda group: changes.percents([share(case) for case, _ in group])
        )
        lines.append(f"Its wait for gradients (exposed), as a share of the step: {told}.")
    return lines


def share(case: Case) -> float:
    return case.seconds("communication_exposed") / case.seconds("step")


def table(found: Sequence[Row], sync: str) -> list[Table]:
    if not found:
        return []
    others = list(dict.fromkeys(kind for row in found for kind in row.others))
    header = ["setting", "exchange", "step (ms)", "wait (ms)", "wait, of the step",
              *(f"beside {kind} (ms)" for kind in others), "longer phases"]  # fmt: skip
    common, told = settings([row.best for row in found])
    cells = [
        [
            where,
            named(row),
            buckets.times(row.group).removesuffix(" ms"),
            figure(1e3 * row.best.seconds("communication_exposed")),
            ABSENT if isnan(share(row.best)) else percent(share(row.best)),
            *(changes.cell(row.best, row.others.get(kind)) for kind in others),
            longer_phases(row.best, row.others.get("none")),
        ]
        for where, row in zip(told, found, strict=True)
    ]
    caption = [
        "Medians. The wait is exposed communication. Columns beside another exchange have its "
        "step, and how much longer or shorter the step is here, where the 95% intervals do not "
        "overlap. Longer phases are those with an interval above that without an exchange (none)."
    ]
    if common:
        caption.append(f"All steps: {common}.")
    if sync in OVERLAPPED:
        caption.append("The collectives overlap with backward.")
    return [grid(f"exchange-{sync}", f"Steps with {NAMES.get(sync, sync)} beside others", caption,
                 header, cells)]  # fmt: skip


def named(row: Row) -> str:
    if len(row.group) < 2:
        return name_of(row.best)
    return f"{row.best.get('sync')} {buckets.listed(row.group, 'or')}{of_dtype(row.best)}"


def longer_phases(case: Case, without: Case | None) -> str:
    if without is None:
        return ABSENT
    signs = {phase: differ(case, without, phase) for phase in ("backward", "forward", "optimizer")}
    longer = [
        f"{phase} by {figure(1e3 * (case.seconds(phase) - without.seconds(phase)))} ms"
        for phase, sign in signs.items()
        if sign == 1
    ]
    undecided = all(sign is None for sign in signs.values())
    return ", ".join(longer) or (ABSENT if undecided else "none")
