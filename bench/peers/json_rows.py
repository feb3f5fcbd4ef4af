"""Runs programs that print their measurements as JSON lines."""

import json
import os
import signal
import subprocess
import sys
from queue import Empty, SimpleQueue
from threading import Thread

Row = dict[str, object]


def launch(command: list[str], ranks: int) -> list[str]:
    """The command under mpirun, if ranks > 0."""
    prefix = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks else []
    print("$ " + " ".join([*prefix, *command]), file=sys.stderr, flush=True)
    return [*prefix, *command]


def rows_of(command: list[str], ranks: int = 0) -> list[Row]:
    """Parses the command's JSON lines, passes stderr through. Raises CalledProcessError."""
    command = launch(command, ranks)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Server:
    """A program that prints one JSON line for each line that it reads. It is started when it is
    needed, and again after it ended."""

    def __init__(self, command: list[str], limit: float) -> None:
        """`limit`: seconds for an answer."""
        self.command, self.limit = command, limit
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> Row:
        """The answer; a row with status failed if the program ends without one or takes too
        long."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.answers.get(timeout=self.limit)
            reason = f"the process ended with {self.process.wait()}" if answer is None else ""
        except BrokenPipeError:
            answer, reason = None, f"the process ended with {self.process.wait()}"
        except Empty:
            answer, reason = None, f"no answer within {self.limit:g} s"
        if answer is None:
            self.stop()
            return {"status": "failed", "reason": reason}
        return json.loads(answer)

    def start(self) -> None:
        self.process = subprocess.Popen(
            launch(self.command, ranks=0),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.answers: SimpleQueue[str | None] = SimpleQueue()
        Thread(target=pump, args=(self.process.stdout, self.answers), daemon=True).start()

    def stop(self) -> None:
        """Ends the process and its children."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None


def pump(lines: object, answers: "SimpleQueue[str | None]") -> None:
    """Puts the JSON lines into the queue, then None."""
    for line in lines:
        if line.startswith("{"):
            answers.put(line)
    answers.put(None)
