"""Writes small result files of schema version 2 with given samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from analysis.median_interval import median_interval

TEXT = h5py.string_dtype("utf-8")
STATISTICS = ("median", "ci_low", "ci_high", "mean", "std", "min", "max", "p95")

# (device name, GPU UUID or "", host) of a rank.
Rank = tuple[str, str, str]
TWO_RANKS_OF_ONE_CPU: Sequence[Rank] = [("AMD EPYC", "", "node1")] * 2

# A case as case() returns it; samples and warmup map a phase to seconds [rank][repetition].
CaseDict = dict[str, Any]
STEP = {"step": [[0.1] * 6]}  # the samples of a step


def case(
    factors: dict[str, object],
    samples: dict[str, Sequence[Sequence[float]]] | None = None,
    warmup: dict[str, Sequence[Sequence[float]]] | None = None,
    status: str = "ok",
    reason: str = "",
    summary: dict[str, float] | None = None,
) -> CaseDict:
    return {
        "samples": samples or {},
        "warmup": warmup or {},
        "status": status,
        "reason": reason,
        "summary": summary or {},
        "factors": factors,
    }


# The factors of a data-parallel step.
XL = {
    "size": "xl", "context": 128, "batch_size": 2, "precision": "fp32", "ranks": 2,
    "device": "cuda", "registration": "symmetric",
}  # fmt: skip


def by_turns(values: Sequence[float]) -> np.ndarray:
    """Sorted values, small and large ones by turns: the autocorrelation is not positive."""
    mixed = np.empty(len(values))
    mixed[::2], mixed[1::2] = np.split(values, [len(values) - len(values) // 2])
    return mixed


def around(seconds: float, count: int = 6) -> list[list[float]]:
    """Samples [1 rank][count], within 1% of the median."""
    return [list(by_turns(np.linspace(0.99 * seconds, 1.01 * seconds, count)))]


def step(
    sync: str, seconds: float, bucket: float = np.nan, count: int = 6, exposed: float = 0.001
) -> CaseDict:
    """A data-parallel step with an exchange."""
    samples = {"communication_exposed": around(exposed, count), "step": around(seconds, count)}
    return case(XL | {"sync": sync, "bucket_mb": bucket}, samples)


def statistics(samples: Sequence[Sequence[float]]) -> dict[str, float]:
    """Statistics of the maxima over ranks, as src/measure/statistics.h defines them."""
    times = np.max(np.asarray(samples, dtype=float), axis=0)
    values, count = np.sort(times), len(times)
    rank95 = int(np.ceil(0.95 * count)) - 1
    figures = (
        np.median(values),
        *median_interval(times),
        values.mean(),
        values.std(ddof=1) if count > 1 else np.nan,
        values[0],
        values[-1],
        values[rank95],
    )
    return dict(zip(STATISTICS, figures, strict=True))


def write_file(
    path: Path,
    cases: Sequence[CaseDict],
    ranks: Sequence[Rank] = TWO_RANKS_OF_ONE_CPU,
    **attributes: object,
) -> Path:
    root = {
        "schema": "paceline",
        "schema_version": 2,
        "software": "paceline",
        "software_version": "0123456789ab",
        "created": "2026-11-21T02:05:31Z",
        "command": "build/paceline model --size small",
        "experiment": "model",
        "complete": True,
    } | attributes
    with h5py.File(path, "w") as file:
        for name, value in root.items():
            set_attribute(file, name, value)
        for index, one in enumerate(cases):
            write_case(file.create_group(f"cases/{case_id(index)}"), one)
        write_ranks(file.create_group("ranks"), ranks)
        write_summary(file.create_group("summary"), cases)
    return path


def case_id(index: int) -> str:
    return f"case-{index:03d}"


def write_ranks(group: h5py.Group, ranks: Sequence[Rank]) -> None:
    names = ("device", "gpu_uuid", "host")
    for name, values in zip(names, zip(*ranks, strict=True), strict=True):
        write_column(group, name, list(values))
    write_column(group, "cpu", ["AMD EPYC"] * len(ranks))
    kinds = ["cpu" if device.startswith("AMD") else "cuda" for device, *_ in ranks]
    write_column(group, "device_kind", kinds)
    for name in ("rank", "local_rank"):
        write_column(group, name, list(range(len(ranks))))
    write_column(group, "memory_bytes", [2**36] * len(ranks))


def set_attribute(group: h5py.Group, name: str, value: object) -> None:
    group.attrs.create(name, value, dtype=TEXT if isinstance(value, str) else None)


def write_case(group: h5py.Group, one: CaseDict) -> None:
    for name, value in one["factors"].items():
        set_attribute(group, name, value)
    set_attribute(group, "status", one["status"])
    set_attribute(group, "reason", one["reason"])
    set_attribute(group, "created", "2026-11-21T02:05:31Z")
    for folder, phases in (("samples", one["samples"]), ("samples_warmup", one["warmup"])):
        for phase, values in phases.items():
            dataset = group.create_dataset(f"{folder}/{phase}", data=np.asarray(values, "float64"))
            set_attribute(dataset, "unit", "s")
        if phases:
            set_attribute(group[folder], "headline", list(phases)[-1])


def write_summary(group: h5py.Group, cases: Sequence[CaseDict]) -> None:
    phases = list(dict.fromkeys(phase for one in cases for phase in one["samples"]))
    rows = []
    for index, one in enumerate(cases):
        row = {"case": case_id(index)} | one["factors"]
        row |= {"status": one["status"], "reason": one["reason"]}
        for phase in phases:
            found = statistics(one["samples"][phase]) if phase in one["samples"] else {}
            row |= {f"{phase}_{name}_s": found.get(name, np.nan) for name in STATISTICS}
        rows.append(row | one["summary"])
    for name in dict.fromkeys(name for row in rows for name in row):
        write_column(group, name, [row.get(name, np.nan) for row in rows])


def write_column(group: h5py.Group, name: str, values: list[object]) -> None:
    is_text = any(isinstance(value, str) for value in values)
    dataset = group.create_dataset(name, data=values, dtype=TEXT if is_text else None)
    units = {"_per_s": "tokens/s", "_s": "s", "_bytes": "bytes"}
    unit = next((unit for ending, unit in units.items() if name.endswith(ending)), None)
    if unit:
        set_attribute(dataset, "unit", unit)


def claim(path: Path, place: str, size: int, chunks: tuple[int, int] | None = None) -> int:
    """Puts a dataset there that claims this many bytes and has none written; returns the size."""
    with h5py.File(path, "r+") as file:
        if place in file:
            del file[place]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if chunks:
            properties.set_chunk(chunks)
        space = h5py.h5s.create_simple((1, size // 8))
        h5py.h5d.create(file.id, place.encode(), h5py.h5t.IEEE_F64LE, space, properties)
    return size


def rename_link(path: Path, name: str) -> None:
    """Adds a link of this name of three letters to the root, which HDF5 itself would not."""
    whole = path.with_suffix(".whole")
    path.rename(whole)
    # The old format's names have no checksum.
    with h5py.File(whole) as source, h5py.File(path, "w", libver="earliest") as file:
        for key, value in source.attrs.items():
            file.attrs[key] = value
        for key in source:
            source.copy(key, file)
        file["AXB"] = 1.0
    contents = path.read_bytes()
    assert contents.count(b"AXB\0") == 1
    path.write_bytes(contents.replace(b"AXB\0", name.encode() + b"\0"))
