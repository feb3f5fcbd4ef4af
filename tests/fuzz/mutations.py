"""Random mutations that turn a valid file into a damaged or hostile one.

Those of HDF5 files take the open file and a random generator, and return what they did as text."""

import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

# Hostile names of cases and datasets, and values of attributes and text datasets.
NAMES = (
    "..", ".", "a\nb", "\x1b[31mred", "x" * 300, "../../evil", "/evil", "a b", "é", "-rf", "a.tmp",
    ".hidden", "",
)  # fmt: skip
NUMBERS = (np.nan, -1.0, np.inf, -np.inf, 0.0, -0.0, 1e308, 5e-324, 2.0**63)
SHAPES = ((), (0,), (1,), (2,), (7,), (1, 1), (2, 3), (1, 2, 3), (3, 0), (1,) * 32)
ABSURD = ((2**40,), (2**33, 2**33), (2**62, 4), (2**31,))


def types() -> dict[str, np.dtype]:
    return {
        "reals": np.dtype("f8"),
        "integers": np.dtype("i8"),
        "bytes": np.dtype("u1"),
        "big-endian reals": np.dtype(">f4"),
        "halves": np.dtype("f2"),
        "texts": h5py.string_dtype(),
        "fixed texts": np.dtype("S5"),
        "compound": np.dtype([("a", "f8"), ("b", "i4")]),
        "flags": np.dtype(bool),
        "complex": np.dtype("c16"),
        "opaque": h5py.opaque_dtype(np.dtype("V7")),
        "reference": h5py.ref_dtype,
        "enumeration": h5py.enum_dtype({"A": 1, "B": 5}, basetype="i4"),
        "lists": h5py.vlen_dtype(np.dtype("f8")),
        "arrays": np.dtype("(3,)f8"),
    }


def members(file: h5py.File) -> list[h5py.Dataset | h5py.Group]:
    """Every dataset and group below the root."""
    found = []
    file.visititems(lambda _, member: found.append(member))
    return found


def pick(file: h5py.File, chance: random.Random, kind: type) -> h5py.Dataset | h5py.Group:
    return chance.choice([m for m in members(file) if isinstance(m, kind)])


def replaced(file: h5py.File, chance: random.Random, make: Callable) -> str:
    """Replaces a dataset or, rarely, a group by what make(parent, name) creates.

    Returns its path."""
    member = pick(file, chance, h5py.Group if chance.random() < 0.2 else h5py.Dataset)
    parent, name = member.parent, member.name
    short = name.rsplit("/", 1)[1]
    attributes = dict(member.attrs) if chance.random() < 0.7 else {}
    del parent[short]
    made = make(parent, short)
    for key, value in attributes.items():
        if made is not None and not isinstance(value, np.ndarray):
            made.attrs[key] = value
    return name


def delete(file: h5py.File, chance: random.Random) -> str:
    return "deleted " + replaced(file, chance, lambda parent, name: None)


def rename(file: h5py.File, chance: random.Random) -> str:
    member = pick(file, chance, object)
    new = chance.choice(NAMES[:5] + NAMES[7:-1])
    old = member.name
    member.parent.move(old.rsplit("/", 1)[1], new)
    return f"renamed {old} to {new[:20]!r}"


def change_type(file: h5py.File, chance: random.Random) -> str:
    if chance.random() < 0.2:
        make = lambda parent, name: parent.create_dataset(name, data=h5py.Empty("f8"))  # noqa: E731
        return f"no space for {replaced(file, chance, make)}"
    kind, dtype = chance.choice(list(types().items()))
    shape = chance.choice(SHAPES)
    make = lambda parent, name: parent.create_dataset(name, shape, dtype)  # noqa: E731
    return f"{kind} {shape} for {replaced(file, chance, make)}"


def absurd_shape(file: h5py.File, chance: random.Random) -> str:
    """A dataset with a huge shape and no data, so that the file stays small."""
    shape, chunked = chance.choice(ABSURD), chance.random() < 0.5
    dtype = chance.choice([np.dtype("f8"), np.dtype("i1"), h5py.string_dtype()])

    chunks = (1024,) + (1,) * (len(shape) - 1) if chunked else None
    make = lambda parent, name: parent.create_dataset(name, shape, dtype, chunks=chunks)  # noqa: E731
    return f"{dtype} {shape} for {replaced(file, chance, make)}"


def poison(file: h5py.File, chance: random.Random) -> str:
    wanted = chance.choice(["samples", "summary", "weights", ""])
    found = [m for m in members(file) if isinstance(m, h5py.Dataset) and wanted in m.name]
    numbers = [m for m in found if m.dtype.kind in "fi" and m.size]
    if not numbers:
        return "nothing"
    dataset, value = chance.choice(numbers), chance.choice(NUMBERS)
    if dataset.dtype.kind == "i":
        value = chance.choice([-1, 0, 2**62, -(2**63)])
    place = tuple(chance.randrange(extent) for extent in dataset.shape)
    dataset[... if chance.random() < 0.3 else place] = value
    return f"{value} in {dataset.name}"


def link(file: h5py.File, chance: random.Random) -> str:
    links = {
        "an external link": lambda parent, name: h5py.ExternalLink("other.h5", "/a"),
        "an external link to itself": lambda parent, name: h5py.ExternalLink("bad.h5", "/"),
        "a soft link to nothing": lambda parent, name: h5py.SoftLink("/nothing"),
        "a soft link to itself": lambda parent, name: h5py.SoftLink(f"{parent.name}/{name}"),
        "a soft link to the root": lambda parent, name: h5py.SoftLink("/"),
        "a hard link to the root": lambda parent, name: file["/"],
        "a hard link to a neighbour": lambda parent, name: next(iter(parent.values()), file["/"]),
    }
    kind = chance.choice(list(links))

    def make(parent: h5py.Group, name: str) -> None:
        parent[name] = links[kind](parent, name)

    return f"{kind} for {replaced(file, chance, make)}"


def data_elsewhere(file: h5py.File, chance: random.Random) -> str:
    def external(parent: h5py.Group, name: str) -> h5py.Dataset:
        return parent.create_dataset(name, (2,), "f8", external=[("other.bin", 0, 16)])

    def virtual(parent: h5py.Group, name: str) -> h5py.Dataset:
        layout = h5py.VirtualLayout((2,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "a", (2,))
        return parent.create_virtual_dataset(name, layout)

    return "data in another file for " + replaced(file, chance, chance.choice([external, virtual]))


def group_for_dataset(file: h5py.File, chance: random.Random) -> str:
    return "a group for " + replaced(file, chance, lambda parent, name: parent.create_group(name))


def add_member(file: h5py.File, chance: random.Random) -> str:
    group = pick(file, chance, h5py.Group)
    name = chance.choice(["more", *NAMES[:5]])
    if name not in (".", "..") and name not in group:
        group[name] = chance.choice([np.zeros(2), np.zeros((2, 2)), "text", file["/"]])
    return f"{name[:20]!r} more in {group.name}"


def attribute(file: h5py.File, chance: random.Random) -> str:
    holders = [m for m in [file, *members(file)] if len(m.attrs)]
    if not holders:
        return "nothing"
    holder = chance.choice([file, chance.choice(holders)] if len(file.attrs) else holders)
    name = chance.choice(sorted(holder.attrs))
    values = [
        None, 7, -1, 2**63 - 1, np.nan, 1e300, np.zeros(3), "", "text", "a\nb", "\x1b[2J", b"bytes",
        "../../evil", "x" * 3000, np.bool_(True), h5py.Empty("f8"), file.ref, np.void(b"\xff\xfe"),
        np.zeros((2, 2)), np.array([], "f8"),
    ]  # fmt: skip
    value = chance.choice(values)
    del holder.attrs[name]
    if value is not None:
        holder.attrs[name] = value
    return f"{str(value)[:20]!r} for the attribute {name} of {holder.name}"


def text(file: h5py.File, chance: random.Random) -> str:
    texts = [
        m
        for m in members(file)
        if isinstance(m, h5py.Dataset) and h5py.check_string_dtype(m.dtype) and m.ndim == 1
    ]
    texts = [m for m in texts if m.size]
    if not texts:
        return "nothing"
    dataset = chance.choice(texts)
    value = chance.choice([*NAMES, "maybe", b"\xff\xfe"])
    try:
        dataset[chance.randrange(dataset.size)] = value
    except (ValueError, OSError, TypeError):
        return "nothing"
    return f"{value[:20]!r} in {dataset.name}"


def case_name(file: h5py.File, chance: random.Random) -> str:
    """Renames a case in /cases and, in most mutations, in the summary too."""
    ids = list(file["cases"]) if isinstance(file.get("cases"), h5py.Group) else []
    if not ids:
        return "nothing"
    old, new = chance.choice(ids), chance.choice(NAMES[:5] + NAMES[7:-1])
    file["cases"].move(old, new)
    column = file.get("summary/case")
    if isinstance(column, h5py.Dataset) and chance.random() < 0.8:
        column[:] = [new if name == old else name for name in column.asstr()[:]]
    return f"case {old} called {new[:20]!r}"


def status(file: h5py.File, chance: random.Random) -> str:
    cases = file.get("cases")
    if not isinstance(cases, h5py.Group) or not len(cases):
        return "nothing"
    word = chance.choice(["maybe", "", "OK", "ok\n", 1, 2.5])
    chance.choice(list(cases.values())).attrs["status"] = word
    return f"status {word!r}"


CHANGES = (
    delete, rename, change_type, change_type, change_type, absurd_shape, poison, poison, link,
    data_elsewhere, group_for_dataset, add_member, attribute, attribute, text, case_name, status,
)  # fmt: skip


def flip_bits(path: Path, chance: random.Random) -> str:
    """Flips bits, truncates the file, or cuts a piece out of it."""
    data = bytearray(path.read_bytes())
    how = chance.random()
    if how < 0.1:
        del data[chance.randrange(len(data)) :]
    elif how < 0.2:
        begin = chance.randrange(len(data))
        data[begin : begin + chance.choice([8, 64, 512])] = b""
    else:
        for _ in range(chance.choice([1, 2, 4, 16])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return "flipped bits"


VALUES = (
    None, True, 0, -1, 7, 0.5, -1e300, 1e300, float("nan"), float("inf"), 2**63, 10**400, "",
    "text", "5", "1e400", "a\nb\x1b[31m", "$x_$", "paceline", "paceline x", "ok", "oom", [], [1],
    {}, {"a": 1},
)  # fmt: skip


def rows(path: Path, chance: random.Random) -> str:
    """Changes a file of JSON objects, one a line."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said = []
    for _ in range(chance.choice([1, 1, 2, 5])):
        name = chance.choice(list(chance.choice(lines)) or ["x"])
        value, how = chance.choice(VALUES), chance.random()
        for row in lines if chance.random() < 0.3 else [chance.choice(lines)]:
            if how < 0.2:
                row.pop(name, None)
            elif how < 0.3:
                row[str(value)] = row.pop(name, None)
            else:
                row[name] = value
        said.append(f"{name}: {'gone' if how < 0.2 else str(value)[:20]!r}")
    words = [json.dumps(row) for row in lines]
    if chance.random() < 0.1:
        words[chance.randrange(len(words))] = chance.choice(
            ["", "[]", "1", "{", "null", "\x00", "{}"]
        )
        said.append("a line of something else")
    path.write_text("\n".join(words) + chance.choice(["", "\n"]))
    return "; ".join(said)


def compressed(path: Path, chance: random.Random) -> str:
    """Changes a file of lzma: what is in it, or its bytes."""
    if chance.random() < 0.3:
        return flip_bits(path, chance)
    plain = path.with_suffix("")
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    said = mutate(plain, chance)
    path.write_bytes(lzma.compress(plain.read_bytes(), preset=0))
    plain.unlink()
    return said


def mutate(path: Path, chance: random.Random) -> str:
    """Changes the file and returns a description of the change."""
    if path.suffix == ".xz":
        return compressed(path, chance)
    if chance.random() < (0.1 if path.suffix == ".jsonl" else 0.3):
        return flip_bits(path, chance)
    if path.suffix == ".jsonl":
        return rows(path, chance)
    said = []
    with h5py.File(path, "a") as file:
        for _ in range(chance.choice([1, 1, 1, 2])):
            try:
                said.append(chance.choice(CHANGES)(file, chance))
            except Exception as e:
                said.append(f"nothing more ({e})")
    return "; ".join(said)
