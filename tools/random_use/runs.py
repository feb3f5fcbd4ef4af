"""Commands of random_use: how they are started and how they end."""

import os
import signal
import subprocess
from pathlib import Path

from rows import Insane

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "paceline"
PATIENCE = 60  # seconds
HUNG = -1000
LAUNCH = ["mpirun", "--oversubscribe"]
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class Done:
    """A command that ended, or did not."""

    def __init__(self, folder: Path, command: list[str], limit: float = PATIENCE) -> None:
        self.command = command
        process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace",
            start_new_session=True,
        )  # fmt: skip
        try:
            self.out, self.err = process.communicate(timeout=limit)
            self.code = process.returncode
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # mpirun ends its ranks
            try:
                self.out, self.err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                self.out, self.err = process.communicate()
            self.code = HUNG

    def ours(self) -> list[str]:
        """What the program itself said on stderr, without its launcher's lines."""
        return [line for line in self.err.splitlines() if line.startswith("paceline: ")]

    def line(self) -> str:
        """The one line of ours on stderr. Throws Insane where there is none, or several."""
        lines = self.ours()
        if len(lines) != 1:
            raise Insane(f"lines: {len(lines)} of ours on stderr, not one: {lines}")
        return lines[0]


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Insane(what)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
