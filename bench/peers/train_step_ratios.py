"""Measures training steps in paceline and in PyTorch on this machine, in turns.

    python3 bench/peers/train_step_ratios.py --size small 512x2048x6x8 --context 128 512 \\
        --precision fp32 bf16 --attention flash --output results/step-peers.h5

The cases are the product of the axes; a size is a name or D_MODELxD_FFxLAYERSxHEADS. paceline
updates parameters after backward and, in launches of their own, in it. Cases that the output file
already holds are not measured again: the same command resumes an interrupted run. At the end, the
tables of `python3 -m analysis peers` are printed for the whole file.
"""

import argparse
import itertools
import sys
from functools import partial
from pathlib import Path

from json_rows import Row, Server
from peer_file import Case, Origin
from step_cases import (
    ATTENTIONS,
    MODES,
    PRECISIONS,
    VARIANTS,
    dimensions,
    size_options,
    variant_name,
)
from turns import add_options, in_turns, paceline, sweep

PEER = Path(__file__).with_name("train_step.py")
AXES = ("size", "context", "batch_size", "precision", "attention", "mode")


def cases(options: argparse.Namespace) -> list[Row]:
    values = (getattr(options, name) for name in AXES)
    return [dict(zip(AXES, chosen, strict=True)) for chosen in itertools.product(*values)]


def arguments(case: Row) -> list[str]:
    """The options that both programs take, except the size, which they spell differently."""
    alike = {name: case[name] for name in AXES if name != "size"}
    return [w for n, value in alike.items() for w in ("--" + n.replace("_", "-"), str(value))]


def own(options: argparse.Namespace, case: Row, factors: list[str]) -> tuple[Origin, list[Case]]:
    """One variant in a process of its own: graphs after a process's first can be slower
    (cuda/NOTES.md)."""
    model = ["model", *size_options(str(case["size"])), *arguments(case), "--timing", "step"]
    origin, measured = paceline(options, [*model, *factors])
    for one in measured:
        one.factors |= {"software": f"paceline {origin.software_version}", "variant": name_of(one)}
    return origin, measured


def name_of(case: Case) -> str:
    in_backward = case.factors.get("optimizer") == "in-backward"
    return f"paceline {case.factors['exec']}" + (", in-backward" if in_backward else "")


def is_serial(case: Case) -> bool:
    return case.factors.get("optimizer") != "in-backward"


def is_any(_case: Case) -> bool:
    return True


def measure(options: argparse.Namespace, case: Row) -> tuple[Origin, list[Case]]:
    # fp16 skips steps whose gradients overflow; updates in backward cannot be skipped.
    has_orders = case["mode"] == "train-step" and case["precision"] != "fp16"
    orders = [["--optimizer", order] for order in ("serial", "in-backward")] if has_orders else [[]]
    ours = [
        partial(own, options, case, ["--exec", execution, *order])
        for execution, order in itertools.product(options.exec, orders)
    ]
    peer = [sys.executable, str(PEER), "--serve", "--size", str(case["size"]), *arguments(case)]
    for name in ("device", "warmup", "max_warmup", "steps", "limit"):
        peer += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    server = Server(peer, limit=options.limit + 60)  # it should end a variant itself
    try:
        return in_turns(options.turns, ours, options.variants, server.ask, (is_serial, is_any))
    finally:
        server.stop()


def size(text: str) -> str:
    dimensions(text)
    return text


def main(words: list[str] | None = None) -> None:
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
    parser.add_argument("--exec", nargs="+", choices=["eager", "compiled"], default=["compiled"])
    parser.add_argument("--variants", nargs="+", type=variant_name, default=list(VARIANTS))
    add_options(parser)
    options = parser.parse_args(words)
    sweep(options, cases(options), partial(measure, options))


if __name__ == "__main__":
    main()
