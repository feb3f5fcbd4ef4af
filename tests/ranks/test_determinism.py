"""Several launches of one training run end with bitwise equal weights."""

import h5py
import numpy as np
import pytest

from conftest import gpu_count

STRATEGIES = {
    "ddp": ("--sync", "bucketed", "--bucket-mb", "0.01"),
    "zero": ("--shard", "fsdp", "--prefetch", 2),
}
SIZE = ("--d-model", 16, "--d-ff", 24, "--layers", 3, "--heads", 2, "--vocab", 50, "--context", 12)
RUN = ("--threads", 1, "--warmup", 0, "--steps", 5, "--deterministic", "--quiet", "--force")


def weights(path):
    with h5py.File(path) as file:
        return {name: values[:] for name, values in file["weights"].items()}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("experiment", STRATEGIES)
def test_launches_end_with_the_same_weights(paceline, tmp_path, experiment, device):
    ranks = 3 if device == "cpu" else gpu_count()
    if ranks < 2:
        pytest.skip(f"needs 2 GPUs, {ranks} here")
    line = (experiment, *SIZE, *STRATEGIES[experiment], "--device", device, *RUN)
    first = None
    for _ in range(4):
        done = paceline(*line, "--output", "out.h5", "--dump", "dump.h5", ranks=ranks)
        assert done.code == 0, done.err
        now = weights(tmp_path / "dump.h5")
        first = first or now
        assert now.keys() == first.keys()
        assert len(now) > 10
        for name, values in now.items():
            assert np.array_equal(values.view(np.uint32), first[name].view(np.uint32)), name
