"""One HDF5 result file (schema versions 1 and 2): its tables as frames, and its samples."""

import lzma
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EACCES, EDQUOT, EFBIG, ELOOP, ENAMETOOLONG, ENOSPC, EPERM
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from . import contents, temporary_files
from .formatting import printable, text
from .hdf5_file import open_hdf5, reason

SCHEMA_VERSIONS = ("1", "2")
MAX_DECOMPRESSED = 4 << 30  # bytes
FULL = (EDQUOT, EFBIG, ENOSPC)  # of the folder for temporary files
# With these at 1, NCCL does without a transport that the machine has.
TRANSPORT_SWITCHES = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LONGEST = 1e10  # seconds: longer than any run, and than the time since 1970


class ResultError(ValueError):
    """An error in a file or an argument, as one line for the user."""


@dataclass(frozen=True)
class Samples:
    """Seconds by phase, each [rank, repetition]; `warmup` begins with the first step from cold."""

    warmup: dict[str, np.ndarray] = field(default_factory=dict)
    measured: dict[str, np.ndarray] = field(default_factory=dict)


def stem(path: Path) -> str:
    """The name in tables and figures: "x" for x.h5 and x.h5.xz."""
    return printable(Path(path.name.removesuffix(".xz")).stem)


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Opens a result file of any experiment, also compressed (.xz). Raises ResultError if it is not
    one or cannot be read; OSError if there is no room to decompress it."""
    try:
        refuse_pipe(path)
        path.open("rb").close()
        plain = decompressed(path)
        with open_hdf5(plain) as file:
            contents.check(file)
            check_schema(path, file)
            yield file
    except ResultError:
        raise
    except contents.Refused as refused:
        raise ResultError(f"{path} {refused}") from None
    except MemoryError:
        raise ResultError(f"{path}: needs more memory than there is") from None
    except OSError as error:
        if error.errno in FULL:
            raise
        raise unreadable(path, error) from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise ResultError(f"{path}: cannot be read: it is not as paceline writes it") from None


def decompressed(path: Path) -> Path:
    """The file; of an .xz file a temporary one with its contents. Raises OSError if it is none."""
    if path.suffix != ".xz":
        return path
    status = path.stat()
    return decompress(path, status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def decompress(path: Path, *_state: int) -> Path:
    """Cached, so that a file is decompressed once."""
    plain = temporary_files.create(Path(tempfile.gettempdir()), "paceline-", ".h5")
    try:
        with lzma.open(path) as packed, plain.open("wb") as unpacked:
            while block := packed.read(1 << 20):
                unpacked.write(block)
                if unpacked.tell() > MAX_DECOMPRESSED:
                    raise ResultError(
                        f"{path}: more than {MAX_DECOMPRESSED >> 30} GiB when decompressed"
                    )
    except (EOFError, lzma.LZMAError) as error:
        raise OSError(str(error)) from None
    except OSError as error:
        temporary_files.remove(plain)
        raise OSError(error.errno, error.strerror, str(plain)) from None
    return plain


def refuse_pipe(path: Path) -> None:
    """A pipe would be waited for, a device read forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ResultError(f"{path}: is not a file")


def unreadable(path: Path, error: OSError) -> ResultError:
    if isinstance(error, FileNotFoundError):
        told = f"{path}: no such file"
        if any(Path(f"{path}.cases").glob("*.h5")):
            told += f", but finished cases of a run that did not end: paceline merge {path}"
        return ResultError(told)
    if error.errno in (EACCES, ELOOP, ENAMETOOLONG, EPERM):
        return ResultError(f"{path}: cannot be read: {os.strerror(error.errno).lower()}")
    if path.is_dir():
        return ResultError(f"{path}: is a folder; give result files")
    why = reason(error) or "not an HDF5 file, or a damaged one"
    return ResultError(f"{path}: cannot be read: {why}")


def check_schema(path: Path, file: h5py.File) -> None:
    if text(file.attrs.get("schema")) != "paceline":
        raise ResultError(f"{path}: not a paceline result file")
    version = text(file.attrs.get("schema_version"))
    if version not in SCHEMA_VERSIONS:
        known = " and ".join(SCHEMA_VERSIONS)
        raise ResultError(f"{path}: schema version {version}; this reads {known}")


def switched_off(file: h5py.File) -> str:
    """The transports that NCCL was told to do without: "NCCL_P2P_DISABLE=1"; mostly empty."""
    variables = file["environment"].attrs if "environment" in file else {}
    return " ".join(f"{name}=1" for name in TRANSPORT_SWITCHES if text(variables.get(name)) == "1")


def hardware(file: h5py.File) -> str:
    """The devices of all ranks, "2 × NVIDIA H200"; a CPU shared by ranks counts once. Transports
    that were switched off follow: "2 × NVIDIA H200 with NCCL_P2P_DISABLE=1"."""
    if any(f"ranks/{name}" not in file for name in ("device", "host")):
        return ""
    device, host = (texts(file[f"ranks/{name}"]) for name in ("device", "host"))
    uuid = texts(file["ranks/gpu_uuid"]) if "ranks/gpu_uuid" in file else [""] * len(host)
    devices = {(d, u or h) for d, u, h in zip(device, uuid, host, strict=True)}
    counts = Counter(device for device, _ in sorted(devices))
    named = [f"{count} × {name}" if count > 1 else name for name, count in counts.items()]
    return " with ".join(filter(None, [", ".join(named), switched_off(file)]))


def device_of(hardware: str) -> str:
    """The device without its count: "NVIDIA H200" of "2 × NVIDIA H200"."""
    return hardware.split(" × ")[-1]


def texts(dataset: h5py.Dataset) -> np.ndarray:
    return np.array([*map(text, dataset.asstr()[:])], object)


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
        values = texts(dataset) if is_text else dataset[:]
        unit = text(dataset.attrs.get("unit", ""))
        if unit in SECONDS:
            values, unit = values.astype(float) * SECONDS[unit], "s"
            if (long := values[values > LONGEST]).size:
                raise ResultError(f"{path}: {dataset.name}: {long[0]:g} s is no measured time")
        columns[text(name)], units[text(name)] = values, unit
    if len({len(values) for values in columns.values()}) > 1:
        raise ResultError(f"{path}: the columns of {group.name} differ in length")
    return pd.DataFrame(columns), units


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
    seconds = dataset[:].astype(float)
    wrong = ~((seconds >= 0) & (seconds <= LONGEST))
    if wrong.any():
        rank, repetition = np.argwhere(wrong)[0]
        raise ResultError(
            f"{path}: {dataset.name}: rank {rank} took {seconds[rank, repetition]} s in "
            f"repetition {repetition}"
        )
    return seconds
