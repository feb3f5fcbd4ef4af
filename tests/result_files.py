"""Reading result files in tests."""

import re
from pathlib import Path

import h5py

WITHOUT_LOCKS = {"HDF5_USE_FILE_LOCKING": "FALSE"}

# A program that is killed while it writes a file.
KILLED = """
import h5py, os, sys
file = h5py.File(sys.argv[1], "a", libver="latest")
file.attrs["more"] = 1
file.flush()
os._exit(0)
"""


def columns_of(group: h5py.Group) -> dict[str, list]:
    """The columns of a table, without the tables within it; strings are decoded."""
    columns = {}
    for name, dataset in group.items():
        if isinstance(dataset, h5py.Group):
            continue
        text = h5py.check_string_dtype(dataset.dtype) is not None
        columns[name] = list(dataset.asstr()[:] if text else dataset[:])
    return columns


def summary(path: Path) -> dict[str, list]:
    """The /summary columns of a result file."""
    with h5py.File(path) as f:
        return columns_of(f["summary"])


def step_times(path: Path) -> dict[int, float]:
    """The median step time in seconds, by context."""
    columns = summary(path)
    return dict(zip(columns["context"], columns["step_median_s"], strict=True))


def saved(folder: Path) -> dict[int, float]:
    """step_times() of out.h5 and of the finished cases that are not merged into it yet."""
    times = {}
    for path in (folder / "out.h5", *(folder / "out.h5.cases").glob("*.h5")):
        times |= step_times(path) if path.exists() else {}
    return times


def rows(path: Path) -> list[dict[str, object]]:
    """The summary's rows as dictionaries."""
    columns = summary(path)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def undescribed(path: Path, described: set[str]) -> list[str]:
    """The datasets of a result file that have no unit or no description, for lack of a line in
    src/record/description_table.cpp. Empty for damaged, older and other files.

    described: paths, without the names of cases and runs, that need no look; others are added."""
    found = []

    def visit(name: str) -> None:
        kind = re.sub("^(cases|runs)/[^/]+", r"\1", name)
        if kind in described:
            return
        member = f[name]
        says = all(member.attrs.get(what) for what in ("unit", "description"))
        if isinstance(member, h5py.Dataset) and not says:
            found.append(name)
        else:
            described.add(kind)

    try:
        with h5py.File(path) as f:
            if f.attrs.get("schema") == "paceline" and "runs" in f:
                f.visit(visit)
    except (OSError, RuntimeError):
        return []
    return found


def seal(path: Path) -> None:
    """Ends the file as the program ends its case files: with the 64-bit FNV-1a of its bytes."""
    data = path.read_bytes()
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    path.write_bytes(data + f"\npaceline {digest:016x}\n".encode())


def split_into_case_files(whole: Path) -> list[Path]:
    """Makes of F.h5 what a killed launch leaves: F.h5.cases with a file for each case."""
    folder = whole.with_name(f"{whole.name}.cases")
    folder.mkdir()
    files = []
    with h5py.File(whole) as old:
        for place, case in enumerate(old["summary/case"].asstr()[:]):
            files.append(folder / f"{case}.h5")
            with h5py.File(files[-1], "w") as new:
                new.attrs.update(old.attrs)
                old.copy("runs", new)
                old.copy(f"cases/{case}", new.create_group("cases"))
                summary = new.create_group("summary")
                for name, column in old["summary"].items():
                    row = summary.create_dataset(name, data=column[place : place + 1])
                    row.attrs.update(column.attrs)
            seal(files[-1])
    whole.unlink()
    return files
