"""The JSON lines of a measuring program: what every script that runs both sides reads."""

import json
import subprocess
import sys

Row = dict[str, object]


def rows_of(command: list[str], ranks: int = 0) -> list[Row]:
    """Under mpirun where ranks are given; what the program says on stderr passes through."""
    if ranks:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *command]
    print("$ " + " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
