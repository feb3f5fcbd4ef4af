"""Settings that several files measured with different times: which file is newer, and what else
differs between the files."""

from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from .factors import EFFORT
from .formatting import figure, label, printable, text
from .results import Results, Run, file_names

THRESHOLD = 1.02  # the ratio up to which two times count as the same


@dataclass(frozen=True)
class Repeat:
    """Two files of one experiment, the older one first; files without a date come first."""

    first: Run
    second: Run
    settings: int  # that both files measured
    ratios: list[float]  # of the second's median over the first's, where they differ; not empty
    unrecorded: list[str]  # factors that only one of the files has

    @property
    def is_newer(self) -> bool:
        """Whether the second file is the newer one, of the same model of machine."""
        same = self.first.hardware == self.second.hardware != ""
        return same and "" < self.first.created < self.second.created

    @property
    def files(self) -> tuple[str, str]:
        """Their names, with the folders if the names are equal."""
        names = self.first.name, self.second.name
        if names[0] != names[1]:
            return names
        return printable(str(self.first.path)), printable(str(self.second.path))

    @property
    def sentence(self) -> str:
        first, second = (
            f"{file} ({run.origin})" if run.origin else file
            for file, run in zip(self.files, (self.first, self.second), strict=True)
        )
        low, high = (figure(end(self.ratios), 3) for end in (min, max))
        times = low if low == high else f"{low} to {high}"
        beside = (
            f" Only one of them records {', '.join(map(label, self.unrecorded))}, which may differ."
            if self.unrecorded
            else ""
        )
        return (
            f"{second} and {first} have {self.settings} "
            f"setting{'s' * (self.settings > 1)} in common. In {len(self.ratios)} of them the "
            f"median time of the former is {times} times that of the latter.{beside} {self.verdict}"
        )

    @property
    def verdict(self) -> str:
        """Which of the two times to believe."""
        first, second = self.first, self.second
        old, new = self.files
        if first.hardware != second.hardware:
            return "The machines or their transports differ: each file is valid for its own."
        if not self.is_newer:
            return "Which file is newer is not recorded."
        if first.software == second.software != "":
            return (
                f"{new} is newer, but of the same commit: the difference is the variation "
                "between runs, and neither time is more valid."
            )
        its_commit = f": its times are those of {second.software}" if second.software else ""
        return (
            f"{new} is newer{its_commit}. "
            f"`python3 -m analysis compare {old} {new}` judges whether the change is "
            "more than the variation within a run."
        )


def of(results: Results) -> list[Repeat]:
    """The pairs of files that measured the same setting with different medians."""
    if len(results.runs) < 2:
        return []
    names = [name for name in results.factors if name not in EFFORT | {"file"}]
    factors = results.frame[names].map(text)
    files = file_names([run.path for run in results.runs])
    parts = [factors[results.frame["file"] == file] for file in files]
    dated = sorted(zip(results.runs, parts, strict=True), key=lambda pair: pair[0].created)
    found = []
    for (first, a), (second, b) in combinations(dated, 2):
        rows = in_common(a, b)
        pairs = [(results.medians[before], results.medians[after]) for before, after in rows]
        timed = [new / old for old, new in pairs if old > 0 and new > 0]
        differ = [ratio for ratio in timed if not 1 / THRESHOLD <= ratio <= THRESHOLD]
        if differ:
            only = [
                name for name in names
                if any((a[name][before] == "") != (b[name][after] == "") for before, after in rows)
            ]  # fmt: skip
            found.append(Repeat(first, second, len(timed), differ, only))
    return found


def in_common(a: pd.DataFrame, b: pd.DataFrame) -> list[tuple[int, int]]:
    """Rows of two files with the same factors. A factor that a file lacks, because its version has
    no such choice, excludes nothing, unless the other file has several cases that only it tells
    apart."""
    names = [name for name in a if a[name].any() and b[name].any()]
    if not names:
        return []
    before, after = (part[~part.duplicated(names, keep=False)] for part in (a, b))
    rows = {tuple(key): row for row, *key in before[names].itertuples()}
    return [
        (rows[tuple(key)], row) for row, *key in after[names].itertuples() if tuple(key) in rows
    ]
