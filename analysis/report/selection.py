"""Which case answers a question, by the rule of docs/analysis.md, "Report"."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan

import pandas as pd

from ..factors import EFFORT, IMPLIED_BY
from ..formatting import case_label, gib, grouped, ms, text
from ..result_file import ResultError, device_of
from ..results import Results, Run
from ..table_columns import required

# Factors that two cases of one setting may differ in.
IGNORED = EFFORT | {"file", "threads", "global_batch", "cold_start", "verify", "timing"}
SETTING = (
    "size", "head_dim", "context", "batch_size", "precision", "attention", "exec", "mode",
    "recompute", "sync", "bucket_mb", "shard", "ranks",
)  # fmt: skip
# Values that a reader expects.
USUAL = {"mode": "train-step", "recompute": "none", "ranks": "1"}


@dataclass(frozen=True, eq=False)
class Case:
    """A row of `results.frame`, of one file."""

    results: Results
    row: int

    @cached_property
    def values(self) -> dict[str, object]:
        return self.results.records[self.row]

    @property
    def run(self) -> Run:
        return self.results.runs[0]

    @property
    def is_measured(self) -> bool:
        return self.get("status") == "ok"

    @property
    def is_plain(self) -> bool:
        """Whether its launch recorded times alone, with all of the memory."""
        observed = self.number("profile") > 0 or self.get("memory_timeline") == "true"
        return not observed and "--memory-limit" not in self.run.command

    def get(self, name: str) -> str:
        """A factor or another value as text; empty if the file lacks it."""
        return text(self.values.get(name))

    def number(self, name: str) -> float:
        """NaN if the file lacks it."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else nan

    def seconds(self, phase: str, statistic: str = "median") -> float:
        """NaN for a case that is not ok: the time of a step that diverged means nothing."""
        return self.number(f"{phase}_{statistic}_s") if self.is_measured else nan

    def is_of_preset(self, preset: str) -> bool:
        return re.search(rf"--preset[ =]{re.escape(preset)}\b(?!-)", self.run.command) is not None

    def table(self, name: str) -> pd.DataFrame:
        """Of the case or of its file; empty without one. Raises ResultError if a column is odd."""
        tables = self.results.file_tables | self.results.case_tables[self.row]
        found = tables.get(name, pd.DataFrame())
        return required(f"{self.run.name}: {name}", name, found) if len(found) else found

    def ms(self, phase: str = "step") -> str:
        return ms(self.seconds(phase))

    def gib(self, name: str = "peak_bytes") -> str:
        return gib(self.number(name))

    def shown(self, name: str) -> str:
        return grouped(self.get(name))

    @property
    def at(self) -> str:
        """ "2.7b at context 1,024"."""
        return f"{self.get('size')} at context {self.shown('context')}"


@dataclass(frozen=True)
class Pool:
    """The cases of one machine, and what was left out."""

    machine: str
    cases: list[Case]
    others: Counter[str]  # files by machine

    def of(self, experiment: str, preset: str = "", **factors: object) -> list[Case]:
        """Cases with these factors, those that rank first by the rule first. A factor that a file
        lacks excludes nothing; a tuple has several values."""
        found = [case for case in self.cases if case.results.experiment == experiment
                 and has(case, factors)]  # fmt: skip
        found.sort(key=lambda case: case.run.created, reverse=True)
        return sorted(found, key=lambda c: (not c.is_of_preset(preset or "-"), not c.is_plain))


def has(case: Case, factors: dict[str, object]) -> bool:
    return all(
        name not in case.values
        or case.get(name) in map(text, wanted if isinstance(wanted, tuple) else (wanted,))
        for name, wanted in factors.items()
    )


def setting(cases: Sequence[Case]) -> str:
    """What these cases have in common: context 128, batch size 2, fp32, naive, eager."""
    first = cases[0]
    names = [name for name in SETTING if first.get(name) not in ("", USUAL.get(name))
             and len({case.get(name) for case in cases}) == 1]  # fmt: skip
    return case_label(names, [first.get(name) for name in names])


def machine_of(run: Run) -> str:
    """The model of its GPU, or of its CPU without one."""
    names = run.hardware.split(", ")
    return device_of(next((name for name in names if "NVIDIA" in name), names[-1]))


def pool_of(found: Sequence[Results], asked: str = "") -> Pool:
    """The cases of the machine asked for by a part of its name. Raises ResultError."""
    counts: Counter[str] = Counter()
    for results in found:
        counts[machine_of(results.runs[0])] += len(results.frame)
    named = [name for name, _ in counts.most_common() if name]
    fits = [name for name in named if asked.lower() in name.lower()]
    if asked and not fits:
        raise ResultError(f"--machine {asked}: these files are of {', '.join(named) or 'none'}")
    machine = min(fits, key=len) if asked else next(iter(fits), "")
    own = [one for one in found if machine_of(one.runs[0]) in (machine, "")]
    cases = [Case(results, row) for results in own for row in range(len(results.frame))]
    names = (machine_of(one.runs[0]) for one in found)
    return Pool(machine, cases, Counter(name for name in names if name not in (machine, "")))


def extent(case: Case) -> tuple[float, ...]:
    """A sort key: the model's size, then the context, then the ranks."""
    width, layers = case.number("d_model"), case.number("layers")
    sizes = (width**2 * layers, case.number("head_dim"), case.number("context"),
             case.number("bytes"), case.number("ranks"))  # fmt: skip
    return tuple(0.0 if isnan(size) else size for size in sizes)


def leading(
    ranked: Sequence[Case], preset: str, key: Callable[[Case], tuple[float, ...]] = extent
) -> Case | None:
    """The case that answers: the largest, of the preset's own file if there is one; of equals the
    first."""
    own = [case for case in ranked if case.is_of_preset(preset)] or list(ranked)
    return max(own, key=key, default=None)


def beside(ranked: Sequence[Case], lead: Case, *axes: str, elsewhere: bool = False) -> list[Case]:
    """One case for each value of `axes`, which are all in which it differs from `lead`; with
    `elsewhere` also of other files."""
    firsts: dict[tuple[str, ...], Case] = {}
    for case in sorted(ranked, key=lambda case: case.results is not lead.results):
        is_of_file = elsewhere or case.results is lead.results
        if is_of_file and is_alike(case, lead, axes):
            firsts.setdefault(tuple(case.get(name) for name in axes), case)
    return sorted(firsts.values(), key=lambda case: order(case, axes))


def is_alike(case: Case, lead: Case, axes: Sequence[str]) -> bool:
    """Whether the settings agree in all but `axes`; a factor that one lacks excludes nothing."""
    for name in {*case.results.factors, *lead.results.factors} - IGNORED - set(axes):
        values = case.get(name), lead.get(name)
        if all(values) and values[0] != values[1] and IMPLIED_BY.get(name) not in axes:
            return False
    return True


def order(case: Case, axes: Sequence[str]) -> tuple[object, ...]:
    """By model size, then by each axis: numbers ascending, words as they are in the file."""
    numbers = [case.number(name) for name in axes if name != "size"]
    size = extent(case)[0] if "size" in axes else 0.0
    return size, *(0.0 if isnan(value) else value for value in numbers), case.row
