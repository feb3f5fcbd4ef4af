"""The cases of an experiment, from result files of every experiment and the rows of bench/peers/,
one JSON object a line.

Statistics are computed once, by paceline: this module reads /summary, the data of /cases that is
not in /summary (every sample of every rank, memory over time), and the file's other tables (/fit,
...).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from . import factors as sweep
from . import json_rows, mfu, peer_rows, plan_rows, profile_answers, profile_of_trace
from .factors import IMPLIED_BY, NOT_FACTORS, in_order
from .formatting import case_label, label, lines, printable, text
from .result_file import (
    ResultError,
    Samples,
    hardware,
    opened,
    read_samples,
    read_table,
    refuse_pipe,
    stem,
    switched_off,
    unreadable,
)

# In the order in which tables show them.
PHASES = (
    "forward", "backward", "communication_exposed", "optimizer", "communication_total",
    "optimizer_total", "step", "both", "host", "time",
)  # fmt: skip
# The phase that represents a case: the first of these that was measured.
HEADLINES = ("step", "both", "time")
# Tables of a case, by their group in it.
CASE_TABLES = (
    "memory", "memory/phases", "memory/blocks", "memory/closed_form", "memory/timeline",
    "trace/ranks",
)  # fmt: skip
# Tables of a file, beside /summary.
FILE_TABLES = (
    "speed_up", "fit", "fit_residuals", "predict", "recompute", "profile/forward",
    "profile/costliest", "profile/products", "profile/softmax", "dtypes",
)  # fmt: skip

# The factors in names of cases that no factor distinguishes.
FALLBACK = ("size", "context", "batch_size")


@dataclass(frozen=True)
class Run:
    """One file: the source of its numbers."""

    path: Path
    experiment: str
    command: str  # of files of bench/peers/ several, a line each
    software_version: str
    created: str
    hardware: str  # see result_file.hardware()
    complete: bool
    switched_off: str = ""  # see result_file.switched_off()

    @property
    def name(self) -> str:
        """The file's, as text for people."""
        return printable(self.path.name)

    @property
    def software(self) -> str:
        return f"paceline {self.software_version}" if self.software_version else ""

    @property
    def origin(self) -> str:
        return ", ".join(part for part in (self.software, self.created, self.hardware) if part)


@dataclass(frozen=True)
class Results:
    """The cases of one experiment."""

    runs: list[Run]
    frame: pd.DataFrame  # a row per case: /summary, times in seconds
    units: dict[str, str]  # of the columns of `frame`
    factors: list[str]
    samples: list[Samples]  # by row of `frame`
    case_tables: list[dict[str, pd.DataFrame]]  # by row of `frame`, those of CASE_TABLES it has
    file_tables: dict[str, pd.DataFrame]  # those of FILE_TABLES that any file has, or of a plan

    @property
    def experiment(self) -> str:
        return self.runs[0].experiment

    @cached_property
    def records(self) -> list[dict[str, object]]:
        """The rows of `frame`."""
        return self.frame.to_dict("records")

    @cached_property
    def varying(self) -> list[str]:
        """Factors that tell cases apart, less those that others imply."""
        return sweep.varying(self.frame, self.factors)

    @property
    def names(self) -> list[str]:
        """The factors in the names of cases."""
        return self.varying or [name for name in FALLBACK if name in self.factors]

    @cached_property
    def labels(self) -> list[str]:
        """The name of each case."""
        rows = self.frame[self.names].map(text).to_numpy().tolist()
        return [case_label(self.names, row) for row in rows]

    @cached_property
    def headline(self) -> str:
        """The phase that represents a case."""
        return next((phase for phase in HEADLINES if phase in self.phases), HEADLINES[0])

    @property
    def medians(self) -> pd.Series:
        """Medians of the headline, in seconds; NaN if nothing was measured."""
        return self.frame[f"{self.headline}_median_s"]

    def only(self, rows: Sequence[int]) -> "Results":
        """The same results, only these rows of `frame`."""
        return replace(
            self,
            frame=self.frame.iloc[list(rows)].reset_index(drop=True),
            samples=[self.samples[row] for row in rows],
            case_tables=[self.case_tables[row] for row in rows],
        )

    @cached_property
    def constant(self) -> dict[str, str]:
        """Factors that are the same in every case, as text; empty ones are left out."""
        values = {name: self.frame[name].map(text) for name in self.factors}
        return {
            name: column.iloc[0]
            for name, column in values.items()
            if column.nunique() == 1 and column.iloc[0]
        }

    @cached_property
    def implied(self) -> dict[str, str]:
        """The dimensions of each size, if sizes differ."""
        if "size" not in self.varying:
            return {}
        names = [n for n in self.factors if IMPLIED_BY.get(n) == "size" and n not in self.varying]
        names = [name for name in names if name not in self.constant]
        if not names:
            return {}
        first = self.frame.drop_duplicates("size").set_index("size")
        return {
            text(size): ", ".join(f"{label(name)} {text(row[name])}" for name in names)
            for size, row in first.iterrows()
        }

    @cached_property
    def phases(self) -> list[str]:
        """The phases that were measured in at least one case."""
        measured = [
            name.removesuffix("_median_s")
            for name in self.frame
            if name.endswith("_median_s") and self.frame[name].notna().any()
        ]
        listed = [phase for phase in PHASES if phase in measured]
        return listed + [phase for phase in measured if phase not in PHASES]

    @property
    def lacks_intervals(self) -> bool:
        """Whether any phase has too few repetitions for an interval (below 6)."""
        return any(
            (self.frame[f"{phase}_median_s"].notna() & self.statistic(phase, "ci_low").isna()).any()
            for phase in self.phases
        )

    @property
    def headline_is_expected(self) -> bool:
        """Whether cases of the experiment have times; those of `precision` have none."""
        return "study" not in self.frame

    def count(self, of_what: str) -> str:
        """The number of repetitions: "n = 10 steps", or "n = 8 to 12 steps" if cases differ."""
        tables = [values for case in self.samples for values in case.measured.values()]
        counts = sorted({values.shape[1] for values in tables if values.size})
        if not counts and "steps" in self.frame:  # of other software, whose samples are not kept
            counts = sorted({int(count) for count in self.frame["steps"].dropna()})
        if not counts:
            return f"an unrecorded number of {of_what}"
        low, high = counts[0], counts[-1]
        return f"n = {low} {of_what}" if low == high else f"n = {low} to {high} {of_what}"

    def statistic(self, phase: str, name: str) -> pd.Series:
        """Seconds; NaN if the file lacks the statistic."""
        column = f"{phase}_{name}_s"
        if column in self.frame:
            return self.frame[column]
        return pd.Series(np.nan, index=self.frame.index)


def load(paths: Sequence[Path]) -> list[Results]:
    """The cases of each experiment, in the order of the files. Raises ResultError with the file's
    name."""
    return by_experiment([read_file(path) for path in paths])


def by_experiment(parts: Sequence[Results]) -> list[Results]:
    """The files of each experiment as one."""
    groups: dict[str, list[Results]] = {}
    for part in parts:
        groups.setdefault(part.experiment, []).append(part)
    return [joined(of_one) for of_one in groups.values()]


def joined(parts: Sequence[Results]) -> Results:
    """All cases of several files of one experiment."""
    frames = [part.frame for part in parts]
    tables = [part.file_tables for part in parts]
    if len(parts) > 1:
        names = file_names([part.runs[0].path for part in parts])
        frames = [frame.assign(file=name) for frame, name in zip(frames, names, strict=True)]
        tables = [
            {group: table.assign(file=name) for group, table in of_file.items()}
            for of_file, name in zip(tables, names, strict=True)
        ]
    frame = pd.concat(frames, ignore_index=True)
    known = {"file"}.union(*(part.factors for part in parts))
    factors = in_order(known & set(frame.columns))
    groups = dict.fromkeys(group for of_file in tables for group in of_file)
    everything = Results(
        runs=[run for part in parts for run in part.runs],
        frame=frame,
        units={name: unit for part in parts for name, unit in part.units.items()},
        factors=factors,
        samples=[samples for part in parts for samples in part.samples],
        case_tables=[of_case for part in parts for of_case in part.case_tables],
        file_tables={
            group: pd.concat([t[group] for t in tables if group in t], ignore_index=True)
            for group in groups
        },
    )
    return everything.only(side_by_side(frame, factors))


def file_names(paths: Sequence[Path]) -> list[str]:
    """The names of the files in tables and figures."""
    stems = [stem(path) for path in paths]
    return stems if len(set(stems)) == len(stems) else [printable(str(path)) for path in paths]


def side_by_side(frame: pd.DataFrame, factors: Sequence[str]) -> list[int]:
    """Rows in order, with the same case of several files grouped."""
    names = [name for name in factors if name != "file"]
    keys = [tuple(map(text, row)) for row in frame[names].itertuples(index=False)]
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    return sorted(range(len(keys)), key=lambda row: first[keys[row]])


def read_file(path: Path) -> Results:
    if path.suffix.lower() == ".jsonl":
        return from_rows(path)
    with opened(path) as file:
        if "summary" not in file and len(file.get("cases", ())):
            raise ResultError(f"{path}: /summary is missing")
        if len(file.get("summary", ())) == 0 or len(next(iter(file["summary"].values()))) == 0:
            raise ResultError(f"{path}: no cases")
        return from_file(path, file)


@contextmanager
def as_written(paths: Sequence[Path]) -> Iterator[None]:
    """Raises ResultError if the contents of a file are not as paceline writes them."""
    try:
        yield
    except ResultError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        names = ", ".join(map(str, paths))
        raise ResultError(f"{names}: cannot be read: it is not as paceline writes it") from None


def from_file(path: Path, file: h5py.File) -> Results:
    frame, units = read_table(path, file["summary"])
    cases = {text(name): case for name, case in file.get("cases", {}).items()}
    factors = {name for case in cases.values() for name in case.attrs} - NOT_FACTORS
    if "cold_start" in frame and not frame["cold_start"].any():
        frame = frame.drop(columns="cold_start")  # of older files; what every case is now
    factors &= set(frame.columns)
    for name in factors:
        # /summary has flags as 0 and 1, the cases' attributes as truth values.
        if frame[name].isin((0, 1, np.nan)).all() and any(
            isinstance(case.attrs.get(name), np.bool_) for case in cases.values()
        ):
            frame[name] = frame[name].astype(bool)
    off = switched_off(file)
    run = Run(
        path=path,
        experiment=text(file.attrs.get("experiment", "")),
        command=f"{off} {lines(file.attrs.get('command', ''))}".strip(),
        software_version=text(file.attrs.get("software_version", "")),
        created=text(file.attrs.get("created", "")),
        hardware=text(file.attrs.get("hardware", "")) or hardware(file),
        complete=bool(file.attrs.get("complete", True)),
        switched_off=off,
    )
    own = [cases.get(name, {}) for name in frame["case"]] if "case" in frame else []
    profiles = [profile_of_trace.of(path, file, case) for case in own]
    frame = profile_of_trace.with_answers(frame, profiles)
    tables = {group: read_table(path, file[group])[0] for group in FILE_TABLES if group in file}
    tables = profile_answers.of(frame) | profile_of_trace.of_cases(frame, profiles) | tables
    return Results(
        runs=[run],
        frame=with_columns(frame),
        units=units,
        factors=in_order(factors or peer_rows.factors(frame)),
        samples=[read_samples(path, case) for case in own] or [Samples()] * len(frame),
        case_tables=[case_tables(path, case) for case in own] or [{}] * len(frame),
        file_tables={group: table for group, table in tables.items() if len(table)},
    )


def from_rows(path: Path) -> Results:
    """The rows of a sweep of bench/peers/, or of `paceline plan --json`."""
    try:
        refuse_pipe(path)
        rows = json_rows.read(path)
    except OSError as error:
        raise unreadable(path, error) from None
    with as_written([path]):
        tables = plan_rows.read(rows) if any(map(plan_rows.is_of_plan, rows)) else {}
        experiment, frame = (
            (plan_rows.EXPERIMENT, plan_rows.summary(tables))
            if tables
            else peer_rows.read(path, rows)
        )
        return Results(
            runs=[Run(path, experiment, "", "", "", "", complete=True)],
            frame=with_columns(frame),
            units={},
            factors=in_order(peer_rows.factors(frame)),
            samples=[Samples()] * len(frame),
            case_tables=[{}] * len(frame),
            file_tables=tables,
        )


def with_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds the columns that every file is expected to have. Values that schema version 1 writes
    where there is no bucket and nothing is sent become missing, and its communication_sent_bytes
    is sent_bytes, as in version 2. Old files' MFU is that of today's rule."""
    frame = mfu.restated(frame.rename(columns={"communication_sent_bytes": "sent_bytes"}))
    for name in ("step_median_s", "step_ci_low_s", "step_ci_high_s"):
        if name not in frame:  # no case was measured
            frame[name] = np.nan
    if "bucket_mb" in frame:
        frame["bucket_mb"] = frame["bucket_mb"].replace(0, np.nan)
    if "comm_dtype" in frame:
        frame["comm_dtype"] = frame["comm_dtype"].replace("none", "")
    if "variant" in frame:
        frame["variant"] = peer_rows.variants(frame)
    return frame.assign(status=frame.get("status", "ok"))


def case_tables(path: Path, case: h5py.Group) -> dict[str, pd.DataFrame]:
    return {group: read_table(path, case[group])[0] for group in CASE_TABLES if group in case}
