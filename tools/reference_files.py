#!/usr/bin/env python3
"""Prints the list of the published files, results/README.md.

.venv/bin/python3 tools/reference_files.py > results/README.md
"""

from pathlib import Path

import h5py

FOLDER = Path(__file__).parents[1] / "results/reference"
HEAD = """# The published files

Made by `tools/reference_files.py`. `bench/reference.sh` measures them anew; what is in a file is in
[docs/file-format.md](../docs/file-format.md).

| file | on | cases | of | paceline |
|---|---|---|---|---|"""
PEERS = """Rows of PyTorch's, cuDNN's and NCCL's times beside ours, a JSON object a line:

| file | written by |
|---|---|
| `attention-peers-h200.jsonl` | `bench/peers/attention_ratios.py` |
| `collective-peers-h200.jsonl` | `bench/peers/collective_ratios.py` |
| `data-parallel-peers-h200.jsonl` | `bench/peers/data_parallel_ratios.py` |
| `train-step-peers-h200.jsonl` | `bench/peers/train_step_ratios.py` |
"""


def text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def hardware(file: h5py.File) -> str:
    if "ranks" not in file:
        return "-"
    devices = [text(d) for d in file["ranks/device"][:]]
    return f"{len(devices)} x {devices[0]}"


def launched(command: str, ranks: int) -> str:
    """Adds mpirun: the program's own command line does not have its launcher."""
    alone = ranks == 1 or command.startswith("mpirun")
    return command if alone else f"mpirun -np {ranks} {command}"


def document() -> str:
    rows = []
    commands = []
    for path in sorted(FOLDER.glob("*.h5")):
        with h5py.File(path) as file:
            attributes = {name: text(value) for name, value in file.attrs.items()}
            ranks = len(file["ranks/rank"]) if "ranks" in file else 1
            cells = [
                f"`{path.name}`",
                hardware(file),
                str(len(file["cases"])) if "cases" in file else "-",
                attributes["created"][:10],
                attributes.get("software_version", "-"),
            ]
        rows.append(f"| {' | '.join(cells)} |")
        lines = launched(attributes["command"], ranks).splitlines()
        commands.append("\n".join([f"`{path.name}`:", "", *(f"    {line}" for line in lines)]))
    parts = ["\n".join([HEAD, *rows]), "The commands that made them:", *commands, PEERS]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
