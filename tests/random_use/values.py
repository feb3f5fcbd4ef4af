"""Valid and invalid option values for random command lines."""

from collections.abc import Sequence

SHARES = (22, 20, 20, 12, 12, 6, 5, 3)  # of lines.EXPERIMENTS, in percent
BYTES_OF = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4}
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
OPS = (*REDUCTIONS, "all_gather", "broadcast", "all_to_all", "send_recv")
FLASH_HEAD_DIMS = (16, 32, 64, 80, 128)  # of the GPU kernels
AXES = {  # options that take several values; the cases are their product
    "--context", "--batch-size", "--precision", "--attention", "--fp32-attention", "--mode",
    "--optimizer", "--recompute", "--sync", "--shard", "--bucket-mb", "--comm-dtype", "--prefetch",
    "--reshard", "--causal", "--head-dim", "--op", "--dtype", "--redop", "--in-place", "--ranks",
    "--cadence", "--cache", "--bytes", "--flash-kernels",
}  # fmt: skip
MAX_CASES = 8
# Options that make a command line invalid, some of them only for some experiments.
SPOILS = (
    ("--context", "0"), ("--context", "8,"), ("--context", "4..2"), ("--context", "1..9*1"),
    ("--vocab", "1"), ("--heads", "5"), ("--heads", "-1"), ("--d-model", "9"), ("--d-ff", "x"),
    ("--steps", "0"), ("--steps", ""), ("--warmup", "-1"), ("--preset", "none"),
    ("--precision", "fp31"), ("--precision", "tf32"), ("--mode", "inference"), ("--recompute", "0"),
    ("--max-steps", "1"), ("--max-warmup", "1"), ("--min-time", "soon"), ("--until-ci", "0"),
    ("--memory-limit", "1 banana"), ("--memory-limit", "0"), ("--resume", None), ("--verify", "0"),
    ("--op", "gather"), ("--redop", "median"), ("--bytes", "3"), ("--bytes", "0"),
    ("--ranks", "99"), ("--lr", "nan"), ("--lr", "-0.1"), ("--beta1", "1"), ("--eps", "small"),
    ("--global-batch", "7"), ("--bucket-mb", "-1"), ("--output", "out.txt"),
    ("--output", ""), ("--unknown", "1"), ("--size", "huge"), ("--size", "custom"),
    ("--comm-dtype", "fp16"), ("--profile", None), ("--profile", "-2"), ("--launch", "graph"),
    ("--tokens", "none.h5"), ("--load-weights", "none.h5"), ("--predict", "none.h5"),
    ("--config", "none.toml"), ("--registration", "symmetric"), ("--batch-size", "1e3"),
    ("--batch-size", ""), ("--flash-kernels", "sm80"), ("--fp32-attention", "exact"),
    ("--token-dtype", "uint32"), ("--token-dtype", "int16"),
    ("--in-place", "yes"), ("--max-steps", "50"), ("--recompute", "block"), ("--sync", "none"),
    ("--shard", "zero3"), ("--prefetch", "65"), ("--reshard", "1"), ("--exec", "compiled"),
    ("--exec", "fast"), ("--optimizer", "in-backward"),
    ("--timeout", "0"), ("--threads", "0"), ("--seed", "1.5"), ("--device", "tpu"),
    ("--study", "sums"), ("--count", "0"), ("--scale", "0"),
    ("--ask", "everything"), ("--mesh-axes", "2"), ("--hardware", "h1000"), ("--fsdp", "0"),
)  # fmt: skip

Values = Sequence[object]

# Values of the options of plan.
PLANS: dict[str, Values | None] = {
    "--context": (1, 7, 4096), "--batch-size": (1, 3, 64), "--attention": ("naive", "flash"),
    "--precision": ("fp32", "tf32", "bf16", "fp16"), "--exec": ("eager", "compiled"),
    "--optimizer": ("serial", "in-backward"), "--recompute": ("none", "swiglu", "block", 3),
    "--vocab": (2, 999, 10000), "--shard": ("none", "broadcast", "zero1", "zero2", "fsdp"),
    "--bucket-mb": (0, 0.5, 100), "--comm-dtype": ("fp32", "bf16"), "--prefetch": (0, 2),
    "--reshard": ("yes", "no"), "--mode": ("inference", "forward", "train-step"),
    "--sharded-activations": (0, 0.5, 1), "--blocks": ("transformer", "two-matrix"),
    "--ranks": (1, 2, 6, 1024), "--fsdp": (1, 3, 64), "--tp": (1, 2, 4),
    "--mesh-axes": ("1,1", "2,1"), "--hardware": ("h100", "h200", "a100", "b200", "tpu-v5p"),
    "--memory": ("1MB", "80GB", "96GiB"), "--peak-tflops": (1, 989),
    "--link-bandwidth": ("1KB", "450GB"),
    "--utilization": (0.01, 0.5, 1), "--latency": (0, 10.5), "--preset": ("xxl",),
    "--ask": (
        "largest-batch,largest-context", "fewest-devices", "memory", "best-bucket", "run",
        "step,work",
    ),
    "--run-tokens": (1, "1e12"), "--json": None,
}  # fmt: skip
