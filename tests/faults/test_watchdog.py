"""Ranks that hang: the others end the launch, with one line that names the missing ranks."""

import contextlib
import os
import re
import signal
import time

import pytest

from conftest import HOST, PATIENCE, PROGRAM, ended, needs_gpu_per_rank, run_line, start, wait_until
from processes import is_alive, processor_seconds, ranks_of
from result_files import step_times, summary

RANKS = 3
TIMEOUT = 3
COMMON = ("--threads", 1, "--warmup", 1, "--output", "out.h5", "--quiet")
MODEL = ("model", "--device", "cpu", *COMMON, "--size", "tiny", "--steps", 40)
FINISHED = [8, 9, 10]
LONG = 512  # this case outlasts a test
WAITS = PROGRAM.with_name("waits")


class Launch:
    def __init__(self, folder, ranks, arguments):
        self.ranks = ranks
        self.run = start(folder, ranks, *arguments)
        self.pids = {}
        self.since = time.monotonic()  # the time of the last signal

    def found_all_ranks(self):
        self.pids = ranks_of(self.run)
        return set(self.pids) == set(range(self.ranks))

    def signal(self, rank, which):
        self.since = time.monotonic()
        os.kill(self.pids[rank], which)

    def nobody_is_left(self):
        return not any(map(is_alive, self.pids.values()))

    def end(self):
        """The exit code, our line on stderr, and the seconds since the last signal."""
        done = ended(self.run)
        return done.code, done.message, time.monotonic() - self.since

    def kill(self):
        self.run.kill()
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run.communicate(timeout=PATIENCE)


@pytest.fixture
def launch(tmp_path):
    """launch(*arguments): a run with the pids of its ranks, which are killed after the test."""
    launches = []

    def start_one(*arguments, ranks=RANKS):
        launches.append(Launch(tmp_path, ranks, arguments))
        wait_until(launches[-1].found_all_ranks)
        return launches[-1]

    yield start_one
    for one in launches:
        one.kill()


def wait_for_long_case(run, folder):
    """Waits until all cases but the long one are finished and the long one is running."""
    cases = folder / "out.h5.cases"
    wait_until(lambda: len(list(cases.glob("*.h5"))) == len(FINISHED))
    used = {pid: processor_seconds(pid) for pid in run.pids.values()}
    wait_until(lambda: all(processor_seconds(pid) > used[pid] + 0.7 for pid in used))


@pytest.fixture
def in_long_case(launch, tmp_path):
    """in_long_case(*experiment): a launch whose long case is running."""

    def start_one(*experiment):
        contexts = ",".join(map(str, [*FINISHED, LONG]))
        run = launch(*experiment, *MODEL[1:], "--timeout", TIMEOUT, "--context", contexts)
        wait_for_long_case(run, tmp_path)
        return run

    return start_one


@pytest.fixture(params=["mpi", "nccl"])
def in_long_collective(request, launch, tmp_path):
    """in_long_collective(timeout): the long case is a series of all_reduces of 50 MB."""
    ranks = RANKS if request.param == "mpi" else 2
    needs_gpu_per_rank(request.param, ranks)
    sizes = ",".join([*(f"{n}KB" for n in FINISHED), "50MB"])
    where = ("--backend", request.param, "--cadence", "back-to-back", "--bytes", sizes)

    def start_one(timeout):
        limits = ("--steps", 500, "--timeout", timeout)
        run = launch("collectives", *COMMON, *where, *limits, ranks=ranks)
        wait_for_long_case(run, tmp_path)
        return run

    return start_one


def finished_bytes(paceline, folder):
    assert paceline("merge", "out.h5").code == 0
    return sorted(set(summary(folder / "out.h5")["bytes"]))


@pytest.mark.parametrize(
    ("experiment", "stopped", "what"),
    [
        (("model",), 0, "(the ranks' agreement|a maximum over ranks)"),
        (("zero", "--shard", "fsdp"), 1, ".*"),
    ],
    ids=["model", "fsdp"],
)
def test_a_stopped_rank_ends_the_launch_after_the_timeout(
    paceline, tmp_path, in_long_case, experiment, stopped, what
):
    run = in_long_case(*experiment)
    run.signal(stopped, signal.SIGSTOP)
    code, line, seconds = run.end()
    assert code == 5
    assert seconds >= TIMEOUT
    assert not line.startswith(f"paceline: rank {stopped}: ")  # the first of the others speaks
    assert re.search(rf": context 512: {what} did not finish in 3 s; ", line)
    assert f"; rank {stopped} on {HOST} did not arrive" in line
    assert "--timeout" in line
    wait_until(run.nobody_is_left)

    times = {}
    for path in (tmp_path / "out.h5.cases").glob("*.h5"):
        times |= step_times(path)
    assert sorted(times) == FINISHED
    assert paceline("merge", "out.h5").code == 0
    assert step_times(tmp_path / "out.h5") == times


def test_ranks_that_are_suspended_for_longer_than_the_timeout_go_on(in_long_case):
    run = in_long_case("model")
    run.signal(0, signal.SIGSTOP)
    time.sleep(1)  # in which the others begin to wait for rank 0
    for rank in (1, 2):
        run.signal(rank, signal.SIGSTOP)
    time.sleep(TIMEOUT + 3)
    for rank in (2, 1, 0):
        run.signal(rank, signal.SIGCONT)
        time.sleep(0.1)
    used = {pid: processor_seconds(pid) for pid in run.pids.values()}
    wait_until(lambda: all(processor_seconds(pid) > used[pid] + 0.7 for pid in used))
    assert run.run.poll() is None


def test_a_rank_stopped_in_a_collective_is_named_with_it(paceline, tmp_path, in_long_collective):
    run = in_long_collective(TIMEOUT)
    run.signal(1, signal.SIGSTOP)
    code, line, seconds = run.end()
    assert code == 5
    assert seconds >= TIMEOUT
    at = "paceline: rank 0: bytes 50000000: "
    # A GPU may still finish the work that the stopped rank had enqueued.
    waits = "((20 times )?all_reduce of 50.0 MB|the ranks' agreement|a barrier)"
    assert re.match(f"{at}{waits} did not finish in 3 s; ", line)
    assert f"; rank 1 on {HOST} did not arrive; " in line
    wait_until(run.nobody_is_left)
    assert finished_bytes(paceline, tmp_path) == [1000 * n for n in FINISHED]


def test_a_rank_that_a_collective_does_not_need_is_not_named(launch, tmp_path):
    sizes = ",".join([*(f"{n}KB" for n in FINISHED), "50MB"])
    where = ("--backend", "mpi", "--ranks", 2, "--cadence", "back-to-back", "--bytes", sizes)
    run = launch("collectives", *COMMON, *where, "--steps", 500, "--timeout", TIMEOUT)
    wait_until(lambda: len(list((tmp_path / "out.h5.cases").glob("*.h5"))) == len(FINISHED))
    run.signal(1, signal.SIGSTOP)
    code, line, _ = run.end()
    assert code == 5
    assert f" did not finish in 3 s; rank 1 on {HOST} did not arrive; " in line


def test_a_rank_killed_in_a_collective_ends_the_launch_without_the_watchdog(
    paceline, tmp_path, in_long_collective
):
    run = in_long_collective(10 * PATIENCE)
    run.signal(1, signal.SIGKILL)
    run.run.communicate(timeout=PATIENCE)
    assert run.run.returncode != 0
    wait_until(run.nobody_is_left)
    assert finished_bytes(paceline, tmp_path) == [1000 * n for n in FINISHED]


def test_a_rank_that_never_calls_mpi_ends_the_launch_after_the_timeout(tmp_path):
    """Before MPI_Init_thread() has returned, ranks have no watchdog."""
    late = f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep {10 * PATIENCE}; exec "$0" "$@"'
    words = ("mpirun", "--oversubscribe", "-np", RANKS, "sh", "-c", late, PROGRAM, *MODEL)
    done = run_line(tmp_path, (*words, "--timeout", 1))
    assert done.code == 5, done.err
    assert "MPI_Init_thread() did not finish in 21 s: a rank has not called it; " in done.message
    assert "--timeout" in done.message


def run_waits(folder, scenario):
    words = ("mpirun", "--oversubscribe", "-np", RANKS, WAITS, *scenario.split())
    return run_line(folder, words)


NOTHING = ""
STOOD = f"all_reduce of 1.00 KB did not finish in 1 s; rank 0 on {HOST} "
STEPPED = f"{STOOD}waited in another operation (a step)"
STOPPED = f"all_reduce of 1.00 KB did not finish in 1 s; ranks 0, 1 on {HOST} did not arrive"
AGAIN = f"all_reduce of 1.00 KB did not finish in 1 s; rank 1 on {HOST} did not arrive"
COMPUTED = "a step did not finish in 1 s; every rank arrived"


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        pytest.param("computing", NOTHING, id="computing"),
        pytest.param("many", NOTHING, id="many"),
        pytest.param("late", NOTHING, id="late"),
        pytest.param("busy", f"{STOOD}did not arrive", id="busy"),
        pytest.param("stopped", STOPPED, id="stopped"),
        pytest.param("again", AGAIN, id="again"),
        pytest.param("computing monitored", COMPUTED, id="computing_monitored"),
        pytest.param("many monitored", NOTHING, id="many_monitored"),
        pytest.param("late monitored", NOTHING, id="late_monitored"),
        pytest.param("busy monitored", STEPPED, id="busy_monitored"),
    ],
)
def test_a_step_whose_host_waits_for_collectives(tmp_path, scenario, message):
    """Between collectives in host memory a step has no time limit. A late rank ends nothing if it
    arrives soon after the timeout.

    A monitored communicator, as NCCL's, shows the watchdog no single collective: the step must make
    progress.
    """
    done = run_waits(tmp_path, scenario)
    if message == NOTHING:
        assert (done.code, "paceline: " in done.err) == (0, False), done.err
    else:
        assert done.code == 5
        assert f": {message}; " in done.message


def test_no_wait_returns_while_the_launch_is_aborted(tmp_path):
    done = run_waits(tmp_path, "released monitored")
    assert done.code == 5, done.err
    assert f"paceline: rank 0: {COMPUTED}" in done.err
    assert "went on" not in done.err
