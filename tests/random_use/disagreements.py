"""Ranks with different command lines: each exits with 2, and one line names the difference."""

import argparse
import random
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from conftest import PROGRAM, WRITE_CODE
from random_use.rows import Insane
from random_use.runs import HUNG, names_in, require, run

PATIENCE = 60  # seconds
CPU = ["--device", "cpu", "--threads", "1", "--output", "out.h5", "--warmup", "0", "--steps", "1"]
TINY = ["--size", "tiny", "--context", "8", "--vocab", "64", *CPU]
DDP, COLLECTIVES = ["ddp", *TINY], ["collectives", "--bytes", "64", *CPU[2:]]
DISAGREEMENTS = (  # (most ranks' command line, one rank's, pattern that the error line must match)
    (DDP, [*DDP, "--bucket-mb", "1"], "--bucket-mb"),
    (DDP, ["ddp", "--size", "tiny", "--context", "9", *TINY[4:]], "--context"),
    (["ddp", "--size", "tiny", *TINY[2:-1], "3"], DDP, "--steps"),
    (DDP, [*DDP, "--seed", "3"], "--seed"),
    (DDP, [*DDP, "--precision", "bf16"], "--precision"),
    (DDP, [*DDP, "--sync", "naive"], "--sync"),
    (DDP, [*DDP, "--verify"], "--verify"),
    (DDP, [*DDP, "--dry-run"], "--dry-run"),
    (DDP, [*DDP, "--attention", "flash", "--fp32-attention", "exact"], "--fp32-attention"),
    (DDP, [*DDP, "--deterministic"], "--deterministic"),
    ([*DDP, "--deterministic"], [*DDP, "--deterministic", "no"], "--deterministic"),
    (DDP, [*DDP, "--timeout", "7"], "--timeout"),
    (COLLECTIVES, [*COLLECTIVES, "--op", "reduce"], "--op"),
    (COLLECTIVES, [*COLLECTIVES, "--cadence", "back-to-back"], "--cadence"),
    (DDP, ["zero", *TINY], "ddp|zero|experiment"),
    (DDP, COLLECTIVES, "ddp|collectives|experiment"),
    (DDP, ["info", "--device", "cpu"], "ddp|info|experiment"),
    (DDP, ["compare", "a.h5", "b.h5"], "ddp|compare|experiment"),
    (DDP, [*DDP, "--contxt", "8"], "--contxt"),
    (DDP, [*DDP, "--precision", "fp31"], "--precision"),
    (DDP, [*DDP, "--help"], "--help"),
    (DDP, ["--help"], "--help"),
    (DDP, ["modle", *TINY], "modle"),
    (DDP, [], "experiment"),
)  # fmt: skip


def run_disagreement(lines: list[list[str]], names: str, folder: Path) -> None:
    parts = [["-np", "1", "sh", "-c", WRITE_CODE, "sh", str(PROGRAM), *line] for line in lines]
    words = [word for part in parts for word in (":", *part)][1:]
    done = run(folder, ["mpirun", "--oversubscribe", *words], PATIENCE)
    require(done.code != HUNG, f"hang: did not end in {PATIENCE} s")
    codes = {path.name: path.read_text().strip() for path in sorted(folder.glob("code.*"))}
    require(list(codes.values()) == ["2"] * len(lines), f"codes: {codes} {done.ours()}")
    require(bool(re.search(names, done.line())), f"unnamed: {names} is not in: {done.line()}")
    require(set(names_in(folder)) == set(codes), f"left: {names_in(folder)}")


def run_disagreements(options: argparse.Namespace) -> int:
    chance = random.Random(options.first)
    failed = 0
    for one, other, names in DISAGREEMENTS:
        lines = [one] * chance.randint(2, max(2, options.max_ranks))
        lines[chance.choice((0, -1))] = other
        folder = Path(tempfile.mkdtemp(prefix="paceline-use-"))
        try:
            run_disagreement(lines, names, folder)
        except Insane as error:
            failed += 1
            words = " : ".join(f"-np 1 paceline {shlex.join(line)}" for line in lines)
            print(f"{error}\n    mpirun --oversubscribe {words}", flush=True)
        finally:
            shutil.rmtree(folder)
    print(f"{len(DISAGREEMENTS) - failed} of {len(DISAGREEMENTS)} disagreements end as they should")
    return int(failed > 0)
