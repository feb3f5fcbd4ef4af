"""One training step of paceline and of PyTorch on this machine, side by side.

    python3 bench/peers/train_step_ratios.py --cases small:fp32 2.7b:fp32 2.7b:bf16

paceline runs before and after PyTorch's variants; its column is the slower of the two medians. The
last columns are its time over the captured eager step's and over the fastest variant's.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from json_rows import Row, rows_of
from train_step import VARIANTS

PEER = Path(__file__).with_name("train_step.py")


def paceline(options: argparse.Namespace, arguments: list[str]) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", f"{folder}/step.h5", "--quiet", "--json"]
        model = [options.paceline, "model", "--device", "cuda", "--timing", "step"]
        [row] = rows_of([*model, *arguments, *output])
    return {"software": "paceline", "variant": f"paceline {row['exec']}", **row}


def measure(options: argparse.Namespace, size: str, precision: str) -> list[Row]:
    arguments = ["--size", size, "--precision", precision]
    for name in ("context", "batch_size", "warmup", "steps"):
        arguments += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    before = paceline(options, arguments)
    peers = rows_of([sys.executable, str(PEER), *arguments, "--variants", *options.variants])
    after = paceline(options, arguments)
    return [max(before, after, key=lambda row: row["step_median_s"]), *peers]


def table_row(rows: list[Row], variants: list[str]) -> list[str]:
    ours, *peers = rows
    times = {row["variant"]: row["step_median_s"] for row in peers if row["status"] == "ok"}
    own = ours["step_median_s"]

    def ratio(peer: float | None) -> str:
        return f"{own / peer:.2f}" if peer else "-"

    return [
        f"{ours['size']} {ours['precision']}",
        f"{1e3 * own:.2f}",
        *(f"{1e3 * times[v]:.2f}" if v in times else "-" for v in variants),
        ratio(times.get("captured")),
        ratio(min(times.values(), default=None)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["small:fp32"], metavar="SIZE:PRECISION")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("context", 128), ("batch-size", 4), ("warmup", 5), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, help="every row as a JSON line")
    options = parser.parse_args()

    header = ["step [ms]", "paceline", *options.variants, "/ captured", "/ fastest"]
    print("| " + " | ".join(header) + " |", "|---" * len(header) + "|", sep="\n", flush=True)
    lines = []
    for case in options.cases:
        rows = measure(options, *case.split(":"))
        lines += [json.dumps(row) for row in rows]
        print("| " + " | ".join(table_row(rows, options.variants)) + " |", flush=True)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
