"""How attention.py and gloo_all_reduce.py take their times, with a mock for PyTorch."""

from types import SimpleNamespace


def test_attention_is_timed_by_events_between_which_only_its_phase_runs(with_stub_of_torch):
    """Events give milliseconds. Warm-up does not count; a cold cache is flushed before each phase,
    outside its events."""
    attention = with_stub_of_torch("attention")
    now = [0.0]

    class Event:
        def record(self):
            self.at = now[0]

        def elapsed_time(self, end):
            return end.at - self.at

    def work(milliseconds):
        now[0] += milliseconds

    attention.torch.cuda.Event.side_effect = lambda enable_timing: Event()
    flush = SimpleNamespace(zero_=lambda: work(50.0))
    works = {"forward": lambda: work(2.0), "backward": lambda: work(5.0)}
    options = SimpleNamespace(warmup=2, steps=3, cache="cold")
    found = attention.seconds(works, options, flush)
    assert found == {"forward": [0.002] * 3, "backward": [0.005] * 3}
    assert now[0] == 5 * (50 + 2 + 50 + 5)
    now[0] = 0.0
    options.cache = "warm"
    assert attention.seconds(works, options, flush) == found
    assert now[0] == 5 * (2 + 2 + 5)


def test_gloo_is_timed_after_the_barrier_on_the_slowest_rank(with_stub_of_torch, monkeypatch):
    gloo = with_stub_of_torch("gloo_all_reduce")
    now = [0.0]
    buffers = []

    def all_reduce(x, op=None):
        if op is None:  # the measured call
            now[0] += 0.25
        else:
            assert op is gloo.dist.ReduceOp.MAX
            buffers.append(x)

    def barrier():
        now[0] += 10

    gloo.dist.all_reduce.side_effect = all_reduce
    gloo.dist.barrier.side_effect = barrier
    gloo.torch.tensor.side_effect = lambda values, dtype: values[0]
    monkeypatch.setattr(gloo.time, "perf_counter", lambda: now[0])
    assert gloo.sample(object()) == 0.25
    assert buffers == [0.25]
