"""Signals: every finished case survives, every rank ends, and the code says how. Kills are in
test_random_kills.py."""

import os
import signal

import h5py
import pytest

from conftest import ended, wait_for_cases, wait_until
from processes import is_alive, processor_seconds, ranks_of
from result_files import step_times

CPU = ("--device", "cpu", "--threads", 1)
SHORT = list(range(8, 12))
LONG = 512  # this case outlasts a test
# A small vocabulary: otherwise it would dominate a step, which sanitizers make 100 times as long.
MODEL = ("--size", "tiny", "--vocab", 64)
ARGS = ("model", *MODEL, *CPU, "--warmup", 1, "--output", "out.h5", "--context")
STEPS = ("--steps", 100)
SWEEP = (*ARGS, ",".join(map(str, SHORT)), *STEPS)
SWEEP_AND_LONG = (*ARGS, ",".join(map(str, [*SHORT, LONG])), *STEPS)

ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize(
    ("ranks", "which"),
    [(0, signal.SIGTERM), (2, signal.SIGUSR1),
     *(pytest.param(0, end, marks=pytest.mark.long) for end in ENDS[1:])],
)  # fmt: skip
def test_a_stop_signal_keeps_finished_cases_and_resume_goes_on(
    paceline, tmp_path, launch, ranks, which
):
    run = launch(ranks, *SWEEP_AND_LONG)
    wait_for_cases(tmp_path, 2)
    run.send_signal(which)
    done = ended(run)
    assert done.code == 6, done.err
    assert "out.h5" in done.message
    assert "--resume" in done.message
    with h5py.File(tmp_path / "out.h5") as f:
        finished = list(f["cases"])
        assert not f.attrs["complete"]
    assert 2 <= len(finished) <= len(SHORT)
    assert not (tmp_path / "out.h5.cases").exists()

    kept = step_times(tmp_path / "out.h5")
    assert paceline(*SWEEP, "--resume", "--quiet", ranks=ranks).code == 0
    times = step_times(tmp_path / "out.h5")
    assert sorted(times) == SHORT
    assert all(times[context] == kept[context] for context in kept)
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["complete"]


@pytest.mark.parametrize("alone", [False, True])
def test_a_stop_signal_ends_verify(tmp_path, launch, alone):
    """While all ranks train, or while rank 0 trains alone; each takes seconds more."""
    verify = ("--context", 16, "--batch-size", 4, "--steps", 1, "--verify", 1000)
    run = launch(2, "ddp", *MODEL, *CPU, *verify, "--output", "out.h5")
    wait_until(lambda: (tmp_path / "out.h5.cases").exists())
    wait_until(lambda: len(ranks_of(run)) == 2)
    first, other = ranks_of(run).values()
    wait_until(lambda: min(processor_seconds(first), processor_seconds(other)) > 1)

    def only_rank_0_works():
        before = processor_seconds(first), processor_seconds(other)
        wait_until(lambda: processor_seconds(first) > before[0] + 0.3)
        return processor_seconds(other) < before[1] + 0.1

    if alone:
        wait_until(only_rank_0_works)
    used = [processor_seconds(first)]
    run.send_signal(signal.SIGUSR1)
    wait_until(lambda: used.append(processor_seconds(first)) or not is_alive(first))
    done = ended(run)
    assert done.code == 6, done.err
    assert "stopped by a signal" in done.err
    assert max(used) - used[0] < 1


def test_a_stop_signal_to_an_idle_rank_alone_stops_all(tmp_path, launch):
    sizes = ",".join(str(4 * n) for n in range(1, 2000))
    run = launch(
        *(2, "collectives", *CPU, "--ranks", 1, "--op", "all_reduce", "--bytes", sizes),
        *("--steps", 2, "--output", "out.h5"),
    )
    wait_for_cases(tmp_path, 2)
    os.kill(ranks_of(run)[1], signal.SIGTERM)
    done = ended(run)
    assert done.code == 6, done.err
    assert "stopped by a signal" in done.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert 2 <= len(f["cases"]) < 1999


def test_a_second_stop_signal_changes_nothing(tmp_path, launch):
    run = launch(2, *SWEEP_AND_LONG)
    wait_for_cases(tmp_path, 2)
    for _ in range(2):
        run.send_signal(signal.SIGUSR1)
    done = ended(run)
    assert done.code == 6, done.err
    assert done.message
    assert len(step_times(tmp_path / "out.h5")) >= 2
