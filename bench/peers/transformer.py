"""The course's Transformer in PyTorch: pre-norm, RMSNorm, RoPE, SwiGLU, untied head.

Every layer's input is the residual stream x [B, T, D] and the last sublayer's output, which the
block's first norm adds to it. A compiled block then fuses that addition with the norm, as a
compiled model does across blocks.
"""

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from step_cases import dimensions
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


Tables = tuple[Tensor, Tensor, Tensor]  # cosines and sines of RoPE; the causal mask


class Form(NamedTuple):
    """What the model computes is the same in all forms but for rounding."""

    attention: str = "naive"  # naive: stores the T x T matrix
    backend: str = ""  # of flash attention: one of BACKENDS, or flash4
    fused_matmuls: bool = False  # q, k and v in one, and w1 and w3
    fp32_residual: bool = False  # with bf16 weights: the residual stream, as autocast has it


class RMSNorm(nn.Module):
    """The output has the dtype of the weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (self.weight * scaled).to(self.weight.dtype)


class Linears(nn.Module):
    """Linear layers of one input: a matmul for each, or one for all. Initial weights are the same
    in both forms."""

    def __init__(self, width: int, outputs: list[int], fused: bool) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        drawn = [torch.empty(n, width).uniform_(-bound, bound) for n in outputs]
        weights = [torch.cat(drawn)] if fused and len(drawn) > 1 else drawn
        self.outputs = outputs
        self.layers = nn.ModuleList(
            nn.Linear(width, len(w), bias=False, device="meta") for w in weights
        )
        for layer, weight in zip(self.layers, weights, strict=True):
            layer.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        if len(self.layers) == len(self.outputs):
            return tuple(layer(x) for layer in self.layers)
        return self.layers[0](x).split(self.outputs, -1)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = torch.stack((cos * even - sin * odd, sin * even + cos * odd), -1)
    return rotated.flatten(-2).to(x.dtype)


def naive_attention(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    weights = torch.where(keep, scores, float("-inf")).softmax(-1, dtype=torch.float32)
    return torch.einsum("bhqk,bhkd->bhqd", weights.to(v.dtype), v)


def flash4_attention() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """FlashAttention-4 (package flash-attn-4). Raises ImportError if it is not installed."""
    from flash_attn.cute import flash_attn_func

    @torch.compiler.disable  # it compiles its kernels itself, at its first call
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = (x.transpose(1, 2) for x in (q, k, v))  # [B, T, H, d]
        out = flash_attn_func(*rows, causal=True)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return attend


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, form: Form) -> None:
        super().__init__()
        self.heads = heads
        self.form = form
        self.flash4 = flash4_attention() if form.backend == "flash4" else None
        self.qkv = Linears(width, [width] * 3, form.fused_matmuls)
        self.out = Linears(width, [width], fused=False)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        if self.form.attention == "naive":
            return naive_attention(q, k, v, keep)
        if self.flash4:
            return self.flash4(q, k, v)
        with sdpa_kernel(BACKENDS[self.form.backend]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        cos, sin, keep = tables
        batch, context, width = x.shape
        q, k, v = (
            part.view(batch, context, self.heads, -1).transpose(1, 2) for part in self.qkv(x)
        )
        mixed = self.attend(rope(q, cos, sin), rope(k, cos, sin), v, keep)
        return self.out(mixed.transpose(1, 2).reshape(batch, context, width))[0]


class Block(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, form: Form) -> None:
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, form)
        self.w13 = Linears(width, [inner] * 2, form.fused_matmuls)
        self.w2 = Linears(inner, [width], fused=False)

    def forward(self, x: Tensor, last: Tensor | None, tables: Tables) -> tuple[Tensor, Tensor]:
        if last is not None:
            x = x + last
        x = x + self.attention(self.ln1(x), tables)
        gate, up = self.w13(self.ln2(x))
        return x, self.w2(functional.silu(gate) * up)[0]


class Head(nn.Module):
    """The last norm, the logits and the mean loss."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.norm = RMSNorm(width)
        self.linear = Linears(width, [vocab], fused=False)

    def forward(self, x: Tensor, last: Tensor, targets: Tensor) -> Tensor:
        logits = self.linear(self.norm(x + last))[0]
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Transformer(nn.Module):
    """Maps tokens and targets [B, T] to the mean loss: the loss is compiled with the model."""

    def __init__(self, size: str, vocab: int, context: int, form: Form) -> None:
        super().__init__()
        width, inner, layers, heads = dimensions(size)
        self.form = form
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, inner, heads, form) for _ in range(layers))
        self.head = Head(width, vocab)
        half = torch.arange(0, width // heads, 2) / (width // heads)
        angle = torch.outer(torch.arange(context).float(), 10000.0**-half)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.register_buffer("keep", torch.ones(context, context).tril().bool(), persistent=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x, last = self.embedding(tokens), None
        if self.form.fp32_residual:
            x = x.float()
        for block in self.blocks:
            x, last = block(x, last, (self.cos, self.sin, self.keep))
        return self.head(x, last, targets)

    def compile_parts(self, **settings: object) -> None:
        """Compiles the blocks, which share their code, and the head: the time to compile does not
        depend on the number of blocks."""
        for part in (*self.blocks, self.head):
            part.compile(**settings)


def compile_settings(options: argparse.Namespace, mode: str = "default") -> dict[str, object]:
    """Arguments of torch.compile. `--compiler` is for tests: only inductor has modes."""
    of_inductor = {"mode": mode} if options.compiler == "inductor" else {}
    return {"backend": options.compiler, "dynamic": False} | of_inductor
