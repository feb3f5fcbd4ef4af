"""Reading result files in tests."""

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
    """The columns of a table; strings are decoded."""
    columns = {}
    for name, dataset in group.items():
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


def undescribed(path: Path) -> list[str]:
    """The datasets of a result file that have no unit or no description, for lack of a line in
    src/record/description_table.cpp. Empty for damaged, older and other files."""
    found = []

    def visit(name: str, member: h5py.Group | h5py.Dataset) -> None:
        says = all(member.attrs.get(what) for what in ("unit", "description"))
        if isinstance(member, h5py.Dataset) and not says:
            found.append(name)

    try:
        with h5py.File(path) as f:
            if f.attrs.get("schema") == "paceline" and "runs" in f:
                f.visititems(visit)
    except (OSError, RuntimeError):
        return []
    return found


# What HDF5 should not follow: how it gets into an open file, and what every reader says of it.
NOT_TO_FOLLOW = (
    (lambda file: file.__setitem__("more", h5py.ExternalLink("b.h5", "/")), "links to other files"),
    (lambda file: file.__setitem__("more", file["/"]), "nests groups too deep"),
    (lambda file: file.create_dataset("more", (2**40,), "f8"), "claims more data than"),
)
