"""Starts the program as users do, alone or under mpirun, for the Python tests."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from result_files import undescribed

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("PACELINE_BUILD", "build")  # builds with sanitizers are elsewhere
PROGRAM = BUILD / "paceline"
HOST = os.environ.get("SLURMD_NODENAME", os.uname().nodename)  # as paceline names this node
PATIENCE = 300  # seconds; the operations waited for take a few on an idle machine
# For sh -c: writes each rank's exit code to a file, because mpirun reports only one of them.
WRITE_CODE = 'trap "" TERM; "$@"; echo $? > code.$OMPI_COMM_WORLD_RANK'

# Makes MPI_Init fail, but not mpirun: this point-to-point layer does not exist.
NO_MPI = {"OMPI_MCA_pml": "no-such-layer"}


# A shell starts background jobs with these signals ignored; the program would inherit that.
for which in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(which) == signal.SIG_IGN:
        signal.signal(which, signal.SIG_DFL)

# OpenMP threads that spin at barriers would take cores from other ranks and tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# So would ranks that wait for a message: Open MPI yields only where it knows of too few cores.
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
SLEEP_WHEN_IDLE = BUILD / "sleep_when_idle.so"
if SLEEP_WHEN_IDLE.exists():  # not with sanitizers, whose libraries must be loaded first
    os.environ.setdefault("LD_PRELOAD", str(SLEEP_WHEN_IDLE))
# All ranks are on this host: looking for networks takes 0.2 s of each launch.
os.environ.setdefault("OMPI_MCA_pml", "ob1")
os.environ.setdefault("OMPI_MCA_btl", "vader,self")

if os.geteuid() == 0:  # Open MPI refuses to run as root without these
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the longest files first, so that parallel workers finish at about the same time."""
    long = ("slurm", "jobs", "ranks", "faults")
    items.sort(key=lambda item: (*long, item.path.parent.name).index(item.path.parent.name))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keeps the tuning cache of GPU matrix products out of the user's folder."""
    os.environ["PACELINE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def seeds(first: int, few: int, many: int) -> list | range:
    """Seeds of a random test: a few in make test, the others in make test-long. The variable
    SOAK_SEEDS=first:count gives other ones (NOTES.md)."""
    if given := os.environ.get("SOAK_SEEDS"):
        first, count = map(int, given.split(":"))
        return range(first, first + count)
    marks = {True: [], False: [pytest.mark.long]}
    return [pytest.param(first + i, marks=marks[i < few]) for i in range(many)]


@dataclass
class Run:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The line of paceline on stderr. Asserts that there is exactly one."""
        lines = [line for line in self.err.splitlines() if line.startswith("paceline: ")]
        assert len(lines) == 1, f"expected one 'paceline: ' line on stderr, got: {self.err}"
        return lines[0]


def command(ranks: int, *args: object) -> list[str]:
    words = [str(PROGRAM), *map(str, args)]
    if ranks == 0:
        return words
    return ["mpirun", "--oversubscribe", "-np", str(ranks), *words]


def run_line(folder: Path, words: Iterable[object], preexec_fn=None, **variables: str) -> Run:
    """Runs a command line in the folder, with these environment variables too."""
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=os.environ | variables, capture_output=True,
        text=True, errors="replace", timeout=PATIENCE, check=False, preexec_fn=preexec_fn,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)


def analyse(*arguments: object, preexec_fn=None, **variables: str) -> Run:
    """`python3 -m analysis` in a process of its own, for what is decided where it is loaded."""
    words = [sys.executable, "-m", "analysis", *arguments]
    return run_line(ROOT, words, preexec_fn, PYTHONPATH=str(ROOT), **variables)


def made(path: Path, *arguments: object, ranks: int = 0) -> Path:
    """A result file of a run that must succeed."""
    done = run_line(path.parent, command(ranks, *arguments, "--output", path))
    assert done.code == 0, done.err
    return path


def shared_library(folder: Path, source: str, *options: str) -> Path:
    """A library of this C source, to be loaded before others."""
    (folder / "library.c").write_text(source)
    line = ["cc", "-shared", "-fPIC", *options, "-o", "library.so", "library.c"]
    assert run_line(folder, line).code == 0
    return folder / "library.so"


def ended(run: subprocess.Popen) -> Run:
    """How a run in the background ends."""
    out, err = run.communicate(timeout=PATIENCE)
    return Run(run.returncode, out, err)


def start(folder: Path, ranks: int, *args: object) -> subprocess.Popen:
    """Starts the program in the background, in a session of its own."""
    return subprocess.Popen(
        command(ranks, *args),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, f"not reached within {PATIENCE} s"
        time.sleep(0.02)


def wait_for_cases(folder: Path, count: int) -> None:
    """Waits until out.h5.cases has the files of `count` finished cases."""
    wait_until(lambda: len(list((folder / "out.h5.cases").glob("*.h5"))) >= count)


def gpu_count() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.stdout.count("UUID") if listed.returncode == 0 else 0


def needs_gpu_per_rank(backend: str, ranks: int) -> None:
    """Skips the test where NCCL has fewer GPUs than ranks."""
    if backend != "nccl":
        return
    here = gpu_count()
    if here < ranks:
        pytest.skip(f"needs {ranks} GPUs, {here} here")


@pytest.fixture(scope="session")
def described():
    """Paths in result files of this program that have a unit and a description."""
    return set()


@pytest.fixture
def paceline(tmp_path, described):
    """run(*args, ranks=0): runs the program in tmp_path; ranks = 0 means without mpirun.

    Asserts that every result file of the run describes all its datasets."""

    def run(*args: object, ranks: int = 0, env: dict[str, str] | None = None) -> Run:
        began = time.time()
        done = run_line(tmp_path, command(ranks, *args), **(env or {}))
        for path in tmp_path.rglob("*.h5"):
            if path.exists() and path.stat().st_mtime >= began:
                assert undescribed(path, described) == [], path
        return done

    return run


@pytest.fixture
def launch(tmp_path):
    """launch(ranks, *arguments): starts a run in the background; kills it when the test ends."""
    runs = []

    def start_one(ranks, *arguments):
        runs.append(start(tmp_path, ranks, *arguments))
        return runs[-1]

    yield start_one
    for run in runs:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate(timeout=PATIENCE)


NO_LOCKS = """
#include <errno.h>
int flock(int file, int operation) {
  (void)file, (void)operation;
  errno = ENOLCK;
  return -1;
}
"""


@pytest.fixture(scope="session")
def without_locks(tmp_path_factory):
    """Environment variables of a process on a file system without locks."""
    library = shared_library(tmp_path_factory.mktemp("locks"), NO_LOCKS)
    return {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}"}


@pytest.fixture
def golden():
    with h5py.File(ROOT / "tests" / "golden" / "golden.h5") as f:
        yield f
