"""What the steps of PyTorch share: synchronization, CUDA graphs and the choice of attention."""

import argparse
from collections.abc import Callable

import torch
from step_cases import dimensions
from timing import seconds_of
from torch.nn import functional
from torch.nn.attention import sdpa_kernel
from transformer import BACKENDS

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
CAPTURE_WARMUP = 3  # steps before the capture, which make all first-use allocations


def captured(step: Callable[[], None]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream()
    # NCCL's threads may make calls that this one must not make during the capture.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        step()
    return graph.replay


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def fastest_backend(options: argparse.Namespace) -> str:
    """The backend whose captured forward and backward take least time at the case's shape."""
    if options.device == "cpu":
        return "flash"

    def seconds(backend: str) -> float:
        width, _, _, heads = dimensions(options.size)
        shape = (options.batch_size, options.context, heads, width // heads)
        dtype = HALF.get(options.precision, torch.float32)
        q, k, v, d_out = (
            torch.randn(shape, device="cuda", dtype=dtype).transpose(1, 2).requires_grad_()
            for _ in range(4)
        )

        def work() -> None:
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            torch.autograd.grad(out, (q, k, v), d_out)

        try:
            with sdpa_kernel(BACKENDS[backend]):
                for _ in range(CAPTURE_WARMUP):
                    work()
                step = captured(work)
        except RuntimeError:  # no kernel for the case
            return float("inf")
        return min(seconds_of(step, synchronize) for _ in range(10))

    return min(BACKENDS, key=seconds)


def software() -> str:
    parts = [f"PyTorch {torch.__version__}"]
    if torch.cuda.is_available():
        parts.append(f"cuDNN {torch.backends.cudnn.version()}")
        parts.append(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}")
    return ", ".join(parts)
