"""Model FLOPs and MFU of rows from before causal attention counted half of its T x T matrix."""

import pandas as pd

SHAPE = ("d_model", "d_ff", "layers", "vocab", "context")
NEEDED = {*SHAPE, "batch_size", "mode", "device", "step_median_s", "model_tflops_per_s"}


def restated(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its model FLOP/s and MFU as paceline counts them now. Old rows, which a file
    that was resumed may have among new ones, are told by their FLOPs. Attention as bf16x3 has
    another ceiling than the rest of its step, which old rows lack: its MFU becomes missing."""
    if not set(frame.columns) >= NEEDED:
        return frame
    d, f, layers, vocab, context = (frame[name] for name in SHAPE)
    weights = layers * (4 * d**2 + 3 * d * f) + d * vocab  # half the FLOPs of a token in forward
    square = 2 * layers * context * d
    passes = 1 + 2 * frame["mode"].isin(("forward-backward", "train-step"))
    tokens = frame["batch_size"] * context * passes
    flops = frame["model_tflops_per_s"] * 1e12 * frame["step_median_s"] / tokens
    old = flops > 2 * (weights + 0.75 * square)
    share = ((weights + square / 2) / (weights + square)).where(old, 1)
    splits = old & (frame["device"] == "cuda") & (frame.get("fp32_attention") == "bf16x3")
    mfu = [name for name in frame if name.startswith("mfu_")]
    return frame.assign(
        model_tflops_per_s=frame["model_tflops_per_s"] * share,
        **{name: (frame[name] * share).mask(splits) for name in mfu},
    )
