"""Sentences generated from figures; none claims more than the figures support."""

from collections.abc import Collection, Mapping, Sequence
from math import isnan

from ..formatting import case_label, figure, text
from .facts import Case

# The names of phases in sentences.
PHASES = {"both": "forward and backward", "time": "time"}
FEW = "undecided, for one of them has too few repetitions (below 6) for an interval"
NO_DIFFERENCE = "no difference beyond the intervals"
# The factors of a setting: what a step computes, how, and on how many ranks; and the file, where
# another one has other times. USUAL values are not named.
SETTING = ("size", "context", "batch_size", "precision", "attention", "exec", "optimizer",
           "recompute", "ranks", "file")  # fmt: skip
USUAL = {"optimizer": "serial", "recompute": "none", "ranks": "1"}
# What size custom leaves open.
DIMENSIONS = ("d_model", "d_ff", "layers", "heads")


def milliseconds(seconds: float, digits: int = 4) -> str:
    return f"{figure(1e3 * seconds, digits)} ms"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def gib(size: float) -> str:
    """A size as text; below 1 GiB in MiB and MB, below 1 MiB in KiB and kB."""
    power = 3 if size >= 2**30 else 2 if size >= 2**20 else 1
    binary, decimal = {3: ("GiB", "GB"), 2: ("MiB", "MB"), 1: ("KiB", "kB")}[power]
    return f"{size / 1024**power:.1f} {binary} ({size / 1000**power:.1f} {decimal})"


def decimal(size: float) -> str:
    """8.3 MB"""
    power = 3 if size >= 1e9 else 2 if size >= 1e6 else 1
    return f"{size / 1000**power:.1f} {'kMG'[power - 1]}B"


def in_words(name: str, value: str) -> str:
    """A factor in a sentence: context 128, naive attention, 2 ranks; empty without a value."""
    match name if value else "":
        case "attention":
            return f"{value} attention"
        case "ranks":
            return f"{value} rank{'s' * (value != '1')}"
        case "file":
            return f"file {value}"
        case "bytes":
            return f"{figure(float(value) / 1e6, 3)} MB"
        case "causal":
            return "causal" if value == "yes" else "not causal"
        case _:
            return case_label([name], [value])


def setting(factors: Mapping[str, object], without: Collection[str] = ()) -> str:
    """The setting of a case with these factors: xl, context 128, batch size 2 per rank, fp32, naive
    attention, eager, 2 ranks."""
    words = {
        name: word
        for name in SETTING
        if (value := told_of(factors, name)) != USUAL.get(name) and (word := in_words(name, value))
    }
    if "batch_size" in words and "ranks" in words:
        words["batch_size"] += " per rank"
    return ", ".join(word for name, word in words.items() if name not in without)


def told_of(factors: Mapping[str, object], name: str) -> str:
    """A factor's value; of size custom with its dimensions."""
    value = text(factors.get(name))
    if (name, value) != ("size", "custom"):
        return value
    told = [
        f"{size} {dimension}" if dimension in ("layers", "heads") else f"{dimension} {size}"
        for dimension in DIMENSIONS
        if (size := text(factors.get(dimension)))
    ]
    return f"{value} ({', '.join(told)})" if told else value


def settings(own: Sequence[Case]) -> tuple[str, list[str]]:
    """What the settings of these cases have in common, for a caption, and what each has beside
    that, with its machine if there are several, for a row. All in the rows, if they are equal."""
    machines = {case.hardware for case in own}
    same = [name for name in SETTING if len({told_of(case.values, name) for case in own}) == 1]
    told = [setting(case.values, without=same) for case in own]
    if len(machines) > 1:
        told = [", ".join(filter(None, (words, f"on {case.hardware}" * bool(case.hardware))))
                for words, case in zip(told, own, strict=True)]  # fmt: skip
    if not all(told):
        return "", [setting(case.values) or case.label for case in own]
    return setting(own[0].values, without=set(SETTING) - set(same)), told


def of_file(case: Case) -> str:
    """The end of a phrase that names no setting: the case's file, where another has other times."""
    file = case.get("file")
    return f" ({in_words('file', file)})" if file else ""


def differ(a: Case, b: Case, phase: str) -> int | None:
    """-1 if `a` is faster, 1 if it is slower, 0 if the 95% intervals overlap; None without an
    interval."""
    a_low, a_high, b_low, b_high = (
        case.seconds(phase, end) for case in (a, b) for end in ("ci_low", "ci_high")
    )
    if any(map(isnan, (a_low, a_high, b_low, b_high))):
        return None
    return -1 if a_high < b_low else 1 if b_high < a_low else 0


def compared(a: Case, b: Case, phase: str, a_name: str, b_name: str) -> str:
    """One sentence on whether `a` is faster; None if one was not measured."""
    a_time, b_time = a.seconds(phase), b.seconds(phase)
    if isnan(a_time) or isnan(b_time):
        return ""
    times = (
        f"{milliseconds(a_time)} with {a_name}, {milliseconds(b_time)} with {b_name}{of_file(a)}"
    )
    match differ(a, b, phase):
        case None:
            return f"{times}: {FEW}."
        case 0:
            return f"{times}: {NO_DIFFERENCE}."
        case sign:
            word = "shorter" if sign < 0 else "longer"
            change = percent(abs(a_time / b_time - 1))
            return f"{times}: {change} {word} with {a_name}."


def speed_up(a: Case, b: Case, phase: str) -> float:
    """The speed-up of `a` over `b`: above 1 `a` is faster."""
    return b.seconds(phase) / a.seconds(phase)


def spanned(values: list[float], unit: str, digits: int = 3) -> str:
    """The range, "1.52 to 6.27×"; one figure if both ends are the same."""
    low, high = (figure(value, digits) for value in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
