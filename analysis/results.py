"""Reading result files (schema versions 1 and 2) of the `model` experiment.

Statistics are computed once, by paceline: this module only reads /summary, and /cases for what
/summary has no room for (every sample of every rank).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from .sound_file import fault_of
from .words import label, text

EXPERIMENT = "model"
SCHEMA_VERSIONS = ("1", "2")
PHASES = ("forward", "backward", "optimizer", "step")

# Attributes of a case that are not factors of the sweep.
NOT_FACTORS = {
    "status", "reason", "warmup_reason", "stop_reason", "warnings", "created", "run",
    "slurm_job_id", "array_task", "restart",
}  # fmt: skip
# The order in which people name a case; what is not listed follows by name.
FACTOR_ORDER = (
    "size", "d_model", "d_ff", "layers", "heads", "vocab", "context", "batch_size",
    "global_batch", "precision", "attention", "fp32_attention", "exec", "mode", "optimizer",
    "recompute", "timing", "device", "ranks", "threads", "warmup", "steps",
)  # fmt: skip
# Factors that another one implies: no news beside it.
IMPLIED_BY = {
    "d_model": "size", "d_ff": "size", "layers": "size", "heads": "size", "parameters": "size",
    "global_batch": "batch_size",
}  # fmt: skip

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class ResultError(ValueError):
    """What is wrong with a file or an argument, as one line for its user."""


@dataclass(frozen=True)
class Run:
    """One file: where its numbers come from."""

    path: Path
    experiment: str
    command: str
    software_version: str
    created: str
    hardware: str  # the devices' names
    complete: bool

    @property
    def software(self) -> str:
        return f"paceline {self.software_version}".strip()

    @property
    def origin(self) -> str:
        return ", ".join(part for part in (self.software, self.created, self.hardware) if part)


@dataclass(frozen=True)
class Samples:
    """Seconds by phase, each [rank, repetition]; `warmup` begins with the first step from cold."""

    warmup: dict[str, np.ndarray] = field(default_factory=dict)
    measured: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    runs: list[Run]
    frame: pd.DataFrame  # a row per case: /summary, times in seconds
    units: dict[str, str]  # of the columns of `frame`
    factors: list[str]
    samples: list[Samples]  # by row of `frame`

    @property
    def varying(self) -> list[str]:
        """Factors that tell cases apart, less those that another one of them implies."""
        differ = [name for name in self.factors if self.frame[name].map(text).nunique() > 1]
        return [name for name in differ if not self._implied(name, differ)]

    @property
    def constant(self) -> dict[str, str]:
        """Factors that are the same in every case, as text; those left empty are not named."""
        values = {name: self.frame[name].map(text) for name in self.factors}
        return {
            name: column.iloc[0]
            for name, column in values.items()
            if column.nunique() == 1 and column.iloc[0]
        }

    @property
    def implied(self) -> dict[str, str]:
        """By size: the dimensions it stands for, where sizes differ."""
        names = [n for n in self.factors if IMPLIED_BY.get(n) == "size" and n not in self.varying]
        names = [name for name in names if name not in self.constant]
        if "size" not in self.varying:
            return {}
        first = self.frame.drop_duplicates("size").set_index("size")
        return {
            text(size): ", ".join(f"{label(name)} {text(row[name])}" for name in names)
            for size, row in first.iterrows()
        }

    @property
    def phases(self) -> list[str]:
        """Those of PHASES that were measured in any case."""
        return [
            phase
            for phase in PHASES
            if f"{phase}_median_s" in self.frame and self.frame[f"{phase}_median_s"].notna().any()
        ]

    @property
    def lacks_intervals(self) -> bool:
        """Whether any phase was measured too few times for an interval (below 6)."""
        return any(
            (self.frame[f"{phase}_median_s"].notna() & self.frame[f"{phase}_ci_low_s"].isna()).any()
            for phase in self.phases
        )

    @property
    def repetitions(self) -> str:
        """How many steps were measured: "10", or "8 to 12" where cases differ."""
        tables = [values for case in self.samples for values in case.measured.values()]
        counts = sorted({values.shape[1] for values in tables if values.size}) or [0]
        low, high = counts[0], counts[-1]
        return str(low) if low == high else f"{low} to {high}"

    def _implied(self, name: str, differ: Sequence[str]) -> bool:
        by = IMPLIED_BY.get(name)
        return by in differ and self.frame.groupby(by)[name].nunique().max() == 1


def read(paths: Sequence[Path], experiment: str | None = EXPERIMENT) -> Results:
    """All cases of all files, in the files' order; experiment None: of any experiment. Throws
    ResultError naming the file."""
    parts = [read_file(path, experiment) for path in paths]
    frames = [part.frame for part in parts]
    if len(parts) > 1:
        names = file_names(paths)
        frames = [frame.assign(file=name) for frame, name in zip(frames, names, strict=True)]
    frame = pd.concat(frames, ignore_index=True)
    known = {"file"}.union(*(part.factors for part in parts))
    samples = [samples for part in parts for samples in part.samples]
    factors = in_order(known & set(frame.columns))
    order = side_by_side(frame, factors)
    return Results(
        runs=[run for part in parts for run in part.runs],
        frame=frame.iloc[order].reset_index(drop=True),
        units={name: unit for part in parts for name, unit in part.units.items()},
        factors=factors,
        samples=[samples[row] for row in order],
    )


def file_names(paths: Sequence[Path]) -> list[str]:
    """What the files are called in tables and figures."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def side_by_side(frame: pd.DataFrame, factors: Sequence[str]) -> list[int]:
    """Rows in their order, but the same case of several files together."""
    names = [name for name in factors if name != "file"]
    keys = [tuple(map(text, row)) for row in frame[names].itertuples(index=False)]
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    return sorted(range(len(keys)), key=lambda row: first[keys[row]])


def in_order(factors: set[str]) -> list[str]:
    """Known ones first; `file`, which runs are compared by, last."""
    listed = [name for name in FACTOR_ORDER if name in factors]
    last = factors & {"file"}
    return [*listed, *sorted(factors - set(listed) - last), *last]


def read_file(path: Path, experiment: str | None) -> Results:
    with opened(path) as file:
        check(path, file, experiment)
        return from_file(path, file)


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A result file of any experiment. Throws ResultError for what is none or cannot be read."""
    try:
        path.open("rb").close()
        if h5py.is_hdf5(path) and (fault := fault_of(path)):
            raise ResultError(f"{path} {fault}")
        with h5py.File(path, "r") as file:
            check_schema(path, file)
            yield file
    except ResultError:
        raise
    except FileNotFoundError:
        raise ResultError(f"{path}: no such file") from None
    except PermissionError:
        raise ResultError(f"{path}: cannot be read: permission denied") from None
    except OSError:
        raise ResultError(f"{path}: cannot be read: not an HDF5 file, or a damaged one") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise ResultError(f"{path}: cannot be read: it is not as paceline writes it") from None


def check_schema(path: Path, file: h5py.File) -> None:
    if text(file.attrs.get("schema")) != "paceline":
        raise ResultError(f"{path}: not a paceline result file")
    version = text(file.attrs.get("schema_version"))
    if version not in SCHEMA_VERSIONS:
        known = " and ".join(SCHEMA_VERSIONS)
        raise ResultError(f"{path}: schema version {version}; this reads {known}")


def check(path: Path, file: h5py.File, experiment: str | None) -> None:
    found = text(file.attrs.get("experiment"))
    expected = experiment or found
    if found != expected:
        raise ResultError(f"{path}: no {expected} cases: its experiment is '{found}'")
    if len(file.get("summary", ())) == 0 or len(next(iter(file["summary"].values()))) == 0:
        raise ResultError(f"{path}: no {expected} cases")


def from_file(path: Path, file: h5py.File) -> Results:
    frame, units = read_table(path, file["summary"])
    for name in ("step_median_s", "step_ci_low_s", "step_ci_high_s"):
        if name not in frame:  # no case was measured
            frame[name] = np.nan
    cases = dict(file.get("cases", {}))
    factors = {name for case in cases.values() for name in case.attrs} - NOT_FACTORS
    factors = in_order(factors & set(frame.columns))
    for name in factors:
        # /summary has flags as 0 and 1, the cases' attributes as truth values.
        if any(isinstance(case.attrs.get(name), np.bool_) for case in cases.values()):
            frame[name] = frame[name].astype(bool)
    run = Run(
        path=path,
        experiment=text(file.attrs.get("experiment", "")),
        command=text(file.attrs.get("command", "")),
        software_version=text(file.attrs.get("software_version", "")),
        created=text(file.attrs.get("created", "")),
        hardware=hardware(file),
        complete=bool(file.attrs.get("complete", True)),
    )
    return Results([run], frame, units, factors, samples_by_row(path, frame, cases))


def hardware(file: h5py.File) -> str:
    """The devices of all ranks, "2 × NVIDIA H200"; ranks that share a host's CPU count once."""
    if any(f"ranks/{name}" not in file for name in ("device", "host")):
        return ""
    device, host = (file[f"ranks/{name}"].asstr()[:] for name in ("device", "host"))
    uuid = file["ranks/gpu_uuid"].asstr()[:] if "ranks/gpu_uuid" in file else [""] * len(host)
    devices = {(d, u or h) for d, u, h in zip(device, uuid, host, strict=True)}
    counts = Counter(device for device, _ in sorted(devices))
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def read_table(path: Path, group: h5py.Group) -> tuple[pd.DataFrame, dict[str, str]]:
    """A group of columns with times in seconds, and every column's unit."""
    columns, units = {}, {}
    for name, dataset in group.items():
        if isinstance(dataset, h5py.Group):
            continue
        is_text = h5py.check_string_dtype(dataset.dtype)
        if (
            dataset.shape is None
            or dataset.ndim != 1
            or not (is_text or dataset.dtype.kind in "biuf")
        ):
            raise ResultError(f"{path}: {dataset.name} is not a column of numbers or texts")
        values = dataset.asstr()[:] if is_text else dataset[:]
        unit = text(dataset.attrs.get("unit", ""))
        if unit in SECONDS:
            values, unit = values * SECONDS[unit], "s"
        columns[name], units[name] = values, unit
    if len({len(values) for values in columns.values()}) > 1:
        raise ResultError(f"{path}: the columns of {group.name} differ in length")
    return pd.DataFrame(columns), units


def samples_by_row(path: Path, frame: pd.DataFrame, cases: dict[str, h5py.Group]) -> list[Samples]:
    """The samples of each row's case."""
    names = frame["case"]
    return [read_samples(path, cases[name]) if name in cases else Samples() for name in names]


def read_samples(path: Path, case: h5py.Group) -> Samples:
    return Samples(
        **{
            field: {phase: read_phase(path, data) for phase, data in case.get(group, {}).items()}
            for field, group in (("warmup", "samples_warmup"), ("measured", "samples"))
        }
    )


def read_phase(path: Path, dataset: h5py.Dataset) -> np.ndarray:
    """Seconds [rank, repetition]."""
    if len(dataset.shape or ()) != 2 or dataset.dtype.kind != "f":
        raise ResultError(f"{path}: {dataset.name} is not [rank, repetition] of real numbers")
    seconds = dataset[:]
    wrong = ~(np.isfinite(seconds) & (seconds >= 0))
    if wrong.any():
        rank, repetition = np.argwhere(wrong)[0]
        raise ResultError(
            f"{path}: {dataset.name}: rank {rank} took {seconds[rank, repetition]} s in "
            f"repetition {repetition}"
        )
    return seconds
