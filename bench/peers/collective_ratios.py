"""Measures all_reduce in paceline, in the bare library and in gloo, and prints the ratios.

    python3 bench/peers/collective_ratios.py --backend nccl --ranks 2
    python3 bench/peers/collective_ratios.py --backend mpi --ranks 4 --bytes 100000000

paceline and the bare library call (built by `make bench-peers`) alternate for --turns turns. A
figure is the median of the medians of all turns; its interval spans their intervals. With --backend
mpi, PyTorch's gloo is measured too if PyTorch is installed. With --backend nccl, paceline also runs
with 20 calls per CUDA graph, and both ways on registered buffers.
"""

import argparse
import json
import statistics
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from json_rows import Row, rows_of

GLOO = Path(__file__).with_name("gloo_all_reduce.py")
SIZES = {"mpi": [100_000_000], "nccl": [1024, 1_000_000, 100_000_000, 1_000_000_000]}


def paceline(options: argparse.Namespace, axes: list[str]) -> list[Row]:
    sizes = ",".join(f"{n}B" for n in options.bytes)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--backend", options.backend, "--bytes", sizes, *axes]
        arguments += ["--steps", str(options.steps), "--quiet", "--json"]
        program = [options.paceline, "collectives", "--output", f"{folder}/c.h5"]
        rows = rows_of([*program, *arguments], options.ranks)
    for row in rows:
        registered = ", registered" if row["registration"] == "symmetric" else ""
        row |= {"software": "paceline", "variant": row["cadence"] + registered}
    return rows


def peers(options: argparse.Namespace) -> list[Row]:
    arguments = [str(options.steps), *map(str, options.bytes)]
    return rows_of([f"build/bare_{options.backend}", *arguments], options.ranks)


def gloo(options: argparse.Namespace) -> list[Row]:
    arguments = [str(options.steps), *map(str, options.bytes)]
    return rows_of([sys.executable, str(GLOO), *arguments], options.ranks)


class Figure:
    """Time of one variant at one size over all turns, in microseconds."""

    def __init__(self, rows: list[Row], variant: str, size: int) -> None:
        turns = [row for row in rows if row["variant"] == variant and row["bytes"] == size]
        self.median = 1e6 * statistics.median(row["time_median_s"] for row in turns)
        self.low = 1e6 * min(row.get("time_ci_low_s") or 0 for row in turns)
        self.high = 1e6 * max(row.get("time_ci_high_s") or 0 for row in turns)

    def __str__(self) -> str:
        return f"{self.median:.4g}" + (f" ({self.low:.4g}..{self.high:.4g})" if self.high else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["mpi", "nccl"], required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", type=int, nargs="+")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, help="writes every row as a JSON line")
    options = parser.parse_args()
    options.bytes = options.bytes or SIZES[options.backend]

    if options.backend == "nccl":
        rows = []
        axes = ["--cadence", "back-to-back,graph", "--registration", "none,symmetric"]
        ours = ["back-to-back", "graph", "back-to-back, registered", "graph, registered"]
        others = ["bare"]
    else:
        rows = gloo(options) if find_spec("torch") else []
        axes = ["--cadence", "barrier"]
        ours, others = ["barrier"], ["bare", "gloo"] if rows else ["bare"]
    for _ in range(options.turns):
        rows += peers(options)
        rows += paceline(options, axes)
    if options.output:
        options.output.write_text("".join(json.dumps(row) + "\n" for row in rows))

    print(f"all_reduce, float32, {options.ranks} ranks, us (interval of {options.turns} turns)")
    ratios = [f"{ours[0]} / {other}" for other in others]
    print("| " + " | ".join(["bytes", *ours, *others, *ratios]) + " |")
    print("|---" * (1 + len(ours) + 2 * len(others)) + "|")
    for size in options.bytes:
        figures = {name: Figure(rows, name, size) for name in (*ours, *others)}
        ratios = [f"{figures[ours[0]].median / figures[other].median:.3f}" for other in others]
        print("| " + " | ".join([str(size), *map(str, figures.values()), *ratios]) + " |")


if __name__ == "__main__":
    main()
