"""Ranks that stand still: the others end the launch, with one line that says who did not arrive."""

import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import command, gpu_count
from result_files import summary

RANKS = 3
TIMEOUT = 3
ANSWERS_TAKE = 2
AT_LATEST = TIMEOUT + 8  # with the answers, and the launcher's patience with a stopped rank
COMMON = ("--threads", 1, "--warmup", 1, "--output", "out.h5", "--quiet", "--timeout", TIMEOUT)
MODEL = ("model", "--device", "cpu", *COMMON, "--size", "tiny", "--steps", 40, "--context")
FINISHED = [8, 9, 10]
LONG = 512  # this case outlasts a test


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def rank_of(pid):
    """Nothing for a process that is no rank, or not yet: mpirun has forked, but not started it."""
    for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(variable.partition(b"=")[2])
    return None


def wait_until(what, seconds):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


class Launch:
    def __init__(self, folder, ranks, arguments):
        self.ranks = ranks
        self.run = subprocess.Popen(
            command(ranks, *arguments),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pids = {}

    def found_all_ranks(self):
        children = Path(f"/proc/{self.run.pid}/task/{self.run.pid}/children").read_text().split()
        self.pids = {rank_of(int(pid)): int(pid) for pid in children}
        return set(self.pids) == set(range(self.ranks))

    def signal(self, rank, which):
        os.kill(self.pids[rank], which)

    def end(self):
        """The exit code, our line on stderr, and the seconds that it took."""
        start = time.monotonic()
        _, err = self.run.communicate(timeout=30)
        lines = [line for line in err.splitlines() if line.startswith("paceline: ")]
        assert len(lines) == 1, err
        return self.run.returncode, lines[0], time.monotonic() - start

    def kill(self):
        for pid in (*self.pids.values(), self.run.pid):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.run.communicate(timeout=30)


@pytest.fixture
def launch(tmp_path):
    """launch(*arguments): a run whose ranks are found. None is left behind, whatever happens."""
    launches = []

    def start(*arguments, ranks=RANKS):
        launches.append(Launch(tmp_path, ranks, arguments))
        wait_until(launches[-1].found_all_ranks, 20)
        return launches[-1]

    yield start
    for one in launches:
        one.kill()


def wait_for_long_case(folder):
    """All cases are finished but the long one, which is under way."""
    cases = folder / "out.h5.cases"
    wait_until(lambda: len(list(cases.glob("*.h5"))) == len(FINISHED), 60)
    time.sleep(1)


@pytest.fixture
def in_long_case(launch, tmp_path):
    run = launch(*MODEL, ",".join(map(str, [*FINISHED, LONG])))
    wait_for_long_case(tmp_path)
    return run


@pytest.fixture(params=["mpi", "nccl"])
def in_long_collective(request, launch, tmp_path):
    """The long case is all_reduce after all_reduce of 100 MB."""
    ranks = RANKS if request.param == "mpi" else 2
    if request.param == "nccl" and gpu_count() < ranks:
        pytest.skip(f"{gpu_count()} GPUs here")
    sizes = ",".join([*(f"{n}KB" for n in FINISHED), "100MB"])
    where = ("--backend", request.param, "--cadence", "back-to-back", "--bytes", sizes)
    run = launch("collectives", *COMMON, *where, "--steps", 2000, ranks=ranks)
    wait_for_long_case(tmp_path)
    return run


def finished_bytes(paceline, folder):
    assert paceline("merge", "out.h5").code == 0
    return sorted(set(summary(folder / "out.h5")["bytes"]))


@pytest.mark.parametrize(("stopped", "speaks"), [(0, 1), (2, 0)])
def test_a_stopped_rank_ends_the_launch_after_the_timeout(
    paceline, tmp_path, in_long_case, stopped, speaks
):
    in_long_case.signal(stopped, signal.SIGSTOP)
    code, line, seconds = in_long_case.end()
    assert code == 5
    assert TIMEOUT <= seconds < AT_LATEST
    assert line.startswith(f"paceline: rank {speaks}: ")
    assert re.search(
        r": tiny 512 .*: (the ranks' agreement|a maximum over ranks) did not finish in 3 s; ", line
    )
    assert f"; rank {stopped} did not arrive and did not answer; " in line
    assert "--timeout" in line
    wait_until(lambda: not any(map(is_alive, in_long_case.pids.values())), 5)

    times = {}
    for path in (tmp_path / "out.h5.cases").glob("*.h5"):
        columns = summary(path)
        times |= dict(zip(columns["context"], columns["step_median_s"], strict=True))
    assert sorted(times) == FINISHED
    assert paceline("merge", "out.h5").code == 0
    columns = summary(tmp_path / "out.h5")
    assert dict(zip(columns["context"], columns["step_median_s"], strict=True)) == times


def test_two_stopped_ranks_are_both_named(in_long_case):
    for rank in (0, 1):
        in_long_case.signal(rank, signal.SIGSTOP)
    code, line, seconds = in_long_case.end()
    assert code == 5
    assert seconds < AT_LATEST
    assert line.startswith("paceline: rank 2: ")
    assert "; ranks 0, 1 did not arrive and did not answer; " in line


def test_a_rank_that_comes_late_but_while_it_is_asked_for_ends_nothing(in_long_case):
    in_long_case.signal(1, signal.SIGSTOP)
    time.sleep(TIMEOUT + ANSWERS_TAKE * 0.6)
    in_long_case.signal(1, signal.SIGCONT)
    time.sleep(ANSWERS_TAKE * 1.5)
    assert in_long_case.run.poll() is None
    os.kill(in_long_case.run.pid, signal.SIGUSR1)
    code, line, _ = in_long_case.end()
    assert code == 6, line


def test_a_rank_that_does_something_else_answers_but_did_not_arrive(tmp_path, launch):
    """Rank 0 waits ten seconds for the output of another run, the other ranks for rank 0."""
    folder = tmp_path / "out.h5.cases"
    folder.mkdir()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, line, seconds = launch(*MODEL, LONG).end()
    assert code == 5
    assert seconds < AT_LATEST
    assert "; rank 0 did not arrive; " in line


def test_a_rank_stopped_in_a_collective_is_named_with_it(paceline, tmp_path, in_long_collective):
    in_long_collective.signal(1, signal.SIGSTOP)
    code, line, seconds = in_long_collective.end()
    assert code == 5
    assert TIMEOUT <= seconds < AT_LATEST
    at = r"paceline: rank 0: (mpi|nccl) all_reduce 100000000 .*: "
    # A GPU may finish what the stopped rank had enqueued.
    waits = "((20 times )?all_reduce of 100 MB|the ranks' agreement)"
    assert re.match(f"{at}{waits} did not finish in 3 s; ", line)
    assert "; rank 1 did not arrive and did not answer; " in line
    wait_until(lambda: not any(map(is_alive, in_long_collective.pids.values())), 5)
    assert finished_bytes(paceline, tmp_path) == [1000 * n for n in FINISHED]


def test_a_rank_killed_in_a_collective_ends_the_launch_at_once(
    paceline, tmp_path, in_long_collective
):
    in_long_collective.signal(1, signal.SIGKILL)
    started = time.monotonic()
    in_long_collective.run.communicate(timeout=30)
    assert in_long_collective.run.returncode != 0
    assert time.monotonic() - started < TIMEOUT
    wait_until(lambda: not any(map(is_alive, in_long_collective.pids.values())), 5)
    assert finished_bytes(paceline, tmp_path) == [1000 * n for n in FINISHED]
