"""Measures paceline and other software in turns and keeps every measurement in one result file.

In the first turn paceline and then every variant of the other software are measured, in the later
ones paceline and the other's fastest: A B A B. Measurements of one turn are a pair, from which
`python3 -m analysis peers` has the ratio and its interval.
"""

import argparse
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import h5py
from json_rows import Row, launch
from peer_file import Case, Origin, Run, append, peer_case, read_own, read_table

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis import peers

Paceline = Callable[[], tuple[Origin, list[Case]]]
Peer = Callable[[str], Row]  # measures the variant of this name
Group = Callable[[Case], bool]  # whether a case of the peer is a member


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=3, help="pairs of a case (default: 3)")
    parser.add_argument("--warmup", type=int, default=10, help="repetitions, before every turn")
    parser.add_argument(
        "--max-warmup", type=int, default=30, help="more, until the times show no trend"
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--limit", type=int, default=300, help="seconds for a variant of the peer")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="starts no case after this time"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--output", type=Path, required=True, help="F.h5")


def paceline(
    options: argparse.Namespace, arguments: Sequence[str], ranks: int = 0
) -> tuple[Origin, list[Case]]:
    """The cases of one launch of the program."""
    effort = [
        word
        for name in ("device", "warmup", "max_warmup", "steps")
        for word in ("--" + name.replace("_", "-"), str(getattr(options, name)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "steps.h5"
        command = [options.paceline, *arguments, *effort, "--output", str(file), "--quiet"]
        subprocess.run(launch(command, ranks), check=True, stdout=subprocess.DEVNULL)
        return read_own(file)


def in_turns(
    turns: int,
    ours: Sequence[Paceline],
    variants: Sequence[str],
    peer: Peer,
    groups: Sequence[Group],
) -> tuple[Origin, list[Case]]:
    """All measurements of a case. After the first turn, each group's fastest variant goes on."""
    measured: list[Case] = []
    for turn in range(1, turns + 1):
        cases: list[Case] = []
        for launched in ours:
            origin, own = launched()
            cases += own
            print(*map(told, own), sep="\n", file=sys.stderr)
        for variant in variants:
            row = {"software": "PyTorch", "variant": variant, "reason": ""} | peer(variant)
            cases.append(peer_case(row))
            print(told(cases[-1]), file=sys.stderr)
        for case in cases:
            case.factors |= {"turn": turn}
            case.results |= {"created": now()}
        measured += cases
        if turn == 1:
            variants = fastest(cases, groups)
            software = next((c.factors["software"] for c in cases if is_peer(c)), "")
    origin.environment |= {"pytorch": software}
    return origin, measured


def told(case: Case) -> str:
    seconds = case.results.get("step_median_s", math.nan)
    return f"{case.factors['variant']}: {1e3 * seconds:.3f} ms, {case.results['status']}"


def is_peer(case: Case) -> bool:
    return not str(case.factors.get("software", "")).startswith("paceline")


def fastest(cases: Sequence[Case], groups: Sequence[Group]) -> list[str]:
    """The peer's fastest variant of each group."""
    timed = [case for case in cases if is_peer(case) and case.results["status"] == "ok"]
    members = [[case for case in timed if is_member(case)] for is_member in groups]
    best = [min(of, key=lambda case: case.results["step_median_s"]) for of in members if of]
    return [*dict.fromkeys(case.factors["variant"] for case in best)]


def sweep(
    options: argparse.Namespace,
    cases: Sequence[Row],
    measure: Callable[[Row], tuple[Origin, list[Case]]],
) -> None:
    """Measures the cases that the output file lacks, and prints the file's tables. Exits with 6 if
    cases are left, as paceline does when it is stopped."""
    began, started = time.monotonic(), now()
    require_same_device(options)
    # Compiled code is kept, so that a case that is measured again is not compiled again.
    os.environ.setdefault(
        "TORCHINDUCTOR_CACHE_DIR", str(options.output.absolute().parent / "inductor")
    )
    known = {key(row, cases) for row in rows_of_file(options.output)}
    missing = [case for case in cases if key(case, cases) not in known]
    left = len(missing)
    for number, case in enumerate(missing, 1):
        if time.monotonic() - began > 60 * options.minutes:
            break
        words = " ".join(map(str, case.values()))
        print(f"case {number} of {len(missing)}: {words}", file=sys.stderr, flush=True)
        origin, measured = measure(case)
        for one in measured:
            one.factors |= case
        run = Run(shlex.join(["python3", *sys.argv]), started, origin)
        append(options.output, peers.EXPERIMENT, run, measured)
        left -= 1
    if options.output.exists():
        print(peers.section(options.output), end="")
    if left:
        print(f"cases left: {left}", file=sys.stderr)
        raise SystemExit(6)


def key(row: Row, cases: Sequence[Row]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in cases[0])


def rows_of_file(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with h5py.File(path) as file:
        return read_table(file["summary"])[0]


def require_same_device(options: argparse.Namespace) -> None:
    """A file has measurements of one kind of device."""
    if not options.output.exists() or options.device == "cpu":
        return
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    name = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True).stdout
    name = name.splitlines()[0]
    with h5py.File(options.output) as file:
        other = file["ranks/device"].asstr()[0]
    if other != name:
        raise SystemExit(f"{options.output}: measured on {other}; this is {name}")
