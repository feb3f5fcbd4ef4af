"""Sentences on speed-ups of a factor: precision, attention, exec."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import pairs
from ..formatting import label, text
from ..results import Results
from .sentences import PHASES, in_words, setting, spanned

LISTED = 4  # values of a factor that are listed rather than given as a range


@dataclass(frozen=True)
class Measured:
    """A pair of cases with its ratio."""

    factors: dict[str, str]  # of the baseline
    ratio: pairs.Ratio


def of_files(found: Sequence[Results], factor: str) -> list[list[str]]:
    """The sentences of each file that has any, with its machine if there are several."""
    machines = [results.runs[0].hardware for results in found]
    told = [
        speed_ups(results, factor, machine if len(set(machines)) > 1 else "")
        for results, machine in zip(found, machines, strict=True)
    ]
    return [lines for lines in told if lines]


def speed_ups(results: Results, factor: str, machine: str = "") -> list[str]:
    """For each other value of the factor: its speed-ups at the longest context by precision, then
    over all cases, and the slower cases."""
    by_value: dict[str, list[Measured]] = {}
    for pair in pairs.of_factor(results, factor):
        ratio = pairs.ratio(results, pair, results.headline)
        if np.isfinite(ratio.value):
            row = results.frame.iloc[pair.baseline]
            factors = {name: text(row[name]) for name in results.factors}
            by_value.setdefault(pair.labels[1], []).append(Measured(factors, ratio))
    return [
        sentence(results, factor, value, found, machine)
        for value, group in by_value.items()
        for found in of_precisions(group, factor)
    ]


def of_precisions(group: Sequence[Measured], factor: str) -> list[list[Measured]]:
    if factor == "precision":
        return [list(group)]
    precisions = dict.fromkeys(one.factors.get("precision") for one in group)
    return [[one for one in group if one.factors.get("precision") == precision]
            for precision in precisions]  # fmt: skip


def sentence(
    results: Results, factor: str, value: str, found: Sequence[Measured], machine: str
) -> str:
    phase = PHASES.get(results.headline, results.headline)
    name, *options = value.split(", ")
    longest = at_longest_context(found)
    told = (
        f"{', '.join([in_words(factor, name), *options])} is "
        f"{spanned([one.ratio.value for one in longest], '×')} as fast as "
        f"{in_words(factor, pairs.BASELINES[factor])} at {shared(longest, factor)}"
        f"{f' on {machine}' * bool(machine)} ({phase}; {verdict(longest)})"
    )
    if len(longest) < len(found):
        told += (
            f", and {spanned([one.ratio.value for one in found], '×')} over all contexts "
            f"({verdict(found)})"
        )
    slower = [one for one in found if one.ratio.high < 1]
    if slower and len(slower) < len(found):
        told += f". Slower: {where(slower, found)}"
    return f"{told}."


def at_longest_context(found: Sequence[Measured]) -> list[Measured]:
    contexts = [float(one.factors.get("context") or 0) for one in found]
    return [one for one, context in zip(found, contexts, strict=True) if context == max(contexts)]


def shared(found: Sequence[Measured], factor: str) -> str:
    """The setting that the cases of these pairs have in common, without the factor compared."""
    first, *others = (one.factors for one in found)
    alike = {
        name: value
        for name, value in first.items()
        if all(other[name] == value for other in others)
    }
    return setting(alike, without=(factor,)) or "the same setting"


def verdict(found: Sequence[Measured]) -> str:
    """ "34 of 40 cases faster, 6 slower"; of one case "faster"."""
    faster = sum(one.ratio.low > 1 for one in found)
    slower = sum(one.ratio.high < 1 for one in found)
    undecided = len(found) - faster - slower
    counts = {"faster": faster, "slower": slower, "undecided": undecided}
    (word, count), *others = [(word, count) for word, count in counts.items() if count]
    first = word if len(found) == 1 else f"{count} of {len(found)} cases {word}"
    return ", ".join([first, *(f"{number} {name}" for name, number in others)])


def where(slower: Sequence[Measured], found: Sequence[Measured]) -> str:
    """The values of the factors that vary, over the slower cases."""
    varying = [name for name in slower[0].factors if len({one.factors[name] for one in found}) > 1]
    values = {name: [one.factors[name] for one in slower] for name in varying}
    inside = [one for one in found if all(one.factors[name] in values[name] for name in varying)]
    told = ", ".join(span(name, of_name) for name, of_name in values.items())
    return told if len(inside) == len(slower) else f"{len(slower)} of {len(inside)} at {told}"


def span(name: str, values: Sequence[str]) -> str:
    """ "context 128 and 256"; many numbers as a range."""
    kinds = list(dict.fromkeys(values))
    if all(kind.replace(".", "", 1).isdigit() for kind in kinds):
        kinds.sort(key=float)
    if len(kinds) > LISTED:
        return f"{label(name)} {kinds[0]} to {kinds[-1]}"
    *most, last = kinds
    return f"{label(name)} {', '.join(most)}{' and ' * bool(most)}{last}"
