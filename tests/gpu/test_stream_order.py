"""launch() may start a kernel before the previous one has ended: see cuda/runtime/launch.cuh."""

import re
from pathlib import Path

CUDA = Path(__file__).parents[2] / "cuda"
SOURCES = sorted([*CUDA.rglob("*.cu"), *CUDA.rglob("*.cuh")])


def test_every_kernel_waits_for_its_stream_first():
    kernels = 0
    for source in SOURCES:
        for kernel in re.split(r"\b__global__\b", source.read_text())[1:]:
            kernels += 1
            body = kernel[kernel.index("{") + 1 :].lstrip()
            assert body.startswith("wait_for_stream();"), f"{source.name}: {kernel[:80]}"
    assert kernels > 20


def test_every_kernel_is_started_by_launch():
    for source in SOURCES:
        assert "<<<" not in source.read_text(), source.name
