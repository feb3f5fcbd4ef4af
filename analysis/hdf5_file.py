"""Opening HDF5 files, and the reasons for which HDF5 does not read one."""

import sys
from errno import EAGAIN, ENOLCK, ENOSYS, EOPNOTSUPP
from functools import cache
from pathlib import Path

import h5py

from .formatting import printable

NO_LOCKS = (ENOLCK, ENOSYS, EOPNOTSUPP)
NOT_CLOSED = "h5clear"  # these words are in HDF5's messages
NO_FILTER = ("is not registered", "plugin")


def open_hdf5(path: Path) -> h5py.File:
    """Reads without a lock, and warns of that, where the file system has none."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    file = h5py.File(path, "r", locking=False)
    name = printable(str(path))
    warn(f"{name} is read without a lock, which its file system lacks: let no program write to it")
    return file


@cache
def warn(text: str) -> None:
    """Once for each text."""
    print(f"analysis: warning: {text}", file=sys.stderr)


def reason(error: OSError) -> str:
    """Why a sound file is not read; empty if nothing is known."""
    if error.errno == EAGAIN:
        return "it is open for writing in another program; wait until that has closed it"
    if error.errno in NO_LOCKS:
        return "its file system has no locks; set HDF5_USE_FILE_LOCKING=FALSE"
    if NOT_CLOSED in str(error):
        return (
            "a program is writing it, or ended without closing it; in the latter case h5clear -s "
            "makes it readable"
        )
    if any(word in str(error) for word in NO_FILTER):
        return (
            "a dataset is compressed with a filter that h5py lacks here; h5repack -f GZIP=4 "
            "rewrites the file where the filter is installed"
        )
    return ""
