"""Measures training steps in paceline and in PyTorch on this machine and prints the ratios.

    python3 bench/peers/train_step_ratios.py --size small 512x2048x6x8 --context 128 512 \\
        --precision fp32 bf16 --attention flash --output results/step-peers.h5

The cases are the product of the axes; a size is a name or D_MODELxD_FFxLAYERSxHEADS. In each case
paceline runs before and after PyTorch's variants, eager and compiled, and in train-step mode with
the optimizer after backward and in backward. --gpus 0 1 measures a case on each GPU at a time, in
the given order, so the longest should come first. The output file has one row per measurement and
is rewritten after every case. Cases that it already holds are not measured again, so that the same
command resumes an interrupted run. At the end, the tables of `python3 -m analysis peers` are
printed for the whole file.
"""

import argparse
import itertools
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

import h5py
from json_rows import Row, rows_of
from step_cases import ATTENTIONS, MODES, PRECISIONS, SIZES, VARIANTS, dimensions

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis import peers

PEER = Path(__file__).with_name("train_step.py")
TEXT = h5py.string_dtype("utf-8")
# The unit of a column, by the suffix of its name; the first match counts.
UNITS = {"tokens_per_s": "tokens/s", "tflops_per_s": "TFLOP/s", "_s": "s", "_bytes": "bytes"}


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def hardware_name() -> str:
    return output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()[0]


def cases(options: argparse.Namespace) -> list[Row]:
    axes = {name: getattr(options, name) for name in peers.CASE}
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in peers.CASE)


def position(row: Row) -> tuple[object, ...]:
    """Orders the file: by mode, attention and precision, then from the smallest size."""
    d_model, d_ff, layers, _ = dimensions(str(row["size"]))
    weights = layers * d_model * (4 * d_model + 3 * d_ff)
    return (
        row["mode"],
        row["attention"],
        row["precision"],
        weights,
        row["context"],
        row["batch_size"],
    )


def arguments(options: argparse.Namespace, case: Row) -> list[str]:
    """The options that both programs take, except the size, which they spell differently."""
    alike = {name: case[name] for name in peers.CASE if name != "size"}
    alike |= {"warmup": options.warmup, "steps": options.steps}
    return [
        word
        for name, value in alike.items()
        for word in ("--" + name.replace("_", "-"), str(value))
    ]


def paceline(options: argparse.Namespace, case: Row, gpu: str) -> list[Row]:
    """Measures each variant in a process of its own: graphs after a process's first can be slower
    (cuda/NOTES.md)."""
    # fp16 skips steps whose gradients overflow; updates in backward cannot be skipped.
    has_orders = case["mode"] == "train-step" and case["precision"] != "fp16"
    orders = [["--optimizer", order] for order in ("serial", "in-backward")] if has_orders else [[]]
    model = [options.paceline, "model", "--device", "cuda", *size_options(str(case["size"]))]
    rows = []
    for execution, order in itertools.product(("eager", "compiled"), orders):
        factors = ["--exec", execution, "--timing", "step", *order]
        with tempfile.TemporaryDirectory() as folder:
            output = ["--output", f"{folder}/step.h5", "--quiet", "--json"]
            rows += rows_of([*model, *arguments(options, case), *factors, *output], gpu=gpu)
    software = output_of(options.paceline, "--version")
    return [{"software": software, "variant": variant(row), **row} for row in rows]


def size_options(size: str) -> list[str]:
    if size in SIZES:
        return ["--size", size]
    names = ("--d-model", "--d-ff", "--layers", "--heads")
    return [
        word for name, n in zip(names, dimensions(size), strict=True) for word in (name, str(n))
    ]


def variant(row: Row) -> str:
    in_backward = row.get("optimizer") == "in-backward"
    return f"paceline {row['exec']}" + (", in-backward" if in_backward else "")


def measure(options: argparse.Namespace, case: Row, gpu: str) -> list[Row]:
    peer = [sys.executable, str(PEER), "--size", str(case["size"]), *arguments(options, case)]
    rows = paceline(options, case, gpu)
    rows += rows_of([*peer, "--variants", *options.variants], gpu=gpu)
    rows += paceline(options, case, gpu)
    created = {"created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return [row | case | created for row in rows]


def measured_cases(options: argparse.Namespace, missing: list[Row]) -> Iterator[list[Row]]:
    """Yields the rows of a case as soon as it ends; every GPU measures one case at a time."""
    began = time.monotonic()
    free: SimpleQueue[str] = SimpleQueue()
    for gpu in options.gpus:
        free.put(gpu)

    def rows_of_case(number: int, case: Row) -> list[Row]:
        if time.monotonic() - began > 60 * options.minutes:
            return []
        gpu = free.get()
        try:
            title = f"case {number} of {len(missing)}, GPU {gpu}: {' '.join(key(case))}"
            print(title, file=sys.stderr)
            return measure(options, case, gpu)
        finally:
            free.put(gpu)

    pool = ThreadPoolExecutor(len(options.gpus))
    try:
        running = [pool.submit(rows_of_case, n, case) for n, case in enumerate(missing, 1)]
        yield from (done.result() for done in as_completed(running))
    finally:
        pool.shutdown(cancel_futures=True)


def write(path: Path, rows: list[Row], commands: list[str], hardware: str) -> None:
    """Writes a new file and renames it: an interrupted write leaves the old file unchanged."""
    partial = path.with_name(path.name + ".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(partial, "w") as file:
        file.attrs.update(peers.SCHEMA)
        file.attrs["hardware"] = hardware
        file.attrs["command"] = "\n".join(commands)
        file.attrs["created"] = max(str(row["created"]) for row in rows)
        file.attrs["software_versions"] = "; ".join(dict.fromkeys(row["software"] for row in rows))
        summary = file.create_group("summary", track_order=True)
        for name in dict.fromkeys(name for row in rows for name in row):
            values = [row.get(name) for row in rows]
            is_text = any(isinstance(value, str) for value in values)
            absent = "" if is_text else math.nan
            data = [absent if value is None else value for value in values]
            column = summary.create_dataset(name, data=data, dtype=TEXT if is_text else None)
            unit = next((UNITS[end] for end in UNITS if name.endswith(end)), None)
            if unit:
                column.attrs["unit"] = unit
    partial.replace(path)


def size(text: str) -> str:
    dimensions(text)
    return text


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", nargs="+", type=size, default=["small"])
    parser.add_argument("--context", nargs="+", type=int, default=[512])
    parser.add_argument("--batch-size", nargs="+", type=int, default=[4])
    for name, values, default in (
        ("precision", PRECISIONS, "fp32"),
        ("attention", ATTENTIONS, "naive"),
        ("mode", MODES, "train-step"),
    ):
        parser.add_argument(f"--{name}", nargs="+", choices=values, default=[default])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="starts no case after this time"
    )
    parser.add_argument(
        "--gpus",
        nargs="+",
        default=[os.environ.get("CUDA_VISIBLE_DEVICES", "0")],
        help="numbers of the GPUs that measure at the same time (default: %(default)s)",
    )
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, required=True, help="F.h5")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    options = parsed(words)
    hardware = hardware_name()
    rows: list[Row] = []
    commands: list[str] = []
    if options.output.exists():
        frame, attributes = peers.read(options.output)
        if attributes["hardware"] != hardware:
            raise SystemExit(
                f"{options.output}: measured on {attributes['hardware']}; this is {hardware}"
            )
        rows, commands = frame.to_dict("records"), attributes["command"].splitlines()
    command = shlex.join(["python3", *sys.argv])
    commands = list(dict.fromkeys([*commands, command]))
    measured = {key(row) for row in rows}
    missing = [case for case in cases(options) if key(case) not in measured]
    left = len(missing)
    for measured_rows in measured_cases(options, missing):
        if measured_rows:
            left -= 1
            rows = sorted([*rows, *measured_rows], key=position)
            write(options.output, rows, commands, hardware)
    if left:
        print(f"cases left: {left}", file=sys.stderr)
    if options.output.exists():
        print(peers.section(options.output), end="")


if __name__ == "__main__":
    main()
