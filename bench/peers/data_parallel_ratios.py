"""Measures data-parallel training steps in paceline and in PyTorch on this machine, in turns.

    python3 bench/peers/data_parallel_ratios.py --ranks 2 --cases xl:fp32:128:2 small:bf16:128:4 \\
        --attention flash --output results/data-parallel-peers.h5

A case is size, precision, context and batch size per rank. paceline's strategies of `ddp` and
`zero` are measured in one launch each, PyTorch's variants in a launch of their own each: the ranks
of one that fails are ended. The same command resumes an interrupted run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from data_parallel_cases import ALL, variant_name
from data_parallel_cases import variant as variant_of
from json_rows import Row, launch
from peer_file import Case, Origin
from step_cases import ATTENTIONS, PRECISIONS, size_options
from turns import add_options, in_turns, paceline, sweep

PEER = Path(__file__).with_name("data_parallel_step.py")
FACTORS = ("size", "precision", "context", "batch_size")
STRATEGIES = {
    "ddp": ("sync", ("naive", "flat", "overlap", "bucketed")),
    "zero": ("shard", ("broadcast", "zero1", "zero2", "fsdp")),
}


def case_of(text: str) -> Row:
    """Of SIZE:PRECISION:CONTEXT:BATCH. Raises ValueError."""
    size, precision, context, batch_size = text.split(":")
    if precision not in PRECISIONS:
        raise ValueError(text)
    return dict(zip(FACTORS, (size, precision, int(context), int(batch_size)), strict=True))


def arguments(options: argparse.Namespace, case: Row) -> list[str]:
    """The options that both programs take, except the size, which they spell differently."""
    alike = {name: case[name] for name in FACTORS[1:]} | {"attention": options.attention}
    return [w for n, value in alike.items() for w in ("--" + n.replace("_", "-"), str(value))]


def own(options: argparse.Namespace, case: Row, experiment: str) -> tuple[Origin, list[Case]]:
    factor, strategies = STRATEGIES[experiment]
    chosen = [experiment, f"--{factor}", ",".join(strategies), *size_options(str(case["size"]))]
    chosen += arguments(options, case)
    chosen += ["--timing", "step", "--exec", options.exec]
    if options.device == "cpu":
        chosen += ["--threads", "1"]  # as in data_parallel_step.py
    origin, measured = paceline(options, chosen, options.ranks)
    for one in measured:
        one.factors |= {
            "software": f"paceline {origin.software_version}",
            "variant": f"paceline {one.factors[factor]}",
        }
    return origin, measured


def peer(options: argparse.Namespace, case: Row, variant: str) -> Row:
    """The row of a launch, or one with status failed: no rank of it is left behind."""
    command = [sys.executable, str(PEER), "--size", str(case["size"]), "--variant", variant]
    command += arguments(options, case)
    for name in ("device", "warmup", "max_warmup", "steps"):
        command += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    process = subprocess.Popen(
        launch(command, options.ranks), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=options.limit)
        reason = f"the launch ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        reason = f"no end within {options.limit} s"
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    strategy = variant_of(variant).strategy
    factor = "shard" if strategy in ("zero", "fsdp") else "sync"
    # A failed rank's row counts, even if rank 0 has printed one.
    return {factor: strategy} | max(
        rows, key=lambda row: row["status"] != "ok", default={"status": "failed", "reason": reason}
    )


def is_replicated(case: Case) -> bool:
    return "sync" in case.factors


def is_sharded(case: Case) -> bool:
    return "shard" in case.factors


def measure(options: argparse.Namespace, case: Row) -> tuple[Origin, list[Case]]:
    ours = [partial(own, options, case, experiment) for experiment in options.experiments]
    measured = partial(peer, options, case)
    return in_turns(options.turns, ours, options.variants, measured, (is_replicated, is_sharded))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    metavar = "SIZE:PRECISION:CONTEXT:BATCH"
    default = [case_of("small:fp32:128:4")]
    parser.add_argument("--cases", nargs="+", type=case_of, default=default, metavar=metavar)
    parser.add_argument("--experiments", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--variants", nargs="+", type=variant_name, default=list(ALL))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--exec", choices=["eager", "compiled"], default="compiled")
    add_options(parser)
    options = parser.parse_args(words)
    for case in options.cases:
        case |= {"attention": options.attention, "mode": "train-step", "ranks": options.ranks}
    sweep(options, options.cases, partial(measure, options))


if __name__ == "__main__":
    main()
