"""Memory at the marks of a step that several files have: the ledger counts the same in each."""

from collections.abc import Iterable

from .. import memory_marks
from ..formatting import figure
from ..results import Results
from .facts import Case, cases
from .sentences import SETTING, USUAL, told_of

GIB = 2**30
# What tells the cases of a file apart, beside the setting; a file's name does not.
FACTORS = (*SETTING, "mode", "shard", "sync", "bucket_mb", "prefetch", "reshard")


def without_repeats(found: Iterable[Results]) -> list[Results]:
    """Without those all of whose cases an earlier one has, with equal sizes to three digits."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for results in found:
        own = {told(case) for case in cases([results])}
        if not own <= seen:
            kept.append(results)
        seen |= own
    return kept


def told(case: Case) -> tuple[object, ...]:
    marks = memory_marks.of_row(case.results, case.row)
    sizes = [] if marks is None else (marks[["active", "peak"]] / GIB).to_numpy().ravel()
    factors = (told_of(case.values, name) or USUAL.get(name) for name in FACTORS if name != "file")
    return (*factors, *(figure(size, 3) for size in sizes))
