"""The axes of the training-step comparison and PyTorch's variants. Does not import PyTorch."""

from typing import NamedTuple


class Variant(NamedTuple):
    compile_mode: str | None  # of torch.compile; None: eager
    captured: bool  # the whole step in one CUDA graph


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
# Variants of one compile mode are adjacent, because train_step.py compiles once for all of them.
VARIANTS = {
    "eager": Variant(None, False),
    "captured": Variant(None, True),
    "compile": Variant("default", False),
    "captured-compile": Variant("default", True),
    "reduce-overhead": Variant("reduce-overhead", False),
    "max-autotune-no-cudagraphs": Variant("max-autotune-no-cudagraphs", False),
    "captured-max-autotune": Variant("max-autotune-no-cudagraphs", True),
}


def dimensions(size: str) -> tuple[int, int, int, int]:
    """(d_model, d_ff, layers, heads) of a named size or of text such as 512x2048x6x8.

    Raises ValueError for other texts."""
    if size in SIZES:
        return SIZES[size]
    d_model, d_ff, layers, heads = map(int, size.split("x"))
    return d_model, d_ff, layers, heads
