"""The processes of a launch, by /proc."""

import os
import subprocess
from pathlib import Path


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_alive(pid: int) -> bool:
    return stat(pid)[:1] not in ([], ["Z"], ["X"])


def processor_seconds(pid: int) -> float:
    """Of user and system."""
    return sum(map(int, stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def rank_of(pid: int) -> int | None:
    """None for a process that is not a rank, or not yet: forked by mpirun, but not started."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for variable in variables:
        if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(variable.partition(b"=")[2])
    return None


def ranks_of(run: subprocess.Popen) -> dict[int, int]:
    """The pid of each rank that mpirun has started so far."""
    try:
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    except OSError:
        return {}
    found = {rank_of(int(pid)): int(pid) for pid in children}
    return {rank: found[rank] for rank in sorted(found.keys() - {None})}
