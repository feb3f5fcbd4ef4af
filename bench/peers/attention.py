"""Attention in PyTorch, for comparison with paceline's `attention`.

    python3 bench/peers/attention.py --heads 16 --context 2048,8192 --head-dim 128 --causal no,yes

Prints one JSON line per case and variant, with paceline's column names. Variants: flash, cudnn and
efficient are backends of scaled_dot_product_attention (FlashAttention-2, cuDNN, and the
memory-efficient kernel, which supports float32); flash4 is FlashAttention-4 (the package
flash-attn-4), in its own layout [B, S, H, d]; flex is flex_attention, compiled through Triton;
naive is softmax(Q K^T) V in eager mode; compile is torch.compile of naive. q, k and v are
[B, H, S, d] from a normal distribution.

A repetition is a forward, a backward, and a forward with a backward, in paceline's order, because
GPU clocks under a power limit depend on the preceding work. Each is timed by events on the stream.
--cache cold flushes the L2 cache before each. --launch graph replays each as a CUDA graph.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable

import torch
from attention_cases import FACTORS, VARIANTS
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def naive(causal: bool) -> Attention:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
            scores = scores.masked_fill(~keep, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v

    return attend


def flex(causal: bool, context: int) -> Attention:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    mask = None
    if causal:
        mask = create_block_mask(
            lambda b, h, i, j: i >= j, None, None, context, context, device="cuda"
        )
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def flash4(causal: bool) -> Attention:
    from flash_attn.cute import flash_attn_func

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return attend


def attention(variant: str, causal: bool, context: int) -> Attention:
    if variant == "flex":
        return flex(causal, context)
    if variant == "flash4":
        return flash4(causal)
    if variant in ("naive", "compile"):
        return torch.compile(naive(causal)) if variant == "compile" else naive(causal)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(BACKENDS[variant]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


def captured(work: Callable[[], object]) -> Callable[[], object]:
    for _ in range(3):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        work()
    return graph.replay


def phases(case: dict[str, object], variant: str) -> dict[str, Callable[[], object]]:
    shape = tuple(int(case[name]) for name in ("batch_size", "heads", "context", "head_dim"))
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v, d_o = (
        torch.randn(shape, generator=generator, device="cuda").to(DTYPES[str(case["precision"])])
        for _ in range(4)
    )
    if variant == "flash4":
        q, k, v, d_o = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, d_o))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    attend = attention(variant, case["causal"] == "yes", int(case["context"]))
    kept = attend(*inputs)

    def forward() -> Tensor:
        with torch.no_grad():
            return attend(*inputs)

    return {
        "forward": forward,
        "backward": lambda: torch.autograd.grad(kept, inputs, d_o, retain_graph=True),
        "both": lambda: torch.autograd.grad(attend(*inputs), inputs, d_o),
    }


def seconds(
    works: dict[str, Callable[[], object]], options: argparse.Namespace, flush: Tensor
) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in works}
    for i in range(options.warmup + options.steps):
        events = {}
        if options.cache == "warm":  # keeps the GPU busy while the first phase is enqueued
            works["forward"]()
        for name, work in works.items():
            if options.cache == "cold":
                flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            events[name] = (begin, end)
        torch.cuda.synchronize()
        if i >= options.warmup:
            for name, (begin, end) in events.items():
                samples[name].append(begin.elapsed_time(end) / 1e3)
    return samples


def measure(
    options: argparse.Namespace, case: dict[str, object], variant: str
) -> dict[str, object]:
    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    works = phases(case, variant)
    if options.launch == "graph":
        works = {name: captured(work) for name, work in works.items()}
    row: dict[str, object] = {"status": "ok"}
    for name, timed in seconds(works, options, flush).items():
        row |= {f"{name}_median_s": statistics.median(timed), f"{name}_min_s": min(timed)}
    row["peak_bytes"] = torch.cuda.max_memory_allocated()
    return row


def parsed() -> argparse.Namespace:
    def listed(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("batch-size", "8"), ("heads", "1"), ("context", "1024")):
        parser.add_argument(f"--{name}", type=listed, default=[default])
    parser.add_argument("--head-dim", type=listed, default=["64"])
    parser.add_argument("--causal", type=listed, default=["no"])
    parser.add_argument("--precision", type=listed, default=["bf16"])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--launch", choices=["direct", "graph"], default="direct")
    parser.add_argument("--cache", choices=["cold", "warm"], default="cold")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    torch.backends.cuda.matmul.allow_tf32 = False
    for values in itertools.product(*(getattr(options, name) for name in FACTORS)):
        case = dict(zip(FACTORS, values, strict=True))
        for variant in options.variants:
            row = {"software": f"PyTorch {torch.__version__}", "variant": variant} | case
            torch.cuda.reset_peak_memory_stats()
            try:
                # Inputs are made on a side stream: graph capture must not touch the default stream,
                # with which autograd would otherwise synchronize.
                with torch.cuda.stream(torch.cuda.Stream()):
                    row |= measure(options, case, variant)
            except torch.cuda.OutOfMemoryError as error:
                row |= {"status": "oom", "reason": str(error).splitlines()[0]}
            # No package, or no kernel for the case: FlashAttention-4 asserts that it has one.
            except (AssertionError, ImportError, RuntimeError) as error:
                reason = (str(error) or repr(error)).splitlines()[0]
                row |= {"status": "skipped", "reason": reason}
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            print(json.dumps(row | {"launch": options.launch, "cache": options.cache}), flush=True)


if __name__ == "__main__":
    main()
