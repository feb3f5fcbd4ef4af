"""Fuzzes every command that reads files with damaged and hostile result files and weights.

python3 tests/fuzz/files.py --runs 2000 --first 0: each seed mutates valid files and gives them to
some readers. A reader must accept the file, or exit with one error line that names it. Any other
behaviour is a fault: it is printed with the seed, and the exit code is 1.
"""

import argparse
import contextlib
import faulthandler
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(ROOT / "tests")]

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from mutations import mutate  # noqa: E402

from analysis.__main__ import main as main_of_analysis  # noqa: E402
from conftest import PROGRAM, Run, made, run_line  # noqa: E402
from result_files import split_into_case_files  # noqa: E402

PATIENCE = 120  # seconds
REFERENCE = ROOT / "results" / "reference"
PUBLISHED = (
    "attention-leaderboard-h200.h5", "collectives-single-node-h200.h5", "strong-ddp-2-h200.h5.xz",
    "ddp-predict-h200.h5.xz", "zero-course-h200.h5.xz", "model-memory-timeline-h200.h5.xz",
    "precision-course-h200.h5.xz", "model-compile-peers-modes-h200.h5.xz",
    "attention-flash4-h200.jsonl", "collective-peers-h200.jsonl", "data-parallel-peers-h200.jsonl",
    "plan-xl-h200.jsonl", "plan-check-ddp-course-h200.jsonl",
)  # fmt: skip
ONCE = ("--device", "cpu", "--warmup", "0", "--steps", "1", "--quiet")
TINY = ("model", "--size", "tiny", "--vocab", "64", *ONCE)
# Internals of HDF5, C++ and Python, which no message may contain.
JARGON = re.compile(
    r"H5[A-Z]|errno|unable to|internal error|bad_alloc|vector|basic_|\b0x[0-9a-f]|Traceback"
)


def start(folder: Path, *args: object) -> Run:
    try:
        return run_line(folder, (PROGRAM, *args))
    except subprocess.TimeoutExpired as late:
        return Run(-1, "", str(late))


def analyse(*args: object) -> Run:
    """`python3 -m analysis` in this process, since its imports take a second."""
    err, code = io.StringIO(), 0
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            main_of_analysis(list(map(str, args)))
    except SystemExit as stopped:
        code = stopped.code
    except BaseException:
        code = -1
        traceback.print_exc(file=err)
    finally:
        signal.alarm(0)
    return Run(code, "", err.getvalue())


def too_late(*_: object) -> None:
    raise TimeoutError(f"did not end within {PATIENCE} s")


@dataclass
class Whole:
    """Valid files to mutate: one of two cases, what a killed launch leaves of such a file, and one
    of weights. Those of other experiments, which only the analysis reads, are published ones."""

    folder: Path
    of_analysis: list[Path] = field(default_factory=list)

    def make(self) -> None:
        whole = made(self.folder / "whole.h5", *TINY, "--context", "8,16")
        split_into_case_files(Path(shutil.copy(whole, self.folder / "cases.h5")))
        made(self.folder / "dumped.h5", *TINY, "--context", 8, "--dump", "weights.h5")
        more = ("--profile", 1, "--memory-timeline")
        made(self.folder / "profile.h5", *TINY, "--context", 8, *more)
        names = ("whole.h5", "profile.h5")
        self.of_analysis = [*map(self.folder.joinpath, names), *map(REFERENCE.joinpath, PUBLISHED)]

    def copy(self, name: str, to: Path) -> Path:
        shutil.copy(self.folder / name, to)
        return to


def complaint(done: Run, codes: set[int], prefix: str, names: str) -> str:
    """What is wrong with the way a reader ended; empty if nothing is.

    codes: the allowed exit codes; prefix: how the error line starts; names: the file it names."""
    own = done.err.splitlines()
    if done.code not in codes:
        return f"code {done.code}"
    if JARGON.search(done.err):
        return "jargon"
    if done.code in (0, 1):
        return ""
    if len(own) != 1 or not own[0].startswith(prefix):
        return f"stderr is not one line that starts with '{prefix}'"
    return "" if names in done.err else f"{names} is not named"


def merge(whole: Whole, folder: Path, change: Callable[[Path], None], chance: random.Random):
    cases = shutil.copytree(whole.folder / "cases.h5.cases", folder / "out.h5.cases")
    changed = next(cases.iterdir())
    change(changed)
    done = start(folder, "merge", "out.h5")
    wrong = complaint(done, {0}, "paceline: ", changed.name)
    kept = (folder / "out.h5", folder / f"out.h5.{changed.stem}.damaged")
    if not wrong and not all(path.exists() for path in kept):
        wrong = "a damaged case is accepted, or one is lost"
    return done, wrong


def resume(whole: Whole, folder: Path, change: Callable[[Path], None], chance: random.Random):
    path = whole.copy("whole.h5", folder / "out.h5")
    change(path)
    before = path.read_bytes()
    done = start(folder, *TINY, "--context", "8", "--output", "out.h5", "--resume")
    wrong = complaint(done, {0, 2}, "paceline: ", "out.h5")
    if done.code == 2 and path.read_bytes() != before:
        wrong = "a refused file was changed"
    return done, wrong


def load(whole: Whole, folder: Path, change: Callable[[Path], None], chance: random.Random):
    change(whole.copy("weights.h5", folder / "bad.h5"))
    done = start(folder, *TINY, "--context", "8", "--output", "w.h5", "--load-weights", "bad.h5")
    diverges = done.code == 4 and "diverged: " in done.out
    return done, "" if diverges else complaint(done, {0, 2}, "paceline: ", "bad.h5")


def tokens(whole: Whole, folder: Path, change: Callable[[Path], None], chance: random.Random):
    with h5py.File(folder / "bad.h5", "w") as file:
        for name in ("tokens", "targets"):
            file[name] = np.arange(64).reshape(4, 16)
    change(folder / "bad.h5")
    done = start(folder, *TINY, "--context", "8", "--output", "t.h5", "--tokens", "bad.h5")
    return done, complaint(done, {0, 2}, "paceline: ", "bad.h5")


READERS = (merge, resume, load, tokens)


# Verbs of the analysis with their outputs; those that read the timelines of profiles, and of
# bench/peers/, are drawn more often where there are some.
VERBS = [("tables", "t.md"), ("tables", "t.tex"), ("tables", "t.csv"), ("figures", "f.png"),
         ("figures", "f.svg"), ("report", "r.html"), ("trace", "t"),
         ("snapshot", "s"), ("peers", "p.md"), ("compare", ""), ("rates", "r.json"),
         ("check-plan", "")]  # fmt: skip
OF_TIMELINES = [("trace", "t"), ("snapshot", "s"), ("figures", "f.svg")]
OF_PEERS = [("peers", "p.md"), ("report", "r.html")]


def unreadable(folder: Path, verb: str) -> str:
    """What is wrong with what was written."""
    for path in folder.glob("t.*.json") if verb == "trace" else ():
        if re.search(r"\b(NaN|Infinity)\b", path.read_text()):
            return f"{path.name} is no JSON"
    return ""


def fuzz(seed: int, whole: Whole, folder: Path, with_program: bool) -> Iterator[str]:
    """Yields one line per fault of this seed."""
    chance = random.Random(seed)
    said = []

    def change(path: Path) -> None:
        said.append(mutate(path, chance))

    for reader in chance.sample(READERS, 2) if with_program else ():
        inner = folder / reader.__name__
        inner.mkdir()
        done, wrong = reader(whole, inner, change, chance)
        if wrong:
            yield f"{seed} {reader.__name__}: {said[-1]}: {wrong}: {done.err.strip()[-600:]}"
    source = chance.choice(whole.of_analysis)
    suffix = "".join(source.suffixes)
    path = Path(shutil.copy(source, folder / f"bad{suffix}"))
    change(path)
    verbs = (
        VERBS + OF_TIMELINES * (source.name == "profile.h5") + OF_PEERS * ("peers" in source.name)
    )
    verb, output = chance.choice(verbs)
    more = {"compare": (source, "--any-machine"), "check-plan": ()}.get(
        verb, ("--output", folder / output)
    )
    done = analyse(verb, path, *more)
    codes = {0, 1, 2} if verb == "compare" else {0, 2}
    wrong = complaint(done, codes, "analysis: ", path.name) or unreadable(folder, verb)
    if wrong:
        yield (f"{seed} analysis {verb} {output} {source.name}: {said[-1]}: {wrong}: "
               f"{done.err.strip()[-2000:]}")  # fmt: skip
    if {entry.name for entry in folder.parent.iterdir()} != {folder.name, whole.folder.name}:
        yield f"{seed}: {said}: a file was written outside of the folder"


def faults(seeds: range, with_program: bool) -> Iterator[str]:
    signal.signal(signal.SIGALRM, too_late)
    with tempfile.TemporaryDirectory() as name:
        os.environ["PACELINE_CACHE"] = name
        root = Path(name) / "root"
        whole = Whole(root / "whole")
        whole.folder.mkdir(parents=True)
        whole.make()
        for seed in seeds:
            print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
            folder = root / "seed"
            folder.mkdir()
            yield from fuzz(seed, whole, folder, with_program)
            shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--analysis", action="store_true", help="only python3 -m analysis")
    options = parser.parse_args()
    faulthandler.enable()
    count = 0
    for line in faults(range(options.first, options.first + options.runs), not options.analysis):
        print(line, flush=True)
        count += 1
    print(f"{options.runs} seeds from {options.first}: {count} faults")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
