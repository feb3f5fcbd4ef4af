"""The groups and datasets of an HDF5 file, refused before they are read if they are elsewhere or
claim more than they store. It uses h5py's low-level interface, which takes half the time: files
have thousands of objects."""

from collections.abc import Iterator
from contextlib import suppress

import h5py
from h5py import h5d, h5g, h5l, h5o, h5t

MOST = 4 << 30  # bytes of data in a file
BEST_RATIO = 1032  # of deflate; no HDF5 filter compresses better
UNWRITTEN = 1 << 20  # bytes: a dataset that was never written reads as zeros
ERRORS = (OSError, RuntimeError, LookupError, TypeError, ValueError)  # raised by h5py


class Refused(Exception):
    """Why a file is refused, as what follows its name."""


def check(file: h5py.File) -> None:
    """Raises Refused."""
    for _ in members(file):
        pass


def members(file: h5py.File) -> Iterator[h5g.GroupID | h5d.DatasetID]:
    """The root and everything below it. Raises Refused."""
    claimed = 0
    groups = [h5g.open(file.id, b"/")]
    seen = set(groups)  # a group may be in several places, and in itself
    while groups:
        group = groups.pop()
        yield group
        for member in linked(group):
            if isinstance(member, h5g.GroupID):
                if member not in seen:
                    seen.add(member)
                    groups.append(member)
            elif isinstance(member, h5d.DatasetID):
                claimed += bytes_of(member)
                if claimed > MOST:
                    raise Refused(f"has more than {MOST >> 30} GiB of data")
                yield member


def linked(group: h5g.GroupID) -> Iterator[h5g.GroupID | h5d.DatasetID | h5t.TypeID]:
    for name in group:
        if b"/" in name:
            raise Refused("is damaged: a name has a '/'")
        if group.links.get_info(name).type == h5l.TYPE_EXTERNAL:
            raise Refused("has links to other files: copy them into it")
        with suppress(*ERRORS):  # left to what reads it
            yield h5o.open(group, name)


def bytes_of(dataset: h5d.DatasetID) -> int:
    stored = dataset.get_create_plist()
    if stored.get_layout() == h5d.VIRTUAL or stored.get_external_count():
        raise Refused("has links to other files: copy them into it")
    size = dataset.get_space().get_simple_extent_npoints() * dataset.dtype.itemsize
    if size > max(BEST_RATIO * dataset.get_storage_size(), UNWRITTEN):
        raise Refused("is damaged: a dataset claims more data than the file holds")
    return size
