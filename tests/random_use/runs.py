"""Starts the commands of random_use and checks how they end."""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from random_use.rows import Insane

HUNG = -1000
LONGEST_LINE = 400  # characters
# Text on stderr that only a bug in the program or a message of a library can produce.
FAULT = re.compile(
    r"Traceback|internal error|Segmentation fault|terminate called|Assertion|HDF5-DIAG|"
    r"AddressSanitizer|runtime error:"
)
JARGON = re.compile(r"\bH5[A-Z]|\bMPI_|\bstd::|\berrno\b|\bbasic_string\b|0x[0-9a-f]{4,}")


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str = ""
    err: str = ""

    def ours(self) -> list[str]:
        """The lines of paceline on stderr, without those of mpirun."""
        return [line for line in self.err.splitlines() if line.startswith("paceline: ")]

    def line(self) -> str:
        """The line of paceline on stderr. Raises Insane if there is not exactly one."""
        lines = self.ours()
        if len(lines) != 1:
            raise Insane(f"lines: {len(lines)} from paceline on stderr, not 1: {lines or self.err}")
        return lines[0]


def run(folder: Path, command: list[str], limit: float = 150) -> Done:
    """Runs a command. One that is still running after `limit` seconds is killed: code HUNG."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=limit)
        return Done(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # mpirun kills its ranks
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return Done(HUNG, out, err)


def require(condition: object, what: str) -> None:
    if not condition:
        raise Insane(what)


def check_refusal(done: Done, names: str = r"--[a-z]|'\S+'") -> None:
    """Requires code 2 or 3 and one line without jargon that names the refused option or file."""
    require(done.code != HUNG, "hang: it did not end in time")
    said = done.ours() or done.err.splitlines()[:3]
    require(done.code in (2, 3), f"code {done.code}: {said}")
    line = done.line()
    require(re.search(names, line), f"unnamed: no option or file is named in: {line}")
    require(len(line) <= LONGEST_LINE, f"long: {len(line)} characters: {line}")
    require(not JARGON.search(line), f"jargon: {line}")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
