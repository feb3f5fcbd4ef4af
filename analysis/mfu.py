"""Model FLOPs and MFU of files from before causal attention counted half of its T x T matrix."""

import pandas as pd

SHAPE = ("d_model", "d_ff", "layers", "vocab", "context", "attention", "precision", "device")


def restated(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its model FLOP/s and MFU as paceline counts them now. Attention as bf16x3 has
    another ceiling than the rest of its step, which old files lack: its MFU becomes missing."""
    if "datasheet_source" in frame or "model_tflops_per_s" not in frame:
        return frame
    if not set(SHAPE) <= set(frame.columns):
        return frame
    d, f, layers, vocab, context = (frame[name] for name in SHAPE[:5])
    weights = layers * (4 * d**2 + 3 * d * f) + d * vocab  # half the FLOPs of a token in forward
    square = 2 * layers * context * d
    share = (weights + square / 2) / (weights + square)
    splits = (frame["device"] == "cuda") & (frame.get("fp32_attention") == "bf16x3")
    mfu = [name for name in frame if name.startswith("mfu_")]
    return frame.assign(
        model_tflops_per_s=frame["model_tflops_per_s"] * share,
        **{name: (frame[name] * share).mask(splits) for name in mfu},
    )
