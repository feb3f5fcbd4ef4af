"""Runs a program that prints its measurements as JSON lines."""

import json
import subprocess
import sys

Row = dict[str, object]


def rows_of(command: list[str], ranks: int = 0) -> list[Row]:
    """Runs the command, under mpirun if ranks > 0; parses its JSON lines, passes stderr through."""
    if ranks:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *command]
    print("$ " + " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
