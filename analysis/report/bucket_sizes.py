"""The bucket sizes of each setting: the fastest, the slowest, and the collectives of a step."""

from collections.abc import Sequence
from math import isnan

from ..formatting import ABSENT
from ..tables.table import Table
from . import buckets, changes
from .exchanges import alike, name_of, of_dtype, one_per_setting
from .facts import Case, matching
from .section import grid
from .sentences import FEW, milliseconds, setting, settings

CAPTION = [
    "The fastest sizes are those whose 95% intervals overlap that of the smallest median; below 6 "
    "repetitions there is no interval, and the fastest is undecided. Sizes "
    "with equally many collectives send the same messages: a tensor larger than the bucket is one "
    "of its own."
]


def of_settings(own: Sequence[Case]) -> list[list[Case]]:
    """The bucket sizes of each setting and kind, where there are several, in ascending order."""
    found = []
    for case in one_per_setting(matching(own, sync="bucketed"), buckets.KIND):
        kind = {name: case.get(name) for name in buckets.KIND}
        timed = [one for one in alike(own, case, sync="bucketed", **kind)
                 if not isnan(one.seconds("step"))]  # fmt: skip
        if len(timed) > 1:
            found.append(sorted(timed, key=lambda one: one.number("bucket_mb")))
    return found


def lead(own: Sequence[Case]) -> list[str]:
    """The fastest sizes, where most were measured."""
    sizes = max(of_settings(own), key=len, default=[])
    if not sizes:
        return []
    group = fastest(sizes)
    if buckets.are_undecided(group):
        told = f"{buckets.listed(group)}: {buckets.times(group)} ({setting(group[0].values)})"
        return [f"{told}; the fastest is {FEW}."]
    if len(group) > 1:
        return buckets.equality(group)
    (best,) = group
    return [
        f"Of {len(sizes)} bucket sizes, {best.get('bucket_mb')} MB is the fastest: "
        f"{milliseconds(best.seconds('step'))} a step ({setting(best.values)})."
    ]


def table(own: Sequence[Case]) -> list[Table]:
    every = of_settings(own)
    if not every:
        return []
    common, told = settings([sizes[0] for sizes in every])
    rows = [[where, *row(sizes)] for where, sizes in zip(told, every, strict=True)]
    caption = [*CAPTION, *([f"All steps: {common}."] if common else [])]
    header = ["setting", "fastest", "step (ms)", "slowest", "beside the slowest (ms)",
              "collectives of a step"]  # fmt: skip
    return [grid("bucket-sizes", "Bucket sizes", caption, header, rows)]


def row(sizes: Sequence[Case]) -> list[str]:
    group = fastest(sizes)
    best = buckets.fastest_of(group)
    worst = max(sizes, key=lambda one: one.seconds("step"))
    is_equal = worst.row in {one.row for one in group}
    equal = "undecided" if buckets.are_undecided(group) else "none differs"
    counts = [f"{one.get('bucket_mb')} MB: {calls}"
              for one in sizes if (calls := one.get("communication_calls"))]  # fmt: skip
    return [
        buckets.listed(group) + of_dtype(group[0]),
        buckets.times(group).removesuffix(" ms"),
        equal if is_equal else name_of(worst),
        ABSENT if is_equal else changes.cell(best, worst),
        ", ".join(counts) or ABSENT,
    ]


def fastest(sizes: Sequence[Case]) -> list[Case]:
    return buckets.possibly_fastest(sizes, buckets.fastest_of(sizes))
