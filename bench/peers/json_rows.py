"""Runs a program that prints its measurements as JSON lines."""

import json
import os
import subprocess
import sys

Row = dict[str, object]


def rows_of(command: list[str], ranks: int = 0, gpu: str | None = None) -> list[Row]:
    """Runs the command, under mpirun if ranks > 0, on one GPU if it is named; parses its JSON
    lines, passes stderr through."""
    if ranks:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *command]
    print("$ " + " ".join(command), file=sys.stderr, flush=True)
    environment = os.environ | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
