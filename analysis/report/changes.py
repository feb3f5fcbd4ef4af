"""Changes between pairs of cases: of one pair in a table's cell, of many in a sentence."""

from collections.abc import Callable, Sequence
from math import isnan

from ..formatting import ABSENT, figure
from ..result_file import stem
from .facts import Case
from .sentences import differ, of_file, percent

UNSEEN = 0.0005  # shares that are 0.0% in print
Pair = tuple[Case, Case]  # a case and what it is compared with
WORDS = {
    -1: "shorter",
    1: "longer",
    0: "equal within the intervals",
    None: "of undecided length (below 6 repetitions)",
}


def cell(case: Case, other: Case | None, phase: str = "step") -> str:
    """The other's median in ms, and how that of `case` differs: 354.3: 5.5% shorter."""
    if other is None:
        return ABSENT
    return f"{figure(1e3 * other.seconds(phase))}: {change(case, other, phase)}"


def change(case: Case, other: Case, phase: str = "step") -> str:
    sign = differ(case, other, phase)
    share = percent(abs(case.seconds(phase) / other.seconds(phase) - 1))
    return f"{share} {WORDS[sign]}" if sign else "no difference" if sign == 0 else "undecided"


def of_times(pairs: Sequence[Pair], phase: str = "step") -> str:
    """ "1.0 to 16.5% shorter in 4 of 5 settings, equal within the intervals in 1 on
    NVIDIA H200", machine by machine."""
    return by_machine(pairs, lambda own: on_one_machine(own, phase))


def on_one_machine(pairs: Sequence[Pair], phase: str) -> str:
    by_sign: dict[int | None, list[float]] = {sign: [] for sign in WORDS}
    for case, other in pairs:
        share = abs(case.seconds(phase) / other.seconds(phase) - 1)
        by_sign[differ(case, other, phase)].append(share)
    told = [
        (f"{percents(shares)} {WORDS[sign]}" if sign else WORDS[sign], len(shares))
        for sign, shares in by_sign.items()
        if shares
    ]
    if len(pairs) == 1:
        return told[0][0]
    if len(told) == 1:
        return f"{told[0][0]} in {'both' if len(pairs) == 2 else f'all {len(pairs)}'} settings"
    (first, count), *others = told
    rest = ", ".join(f"{words} in {number}" for words, number in others)
    return f"{first} in {count} of {len(pairs)} settings, {rest}"


def by_machine(pairs: Sequence[Pair], told: Callable[[list[Pair]], str]) -> str:
    """What is told of the pairs of each machine; of each file, where another has other times. Where
    that makes several groups of a machine, all of them have their files named."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair[0].hardware, pair[0].get("file")), []).append(pair)
    machines = [machine for machine, _ in groups]
    return "; ".join(
        told(group)
        + f" on {machine}" * bool(machine)
        + (of_files(group) if machines.count(machine) > 1 else of_file(group[0][0]))
        for (machine, _), group in groups.items()
    )


def of_files(group: Sequence[Pair]) -> str:
    names = {case.get("file") or stem(case.results.runs[0].path): None for case, _ in group}
    return f" (file{'s' * (len(names) > 1)} {', '.join(names)})"


def of_size(case: Case, other: Case) -> str:
    """How much lower or higher the peak is."""
    share = peak_change(case, other)
    return ABSENT if isnan(share) else sized([share])


def of_sizes(pairs: Sequence[Pair]) -> str:
    """ "18.6 to 23.7% lower"; empty if no peak is known."""
    shares = [share for pair in pairs if not isnan(share := peak_change(*pair))]
    lower, higher = [one for one in shares if one < 0], [one for one in shares if one >= 0]
    told = [(sized(some), len(some)) for some in (lower, higher) if some]
    if len(told) < 2:
        return told[0][0] if told else ""
    return ", ".join(f"{words} in {count} of {len(shares)} settings" for words, count in told)


def sized(shares: Sequence[float]) -> str:
    """Of shares of one sign."""
    if all(abs(one) < UNSEEN for one in shares):
        return "equal"
    return f"{percents([abs(one) for one in shares])} {'lower' if shares[0] < 0 else 'higher'}"


def peak_change(case: Case, other: Case) -> float:
    return case.number("peak_bytes") / other.number("peak_bytes") - 1


def percents(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix('%')} to {high}"
