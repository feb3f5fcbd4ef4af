"""The vendors' dense TFLOP/s, by device and precision, as in cuda/runtime/cuda_device.cpp."""

HOPPER = {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9}
DATASHEET = {"NVIDIA H200": HOPPER, "NVIDIA H100 80GB HBM3": HOPPER}
