"""Ranks with different command lines: the launch ends with 2, and one line names the difference.

Not tried: ranks that measure beside some that do not, such as --help. They end after --timeout."""

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
    (DDP, [*DDP, "--attention", "flash", "--fp32-attention", "exact"], "--attention"),
    (DDP, [*DDP, "--deterministic"], "--deterministic"),
    ([*DDP, "--deterministic"], [*DDP, "--deterministic", "no"], "--deterministic"),
    (DDP, [*DDP, "--timeout", "7"], "--timeout"),
    (COLLECTIVES, [*COLLECTIVES, "--op", "reduce"], "--op"),
    (COLLECTIVES, [*COLLECTIVES, "--cadence", "back-to-back"], "--cadence"),
    (DDP, ["zero", *TINY], "ddp|zero|experiment"),
    (DDP, COLLECTIVES, "ddp|collectives|experiment"),
    (DDP, ["info", "--device", "cpu"], "ddp|info|experiment"),
)  # fmt: skip
REFUSALS = (  # likewise; the one rank ends with 2 before it starts MPI, and mpirun ends the others
    (DDP, [*DDP, "--contxt", "8"], "--contxt"),
    (DDP, [*DDP, "--precision", "fp31"], "--precision"),
    (DDP, ["modle", *TINY], "modle"),
    (DDP, [], "experiment"),
)


def run_disagreement(
    lines: list[list[str]], names: str, folder: Path, shell: tuple[str, ...]
) -> None:
    """`shell`: writes the code of each rank; without it the code is the launch's."""
    parts = [["-np", "1", *shell, str(PROGRAM), *line] for line in lines]
    words = [word for part in parts for word in (":", *part)][1:]
    done = run(folder, ["mpirun", "--oversubscribe", *words], PATIENCE)
    require(done.code != HUNG, f"hang: did not end in {PATIENCE} s")
    codes = {path.name: path.read_text().strip() for path in sorted(folder.glob("code.*"))}
    if shell:
        require(list(codes.values()) == ["2"] * len(lines), f"codes: {codes} {done.ours()}")
    else:
        require(done.code == 2, f"code {done.code}: {done.ours()}")
    require(bool(re.search(names, done.line())), f"unnamed: {names} is not in: {done.line()}")
    require(set(names_in(folder)) == set(codes), f"left: {names_in(folder)}")


def run_disagreements(options: argparse.Namespace) -> int:
    chance = random.Random(options.first)
    failed = 0
    write_code = ("sh", "-c", WRITE_CODE, "sh")
    all_of_them = [(d, write_code) for d in DISAGREEMENTS] + [(r, ()) for r in REFUSALS]
    for (one, other, names), shell in all_of_them:
        lines = [one] * chance.randint(2, max(2, options.max_ranks))
        lines[chance.choice((0, -1))] = other
        folder = Path(tempfile.mkdtemp(prefix="paceline-use-"))
        try:
            run_disagreement(lines, names, folder, shell)
        except Insane as error:
            failed += 1
            words = " : ".join(f"-np 1 paceline {shlex.join(line)}" for line in lines)
            print(f"{error}\n    mpirun --oversubscribe {words}", flush=True)
        finally:
            shutil.rmtree(folder)
    print(f"{len(all_of_them) - failed} of {len(all_of_them)} disagreements end as they should")
    return int(failed > 0)
