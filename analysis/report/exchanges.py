"""Exchanges of gradients in sentences: their names, and what a step with one costs."""

from collections.abc import Iterable, Sequence
from math import isnan

from ..formatting import figure
from .facts import Case, fastest, matching
from .sentences import SETTING, compared, differ, in_words, milliseconds, of_file, percent, setting

NAMES = {"naive": "one all_reduce per gradient (naive)", "none": "no exchange (none)"}
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
    return (id(case.results), *(case.get(name) for name in (*SETTING, "mode")))


def name_of(case: Case) -> str:
    bucket, sync = case.get("bucket_mb"), case.get("sync")
    return (f"{sync} {bucket} MB" if bucket else NAMES.get(sync, sync)) + of_dtype(case)


def of_dtype(case: Case) -> str:
    """The dtype that is sent, where it is not the gradients' own."""
    dtype = case.get("comm_dtype")
    return "" if dtype in ("", "fp32") else f" sent as {dtype}"


def exposed(case: Case, without: Case | None) -> list[str]:
    """What a step of `case` takes beyond one without an exchange, and of what that is made."""
    waited, whole = case.seconds("communication_exposed"), case.seconds("step")
    if isnan(waited) or isnan(whole):
        return []
    name, of_step = name_of(case), percent(waited / whole)
    where = setting(case.values)
    plain = f"{name}: the step takes {milliseconds(whole)}"
    wait = f"it waits {milliseconds(waited)} ({of_step}) for gradients"
    if without is None or isnan(without.seconds("step")):
        return [f"{plain}, of which {wait} ({where}).", *gpu_seconds(case, None)]
    if differ(case, without, "step") != 1:
        told = compared(case, without, "step", name, name_of(without))
        return [f"{plain}, of which {wait} ({where}).", told, *gpu_seconds(case, without)]
    more = whole - without.seconds("step")
    lines = [
        f"{plain}, {milliseconds(more)} ({percent(more / without.seconds('step'))}) longer than "
        f"the {milliseconds(without.seconds('step'))} with {name_of(without)} ({where}). "
        f"Of the step, {wait} (exposed)" + longer_work(case, without)
    ]
    return lines + gpu_seconds(case, without)


def longer_work(case: Case, without: Case) -> str:
    """The end of the sentence: the phases that are longer with the exchange."""
    overlapped = case.get("sync") in OVERLAPPED
    beside = {"backward": ", beside which the collectives run," if overlapped else ""}
    phases = [
        f"{phase}{beside.get(phase, '')} "
        f"by {milliseconds(case.seconds(phase) - without.seconds(phase))}"
        for phase in ("backward", "forward", "optimizer")
        if differ(case, without, phase) == 1
    ]
    return f"; these phases are longer: {', '.join(phases)}." if phases else "."


def gpu_seconds(case: Case, without: Case | None) -> list[str]:
    """Ranks times seconds of a step: what the machine spends on it."""
    ranks = case.number("ranks")
    if isnan(ranks):
        return []
    unit = "GPU-seconds" if case.get("device") == "cuda" else "rank-seconds"
    line = f"{name_of(case)}: {figure(ranks * case.seconds('step'))} {unit} a step"
    if without is not None and not isnan(without.seconds("step")):
        line += f", {figure(ranks * without.seconds('step'))} with {name_of(without)}"
    times = f"{in_words('ranks', case.get('ranks'))} x the step's seconds"
    return [f"{line} ({times}){of_file(case)}."]
