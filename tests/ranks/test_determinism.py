"""Several launches of one training run end with bitwise equal weights."""

import h5py
import numpy as np
import pytest

from conftest import gpu_count

STRATEGIES = {
    "bucketed": ("ddp", "--sync", "bucketed", "--bucket-mb", "0.01"),
    "zero1": ("zero", "--shard", "zero1"),
    "fsdp": ("zero", "--shard", "fsdp", "--prefetch", 2),
}
SIZE = ("--d-model", 16, "--d-ff", 24, "--layers", 3, "--heads", 2, "--vocab", 50, "--context", 12)
RUN = ("--threads", 1, "--warmup", 0, "--steps", 5, "--deterministic", "--quiet", "--force")


def weights(path):
    with h5py.File(path) as file:
        return {name: values[:] for name, values in file["weights"].items()}


@pytest.mark.parametrize("launches", [2, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["cpu", "cuda", "cuda compiled"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_launches_end_with_the_same_weights(paceline, tmp_path, strategy, how, launches):
    device, *compiled = how.split()
    ranks = 3 if device == "cpu" else gpu_count()
    if ranks < 2:
        pytest.skip(f"needs 2 GPUs, {ranks} here")
    where = ("--device", device, "--exec", *(compiled or ["eager"]))
    line = (*STRATEGIES[strategy], *SIZE, *where, *RUN)
    first = None
    for _ in range(launches):
        done = paceline(*line, "--output", "out.h5", "--dump", "dump.h5", ranks=ranks)
        assert done.code == 0, done.err
        now = weights(tmp_path / "dump.h5")
        first = first or now
        assert now.keys() == first.keys()
        assert len(now) > 10
        for name, values in now.items():
            assert np.array_equal(values.view(np.uint32), first[name].view(np.uint32)), name
