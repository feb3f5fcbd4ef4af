"""Bucket sizes that are equally fast, and their step beside that of another exchange."""

from collections.abc import Sequence
from math import isnan

from . import sentences
from .exchanges import alike, name_of, of_dtype
from .facts import Case
from .sentences import differ, milliseconds, of_file, percent, setting

KIND = ("comm_dtype", "registration", "shard")  # of an exchange, beside its bucket size


def equal_to(own: Sequence[Case], best: Case) -> list[Case]:
    """`best`, and the bucket sizes of the same setting whose intervals overlap its own."""
    return with_others(own, best, {0})


def possibly_fastest(own: Sequence[Case], best: Case) -> list[Case]:
    """The same, and those that have too few repetitions to be known to be slower."""
    return with_others(own, best, {0, None})


def with_others(own: Sequence[Case], best: Case, signs: set[int | None]) -> list[Case]:
    others = [
        one
        for one in alike(own, best, sync=best.get("sync"))
        if one.row != best.row
        and all(one.get(name) == best.get(name) for name in KIND)
        and not isnan(one.seconds("step"))
        and differ(one, best, "step") in signs
    ]
    return sorted([best, *others], key=lambda one: one.number("bucket_mb"))


def are_undecided(group: Sequence[Case]) -> bool:
    """Whether some of them are possibly_fastest() for lack of repetitions."""
    best = fastest_of(group)
    return any(differ(one, best, "step") is None for one in group if one.row != best.row)


def fastest_of(group: Sequence[Case]) -> Case:
    return min(group, key=lambda one: one.seconds("step"))


def listed(group: Sequence[Case], last: str = "and") -> str:
    *sizes, end = (one.get("bucket_mb") for one in group)
    return f"{', '.join(sizes)} {last} {end} MB" if sizes else f"{end} MB"


def times(group: Sequence[Case], phase: str = "step") -> str:
    low, high = (milliseconds(end([one.seconds(phase) for one in group])) for end in (min, max))
    return low if low == high else f"{low.removesuffix(' ms')} to {high}"


def equality(group: Sequence[Case]) -> list[str]:
    if len(group) < 2:
        return []
    counts = {one.get("communication_calls") for one in group}
    where = setting(group[0].values)
    told = f"{listed(group)} are equal within the intervals: {times(group)} ({where})"
    if len(counts) == 1 and "" not in counts:
        told += f"; they send equally many messages, {counts.pop()} a step"
    return [f"{told}."]


def compared(group: Sequence[Case], other: Case, other_name: str = "") -> str:
    """One sentence on equally fast bucket sizes beside another exchange."""
    best = fastest_of(group)
    name = other_name or name_of(other)
    signs = {differ(one, other, "step") for one in group}
    if len(group) == 1 or len(signs) > 1 or signs & {0, None}:
        return sentences.compared(best, other, "step", name_of(best), name)
    word = "shorter" if signs == {-1} else "longer"
    changes = [abs(one.seconds("step") / other.seconds("step") - 1) for one in group]
    low, high = percent(min(changes)), percent(max(changes))
    change = low if low == high else f"{low.removesuffix('%')} to {high}"
    return (
        f"{times(group)} with {best.get('sync')} {listed(group, 'or')}{of_dtype(best)}, "
        f"{milliseconds(other.seconds('step'))} with {name}{of_file(best)}: {change} {word}."
    )
