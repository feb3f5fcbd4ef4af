"""The axes of the training-step comparison and PyTorch's variants. Does not import PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

SIZES = {
    "tiny": (64, 192, 2, 4),
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7b": (2560, 10240, 32, 32),
}
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
ATTENTIONS = ("naive", "flash")
MODES = ("forward", "forward-backward", "train-step")


@dataclass(frozen=True)
class Variant:
    compile_mode: str = ""  # of torch.compile; empty: eager
    captured: bool = False  # the whole step in one CUDA graph
    parts: bool = False  # blocks and head are compiled, which takes less time than the whole model
    master_weights: bool = False  # weights in the low precision beside float32 masters; no autocast
    fp32_residual: bool = False  # with master_weights: the residual stream is float32
    fused_matmuls: bool = False  # q, k and v in one matmul, and w1 and w3
    optimizer: str = "fused"  # torch.optim.AdamW(fused=True), or a compiled AdamW: each, foreach
    in_backward: bool = False  # parameters are updated in backward, which excludes clipping
    backend: str = ""  # of flash attention; empty: the fastest at the shape
    fp8: bool = False  # Linear layers by torchao


AUTOTUNED = "max-autotune-no-cudagraphs"
VARIANTS = {
    "eager": Variant(),
    "captured": Variant(captured=True),
    "compile": Variant("default"),
    "captured-compile": Variant("default", captured=True),
    "reduce-overhead": Variant("reduce-overhead"),
    AUTOTUNED: Variant(AUTOTUNED),
    "captured-max-autotune": Variant(AUTOTUNED, captured=True),
    "tuned": Variant("default", captured=True, parts=True, fused_matmuls=True, optimizer="foreach"),
    "master-weights": Variant(
        "default",
        captured=True,
        parts=True,
        master_weights=True,
        fused_matmuls=True,
        optimizer="foreach",
    ),
}
# What a suffix changes: "master-weights+cudnn+whole".
SUFFIXES = {
    "whole": {"parts": False},
    "parts": {"parts": True},
    "autotune": {"compile_mode": AUTOTUNED},
    "uncaptured": {"captured": False},
    "fused-matmuls": {"fused_matmuls": True},
    "separate-matmuls": {"fused_matmuls": False},
    "fp32-residual": {"fp32_residual": True},
    "fused-adamw": {"optimizer": "fused"},
    "each-adamw": {"optimizer": "each"},
    "foreach-adamw": {"optimizer": "foreach"},
    "in-backward": {"optimizer": "each", "in_backward": True},
    "flash": {"backend": "flash"},
    "cudnn": {"backend": "cudnn"},
    "efficient": {"backend": "efficient"},
    "flash4": {"backend": "flash4"},
    "fp8": {"fp8": True},
}

Chosen = TypeVar("Chosen")


def with_suffixes(
    text: str, named: Mapping[str, Chosen], suffixes: Mapping[str, dict[str, object]]
) -> Chosen:
    """The variant of a name, with what its suffixes change. Raises ValueError."""
    name, *words = text.split("+")
    if name not in named or not set(words) <= suffixes.keys():
        raise ValueError(f"{text}: is NAME[+SUFFIX...] of {[*named]} and {[*suffixes]}")
    chosen = named[name]
    for word in words:
        chosen = replace(chosen, **suffixes[word])
    return chosen


def variant(text: str) -> Variant:
    """Of a name and its suffixes, such as captured-compile+flash4. Raises ValueError."""
    chosen = with_suffixes(text, VARIANTS, SUFFIXES)
    if chosen.master_weights and chosen.optimizer == "fused":
        raise ValueError(f"{text}: fused AdamW has no master weights")
    return chosen


def variant_name(text: str) -> str:
    """The text, if it names a variant: a type of an option."""
    variant(text)
    return text


def dimensions(size: str) -> tuple[int, int, int, int]:
    """(d_model, d_ff, layers, heads) of a named size or of text such as 512x2048x6x8.

    Raises ValueError for other texts."""
    if size in SIZES:
        return SIZES[size]
    d_model, d_ff, layers, heads = map(int, size.split("x"))
    return d_model, d_ff, layers, heads


def size_options(size: str) -> list[str]:
    """Of paceline."""
    if size in SIZES:
        return ["--size", size]
    names = ("--d-model", "--d-ff", "--layers", "--heads")
    return [
        word for name, n in zip(names, dimensions(size), strict=True) for word in (name, str(n))
    ]
