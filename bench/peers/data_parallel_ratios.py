"""Measures data-parallel training steps in paceline and in PyTorch and prints the ratios.

    python3 bench/peers/data_parallel_ratios.py --ranks 2 --cases xl:fp32:128:2 small:bf16:128:4
    python3 bench/peers/data_parallel_ratios.py --experiment zero --cases xl:fp32:128:2

A case is size, precision, context and batch size per rank. paceline's strategies run before and
after PyTorch's variants; a paceline column is the slower of the two medians. The last two columns
are the time of paceline's default strategy and of its fastest, over the time of PyTorch's fastest
variant.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

from data_parallel_step import VARIANTS
from json_rows import Row, rows_of
from step_cases import ATTENTIONS

PEER = Path(__file__).with_name("data_parallel_step.py")
FACTOR = {"ddp": "sync", "zero": "shard"}
STRATEGIES = {  # the default last
    "ddp": ("naive", "flat", "overlap", "bucketed"),
    "zero": ("none", "broadcast", "zero2", "fsdp", "zero1"),
}


def step_seconds(row: Row) -> float:
    """The median, or infinity if the step did not run."""
    return row["step_median_s"] if row["status"] == "ok" else math.inf


def paceline(options: argparse.Namespace, arguments: list[str]) -> list[Row]:
    factor = FACTOR[options.experiment]
    strategies = ",".join(STRATEGIES[options.experiment])
    program = [options.paceline, options.experiment, f"--{factor}", strategies]
    program += ["--attention", options.attention, "--timing", "step"]
    program += ["--bucket-mb", str(options.bucket_mb)]
    if options.device == "cpu":
        program += ["--threads", "1"]  # as in data_parallel_step.py
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", f"{folder}/steps.h5", "--quiet", "--json"]
        rows = rows_of([*program, *arguments, *output], options.ranks)
    return [{"software": "paceline", "variant": f"paceline {row[factor]}", **row} for row in rows]


def measure(options: argparse.Namespace, case: str) -> list[Row]:
    arguments = ["--device", options.device]
    names = ("--size", "--precision", "--context", "--batch-size")
    for name, value in zip(names, case.split(":"), strict=True):
        arguments += [name, value]
    for name in ("warmup", "steps"):
        arguments += [f"--{name}", str(getattr(options, name))]
    peer = [sys.executable, str(PEER), "--attention", options.attention]
    peer += ["--variants", *options.variants]
    before = paceline(options, arguments)
    peers = rows_of([*peer, *arguments], options.ranks)
    after = paceline(options, arguments)
    return [*(max(pair, key=step_seconds) for pair in zip(before, after, strict=True)), *peers]


def table_row(case: str, rows: list[Row], ours: list[str], variants: list[str]) -> list[str]:
    seconds = {row["variant"]: step_seconds(row) for row in rows}
    own = [seconds[variant] for variant in ours]
    peers = [seconds[variant] for variant in variants]
    ratios = [step / min(peers) for step in (own[-1], min(own))]
    times = [f"{1e3 * s:.2f}" if math.isfinite(s) else "-" for s in (*own, *peers)]
    return [case, *times, *(f"{r:.2f}" if 0 < r < math.inf else "-" for r in ratios)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    metavar = "SIZE:PRECISION:CONTEXT:BATCH"
    parser.add_argument("--experiment", choices=STRATEGIES, default="ddp")
    parser.add_argument("--cases", nargs="+", default=["small:fp32:128:4"], metavar=metavar)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("ranks", 2), ("warmup", 5), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bucket-mb", type=float, default=25, help="of paceline; PyTorch's is 25")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, help="writes every row as a JSON line")
    options = parser.parse_args()
    if any(case.count(":") != 3 for case in options.cases):
        parser.error(f"argument --cases: each is {metavar}")

    ours = [f"paceline {strategy}" for strategy in STRATEGIES[options.experiment]]
    header = [f"step [ms], {options.ranks} ranks", *ours, *options.variants]
    header += [f"{STRATEGIES[options.experiment][-1]} / fastest", "best / fastest"]
    print("| " + " | ".join(header) + " |", "|---" * len(header) + "|", sep="\n", flush=True)
    lines = []
    for case in options.cases:
        rows = measure(options, case)
        lines += [json.dumps(row) for row in rows]
        print("| " + " | ".join(table_row(case, rows, ours, options.variants)) + " |", flush=True)
        if options.output:  # a later case may fail
            options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
