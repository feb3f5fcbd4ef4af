"""Result files of bench/peers/: paceline's cases beside those of other software, in the schema of
docs/file-format.md. A case is one measurement of one variant in one turn."""

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

TEXT = h5py.string_dtype("utf-8")
Row = dict[str, object]
Description = tuple[str, str]  # unit and description of a dataset
Samples = dict[str, list[list[float]]]  # seconds [rank][repetition], by phase

# Factors and columns that only these files have, or that other software reports: unit, description.
COLUMNS = {
    "case": ("text", "the case's name under /cases"),
    "run": ("text", "the run that measured it, a group of /runs"),
    "status": ("text", "ok, oom, skipped or failed"),
    "reason": ("text", "why the case is not ok; empty if it is"),
    "created": ("text", "when the case was finished, ISO 8601, UTC"),
    "software": ("text", "the software and its version"),
    "variant": ("text", "how the software was used, by the names of bench/peers/"),
    "turn": ("1", "both sides take turns; measurements of one turn are a pair"),
    "sdpa_backend": ("text", "backend of PyTorch's scaled_dot_product_attention"),
    "size": ("text", "model size, or its dimensions"),
    "context": ("tokens", "tokens per sequence"),
    "batch_size": ("1", "sequences per rank"),
    "vocab": ("1", "tokens in the vocabulary"),
    "precision": ("text", "precision of matmuls and of the tensors they read and write"),
    "attention": ("text", "naive or flash"),
    "mode": ("text", "which part of a step runs"),
    "exec": ("text", "eager or compiled"),
    "optimizer": ("text", "serial: after backward; in-backward: in it, which excludes clipping"),
    "sync": ("text", "exchange of gradients, by the names of each software"),
    "shard": ("text", "what is sharded over ranks, by the names of each software"),
    "ranks": ("1", "processes of the launch"),
    "warmup": ("1", "warm-up repetitions"),
    "max_warmup": ("1", "warm-up repetitions at most, until the times show no trend"),
    "steps": ("1", "measured repetitions"),
    "warmup_reason": ("text", "why warm-up ended: warmup, steady or max_warmup"),
    "loss": ("1", "cross-entropy of rank 0's rows, in nats: PyTorch's of step 6 (data parallel: "
             "14), paceline's of the last step"),
    "compile_s": ("s", "building the model and its first step, which compiles it"),
    "setup_s": ("s", "from the start of the case to the first step of its warm-up"),
    "peak_bytes": ("bytes", "peak memory, on the rank with the most"),
    "reserved_bytes": ("bytes", "memory that PyTorch's allocator holds, on the rank with the most"),
    "step": ("s", "the whole step, by the host's clock"),
    "communication_exposed": ("s", "time the step waits for collectives"),
}  # fmt: skip
STATISTICS = {
    "median": "median over repetitions, each the maximum over ranks",
    "ci_low": "lower end of the median's 95% interval, from order statistics",
    "ci_high": "upper end of the median's 95% interval, from order statistics",
    "mean": "mean over repetitions, each the maximum over ranks",
    "std": "standard deviation over repetitions (n - 1)",
    "min": "shortest repetition",
    "max": "longest repetition",
    "p95": "95th percentile over repetitions, the nearest rank",
}
COLUMNS |= {
    f"{phase}_{name}_s": ("s", f"{phase}: {told}")
    for phase in ("step", "communication_exposed")
    for name, told in STATISTICS.items()
}
# Columns of other software's rows that are results; the rest are factors.
RESULTS = {
    "status", "reason", "loss", "compile_s", "setup_s", "peak_bytes", "reserved_bytes",
    "warmup_reason",
}  # fmt: skip
# Attributes of a case that say how it went.
CASE_ATTRIBUTES = ("status", "reason", "warmup_reason", "created", "run")


@dataclass
class Case:
    factors: Row
    results: Row  # the other columns of /summary
    samples: Samples
    samples_warmup: Samples
    described: dict[str, Description] = field(default_factory=dict)  # unit and description


@dataclass
class Origin:
    """What a result file of paceline says of its launch, which is true of the other side as well:
    both ran on the same machine."""

    software_version: str  # paceline's commit
    environment: Row
    ranks: list[Row]
    described: dict[str, Description]  # the columns of `ranks`


@dataclass
class Run:
    """One launch of a script of bench/peers/."""

    command: str
    started: str  # ISO 8601, UTC
    origin: Origin

    @property
    def name(self) -> str:
        return self.started.replace("-", "").replace(":", "")


def peer_case(row: Row) -> Case:
    """Of a JSON row of train_step.py or data_parallel_step.py."""
    row = dict(row)
    samples, warmup = row.pop("samples", {}), row.pop("samples_warmup", {})
    results = {name: row.pop(name) for name in [*row] if name in RESULTS or name.endswith("_s")}
    return Case(row, {"reason": ""} | results, samples, warmup)


def read_own(path: Path) -> tuple[Origin, list[Case]]:
    """Of a result file of paceline."""
    with h5py.File(path) as file:
        rows, described = read_table(file["summary"])
        cases = [own_case(file["cases"][row["case"]], row, described) for row in rows]
        version = str(file.attrs["software_version"])
        return Origin(version, dict(file["environment"].attrs), *read_table(file["ranks"])), cases


def own_case(group: h5py.Group, row: Row, described: dict[str, Description]) -> Case:
    about = {"case", "stop_reason", "warnings", *CASE_ATTRIBUTES}
    factors = {name: row[name] for name in row if name in group.attrs and name not in about}
    kept = {"status", "reason", "warmup_reason"} & row.keys()
    results = {n: row[n] for n in row if n in kept or (n not in factors and n not in about)}
    samples, warmup = (
        {phase: data[:].tolist() for phase, data in group.get(folder, {}).items()}
        for folder in ("samples", "samples_warmup")
    )
    told = {
        phase: description(data)
        for folder in ("samples", "samples_warmup")
        for phase, data in group.get(folder, {}).items()
    }
    return Case(factors, results, samples, warmup, described | told)


def read_table(group: h5py.Group) -> tuple[list[Row], dict[str, Description]]:
    """The rows of a group of columns, and the columns' units and descriptions."""
    columns = {name: plain(column) for name, column in group.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return rows, {name: description(column) for name, column in group.items()}


def plain(column: h5py.Dataset) -> list[object]:
    is_text = h5py.check_string_dtype(column.dtype) is not None
    return [*column.asstr()[:]] if is_text else column[:].tolist()


def description(data: h5py.Dataset) -> Description:
    return tuple(str(data.attrs.get(name, "")) for name in ("unit", "description"))


def append(path: Path, experiment: str, run: Run, cases: list[Case]) -> None:
    """Adds cases to the file, or begins it. It is replaced as a whole: an interrupted write leaves
    the old file unchanged."""
    partial = path.with_name(path.name + ".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(partial, "w") as file:
        rows, described = [], {}
        if path.exists():
            with h5py.File(path) as old:
                rows, described = read_table(old["summary"])
                for group in ("cases", "runs"):
                    old.copy(group, file)
        for case in cases:
            described |= case.described | COLUMNS
            rows.append(write_case(file, case, run, len(rows), described))
        write_root(file, experiment, run, rows)
        write_table(file.create_group("summary"), rows, described)
    partial.replace(path)


def write_case(
    file: h5py.File, case: Case, run: Run, number: int, described: dict[str, Description]
) -> Row:
    """Writes /cases/<id>; returns its row of /summary."""
    name = f"{number:04d}"
    group = file.create_group(f"cases/{name}")
    row = {"case": name, "run": run.name} | case.factors | case.results
    attributes = case.factors | {n: row[n] for n in CASE_ATTRIBUTES if row.get(n) not in (None, "")}
    for key, value in attributes.items():
        put(group.attrs, key, value)
    for folder, measured in (("samples", case.samples), ("samples_warmup", case.samples_warmup)):
        for phase, seconds in measured.items():
            data = group.create_dataset(f"{folder}/{phase}", data=np.asarray(seconds, "float64"))
            describe(data, described[phase])
    if case.samples:
        put(group["samples"].attrs, "headline", "step")
    return row


def write_root(file: h5py.File, experiment: str, run: Run, rows: list[Row]) -> None:
    group = file.require_group(f"runs/{run.name}")
    origin = run.origin
    own = {
        "command": run.command, "started": run.started,
        "software_version": origin.software_version,
    }  # fmt: skip
    for attributes in (file.attrs, group.attrs):
        for name, value in own.items():
            put(attributes, name, value)
    root = {
        "schema": "paceline", "schema_version": 2, "software": "paceline",
        "experiment": experiment, "complete": True, "run": run.name,
        "created": max(str(row["created"]) for row in rows),
    }  # fmt: skip
    for name, value in root.items():
        put(file.attrs, name, value)
    for parent in (file, group):
        if "ranks" not in parent:
            write_table(parent.create_group("ranks"), origin.ranks, origin.described)
            environment = parent.create_group("environment")
            for name, value in origin.environment.items():
                put(environment.attrs, name, value)


def write_table(group: h5py.Group, rows: list[Row], described: dict[str, Description]) -> None:
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        is_text = any(isinstance(value, str) for value in values)
        absent = "" if is_text else np.nan
        data = [absent if value is None else value for value in values]
        column = group.create_dataset(name, data=data, dtype=TEXT if is_text else None)
        describe(column, described[name])


def describe(data: h5py.Dataset, told: Description) -> None:
    for name, value in zip(("unit", "description"), told, strict=True):
        put(data.attrs, name, value)


def put(attributes: h5py.AttributeManager, name: str, value: object) -> None:
    attributes.create(name, value, dtype=TEXT if isinstance(value, str) else None)
