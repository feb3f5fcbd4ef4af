"""Mutation tests: puts each fault of tools/mutants.list into a copy of the tree and runs its test.

    python3 tools/mutants.py [SUBSTRING] [--part I/N] [--gpu] [--all] [--jobs N]

A line of the list, fields separated by " :: ":
    path :: old text :: new text :: test :: what it is
The old text occurs exactly once in the file. The test is one of
    unit FILTER             build/unit_tests --gtest_filter=FILTER
    ranks PROGRAM N FILTER  mpirun -np N build/PROGRAM mpi --gtest_filter=FILTER
    pytest NODE             with build/paceline
    gpu FILTER              as unit; run with --gpu alone, on a machine that has one
    nccl PROGRAM N FILTER   as ranks, over NCCL on N GPUs; likewise
and ends with " or hang" if a test that does not end also reveals the fault.

Exits with 1 if a fault survives its test, with 2 if the list is wrong: an old text that does not
occur exactly once, a fault that does not compile, a test that fails without a fault or selects
nothing.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutants.list"
PATIENCE = 60.0  # seconds for any test; or ten times its time without a fault, if that is longer
KINDS = ("unit", "ranks", "pytest", "gpu", "nccl")
LONG = 7200.0  # seconds for a build or the whole suite
HANG = " or hang"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class ListError(Exception):
    """An error in the list, as one line."""


@dataclass(frozen=True)
class Mutant:
    path: str
    old: str
    new: str
    test: str
    what: str

    @property
    def needs_gpu(self) -> bool:
        return self.test.split()[0] in ("gpu", "nccl")


@dataclass(frozen=True)
class Outcome:
    code: int | None  # None: it did not end
    passed: int
    failed: list[str]
    output: str


def parse(lines: list[str]) -> list[Mutant]:
    found = [line.split(" :: ") for line in lines if line.strip() and not line.startswith("#")]
    for fields in found:
        if len(fields) != 5:
            raise ListError(f"{len(fields)} fields, not 5: {fields}")
        if fields[3].split()[0] not in KINDS:
            raise ListError(f"a test begins with {', '.join(KINDS)}: {fields[3]}")
        text = ROOT / fields[0]
        count = text.read_text("utf-8").count(fields[1]) if text.is_file() else 0
        if count != 1:
            raise ListError(f"{fields[0]}: the old text is there {count} times: {fields[1]}")
    return [Mutant(*fields) for fields in found]


def run(folder: Path, command: list[str], limit: float) -> Outcome:
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | AS_ROOT, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        code = None
        process.send_signal(signal.SIGTERM)  # mpirun ends its ranks
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        with suppress(ProcessLookupError):  # what the test started may outlive it
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return Outcome(code, passed_in(output), failed_in(output), output)


def passed_in(output: str) -> int:
    """The number of tests that passed, from the output of GoogleTest or pytest."""
    counts = re.findall(r"^\[  PASSED  \] (\d+) test", output, re.MULTILINE)
    counts += re.findall(r"^(\d+) passed", output, re.MULTILINE)
    return max(map(int, counts), default=0)


def failed_in(output: str) -> list[str]:
    """The tests that failed, and GoogleTests that started and did not end."""
    names = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", output, re.MULTILINE)
    names += re.findall(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", output, re.MULTILINE)
    ended = re.findall(r"^\[       OK \] (\S+)", output, re.MULTILINE)
    began = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    died = [f"{name} (died)" for name in began if name not in [*ended, *names]]
    return list(dict.fromkeys(names + died))


class Tree:
    """A copy of the repository, its build folder included."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        # A fixed version: that of the commit would change with every fault.
        self.make = ["make", f"-j{jobs}", "VERSION=mutant"]
        self.limits: dict[str, float] = {}  # seconds, by test
        subprocess.run(["cp", "-a", f"{ROOT}/.", str(folder)], check=True)
        self.programs = ["build/paceline", "build/paceline_lying", "build/waits"]

    def run(self, test: str, path: str = "") -> Outcome:
        """Builds what the test needs, and runs it. Throws ListError for what does not compile."""
        kind, *words = test.removesuffix(HANG).split()
        if kind in ("unit", "gpu"):
            targets = ["build/unit_tests"]
            command = ["build/unit_tests", f"--gtest_filter={words[0]}"]
        elif kind in ("ranks", "nccl"):
            targets = [f"build/{words[0]}"]
            backend = "mpi" if kind == "ranks" else kind
            command = ["mpirun", "--oversubscribe", "-np", words[1], *targets, backend]
            # mpirun connects its ranks to a terminal.
            command += [f"--gtest_filter={words[2]}", "--gtest_color=no"]
        else:
            targets = [] if path.endswith(".py") else self.programs
            command = [".venv/bin/python3", "-m", "pytest", "-rfE", " ".join(words)]
        if targets:
            built = run(self.folder, [*self.make, *targets], LONG)
            if built.code != 0:
                errors = [line for line in built.output.splitlines() if "error" in line.lower()]
                raise ListError(f"does not build: {errors[:1]}")
        return run(self.folder, command, self.limits.get(test, LONG))

    def check_unmodified(self, test: str) -> None:
        if test in self.limits:
            return
        began = time.monotonic()
        outcome = self.run(test)
        if outcome.code != 0 or outcome.passed == 0:
            how = "fails without a fault" if outcome.passed or outcome.failed else "selects no test"
            raise ListError(f"{test}: {how}\n{outcome.output[-2000:]}")
        self.limits[test] = max(PATIENCE, 10 * (time.monotonic() - began))

    def suite(self) -> list[str]:
        """The tests of the whole suite that fail."""
        halves = ("unit-test", "python-test")
        outcomes = [run(self.folder, [*self.make, half], LONG) for half in halves]
        return [name for outcome in outcomes for name in outcome.failed]

    def verdict(self, mutant: Mutant, with_suite: bool) -> tuple[str, str]:
        """ "caught", "survived" or "error", with the tests that caught it or the reason."""
        try:
            self.check_unmodified(mutant.test)
        except ListError as error:
            return "error", str(error)
        file = self.folder / mutant.path
        original = file.read_text("utf-8")
        file.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            outcome = self.run(mutant.test, mutant.path)
            if outcome.code is None:
                return "caught" if mutant.test.endswith(HANG) else "error", "does not end"
            if outcome.code != 0:
                failed = outcome.failed
                if mutant.test.startswith(("ranks", "nccl")) and outcome.passed and not failed:
                    failed = [f"{mutant.test} (not on rank 0)"]  # rank 0 reports no failed test
                more = f" and {len(failed) - 1} more" if failed[1:] else ""
                return "caught" if failed else "error", "".join(failed[:1]) + more
            return "survived", f"seen by {self.suite()}" if with_suite else ""
        except ListError as error:
            return "error", str(error)
        finally:
            file.write_text(original, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("substring", nargs="?", default="", help="only lines that hold it")
    parser.add_argument("--part", default="1/1", help="I/N: the I-th of N equal parts")
    parser.add_argument("--gpu", action="store_true", help="those that need a GPU, no others")
    parser.add_argument("--all", action="store_true", help="run the whole suite on a survivor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="make's")
    options = parser.parse_args()
    rows = []
    try:
        lines = LIST.read_text("utf-8").splitlines()
        chosen = parse([line for line in lines if options.substring in line])
        mutants = [mutant for mutant in chosen if mutant.needs_gpu == options.gpu]
        part, parts = map(int, options.part.split("/"))
        mutants = mutants[len(mutants) * (part - 1) // parts : len(mutants) * part // parts]
        with tempfile.TemporaryDirectory(prefix="paceline-mutants-") as folder:
            tree = Tree(Path(folder), options.jobs)
            for number, mutant in enumerate(mutants, 1):
                word, why = tree.verdict(mutant, options.all)
                rows.append((word, mutant.path, mutant.what, why))
                print(f"[{number}/{len(mutants)}]", ": ".join(rows[-1]), flush=True)
    except ListError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        print(*(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)))
    count = Counter(row[0] for row in rows)
    print(f"\n{count['caught']} caught, {count['survived']} survived, {count['error']} in error")
    return 2 if count["error"] else int(count["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
