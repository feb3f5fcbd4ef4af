"""A training step in PyTorch, eager, compiled and captured, for comparison with paceline's `model`.

    python3 bench/peers/train_step.py --size small --precision bf16 --attention flash

Prints one JSON line per variant, with paceline's column names. The model is the course's (pre-norm,
RMSNorm, RoPE, SwiGLU, untied head); AdamW is fused. Attention is naive (stores the T x T matrix) or
flash (scaled_dot_product_attention with the fastest backend at the case's shape).

Variants: eager, and torch.compile of the model with its loss in the modes default ("compile"),
reduce-overhead and max-autotune-no-cudagraphs. The "captured" variants run the whole step (as much
of forward, backward and optimizer as --mode selects) as one CUDA graph, without Python.
reduce-overhead has no captured variant, because it uses CUDA graphs itself.
"""

import argparse
import gc
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from step_cases import ATTENTIONS, MODES, PRECISIONS, VARIANTS, dimensions
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
CAPTURE_WARMUP = 3  # steps before the capture, which make all first-use allocations


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (self.weight * scaled).to(x.dtype)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((cos * even - sin * odd, sin * even + cos * odd), -1).flatten(-2)


def naive_attention(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    weights = torch.where(keep, scores, float("-inf")).softmax(-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def flash_attention(q: Tensor, k: Tensor, v: Tensor, _keep: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, attention: str) -> None:
        super().__init__()
        self.heads = heads
        self.attend = naive_attention if attention == "naive" else flash_attention
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, keep: Tensor) -> Tensor:
        batch, context, width = x.shape
        q, k, v = (
            linear(x).view(batch, context, self.heads, -1).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        mixed = self.attend(rope(q, cos, sin), rope(k, cos, sin), v, keep)
        return self.out(mixed.transpose(1, 2).reshape(batch, context, width))


class Block(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, attention: str) -> None:
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, attention)
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, keep: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x), cos, sin, keep)
        n = self.ln2(x)
        return x + self.w2(functional.silu(self.w1(n)) * self.w3(n))


class Transformer(nn.Module):
    """Maps tokens and targets [B, T] to the mean loss: the loss is compiled with the model."""

    def __init__(self, size: str, vocab: int, context: int, attention: str) -> None:
        super().__init__()
        width, inner, layers, heads = dimensions(size)
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, inner, heads, attention) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        half = torch.arange(0, width // heads, 2) / (width // heads)
        angle = torch.outer(torch.arange(context).float(), 10000.0**-half)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.register_buffer("keep", torch.ones(context, context).tril().bool(), persistent=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.keep)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Trainer:
    """One model with its optimizer and batch. `step` is the timed step; `setup_s` is the time to
    build the model and to run the first step, which compiles it."""

    def __init__(self, options: argparse.Namespace, compile_mode: str | None) -> None:
        began = time.perf_counter()
        self.mode = options.mode
        self.low = HALF.get(options.precision)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
        with torch.device("cuda"):
            model = Transformer(options.size, options.vocab, options.context, options.attention)
            rows = torch.randint(options.vocab, (options.batch_size, options.context + 1))
        self.tokens, self.targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=True)
        self.loss = torch.compile(model, mode=compile_mode) if compile_mode else model
        self.step()
        torch.cuda.synchronize()
        self.setup_s = time.perf_counter() - began

    def step(self) -> None:
        # Needed for --mode forward: CUDA graph trees see the end of a step only in its backward.
        torch.compiler.cudagraph_mark_step_begin()
        # Frees the last gradients before forward allocates activations.
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", self.low, enabled=self.low is not None):
            loss = self.loss(self.tokens, self.targets)
        if self.mode == "forward":
            return
        loss.backward()
        if self.mode == "train-step":
            self.optimizer.step()


def captured(step: Callable[[], None], drop: Callable[[], None]) -> Callable[[], None]:
    """`step` as one CUDA graph. `drop` frees the gradients, which the graph then allocates anew in
    its private memory pool."""
    for _ in range(CAPTURE_WARMUP):
        step()
    drop()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        step()
    return graph.replay


def seconds_of(step: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def attention_seconds(options: argparse.Namespace, backend: str) -> float:
    """Seconds of attention, forward and backward, in one layer; infinity if the backend has no
    kernel for the case."""
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
            step = captured(work, drop=lambda: None)
    except RuntimeError:
        return float("inf")
    return min(seconds_of(step) for _ in range(10))


def measure(options: argparse.Namespace, trainer: Trainer, variant: str) -> dict[str, object]:
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    step = trainer.step
    if VARIANTS[variant].captured:
        step = captured(step, drop=lambda: trainer.optimizer.zero_grad(set_to_none=True))
    for _ in range(options.warmup):
        step()
    torch.cuda.synchronize()
    setup = time.perf_counter() - began
    samples = sorted(seconds_of(step) for _ in range(options.steps))
    return {
        "status": "ok",
        "step_median_s": statistics.median(samples),
        "step_min_s": samples[0],
        "step_max_s": samples[-1],
        "setup_s": trainer.setup_s + setup,
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }


def outcomes(
    options: argparse.Namespace, compile_mode: str | None, variants: list[str]
) -> Iterator[dict[str, object]]:
    """One row per variant, in the given order. All variants have this compile mode."""
    trainer = None
    for variant in variants:
        try:
            trainer = trainer or Trainer(options, compile_mode)
            row = measure(options, trainer, variant)
        except torch.cuda.OutOfMemoryError as error:
            row = {"status": "oom", "reason": str(error).splitlines()[0]}
        except Exception as error:  # a failure of torch.compile must not end the other variants
            row = {"status": "failed", "reason": f"{type(error).__name__}: {error}".splitlines()[0]}
        yield {"variant": variant, "exec": "compiled" if compile_mode else "eager", **row}


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    backend = ""
    if options.attention == "flash":
        backend = min(BACKENDS, key=lambda name: attention_seconds(options, name))
    case = {
        "software": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "size": options.size,
        "context": options.context,
        "batch_size": options.batch_size,
        "precision": options.precision,
        "attention": options.attention,
        "sdpa_backend": backend,
        "mode": options.mode,
    }
    with sdpa_kernel(BACKENDS[backend]) if backend else nullcontext():
        for compile_mode, group in itertools.groupby(
            options.variants, key=lambda variant: VARIANTS[variant].compile_mode
        ):
            for row in outcomes(options, compile_mode, list(group)):
                yield case | row
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", help="a name, or D_MODELxD_FFxLAYERSxHEADS")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--mode", choices=MODES, default="train-step")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("context", 128), ("batch-size", 4), ("vocab", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    # Inputs are made on a side stream: graph capture must not touch the default stream, with which
    # autograd would otherwise synchronize.
    with torch.cuda.stream(torch.cuda.Stream()):
        for row in rows(options):
            print(json.dumps(row), flush=True)
            ok = row["status"] == "ok"
            outcome = f"{1e3 * row['step_median_s']:.2f} ms" if ok else row["reason"]
            print(f"{row['variant']}: {outcome}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
