"""Runs random command lines: each ends with sane rows, or with one line that names an option.

    .venv/bin/python3 tools/random_use [--count N] [--seed S] [--device cpu] [--max-ranks R]
    .venv/bin/python3 tools/random_use --disagree

A set follows from the seed and its number; --first N --count 1 runs one again. Code 0 must leave a
whole file and nothing else, code 2 or 3 nothing at all; any other code, and what takes a minute, is
a failure, which is printed with a shorter command line that fails alike. --disagree starts ranks
with command lines that differ: every rank must end with code 2, and one line names what differs.
Exits with 1 when anything failed. Needs build/paceline.
"""

import argparse
import json
import random
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from disagreements import run_disagreements
from options import EXPERIMENTS, Generator, Use
from rows import Insane, check_file, reasons, statuses
from runs import HUNG, LAUNCH, PATIENCE, PROGRAM, Done, names_in, require

MISMATCH = 4  # an exit code
MOST_SHRINKING = 25  # runs


def launched(use: Use) -> list[str]:
    return [*LAUNCH, "-np", str(use.ranks), str(PROGRAM), *use.arguments]


def check_refusal(done: Done, names: str = r"--[a-z]") -> None:
    if done.code == HUNG:
        raise Insane(f"hang: did not end in {PATIENCE} s")
    if done.code not in (2, 3):
        raise Insane(f"code {done.code}: {done.ours() or done.err.splitlines()[:1]}")
    if not re.search(names, done.line()):
        raise Insane(f"unnamed: no option is named in: {done.line()}")


def run_use(use: Use, folder: Path) -> int:
    """Its code. Throws Insane with a first word that says what kind of failure."""
    done = Done(folder, launched(use))
    if done.code != 0:
        mismatches = reasons(folder / "out.h5") if done.code == MISMATCH else []
        require(not mismatches, f"code {done.code}: {mismatches}")
        check_refusal(done)
        require(not (use.valid and done.code == 2), f"refused: {done.line()}")
        require(names_in(folder) == [], f"left: {names_in(folder)} after code {done.code}")
        return done.code
    require(not done.ours(), f"said: {done.ours()} with code 0")
    if use.experiment == "info" or "--dry-run" in use.options:
        require(names_in(folder) == [], f"left: {names_in(folder)}")
        return 0
    check_file(folder / "out.h5", use)
    dumped = "dump.h5" if "ok" in statuses(folder / "out.h5") else ""
    expected = {"out.h5", dumped if "--dump" in use.options else ""} - {""}
    require(set(names_in(folder)) == expected, f"left: {names_in(folder)}, not {sorted(expected)}")
    if "--json" in use.options:
        check_json(done.out, len(statuses(folder / "out.h5")))
    return 0


def check_json(out: str, count: int) -> None:
    def refuse(constant: str) -> None:
        raise Insane(f"json: {constant} is no JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
    require(len(rows) == count, f"json: {len(rows)} lines of {count} cases")


def follow_up(use: Use, folder: Path, chance: random.Random) -> None:
    """What users do with a file that is there: plan it, run it again, compare it, merge it."""
    before = statuses(folder / "out.h5")
    again = [replace(use, options={**use.options, name: None}) for name in ("--resume", "--force")]
    kind = chance.choice(("plan", "resume", "force", "again", "compare", "merge", "crash"))
    if kind == "resume" and "--dump" in use.options:
        kind = "force"  # which alone goes with a dump
    elif kind == "again" and "--resume" in use.options:
        kind = "resume"
    alone = str(PROGRAM)
    if kind == "plan":
        done = Done(folder, launched(replace(use, options={**use.options, "--dry-run": None})))
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
        require(done.out.startswith(f"{len(before)} case"), f"{kind}: {done.out} of {before}")
    elif kind in ("resume", "force"):
        done = Done(folder, launched(again[kind == "force"]))
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
        check_file(folder / "out.h5", use)
        require(statuses(folder / "out.h5") == before, f"{kind}: other statuses than {before}")
    elif kind == "again":
        check_refusal(Done(folder, launched(use)), "--output|--dump")
    elif kind == "compare":
        done = Done(folder, [alone, "compare", "out.h5", "out.h5"])
        require(done.code == 0, f"{kind} code {done.code}: {done.ours()}")
    elif kind == "merge":
        check_refusal(Done(folder, [alone, "merge", "out.h5"]), r"out\.h5")
    else:
        (folder / "out.h5.cases").mkdir()
        (folder / "out.h5").rename(folder / "out.h5.cases" / "one.h5")
        done = Done(folder, [alone, "merge", "out.h5"])
        require(done.code == 0, f"merge code {done.code}: {done.ours()}")
        check_file(folder / "out.h5", use, complete=False)
    rest = set(names_in(folder)) - {"out.h5", "dump.h5"}
    require(not rest, f"{kind} left {sorted(rest)}")


def kind_of(use: Use) -> str:
    """The first word of what is wrong with a use, or nothing."""
    folder = Path(tempfile.mkdtemp(prefix="paceline-use-"))
    try:
        run_use(use, folder)
        return ""
    except Insane as error:
        return str(error).split(":")[0]
    finally:
        shutil.rmtree(folder)


def shrunk(use: Use, kind: str) -> Use:
    """A use with fewer options, values and ranks that fails alike."""
    runs = 0
    smaller = True
    while smaller and runs < MOST_SHRINKING:
        tries = [replace(use, ranks=n) for n in range(1, use.ranks)]
        for name, value in use.options.items():
            rest = {key: other for key, other in use.options.items() if key != name}
            tries.append(replace(use, options=rest))
            parts = (value or "").split(",")
            tries += [
                replace(use, options={**use.options, name: p}) for p in parts[: len(parts) > 1]
            ]
        keep = {"--output", "--device", "--threads", "--bytes", "--size", "--vocab", "--steps"}
        tries = [one for one in tries if keep & use.options.keys() <= one.options.keys()]
        smaller = False
        for one in tries:
            runs += 1
            if runs > MOST_SHRINKING:
                break
            if kind_of(one) == kind:
                use, smaller = one, True
                break
    return use


def run_sets(options: argparse.Namespace) -> int:
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(options.first, options.first + options.count):
        seed = f"{options.seed}/{number}"
        use = Generator(seed, options.device, options.max_ranks).use()
        folder = Path(tempfile.mkdtemp(prefix="paceline-use-"))
        try:
            code = run_use(use, folder)
            counts[use.experiment, str(code)] += 1
            if (folder / "out.h5").exists():
                follow_up(use, folder, random.Random(seed))
        except Insane as error:
            counts[use.experiment, "failed"] += 1
            kind = str(error).split(":")[0]
            print(f"{number}: {error}\n    {shlex.join(launched(use))}", flush=True)
            if kind_of(use) == kind and not kind.startswith("hang"):
                print(f"    shorter: {shlex.join(launched(shrunk(use, kind)))}", flush=True)
        finally:
            shutil.rmtree(folder)
    columns = ("0", "2", "3", "failed")
    print(f"{'':12}" + "".join(f"{'code ' * c.isdigit() + c:>8}" for c in columns))
    for experiment in EXPERIMENTS:
        print(f"{experiment:12}" + "".join(f"{counts[experiment, c]:8}" for c in columns))
    return int(any(code == "failed" for _, code in counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("count", 100), ("first", 0), ("max-ranks", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--disagree", action="store_true")
    options = parser.parse_args()
    return run_disagreements(options) if options.disagree else run_sets(options)


if __name__ == "__main__":
    sys.exit(main())
