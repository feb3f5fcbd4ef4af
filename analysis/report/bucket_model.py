"""What the model of the best bucket size predicts, beside the sizes measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan, sqrt

import pandas as pd

from ..formatting import figure
from ..result_file import device_of
from ..results import Results
from . import buckets
from .exchanges import alike
from .facts import Case, cases, matching
from .sentences import FEW, in_words, milliseconds, setting

FORMULA = (
    "The model: with n buckets of s bytes in all, latency o and bandwidth w, what is left after "
    "backward is n o + s / (n w), least at buckets of sqrt(s o w) bytes"
)


@dataclass(frozen=True)
class Prediction:
    """The model, evaluated with the fit of one device for the bucket sizes of one setting."""

    fit: pd.Series
    best: Case  # the fastest measured
    choice: Case  # the size with the least predicted wait
    group: list[Case]  # the sizes as fast as the best
    possibly_fastest: list[Case]  # those, and the sizes with too few repetitions to tell

    @property
    def agrees(self) -> bool:
        return self.choice.row in {one.row for one in self.group}

    @property
    def lead(self) -> str:
        if buckets.are_undecided(self.possibly_fastest):
            measured = f"which of {buckets.listed(self.possibly_fastest)} is the fastest is {FEW}"
        else:
            measured = (
                f"{buckets.listed(self.group)} {'is' if len(self.group) == 1 else 'are'} the "
                "fastest: model and measurement "
                f"{'agree' if self.agrees else 'do not agree'} on the size"
            )
        size = self.choice.get("bucket_mb")
        machine = f" on {self.best.hardware}" * bool(self.best.hardware)
        return (
            f"Of the sizes measured for {setting(self.best.values)}{machine}, the model of the "
            f"overhead prefers {size} MB, and {measured}."
        )

    @property
    def sentence(self) -> str:
        whole, latency, rate = terms(self.fit, self.best)
        ideal, left = sqrt(whole * latency * rate), 2 * sqrt(whole * latency / rate)
        predicted, waited = (
            wait(self.fit, self.choice),
            self.choice.seconds("communication_exposed"),
        )
        kinds = (("the fit is", self.fit.get("registration")),
                 ("the step is", self.best.get("registration")))  # fmt: skip
        undecided = buckets.are_undecided(self.possibly_fastest)
        fastest = "size with the least median" if undecided else "fastest size"
        waits = f"the {fastest} waits" if len(self.group) == 1 else "the fastest sizes wait"
        registered = ", ".join(f"{word} of registration {value}" for word, value in kinds if value)
        return (
            f"Its prediction for {setting(self.best.values)}: by the fit of all_reduce "
            f"({self.fit['backend']}, {in_words('ranks', self.best.get('ranks'))}: "
            f"o = {figure(1e6 * latency, 3)} µs, w = {figure(rate / 1e9, 3)} GB/s) and "
            f"s = {figure(whole / 1e9, 3)} GB, buckets of {figure(ideal / 1e6, 3)} MB, which leave "
            f"{milliseconds(left, 3)}. For {self.choice.get('bucket_mb')} MB it predicts "
            f"{milliseconds(predicted, 3)} of wait, {figure(predicted / waited, 3)} times the "
            f"{milliseconds(waited, 3)} measured in a step of "
            f"{milliseconds(self.choice.seconds('step'))}; {waits} "
            f"{buckets.times(self.group, 'communication_exposed')} in a step of "
            f"{buckets.times(self.group)}" + (f" ({registered})." if registered else ".")
        )


def sentences(found: Sequence[Results], chosen: Sequence[Results]) -> list[str]:
    """Whether model and measurement agree; then the formula with its numbers."""
    predictions = [one for results in chosen if (one := of_cases(found, cases([results])))]
    return [
        *(one.lead for one in predictions[:1]),
        f"{FORMULA}.",
        *(one.sentence for one in predictions),
    ]


def of_cases(found: Sequence[Results], own: Sequence[Case]) -> Prediction | None:
    sizes = [
        case
        for case in matching(own, sync="bucketed")
        if not isnan(case.seconds("step") * case.number("communication_bytes"))
    ]
    if len(sizes) < 2:
        return None
    best = min(sizes, key=lambda case: case.seconds("step"))
    fit = fit_for(found, best)
    if fit is None or fit["latency_s"] <= 0:
        return None
    sized = [case for case in alike(own, best, sync="bucketed") if case in sizes]
    choice = min(sized, key=lambda case: wait(fit, case))
    return Prediction(
        fit, best, choice, buckets.equal_to(own, best), buckets.possibly_fastest(own, best)
    )


def terms(fit: pd.Series, case: Case) -> tuple[float, float, float]:
    """s, o and w of the formula."""
    return case.number("communication_bytes"), fit["latency_s"], fit["bandwidth_bytes_per_s"]


def wait(fit: pd.Series, case: Case) -> float:
    """The predicted wait in seconds, with the case's own number of collectives if it is known."""
    whole, latency, rate = terms(fit, case)
    calls = case.number("communication_calls")
    count = ceil(whole / (1e6 * case.number("bucket_mb"))) if isnan(calls) else calls
    return count * latency + whole / (count * rate)


def fit_for(found: Sequence[Results], case: Case) -> pd.Series | None:
    """The fit of all_reduce on as many ranks of the same device."""
    device = device_of(case.hardware)
    backend = "nccl" if case.get("device") == "cuda" else "mpi"
    for results in found:
        table = results.file_tables.get("fit")
        if table is None or not device or device not in results.runs[0].hardware:
            continue
        for _, row in table.iterrows():
            measured = (row["op"], row["backend"], str(row["ranks"]))
            if measured == ("all_reduce", backend, case.get("ranks")):
                return row
    return None
