"""The vendors' dense TFLOP/s, by device and arithmetic, for files that do not record them."""

HOPPER = {
    "bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9,
    "bf16x3": 989.4 / 3,  # three products of bf16 for each of fp32
}  # fmt: skip
DATASHEET = {"NVIDIA H200": HOPPER, "NVIDIA H100 80GB HBM3": HOPPER}
