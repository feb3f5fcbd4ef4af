"""Judges how a random command line ended, and uses its result file in further commands."""

import contextlib
import fcntl
import json
import os
import random
import re
import shlex
import sys
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from conftest import PROGRAM, ROOT, command, gpu_count
from random_use.environments import environment_of
from random_use.lines import Use
from random_use.options import Generator
from random_use.rows import Insane, check_file, reasons, statuses
from random_use.runs import FAULT, HUNG, Done, check_refusal, names_in, require, run
from result_files import split_into_case_files

FAILED_CHECK, STOPPED = 4, 6  # exit codes
UNPRINTED = "standard output cannot be written"
MAX_RANKS = 6
# Two programs that profile NCCL on the same GPUs beside others wait for each other without end.
PROFILED_NCCL = Path(tempfile.gettempdir(), "paceline-profiled-nccl")
ANALYSIS = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "analysis"]
FOLLOWED = 0.3  # share of the command lines that are followed by another command
KEPT = "the results are in out.h5"  # in the error line of a refusal after the sweep
NAN = re.compile(r"(?<![\w/])-?nan(?![\w/])", re.IGNORECASE)
NO_NUMBER = re.compile(r"(?<![\w/])-?(nan|inf)(?![\w/])", re.IGNORECASE)


@dataclass
class Outcome:
    """How one seed ended: the exit code, and the complaint if something is wrong."""

    use: Use
    code: int
    complaint: str = ""


def launched(use: Use) -> list[str]:
    words = command(use.ranks, *use.arguments)
    program = words.index(str(PROGRAM))
    return [*words[:program], *use.environment.around(words[program:])]


def profiles_nccl(use: Use) -> bool:
    nccl = "nccl" in use.values("--backend") or "cuda" in use.values("--device")
    return nccl and use.ranks > 1 and "--profile" in use.options


def start(use: Use, folder: Path) -> Done:
    with PROFILED_NCCL.open("w") if profiles_nccl(use) else contextlib.nullcontext() as lock:
        if lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(folder, launched(use))
    return done if use.environment.prints else as_if_printed(done)


def as_if_printed(done: Done) -> Done:
    """How a command would have ended whose standard output is closed. Raises Insane if it ended
    with 0 all the same."""
    require(done.code != 0, "closed: code 0, although nothing could be printed")
    others = [line for line in done.err.splitlines() if UNPRINTED not in line]
    if len(others) == len(done.err.splitlines()):
        return done
    return Done(0 if done.code == STOPPED else done.code, "", "\n".join(others))


def shown(use: Use) -> str:
    """The command line to copy, with its generated input files as comments."""
    made = [f"  # {name}: {made}" for name, made in use.files.items()]
    return shlex.join(launched(use)) + "".join(made)


def judge(use: Use, done: Done, folder: Path) -> None:
    """Raises Insane if the command ended badly; its first word is the kind of failure."""
    fault = FAULT.search(done.err)
    require(not fault, f"fault: code {done.code}, stderr has {fault and fault.group()}")
    left = set(names_in(folder)) - use.files.keys()
    if done.code == FAILED_CHECK:
        check_diverged(use, folder)
    elif done.code != 0:
        check_refusal(done)
        require(not (use.valid and done.code == 2), f"refused: {done.line()}")
        allowed = {"out.h5"} if KEPT in done.line() else set()
        require(left <= allowed, f"left: {sorted(left)} after code {done.code}")
        return
    else:
        require(not done.ours(), f"said: {done.ours()} with code 0")
    expected = {"out.h5"} if use.runs else set()
    allowed = set(expected)
    if use.runs:
        check_file(folder / "out.h5", use)
        ends = statuses(folder / "out.h5") if "--dump" in use.options else []
        expected |= {"dump.h5"} if "ok" in ends else set()
        # A diverged case may have a dump: of its steps, or of --verify's.
        allowed |= {"dump.h5"} if {"ok", "diverged"} & {*ends} else set()
    require(expected <= left <= allowed, f"left: {sorted(left)}, not {sorted(allowed)}")
    check_output(use, done, folder)


def check_diverged(use: Use, folder: Path) -> None:
    said = reasons(folder / "out.h5")
    have = statuses(folder / "out.h5") if said else []
    require("diverged" in have, f"code {FAILED_CHECK}: {said}")


def check_output(use: Use, done: Done, folder: Path) -> None:
    if not use.environment.prints:
        require(not done.out, f"closed: {done.out!r} was printed")
        return
    if "--print-config" in use.options:
        tomllib.loads(done.out)
        return
    if "--json" in use.options:
        count = len(statuses(folder / "out.h5")) if use.runs else 0
        check_json(done.out, count)
    elif use.experiment != "precision" and not use.may_diverge:  # these may print nan and inf
        # --fit prints an infinite bandwidth if times do not grow with the size.
        wrong = (NAN if "--fit" in use.options else NO_NUMBER).search(done.out)
        around = wrong and done.out[max(0, wrong.start() - 60) : wrong.end() + 20]
        require(not wrong, f"number: {around!r} is printed")


def check_json(out: str, count: int) -> None:
    """count: the expected number of lines; 0: any number but none."""

    def refuse(constant: str) -> None:
        raise Insane(f"json: {constant} is not JSON")

    try:
        rows = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
    except json.JSONDecodeError as error:
        raise Insane(f"json: {error}: {out[:200]}") from None
    require(len(rows) == count if count else rows, f"json: {len(rows)} lines of {count} cases")


def follow_up(use: Use, folder: Path, chance: random.Random) -> None:
    """One more command that users start with an existing file: --dry-run, --resume, --force, the
    same command again, compare, merge, or merge after a simulated crash."""
    before = statuses(folder / "out.h5")
    plain = {
        name: value for name, value in use.options.items() if name not in ("--resume", "--force")
    }
    again = [replace(use, options={**plain, name: None}) for name in ("--resume", "--force")]
    kind = chance.choice(("plan", "resume", "force", "again", "compare", "merge", "crash"))
    if kind == "resume" and "--dump" in use.options:
        kind = "force"  # --dump and --resume exclude each other
    elif kind == "again" and "--resume" in use.options:
        kind = "resume"
    if kind == "plan":
        kept = {name: value for name, value in use.options.items() if name != "--json"}
        done = start(replace(use, options={**kept, "--dry-run": None}), folder)
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
        require(done.out.startswith(f"{len(before)} case"), f"{kind}: {done.out} of {before}")
    elif kind in ("resume", "force"):
        done = start(again[kind == "force"], folder)
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
        check_file(folder / "out.h5", use)
        require(statuses(folder / "out.h5") == before, f"{kind}: other statuses than {before}")
    elif kind == "again":
        check_refusal(start(use, folder), "--output|--dump")
    elif kind == "compare":
        done = run(folder, [*ANALYSIS, "compare", "out.h5", "out.h5"])
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
    elif kind == "merge":
        check_refusal(run(folder, command(0, "merge", "out.h5")), r"out\.h5")
    else:
        split_into_case_files(folder / "out.h5")
        done = run(folder, command(0, "merge", "out.h5"))
        require(done.code == 0, f"merge code {done.code}: {done.ours()}")
        check_file(folder / "out.h5", use, complete=False)
    rest = set(names_in(folder)) - {"out.h5", "dump.h5"} - use.files.keys()
    require(not rest, f"{kind} left {sorted(rest)}")


def analyse(use: Use, folder: Path) -> None:
    """Makes the report of the result file in the environment of the launch."""
    words = [*ANALYSIS, "report", "out.h5", "--output", "report.html"]
    done = run(folder, use.environment.around(words))
    require(done.code in (0, 0 if use.environment.prints else STOPPED), f"report: {done}")
    require((folder / "report.html").exists(), "report: no file")


def run_use(use: Use, follows: random.Random | None = None, analysed: bool = False) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="paceline-use-") as name:
        folder = Path(name)
        for path, made in use.files.items():
            made.write(folder / path)
        done = Done(HUNG)
        try:
            done = start(use, folder)
            judge(use, done, folder)
            if follows and done.code == 0 and use.runs:
                follow_up(use, folder, follows)
            if analysed and done.code == 0 and use.runs:
                analyse(use, folder)
        except Insane as error:
            return Outcome(use, done.code, str(error))
        return Outcome(use, done.code)


def run_seed(seed: int, environments: bool = False) -> Outcome:
    """Runs the command line of one seed and, for some seeds, a follow-up command; with
    `environments`, in the seed's environment, and for some seeds makes the report in it."""
    chance = random.Random(seed)
    device = os.environ.get("SOAK_DEVICE", "cpu")
    ranks = MAX_RANKS if device == "cpu" else min(MAX_RANKS, gpu_count())
    use = Generator(str(seed), device, ranks).use()
    if environments:
        use.environment = environment_of(seed)
        if "--threads" in use.options:
            use.options["--threads"] = str(use.environment.threads)
    follows = chance if chance.random() < FOLLOWED else None
    return run_use(use, follows, environments and chance.random() < FOLLOWED)
