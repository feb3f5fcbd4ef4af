"""GPU memory sizes that peaks are compared with."""

# GB (10^9 bytes) from data sheets, before what the driver and libraries take.
MEMORY_GB = {
    "24 GB": 24, "40 GB": 40, "48 GB": 48, "80 GB": 80, "141 GB": 141, "192 GB": 192,
}  # fmt: skip
EXAMPLES = "80 GB are an A100 or H100, 141 GB an H200"
RESERVED = 1.5e9  # bytes: CUDA's context, cuBLAS's and NCCL's own


def smallest(peak_bytes: float) -> str:
    """The smallest GPU whose memory is large enough for the peak."""
    fits = (name for name, size in MEMORY_GB.items() if peak_bytes + RESERVED <= size * 1e9)
    return next(fits, "above 192 GB")
