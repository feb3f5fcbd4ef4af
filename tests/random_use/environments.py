"""Environments in which people start the program, for random command lines."""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
QUOTA = "paceline-half-a-core"


@dataclass(frozen=True)
class Environment:
    """Variables, and what a shell does before it becomes the program."""

    name: str = "plain"
    variables: dict[str, str] = field(default_factory=dict)
    shell: str = ""
    threads: int = 1
    prints: bool = True  # whether standard output can be written

    def around(self, words: list[str]) -> list[str]:
        """The command that runs `words` in this environment."""
        shell = ["sh", "-c", f'{self.shell}; exec "$@"', "sh"] if self.shell else []
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        return [*(["env", *variables] if variables else []), *shell, *words]


@cache
def quota_group() -> Path | None:
    """A control group whose processes get half a core; None where none can be made."""
    version_1 = (CGROUPS / "cpu").is_dir()
    group = CGROUPS / ("cpu" if version_1 else "") / QUOTA
    limit, value = ("cpu.cfs_quota_us", "50000") if version_1 else ("cpu.max", "50000 100000")
    try:
        group.mkdir(exist_ok=True)
        (group / limit).write_text(value)
    except OSError:
        return None
    atexit.register(remove, group)
    return group if os.access(group / "cgroup.procs", os.W_OK) else None


def remove(group: Path) -> None:
    """Another process of this check may use it still, or have removed it."""
    with suppress(OSError):
        group.rmdir()


def environments() -> list[Environment]:
    """Those that this machine can make."""
    quota = quota_group()
    limited = Environment("half a core", shell=f"echo $$ > {quota}/cgroup.procs", threads=2)
    inline = "module://matplotlib_inline.backend_inline"
    return [
        Environment("OpenMP grants one thread", {"OMP_THREAD_LIMIT": "1"}, threads=2),
        Environment("OpenMP may grant fewer threads", {"OMP_DYNAMIC": "true"}, threads=2),
        Environment("NCCL prints", {"NCCL_DEBUG": "INFO"}),
        Environment("Jupyter", {"MPLBACKEND": inline}),
        Environment("SIGCHLD is ignored", shell="trap '' CHLD"),
        Environment("HDF5 without locks", {"HDF5_USE_FILE_LOCKING": "FALSE"}),
        Environment("standard output is closed", shell="exec >&-", prints=False),
        *([limited] if quota else []),
    ]


def environment_of(seed: int) -> Environment:
    """One after the other, so that few seeds have all of them."""
    all_of_them = environments()
    return all_of_them[seed % len(all_of_them)]
