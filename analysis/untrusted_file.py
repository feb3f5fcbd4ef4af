"""HDF5 trusts what it reads: a damaged or hostile file can crash it, or take all memory. A separate
process therefore reads every file once before it is used, as in src/record/untrusted_file.h. It
uses h5py's low-level interface, which takes half the time: files have thousands of attributes."""

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5s

MAX_MEMORY = 8 << 30  # bytes, beyond what the parent has mapped: on many cores its threads take GBs
SECONDS = 5  # of the processor, and another for each MB: a sweep of many small cases needs 0.4
DEEPEST = 16  # nested groups: hard links may form cycles
BEST_RATIO = 1032  # of deflate; no HDF5 filter compresses better

LINKS, TOO_LARGE, TOO_DEEP = 10, 11, 12
ERRORS = (OSError, RuntimeError, LookupError, TypeError, ValueError)  # raised by h5py
FAULTS = {
    LINKS: "has links to other files: copy them into it",
    TOO_LARGE: "is damaged: a dataset claims more data than the file can hold",
    TOO_DEEP: "nests groups too deep: it is damaged",
}


class Unreadable(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(FAULTS[code])
        self.code = code


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
        os._exit(read_everything(path))
    return child


def wait_for(child: int) -> str:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        endless = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        what = "exceeds the CPU time for reading a file" if endless else "crashes HDF5"
        return f"{what}: it is damaged"
    return FAULTS.get(os.WEXITSTATUS(status), "")


def read_everything(path: Path) -> int:
    """Runs in the child process: reads everything within limits; returns the exit code."""
    try:
        size = path.stat().st_size
        seconds = SECONDS + size // 1_000_000
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        most = mapped_bytes() + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        with h5py.File(path, "r") as file:
            read_group(file.id, size, 0)
    except Unreadable as fault:
        return fault.code
    except MemoryError:
        return TOO_LARGE
    except BaseException:  # harmless: the later reader reports it
        return 0
    return 0


def mapped_bytes() -> int:
    """The size of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def read_group(group: h5g.GroupID, size: int, depth: int) -> None:
    if depth > DEEPEST:
        raise Unreadable(TOO_DEEP)
    read_attributes(group)
    for name in group:
        if group.links.get_info(name).type == h5l.TYPE_EXTERNAL:
            raise Unreadable(LINKS)
        with suppress(*ERRORS):
            member = h5o.open(group, name)
            if isinstance(member, h5g.GroupID):
                read_group(member, size, depth + 1)
            elif isinstance(member, h5d.DatasetID):
                read_dataset(member, size)


def read_attributes(holder: h5g.GroupID | h5d.DatasetID) -> None:
    for index in range(h5a.get_num_attrs(holder)):
        with suppress(*ERRORS):
            attribute = h5a.open(holder, index=index)
            attribute.read(np.empty(attribute.shape, attribute.dtype))


def read_dataset(dataset: h5d.DatasetID, size: int) -> None:
    read_attributes(dataset)
    stored = dataset.get_create_plist()
    if stored.get_layout() == h5d.VIRTUAL or stored.get_external_count():
        raise Unreadable(LINKS)
    values = dataset.get_space().get_simple_extent_npoints()
    if values * dataset.dtype.itemsize > BEST_RATIO * size:
        raise Unreadable(TOO_LARGE)
    if values:
        dataset.read(h5s.ALL, h5s.ALL, np.empty(dataset.shape, dataset.dtype))
