"""The same training step in PyTorch, at its best: what paceline's `model` is compared with.

    python3 bench/peers/train_step.py --size small --precision fp32 --variants captured

One JSON line per variant, with paceline's column names. The model is the course's (pre-norm,
RMSNorm, RoPE, SwiGLU, untied head, naive attention that keeps the T x T matrix); AdamW is fused.
Variants: eager; captured (the whole eager step in one CUDA graph: no Python is left); compile
(torch.compile); reduce-overhead (its CUDA graphs); captured-compile (the compiled step captured
whole). A capture runs forward, backward and optimizer; weights, gradients and Adam's state keep
their memory.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZES = {
    "tiny": (64, 192, 2, 4),
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7b": (2560, 10240, 32, 32),
}
VARIANTS = ("eager", "captured", "compile", "reduce-overhead", "captured-compile")
CAPTURE_WARMUP = 3  # steps on a side stream, so that nothing is allocated while capturing


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


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, keep: Tensor) -> Tensor:
        batch, context, width = x.shape
        q, k, v = (
            linear(x).view(batch, context, self.heads, -1).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (width // self.heads) ** 0.5
        weights = torch.where(keep, scores, float("-inf")).softmax(-1)
        mixed = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, context, width))


class Block(nn.Module):
    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads)
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, keep: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x), cos, sin, keep)
        n = self.ln2(x)
        return x + self.w2(functional.silu(self.w1(n)) * self.w3(n))


class Transformer(nn.Module):
    def __init__(self, size: str, vocab: int, context: int) -> None:
        super().__init__()
        width, inner, layers, heads = SIZES[size]
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, inner, heads) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        half = torch.arange(0, width // heads, 2) / (width // heads)
        angle = torch.outer(torch.arange(context).float(), 10000.0**-half)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.register_buffer("keep", torch.ones(context, context).tril().bool(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.keep)
        return self.head(self.norm(x))


@dataclass
class Trainer:
    """One model with its optimizer and batch; `step` is what is timed."""

    options: argparse.Namespace
    variant: str

    def __post_init__(self) -> None:
        o = self.options
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = o.precision == "tf32"
        with torch.device("cuda"):
            self.model = Transformer(o.size, o.vocab, o.context)
            rows = torch.randint(o.vocab, (o.batch_size, o.context + 1))
        self.tokens, self.targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True, capturable=True)
        self.forward: Callable[[Tensor], Tensor] = self.model
        if "compile" in self.variant:
            self.forward = torch.compile(self.model)
        elif self.variant == "reduce-overhead":
            self.forward = torch.compile(self.model, mode="reduce-overhead")

    def step(self) -> None:
        # Before forward, so that no activation lies beside the gradients of the step before.
        self.optimizer.zero_grad(set_to_none=True)
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.options.precision)
        with torch.autocast("cuda", low, enabled=low is not None):
            logits = self.forward(self.tokens)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), self.targets.flatten())
        loss.backward()
        self.optimizer.step()

    def captured(self) -> Callable[[], None]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CAPTURE_WARMUP):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        # Gradients that do not exist yet are made inside the graph's own memory.
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def seconds_of(step: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(options: argparse.Namespace, variant: str) -> dict[str, object]:
    began = time.perf_counter()
    torch.cuda.reset_peak_memory_stats()
    trainer = Trainer(options, variant)
    step = trainer.captured() if variant.startswith("captured") else trainer.step
    for _ in range(options.warmup):
        step()
    torch.cuda.synchronize()
    setup = time.perf_counter() - began
    samples = sorted(seconds_of(step) for _ in range(options.steps))
    return {
        "software": f"PyTorch {torch.__version__}",
        "variant": variant,
        "size": options.size,
        "context": options.context,
        "batch_size": options.batch_size,
        "precision": options.precision,
        "attention": "naive",
        "mode": "train-step",
        "status": "ok",
        "step_median_s": statistics.median(samples),
        "step_min_s": samples[0],
        "step_max_s": samples[-1],
        "setup_s": setup,
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("context", 128), ("batch-size", 4), ("vocab", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    for variant in options.variants:
        try:
            row = measure(options, variant)
        except torch.cuda.OutOfMemoryError as error:
            row = {"variant": variant, "status": "oom", "reason": str(error).splitlines()[0]}
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
