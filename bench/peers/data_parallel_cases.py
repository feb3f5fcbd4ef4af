"""PyTorch's variants of a data-parallel step. Does not import PyTorch."""

from dataclasses import dataclass

from step_cases import with_suffixes


@dataclass(frozen=True)
class Variant:
    strategy: str  # naive, flat, overlap, ddp, zero, fsdp
    bucket_view: bool = False  # ddp, zero: gradients are views of the buckets, without copies
    static_graph: bool = False  # ddp, zero: the same parameters get gradients in every step
    bucket_mb: float = 25.0  # of ddp and zero
    low_gradients: bool = False  # gradients are reduced in the low precision
    reshard: bool = True  # fsdp: parameters are freed after forward
    compiled: str = ""  # model: whole, and split at buckets; parts: each block and the head
    fused_matmuls: bool = False  # q, k and v in one matmul, and w1 and w3
    master_weights: bool = False  # ddp: weights in the low precision, float32 masters, no autocast
    captured: bool = False  # the whole step with its collectives in one CUDA graph


STRATEGIES = {
    "naive": Variant("naive"),
    "flat": Variant("flat"),
    "overlap": Variant("overlap"),
    "ddp": Variant("ddp"),
    "zero": Variant("zero"),
    "fsdp": Variant("fsdp"),
}
SUFFIXES = {
    "view": {"bucket_view": True},
    "static": {"static_graph": True},
    "compile": {"compiled": "model"},
    "parts": {"compiled": "parts"},
    "fused-matmuls": {"fused_matmuls": True},
    "bf16-gradients": {"low_gradients": True},
    "keep": {"reshard": False},
    "masters": {"master_weights": True},
    "captured": {"captured": True},
    "100mb": {"bucket_mb": 100.0},
    # What an expert would begin with.
    "tuned": {
        "bucket_view": True, "static_graph": True, "compiled": "parts", "fused_matmuls": True,
    },
}  # fmt: skip
ALL = (
    "naive", "flat", "overlap", "ddp", "ddp+view", "ddp+view+compile", "ddp+tuned",
    "ddp+tuned+bf16-gradients", "ddp+tuned+captured", "ddp+tuned+bf16-gradients+captured",
    "ddp+tuned+masters+captured", "ddp+tuned+masters+captured+100mb",
    "zero+view", "zero+view+compile", "zero+tuned", "zero+tuned+captured",
    "fsdp", "fsdp+bf16-gradients", "fsdp+keep", "fsdp+parts", "fsdp+tuned+keep+bf16-gradients",
    "fsdp+tuned+keep+bf16-gradients+captured",
)  # fmt: skip


def variant(text: str) -> Variant:
    """Of a strategy and its suffixes, such as ddp+tuned+captured. Raises ValueError."""
    chosen = with_suffixes(text, STRATEGIES, SUFFIXES)
    if chosen.master_weights and chosen.strategy != "ddp":
        raise ValueError(f"{text}: only ddp has master weights")
    return chosen


def variant_name(text: str) -> str:
    """The text, if it names a variant: a type of an option."""
    variant(text)
    return text
