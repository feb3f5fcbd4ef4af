"""Exchanges of gradients: their names, their cases in one setting, the cost of their steps."""

from collections.abc import Iterable, Sequence
from math import isnan

from ..formatting import ABSENT, figure
from ..tables.table import Table
from .facts import Case, fastest, matching
from .section import grid
from .sentences import SETTING, setting, told_of

NAMES = {"naive": "one all_reduce per gradient (naive)", "none": "no exchange (none)"}
ORDER = ("none", "naive", "flat", "overlap", "bucketed")
# Exchanges whose collectives run while backward still computes.
OVERLAPPED = ("overlap", "bucketed")


def same_setting(own: Sequence[Case], case: Case, **kind: str) -> Case | None:
    """The case that differs from `case` only in its exchange (sync="flat") or in what is sharded
    (shard="zero1"), with its fastest bucket size."""
    return fastest(alike(own, case, **kind), "step")


def alike(own: Sequence[Case], case: Case, **kind: str) -> list[Case]:
    return [one for one in matching(own, **kind) if setting_of(one) == setting_of(case)]


def one_per_setting(own: Iterable[Case], also: Sequence[str] = ()) -> list[Case]:
    """The first case of each setting of each file, and of each value of the factors `also`."""
    firsts: dict[tuple[object, ...], Case] = {}
    for case in own:
        firsts.setdefault((setting_of(case), *(case.get(name) for name in also)), case)
    return list(firsts.values())


def setting_of(case: Case) -> tuple[object, ...]:
    return (id(case.results), *(told_of(case.values, name) for name in (*SETTING, "mode")))


def name_of(case: Case) -> str:
    bucket, sync = case.get("bucket_mb"), case.get("sync")
    return (f"{sync} {bucket} MB" if bucket else NAMES.get(sync, sync)) + of_dtype(case)


def of_dtype(case: Case) -> str:
    """The dtype that is sent, where it is not the gradients' own."""
    dtype = case.get("comm_dtype")
    return "" if dtype in ("", "fp32") else f" sent as {dtype}"


def device_seconds(own: Sequence[Case]) -> list[Table]:
    """Ranks times seconds of a step, what the machine spends on it: a row for each setting with an
    exchange, a column for each exchange with its fastest case."""
    timed = [one for one in own if one.get("sync") and not isnan(spent(one))]
    rows = one_per_setting(one for one in timed if one.get("sync") != "none")
    if not rows:
        return []
    syncs = [sync for sync in ORDER if any(one.get("sync") == sync for one in timed)]
    unit = "GPU-seconds" if {one.get("device") for one in timed} == {"cuda"} else "rank-seconds"
    cells = [
        [setting(row.values), *(spent_with(same_setting(timed, row, sync=sync)) for sync in syncs)]
        for row in rows
    ]
    caption = [f"{unit}: the number of ranks times the median step, of the fastest case of each "
               "exchange."]  # fmt: skip
    return [grid("device-seconds", f"What a step costs in {unit}", caption,
                 ["setting", *(NAMES.get(sync, sync) for sync in syncs)], cells)]  # fmt: skip


def spent(case: Case) -> float:
    return case.number("ranks") * case.seconds("step")


def spent_with(case: Case | None) -> str:
    """With the bucket size and the dtype, where the exchange has one."""
    if case is None:
        return ABSENT
    bucket = case.get("bucket_mb")
    kind = ((f" {bucket} MB" if bucket else "") + of_dtype(case)).strip()
    return figure(spent(case)) + (f" ({kind})" if kind else "")
