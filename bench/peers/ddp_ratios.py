"""One data-parallel training step of paceline and of PyTorch on this machine, side by side.

    python3 bench/peers/ddp_ratios.py --ranks 2 --cases xl:fp32:128:2 small:bf16:128:4

A case is size, precision, context and rows per rank. paceline's strategies run before and after
PyTorch's variants; a column of its is the slower of the two medians. The last columns are, over the
fastest variant's time, that of bucketed, its default, and that of its fastest strategy.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

from ddp_step import VARIANTS
from json_rows import Row, rows_of

PEER = Path(__file__).with_name("ddp_step.py")
SYNCS = ("naive", "flat", "overlap", "bucketed")


def step_seconds(row: Row) -> float:
    """Infinite where the step did not fit."""
    return row["step_median_s"] if row["status"] == "ok" else math.inf


def paceline(options: argparse.Namespace, arguments: list[str]) -> list[Row]:
    program = [options.paceline, "ddp", "--sync", ",".join(SYNCS), "--attention", "naive"]
    program += ["--bucket-mb", str(options.bucket_mb)]
    if options.device == "cpu":
        program += ["--threads", "1"]  # as the peers'
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", f"{folder}/ddp.h5", "--quiet", "--json"]
        rows = rows_of([*program, *arguments, *output], options.ranks)
    return [{"software": "paceline", "variant": f"paceline {row['sync']}", **row} for row in rows]


def measure(options: argparse.Namespace, case: str) -> list[Row]:
    arguments = ["--device", options.device]
    names = ("--size", "--precision", "--context", "--batch-size")
    for name, value in zip(names, case.split(":"), strict=True):
        arguments += [name, value]
    for name in ("warmup", "steps"):
        arguments += [f"--{name}", str(getattr(options, name))]
    peer = [sys.executable, str(PEER), "--attention", options.peer_attention]
    peer += ["--variants", *options.variants]
    before = paceline(options, arguments)
    peers = rows_of([*peer, *arguments], options.ranks)
    after = paceline(options, arguments)
    return [*(max(pair, key=step_seconds) for pair in zip(before, after, strict=True)), *peers]


def table_row(case: str, rows: list[Row], variants: list[str]) -> list[str]:
    seconds = {row["variant"]: step_seconds(row) for row in rows}
    ours = [seconds[f"paceline {sync}"] for sync in SYNCS]
    peers = [seconds[variant] for variant in variants]
    ratios = [own / min(peers) for own in (ours[SYNCS.index("bucketed")], min(ours))]
    times = [f"{1e3 * s:.2f}" if math.isfinite(s) else "-" for s in (*ours, *peers)]
    return [case, *times, *(f"{r:.2f}" if 0 < r < math.inf else "-" for r in ratios)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    metavar = "SIZE:PRECISION:CONTEXT:BATCH"
    parser.add_argument("--cases", nargs="+", default=["small:fp32:128:4"], metavar=metavar)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("ranks", 2), ("warmup", 5), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bucket-mb", type=float, default=25, help="paceline's; the peers' is 25")
    parser.add_argument("--peer-attention", choices=["naive", "sdpa"], default="naive")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, help="every row as a JSON line")
    options = parser.parse_args()
    if any(case.count(":") != 3 for case in options.cases):
        parser.error(f"argument --cases: each is {metavar}")

    header = [f"step [ms], {options.ranks} ranks", *(f"paceline {sync}" for sync in SYNCS)]
    header += [*options.variants, "bucketed / fastest", "best / fastest"]
    print("| " + " | ".join(header) + " |", "|---" * len(header) + "|", sep="\n", flush=True)
    lines = []
    for case in options.cases:
        rows = measure(options, case)
        lines += [json.dumps(row) for row in rows]
        print("| " + " | ".join(table_row(case, rows, options.variants)) + " |", flush=True)
        if options.output:  # a later case may fail
            options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
