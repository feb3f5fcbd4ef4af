"""Bucket sizes: which are equally fast, and what the model of their best size predicts."""

from collections.abc import Sequence
from math import ceil, isnan, sqrt

import pandas as pd

from ..formatting import figure
from ..result_file import device_of
from ..results import Results
from . import sentences
from .exchanges import alike, name_of, of_dtype
from .facts import Case, cases, matching
from .sentences import differ, in_words, milliseconds, of_file, percent, setting

FORMULA = (
    "The model: with n buckets of s bytes in all, latency o and bandwidth w, what is left after "
    "backward is n o + s / (n w), least at buckets of sqrt(s o w) bytes"
)


KIND = ("comm_dtype", "registration", "shard")  # of an exchange, beside its bucket size


def equal_to(own: Sequence[Case], best: Case) -> list[Case]:
    """`best`, and the bucket sizes of the same setting whose intervals overlap its own."""
    others = [
        one
        for one in alike(own, best, sync=best.get("sync"))
        if one.row != best.row
        and all(one.get(name) == best.get(name) for name in KIND)
        and differ(one, best, "step") == 0
    ]
    return sorted([best, *others], key=lambda one: one.number("bucket_mb"))


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
    best = min(group, key=lambda one: one.seconds("step"))
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
        f"{milliseconds(other.seconds('step'))} with {name}{of_file(best)}: {change} {word}, and "
        "the 95% intervals do not overlap."
    )


def model(found: Sequence[Results], chosen: Sequence[Results]) -> list[str]:
    """The formula, evaluated with a fit of the same device where the files have one."""
    told = [line for results in chosen for line in evaluated(found, cases([results]))]
    return [f"{FORMULA}.", *told]


def evaluated(found: Sequence[Results], own: Sequence[Case]) -> list[str]:
    sizes = [
        case
        for case in matching(own, sync="bucketed")
        if not isnan(case.seconds("step") * case.number("communication_bytes"))
    ]
    if len(sizes) < 2:
        return []
    best = min(sizes, key=lambda case: case.seconds("step"))
    fit = fit_for(found, best)
    if fit is None or fit["latency_s"] <= 0:
        return []
    whole, latency, rate = (
        best.number("communication_bytes"), fit["latency_s"], fit["bandwidth_bytes_per_s"]
    )  # fmt: skip
    ideal, left = sqrt(whole * latency * rate), 2 * sqrt(whole * latency / rate)
    sized = [case for case in alike(own, best, sync="bucketed") if case in sizes]

    def predicted(case: Case) -> float:
        calls = case.number("communication_calls")
        count = ceil(whole / (1e6 * case.number("bucket_mb"))) if isnan(calls) else calls
        return count * latency + whole / (count * rate)

    choice = min(sized, key=predicted)
    group = equal_to(own, best)
    agree = choice.row in {one.row for one in group}
    kinds = (("the fit is", fit.get("registration")), ("the step is", best.get("registration")))
    registered = ", ".join(f"{word} of registration {value}" for word, value in kinds if value)
    return [
        f"Its prediction for {setting(best.values)}: by the fit of all_reduce ({fit['backend']}, "
        f"{in_words('ranks', best.get('ranks'))}: o = {figure(1e6 * latency, 3)} µs, "
        f"w = {figure(rate / 1e9, 3)} GB/s) "
        f"and s = {figure(whole / 1e9, 3)} GB, buckets of {figure(ideal / 1e6, 3)} MB, which leave "
        f"{milliseconds(left, 3)}. Of the sizes measured it prefers {choice.get('bucket_mb')} MB: "
        f"predicted {milliseconds(predicted(choice), 3)}, measured "
        f"{milliseconds(choice.seconds('communication_exposed'), 3)} of wait and a step of "
        f"{milliseconds(choice.seconds('step'))}. The fastest measured: {listed(group)}, "
        f"{times(group, 'communication_exposed')} of wait and a step of {times(group)}. Model and "
        f"measurement {'agree' if agree else 'do not agree'} on the size; the predicted wait is "
        f"{figure(predicted(choice) / choice.seconds('communication_exposed'), 3)} times the "
        "measured one" + (f" ({registered})." if registered else ".")
    ]


def fit_for(found: Sequence[Results], case: Case) -> pd.Series | None:
    """The fit of all_reduce on as many ranks of the same device."""
    device = device_of(case.hardware)
    backend = "nccl" if case.get("device") == "cuda" else "mpi"
    for results in found:
        table = results.file_tables.get("fit")
        if table is None or not device or device not in results.runs[0].hardware:
            continue
        for _, row in table.iterrows():
            alike = (row["op"], row["backend"], str(row["ranks"]))
            if alike == ("all_reduce", backend, case.get("ranks")):
                return row
    return None
