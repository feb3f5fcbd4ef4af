#!/usr/bin/env python3
"""Prints the list of the published files, results/README.md.

.venv/bin/python3 tools/reference_files.py > results/README.md
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from analysis import result_file  # noqa: E402
from analysis.formatting import lines  # noqa: E402

FOLDER = ROOT / "results/reference"
HEAD = """# The published files

Made by `tools/reference_files.py`. `bench/reference.sh` and, for `weak-*` and `strong-*`,
`bench/scaling.sh` measure them again; [docs/file-format.md](../docs/file-format.md) describes their
contents. Most files that only the analysis reads are compressed (`xz -9e`): the analysis reads them
as they are, paceline itself after `unxz`. In `--predict F.h5` of earlier commands `F.h5` stands for
the file that `python3 -m analysis rates F.h5 --output F.json` writes now.
`startup1` is a build of the branch before 5b91dc5 was committed. The recorded `--output` need not
be the published name.

| file | on | cases | of | paceline |
|---|---|---|---|---|"""
PEERS = """Times of PyTorch, cuDNN and NCCL beside ours, one JSON object per line:

| file | written by |
|---|---|
| `attention-flash4-h200.jsonl` | `bench/peers/attention_ratios.py` |
| `attention-peers-h200.jsonl` | `bench/peers/attention_ratios.py` |
| `collective-peers-h200.jsonl` | `bench/peers/collective_ratios.py` |
| `data-parallel-peers-h200.jsonl` | `bench/peers/data_parallel_ratios.py` |

Predictions by closed forms and measured rates:

    python3 -m analysis rates model-sizes-h200.h5.xz model-batches-h200.h5.xz \\
      model-flash-h200.h5.xz model-profile-h200.h5 collectives-single-node-h200.h5 \\
      ddp-course-h200.h5 zero-course-h200.h5.xz --output rates-h200.json
    build/paceline plan --hardware h200 --ranks 8 --bucket-mb 100 --size xl --precision bf16 \\
      --context 512 --attention flash --exec compiled --rates rates-h200.json \\
      --json > plan-xl-h200.jsonl
    build/paceline plan --preset xxl --json > plan-xxl.jsonl
    python3 -m analysis check-plan ddp-course-h200.h5 --from model-sizes-h200.h5.xz \\
      model-batches-h200.h5.xz collectives-single-node-h200.h5 ddp-course-h200.h5 \\
      --json > plan-check-ddp-course-h200.jsonl
"""


def launched(command: str, ranks: int, variables: str) -> str:
    """Adds the environment and mpirun: the recorded command line has neither."""
    alone = ranks == 1 or command.startswith("mpirun")
    words = [variables, "" if alone else f"mpirun -np {ranks}", command]
    return " ".join(filter(None, words))


def document() -> str:
    rows = []
    commands = []
    for path in sorted(FOLDER.glob("*.h5*")):
        with result_file.opened(path) as file:
            attributes = {name: lines(value) for name, value in file.attrs.items()}
            ranks = len(file["ranks/rank"]) if "ranks" in file else 1
            cells = [
                f"`{path.name}`",
                result_file.hardware(file) or "-",
                str(len(file["cases"])) if "cases" in file else "-",
                attributes["created"][:10],
                attributes.get("software_version", "-"),
            ]
            variables = result_file.switched_off(file)
        rows.append(f"| {' | '.join(cells)} |")
        command = launched(attributes["command"], ranks, variables)
        indented = [f"    {line}" for line in command.splitlines()]
        commands.append("\n".join([f"`{path.name}`:", "", *indented]))
    parts = ["\n".join([HEAD, *rows]), "The commands that made them:", *commands, PEERS]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
