"""What a question's answer consists of, and the forms of its figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..formatting import ABSENT, grouped, label, ms, times
from ..results import Results
from ..tables.spread import Spread
from ..tables.table import Table, grid
from .selection import Case, Pool, beside, is_alike, leading, setting

MOST_BARS = 6
# A case and a phase of it: FIRST is its first step from cold.
Source = tuple[Case, str]
FIRST = "first"


@dataclass(frozen=True)
class Bar:
    """A bar of a card's picture. Its value is the median of the samples of its source; of two
    sources the first one's over the second one's."""

    label: str
    value: float
    text: str
    sources: Sequence[Source] = ()


@dataclass(frozen=True)
class Drawing:
    """A figure of analysis.figures, of some rows of a file."""

    results: Results
    name: str


@dataclass(frozen=True)
class Answer:
    number: str
    sentence: str
    bars: Sequence[Bar]
    case: Case | None = None  # that answers
    unit: str = ""  # under the number: what it is
    parts: Sequence[tuple[str, str]] = ()  # the parts of the course's problem, and their answers
    tables: Sequence[Table] = ()  # the first one answers, the others are folded
    drawings: Sequence[Drawing] = ()  # likewise


@dataclass(frozen=True)
class Question:
    name: str  # its anchor
    title: str
    problem: str  # the course's name for it; empty: beside the course
    command: str  # that measures it
    answer: Callable[[Pool, Spread], Answer | None]


def phases(case: Case, names: Sequence[str], spread: Spread) -> list[str]:
    """The cells of these phases in ms."""
    return [
        spread.cell([1e3 * case.seconds(name, one) for one in spread.statistics]) for name in names
    ]


def as_fast(cases: Sequence[Case], phase: str = "step") -> list[Case]:
    """The case with the least median and those whose 95% intervals overlap with its, fastest
    first."""
    timed = sorted((c for c in cases if c.seconds(phase) > 0), key=lambda c: c.seconds(phase))
    if not timed:
        return []
    end = timed[0].seconds(phase, "ci_high")
    return [c for c in timed if c is timed[0] or not c.seconds(phase, "ci_low") > end]


def drawn(cases: Sequence[Case], *names: str) -> list[Drawing]:
    """These figures of these cases, those of the first one's file."""
    if not cases:
        return []
    results = cases[0].results
    rows = sorted({case.row for case in cases if case.results is results})
    return [Drawing(results.only(rows), name) for name in names]


def time_bar(label: str, case: Case, phase: str = "step", words: str = "") -> Bar:
    seconds = case.seconds(phase)
    return Bar(label, seconds, words or ms(seconds), [(case, phase)])


def ratio_bar(label: str, over: Case, under: Case, phase: str = "step") -> Bar:
    """How many times as fast `under` is as `over`."""
    ratio = over.seconds(phase) / under.seconds(phase)
    return Bar(label, ratio, times(ratio), [(over, phase), (under, phase)])


Pair = tuple[Case, Case]


def paired(
    ranked: Sequence[Case], preset: str, factor: str, base: str, other: str, *axes: str
) -> list[Pair]:
    """Cases that differ only in `factor`, `base` first: a pair for each value of `axes`, of the
    file that ranks first with both."""
    others = [case for case in ranked if case.get(factor) == other]
    partners = {
        case: next((one for one in others if one.results is case.results
                    and is_alike(case, one, [factor])), None)
        for case in ranked if case.get(factor) == base
    }  # fmt: skip
    both = [case for case, partner in partners.items() if partner]
    lead = leading(both, preset)
    return [(case, partners[case]) for case in beside(both, lead, *axes)] if lead else []


def speedups(
    pairs: Sequence[Pair], factors: Sequence[str], names: Sequence[str], spread: Spread
) -> Table:
    """Both times and their ratio of medians, by phase."""
    factors_of_pair = ([c.get(n) for n in ("precision", "exec", "attention")] for c in pairs[0])
    base, other = next((a, b) for a, b in zip(*factors_of_pair, strict=True) if a != b)
    rows = [
        [*map(a.shown, factors), name,
         *phases(a, [name], spread), *phases(b, [name], spread),
         times(a.seconds(name) / b.seconds(name))]
        for a, b in pairs for name in names if a.seconds(name) / b.seconds(name) > 0
    ]  # fmt: skip
    header = [*map(label, factors), "phase", f"{base} (ms)", f"{other} (ms)", "speed-up"]
    note = f"{spread.words}; speed-ups are of medians. {setting([c for p in pairs for c in p])}."
    return grid(f"speedup-{other}", f"{other} beside {base}", header, rows, note)


def pivot(
    name: str, title: str, cases: Sequence[Case], down: Sequence[str], across: str,
    cell: Callable[[Case], str], *caption: str,
) -> Table:  # fmt: skip
    """A row for each setting of `down`, a column for each value of `across`."""
    values = list(dict.fromkeys(case.get(across) for case in cases))
    by: dict[tuple[str, ...], dict[str, str]] = {}
    for case in cases:
        by.setdefault(tuple(map(case.shown, down)), {})[case.get(across)] = cell(case)
    heads = [f"{label(across)} {grouped(value)}" if value.isdigit() else value for value in values]
    rows = [[*key, *(found.get(value, ABSENT) for value in values)] for key, found in by.items()]
    return grid(name, title, [*map(label, down), *heads], rows, *caption)
