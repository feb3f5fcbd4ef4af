"""The loaded files as one set of cases, from which sections select rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan

from ..formatting import text
from ..results import Results


@dataclass(frozen=True)
class Case:
    """A row of `results.frame`."""

    results: Results
    row: int
    values: dict[str, object]  # of the row

    def get(self, name: str) -> str:
        """A factor, or any other text of /summary; None if the file lacks it."""
        return text(self.values.get(name))

    def number(self, name: str) -> float:
        """NaN if the file lacks it."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else float("nan")

    def seconds(self, phase: str, statistic: str = "median") -> float:
        """NaN for a case that is not ok: the time of a step that diverged means nothing."""
        return self.number(f"{phase}_{statistic}_s") if self.is_measured else float("nan")

    @property
    def label(self) -> str:
        """The name of the case; with its file, where another file has other times."""
        file = self.get("file")
        name = self.results.labels[self.row] or "the case"
        return f"{name}, file {file}" if file else name

    @property
    def hardware(self) -> str:
        return self.results.runs[0].hardware

    @property
    def is_measured(self) -> bool:
        return text(self.values.get("status", "ok")) == "ok"


def cases(found: Sequence[Results]) -> list[Case]:
    return [
        Case(results, row, values)
        for results in found
        for row, values in enumerate(results.records)
    ]


def matching(found: Sequence[Case], **factors: object) -> Iterator[Case]:
    """Cases with these factors. A factor that a file lacks, because its experiment or program
    version has no such choice, excludes nothing."""
    wanted = {name: text(value) for name, value in factors.items()}
    for case in found:
        if all(case.get(name) == value for name, value in wanted.items() if name in case.values):
            yield case


def first(found: Sequence[Case], **factors: object) -> Case | None:
    """The first such case that was measured, else the first."""
    fits = list(matching(found, **factors))
    return next((case for case in fits if case.is_measured), fits[0] if fits else None)


def distinct(found: Sequence[Case], name: str) -> list[str]:
    return list(dict.fromkeys(value for case in found if (value := case.get(name))))


def file_factor(found: Sequence[Case]) -> list[str]:
    """The factor `file`, if times of these cases contradict each other."""
    return ["file"] if distinct(found, "file") else []


def fastest(found: Sequence[Case], phase: str) -> Case | None:
    timed = [case for case in found if not isnan(case.seconds(phase))]
    return min(timed, key=lambda case: case.seconds(phase), default=None)


def largest(found: Sequence[Case], key: Callable[[Case], float]) -> Case | None:
    known = [case for case in found if not isnan(key(case))]
    return max(known, key=key, default=None)
