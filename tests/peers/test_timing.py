"""bench/peers/timing.py: how PyTorch's steps are timed, warmed up and summarized."""

import numpy as np
import pytest
import timing

from synthetic import statistics


class Clock:
    """Stands in for time.perf_counter: work() takes the given seconds, and so does waiting for the
    device, which is busy for `device` seconds after work."""

    def __init__(self, monkeypatch, device=0.0):
        self.now = 100.0
        self.device = device
        self.busy = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def work(self, seconds=0.25):
        self.now += seconds
        self.busy += self.device

    def synchronize(self):
        self.now += self.busy
        self.busy = 0.0


def test_a_step_is_timed_until_the_device_is_idle(monkeypatch):
    clock = Clock(monkeypatch, device=0.5)
    clock.work()  # of before, which the sample must not include
    assert timing.seconds_of(clock.work, clock.synchronize) == pytest.approx(0.75)


def test_samples_and_warm_up_are_the_times_of_steps(monkeypatch):
    clock = Clock(monkeypatch)
    lengths = iter([4.0, 3.0, *[0.5, 0.25, 1.0] * 2, 9.0])

    def sample():
        return timing.seconds_of(lambda: clock.work(next(lengths)), clock.synchronize)

    row = timing.measured(sample, 2, 0, 6)
    assert row["samples"] == {"step": [[0.5, 0.25, 1.0] * 2]}
    assert row["samples_warmup"] == {"step": [[4.0, 3.0]]}
    assert row["warmup_reason"] == "warmup"
    assert (row["step_min_s"], row["step_median_s"], row["step_max_s"]) == (0.25, 0.5, 1.0)
    assert next(lengths) == 9.0


def test_warm_up_ends_as_in_paceline():
    def of(values, fewest, most):
        left = iter(values)
        seconds, reason = timing.warmed_up(lambda: next(left), fewest, most)
        return len(seconds), reason

    steady, rising = [0.3] * 60, [0.3 + 0.01 * i for i in range(60)]
    assert of(steady, 5, 0) == (5, "warmup")
    assert of(steady, 5, 30) == (10, "steady")  # 10 repetitions are 3 s
    assert of([0.1] * 60, 5, 30) == (20, "steady")  # 2 s
    assert of([0.01] * 60, 5, 30) == (30, "max_warmup")  # never 2 s
    assert of(rising, 5, 30) == (30, "max_warmup")
    settling = [*rising[:12], *[0.42] * 40]
    assert of(settling, 5, 40) == (20, "steady")


def test_a_trend_is_significant_and_not_small():
    """Both halves of the rule in docs/measuring.md."""
    rising = list(range(10))
    assert timing.has_trend([1 + 0.01 * i for i in rising])
    assert timing.has_trend([1 - 0.01 * i for i in rising])
    assert not timing.has_trend([1 + 0.0005 * i for i in rising])  # 0.25% between the halves
    assert timing.has_trend([1 + 0.0011 * i for i in rising])  # 0.55%
    assert not timing.has_trend([1, 1.1] * 5)


def test_the_statistics_are_those_of_our_files():
    """Over repetitions, each the maximum over ranks."""
    random = np.random.default_rng(0)
    for count in (1, 5, 6, 10, 31):
        seconds = random.random((2, count))
        found = timing.summary("step", seconds.tolist())
        expected = {f"step_{name}_s": value for name, value in statistics(seconds).items()}
        assert found == pytest.approx(expected, nan_ok=True)
