"""HDF5 trusts what it reads: a damaged or hostile file can crash it, or take all memory. A separate
process therefore reads every file once before it is used, as in src/record/untrusted_file.h."""

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from h5py import h5a, h5d, h5g, h5s

from . import contents
from .hdf5_file import open_hdf5

MAX_MEMORY = 8 << 30  # bytes, beyond what the parent has mapped: on many cores its threads take GBs
SECONDS = 5  # of the processor, and another for each MB: a sweep of many small cases needs 0.4
TOO_LARGE = 11  # exit code


def fault_of(path: Path) -> str:
    """Why an HDF5 file is refused; empty if it can be read. A file is read again only after it
    changed."""
    key = state_of(path)
    if key not in FOUND:
        FOUND[key] = wait_for(start_reading(path))
    return FOUND[key]


def examine(paths: Sequence[Path]) -> None:
    """Finds the faults of several files, as many at a time as there are cores."""
    children: dict[State, int] = {}
    for path in paths:
        key = state_of(path)
        if key in FOUND or key in children:
            continue
        if len(children) == (os.cpu_count() or 1):
            first = next(iter(children))
            FOUND[first] = wait_for(children.pop(first))
        children[key] = start_reading(path)
    for key, child in children.items():
        FOUND[key] = wait_for(child)


State = tuple[Path, int, int, int, int]
FOUND: dict[State, str] = {}


def state_of(path: Path) -> State:
    status = path.stat()
    return path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def start_reading(path: Path) -> int:
    """The process that reads the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        gc.disable()  # a collection would copy every page with objects of the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the parent warns too
        os._exit(read_everything(path))
    return child


def wait_for(child: int) -> str:
    try:
        _, status = os.waitpid(child, 0)
    except ChildProcessError:
        return "cannot be examined by a process that ignores SIGCHLD"
    if os.WIFSIGNALED(status):
        endless = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        what = "exceeds the CPU time for reading a file" if endless else "crashes HDF5"
        return f"{what}: it is damaged"
    too_large = os.WEXITSTATUS(status) == TOO_LARGE
    return f"needs more than {MAX_MEMORY >> 30} GiB of memory: it is damaged" if too_large else ""


def read_everything(path: Path) -> int:
    """Runs in the child process: reads everything within limits; returns the exit code."""
    try:
        seconds = SECONDS + path.stat().st_size // 1_000_000
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        most = mapped_bytes() + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        with open_hdf5(path) as file:
            for member in contents.members(file):
                read(member)
    except MemoryError:
        return TOO_LARGE
    except BaseException:  # harmless: the later reader reports it
        return 0
    return 0


def mapped_bytes() -> int:
    """The size of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def read(member: h5g.GroupID | h5d.DatasetID) -> None:
    for index in range(h5a.get_num_attrs(member)):
        with suppress(*contents.ERRORS):
            attribute = h5a.open(member, index=index)
            attribute.read(np.empty(attribute.shape, attribute.dtype))
    if isinstance(member, h5d.DatasetID) and member.get_space().get_simple_extent_npoints():
        with suppress(*contents.ERRORS):
            member.read(h5s.ALL, h5s.ALL, np.empty(member.shape, member.dtype))
