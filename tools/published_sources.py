"""The places of the figures of analysis/published in their texts, for tools/check_published.py."""

from collections.abc import Sequence
from dataclasses import dataclass

# The numbers with which the names of the texts begin.
NUMBERS = {
    "write-up 0": 0, "write-up 1": 1, "write-up 2": 2, "assignment": 3, "write-up 4": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows of a file that come from a table of a text, with a template for the table's lines.

    A template has the names of columns in braces in place of their cells, and all other text
    literally. Lines with an empty cell and lines that do not match are left to other templates.
    `fixed` are cells that the lines do not have.
    """

    file: str
    template: str
    fixed: dict[str, str]


@dataclass(frozen=True)
class Prose:
    """Rows whose figures are in prose, within `lines` lines from the last of the anchors.

    `cells` are the rows' labels: one for all rows, or one for each. All other figures of the rows
    must be in the text.
    """

    file: str
    anchors: tuple[str, ...]
    lines: int
    cells: dict[str, str | Sequence[str]]

    def rows(self) -> list[dict[str, str]]:
        """The labels of each row."""
        count = max(
            (len(cell) for cell in self.cells.values() if not isinstance(cell, str)), default=1
        )
        return [
            {name: cell if isinstance(cell, str) else cell[i] for name, cell in self.cells.items()}
            for i in range(count)
        ]


def rows(file: str, template: str, hardware: str, unit: str = "", **fixed: str) -> Rows:
    return Rows(file, template, {"hardware": hardware, "unit": unit, **fixed})


def prose(
    file: str,
    *anchors: str,
    hardware: str | Sequence[str] = "unnamed",
    unit: str | Sequence[str] = "",
    lines: int = 1,
    **cells: str | Sequence[str],
) -> Prose:
    return Prose(file, anchors, lines, {"hardware": hardware, "unit": unit, **cells})


H800 = "H800 PCIe"
FOUR = {"batch_size": "4"}
STEPS = {"warmup": "5", "steps": "10"}
TIMED = FOUR | STEPS | {"precision": "fp32"}
PEAK = FOUR | {"size": "2.7b", "quantity": "peak"}
TOY = FOUR | {"size": "d_model 512, d_ff 2048, layers 6, heads 8", "context": "512"}
DDP = FOUR | STEPS | {"size": "xl", "ranks": "2", "context": "128"}
REDUCE = {"collective": "all-reduce"}

WRITE_UP_0 = [
    [
        rows("ddp", f"{method} | {{attention}} | {{context}} | {{step}} | {{sync}} | {{share}}%",
             "unnamed", "s", ranks="2", **fixed)
        for method, fixed in (
            ("{method} DDP", {}),
            ("Overlap Individual", {"method": "overlap"}),
            ("Overlap Bucketed ({bucket_mb}MB)", {"method": "bucketed"}),
        )
    ],
]  # fmt: skip

WRITE_UP_1 = [
    [rows("timing", "{size} | {context} | {forward} ± {forward_std} | {backward} ± {backward_std}",
          H800, "ms", **TIMED)],
    [rows("timing", "{size} | {forward} / {backward} | ", H800, "ms", context="256", **TIMED),
     rows("timing", "{size} | | {forward} / {backward}", H800, "ms", context="512", **TIMED)],
    [rows("warmup", "{size} | {warmup} | {forward} ± {forward_std} | {backward} ± {backward_std}",
          "RTX 5090", "ms")],
    [rows("profile", "{size} | {context} | {forward_host} ± {forward_host_std} | "
          "{forward_profiler}", "unnamed", "ms")],
    [rows("kernels", "{size} | {context} | void cutlass::Kernel2<{kernel}>(T1::Params) | {share}% "
          "| {launches}", "unnamed", "%", mode="forward")],
    [rows("precision", "{size} | {forward} | | | {backward} | | ", H800, "ms", context="128",
          precision="fp32", **FOUR, **STEPS),
     rows("precision", "{size} | | {forward} | {forward_speedup}x | | {backward} | "
          "{backward_speedup}x", H800, "ms", context="128", precision="bf16", **FOUR, **STEPS)],
    *([rows("memory", "{context} | {value} | ", H800, "GiB", mode="forward", precision=precision,
            **PEAK),
       rows("memory", "{context} | | {value}", H800, "GiB", mode="train-step", precision=precision,
            **PEAK)] for precision in ("fp32", "bf16")),
    [rows("attention", "{head_dim} | {context} | {forward} ± {forward_std} | "
          "{backward} ± {backward_std} | {memory_before_backward} | {peak_memory}", H800, "ms",
          memory_unit="MiB")],
    [rows("attention_compile", "{head_dim} | {context} | {forward} | | | {backward} | | ",
          "unnamed", "ms", method="eager"),
     rows("attention_compile", "{head_dim} | {context} | | {forward} | {forward_speedup}x | | "
          "{backward} | {backward_speedup}x", "unnamed", "ms", method="compiled")],
    [rows("compile", "{size} | {eager} | {compiled} | {speedup}x | | | ", "unnamed", "ms",
          phase="forward"),
     rows("compile", "{size} | | | | {eager} | {compiled} | {speedup}x", "unnamed", "ms",
          phase="backward")],
    [rows("flash", "{precision} | {context} | {head_dim} | {forward} | | | {backward} | | | {both} "
          "| | ", "H800", "ms", implementation="torch"),
     rows("flash", "{precision} | {context} | {head_dim} | | {forward} | {forward_speedup} | | "
          "{backward} | {backward_speedup} | | {both} | {both_speedup}", "H800", "ms",
          implementation="triton")],
    [rows("collectives", "{backend} | {device} | {ranks} | {message_mb} | {mean} | {median} | "
          "{std} | {bandwidth_gb_s}", "RTX 5090", "ms", **REDUCE)],
    [rows("ddp", "{method} | {step} | {step_std} | {sync} | {sync_std} | {share}%", H800, "ms",
          **DDP)],
    [rows("ddp", "{method} | {bucket_mb} | {step}", "unnamed", "s")],
]  # fmt: skip

WRITE_UP_2 = [
    [rows("attention", "{head_dim} | {context} | OK | {forward} | {backward} | "
          "{memory_before_backward} {memory_unit}", "unnamed", "ms"),
     rows("attention", "{head_dim} | {context} | OOM | {forward} | {backward} | "
          "{memory_before_backward}", "unnamed", "ms")],
    [rows("attention_compile", "{method} | {head_dim} | {context} | OK | {forward} | "
          "{forward_std} | {backward} | {backward_std} | {memory_before_backward} {memory_unit}",
          "unnamed", "ms"),
     rows("attention_compile", "{method} | {head_dim} | {context} | OOM | {forward} | "
          "{forward_std} | {backward} | {backward_std} | {memory_before_backward}", "unnamed",
          "ms")],
    [one for phase, mode, written in (
        ("forward", "forward", "fwd"), ("step", "train-step", "fwd+bwd+opt")) for one in (
        rows("compile", f"Eager | {written} | {{eager}} ± {{eager_std}} | |", "unnamed", "ms",
             phase=phase, **TOY),
        rows("compile", f"Compiled | {written} | {{compiled}} ± {{compiled_std}} | {{speedup}}× |",
             "unnamed", "ms", phase=phase, **TOY),
        rows("memory", f"Eager | {written} | | | {{value}} {{unit}}", "unnamed", mode=mode,
             quantity="before backward, eager", **TOY),
        rows("memory", f"Compiled | {written} | | | {{value}} {{unit}}", "unnamed", mode=mode,
             quantity="before backward, compiled", **TOY),
    )],
    [rows("flash", "{implementation} | {precision} | {head_dim} | {context} | {forward} | "
          "{backward} | {both}", "unnamed", "ms")],
]  # fmt: skip

ASSIGNMENT = [
    [rows("sizes", "{size} | {d_model} | {d_ff} | {layers} | {heads}", "none")],
]

WRITE_UP_4 = [
    [rows("timing", "{size} | {forward} | {forward_std} | {backward} | {backward_std}", "H100", "s",
          **STEPS)],
    [rows("precision", "{size} | {forward} | | {backward} | ", "A100", "s", precision="fp32"),
     rows("precision", "{size} | | {forward} | | {backward}", "A100", "s", precision="bf16")],
    [rows("memory", "{context} | {value} | ", "unnamed", "GB", mode="forward", precision="fp32",
          size="2.7b", quantity="peak"),
     rows("memory", "{context} | | {value}", "unnamed", "GB", mode="train-step", precision="fp32",
          size="2.7b", quantity="peak")],
    [rows("attention", "{head_dim} | {context} | {forward} | {backward} | {memory_before_backward}",
          "unnamed", "s", memory_unit="GB")],
    [rows("attention_compile", "{head_dim} | {context} | {forward} | {backward} | | ", "unnamed",
          "s", method="eager"),
     rows("attention_compile", "{head_dim} | {context} | | | {forward} | {backward}", "unnamed",
          "s", method="compiled")],
    [rows("compile", "{size} | {compiled} | | {eager} | ", "unnamed", "s", phase="forward"),
     rows("compile", "{size} | | {compiled} | | {eager}", "unnamed", "s", phase="backward")],
    [rows("flash", "{context} | {head_dim} | {precision} | {forward} | | {backward} | | {both} | ",
          "H100", "ms", implementation="torch"),
     rows("flash", "{context} | {head_dim} | {precision} | | {forward} | | {backward} | | {both}",
          "H100", "ms", implementation="triton")],
    [rows("collectives", "{message_mb} | {ranks} | {backend} | {mean}", "Tesla V100", **REDUCE)],
]  # fmt: skip

TABLES = {
    "write-up 0": WRITE_UP_0,
    "write-up 1": WRITE_UP_1,
    "write-up 2": WRITE_UP_2,
    "assignment": ASSIGNMENT,
    "write-up 4": WRITE_UP_4,
}

SUMS = {
    "accumulator": ("fp32", "fp16", "fp32", "fp32"),
    "addend": ("fp32", "fp16", "fp16", "fp16 cast to fp32"),
}
COMPONENTS = {
    "component": ("parameters", "fc1", "layer norm", "logits", "loss", "gradients"),
}
STREAM = {"size": "2.7b", "precision": "fp32"}
TWO_XL = {"size": "xl", "ranks": "2"}
STATE = "weights, gradients and Adam state"
SAVED = "saved for backward in bf16, of batch 1"
SCORES = "attention's scores in fp32, batch 8, context 16384"

PROSE = {
    "write-up 1": [
        prose("kernels", "nsys_profile", "(d)", unit="%", mode="train-step", size="",
              kernel="matrix products"),
        prose("accumulation", "mixed_precision_accumulation", lines=9, **SUMS),
        prose("dtypes", "benchmarking_mixed_precision", "(a)", lines=8, **COMPONENTS),
        prose("memory", "memory_profiling", "(d)", "size_MB", hardware="none", unit="MiB", **FOUR,
              **STREAM, quantity="residual stream tensor per token of context"),
        prose("memory", "memory_profiling", "(d)", "T=128/256/512", hardware="none", unit="MiB",
              **FOUR, **STREAM, quantity=("residual stream tensor",) * 3),
        prose("memory", "memory_profiling", "(e)", lines=3, hardware=H800, unit="MiB", **FOUR,
              size="2.7b", context="512", precision="", mode="forward", quantity="largest block"),
        prose("ddp", "ddp_overlap_individual_parameters", "(a)", lines=3, hardware=H800, unit="s",
              **DDP, method="overlap"),
        prose("accounting", "communication_accounting", lines=66,
              hardware=("none",) * 6 + ("H100",) + ("TPU v5p",) * 3,
              unit=("", "GB", "GB", "GB", "GB", "GB", "", "", "", ""),
              quantity=("parameters of xxl", "weights in fp32", "gradients in fp32",
                        "Adam state in fp32", STATE, SAVED, "devices of 80 GB",
                        "least ranks of FSDP, 95 GB each", "least batch that is bound by compute",
                        "least overall batch")),
        prose("sharding", "optimizer_state_sharding", "(a)", lines=16, **TWO_XL,
              unit=("GiB",) * 5 + ("%",) + ("GiB",) * 5,
              optimizer=("either", "either", "whole", "sharded", "sharded", "sharded", "either",
                         "either", "whole", "sharded", "sharded"),
              quantity=("peak after init", "peak before step", "peak after step",
                        "peak after step", "peak saved", "peak saved", "parameters", "gradients",
                        "optimizer state", "optimizer state, least of ranks",
                        "optimizer state, most of ranks")),
        prose("sharding", "optimizer_state_sharding", "(b)", lines=7, **TWO_XL,
              unit=("s", "s", "%"), optimizer=("whole", "sharded", "sharded"),
              quantity=("step", "step", "step longer by")),
    ],
    "write-up 2": [
        prose("timing", "Small model", lines=3, unit="ms", **STEPS, size=("small", "medium")),
        prose("timing", "out of memory", unit="ms", forward="", size=("large", "xl", "2.7b")),
        prose("warmup", "Without warm-up", unit="ms", warmup="0", size=""),
        prose("profile", "during profiling", unit="ms", size=("small", ""), context=("", "1024")),
        prose("kernels", "most cumulative GPU time is", lines=3, size="small", mode="forward",
              kernel="ampere_sgemm_128x64_tn and "
                     "ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_tn"),
        prose("accumulation", "mixed_precision_accumulation", "print(s)", lines=19, **SUMS),
        prose("dtypes", "Data types:", lines=7, **COMPONENTS),
        prose("accounting", "smallest OOM case", lines=13, hardware="none", unit=("MB", "GB"),
              quantity=("attention's Q, K and V in fp32, batch 8, context 16384, head_dim 16",
                        SCORES)),
        prose("sizes", "communication_accounting", lines=3, hardware="none", size="xxl"),
    ],
    "write-up 4": [
        prose("warmup", "Without any warm-up", hardware="H100", warmup="0", forward=""),
        prose("accumulation", "mixed_precision_accumulation", "We get:", lines=8, **SUMS),
        prose("dtypes", "data types are", lines=7, **COMPONENTS),
        prose("memory", "(c) It seems", unit="GB", size="2.7b", precision="bf16",
              mode="train-step", quantity="peak"),
        prose("memory", "(d) It would be", hardware="none", unit="MiB", **STREAM,
              quantity="residual stream tensor"),
        prose("memory", "(e) The largest", unit="MiB", size="2.7b", precision="", mode="forward",
              quantity="largest block"),
        prose("accounting", "pytorch_attention", "Solution", lines=3,
              hardware=("unnamed", "none", "none"), unit=("GB",) * 3,
              quantity=("attention's memory at most, measured", SCORES,
                        "attention's scores and softmax")),
        prose("flash", "flash_benchmarking", "Solution", lines=3, hardware="H100", unit="ms",
              implementation="triton"),
        prose("ddp", "naive_ddp_benchmarking", "Solution", lines=3, hardware="H100", unit="s",
              **TWO_XL, method="naive"),
        prose("ddp", "minimal_ddp_flat", "Solution", lines=3, hardware="H100", unit="s", **TWO_XL,
              batch_size="32", method="flat"),
        prose("ddp", "ddp_overlap_individual", "Solution", lines=3, hardware="H100", unit="s",
              **TWO_XL, batch_size="32", method="overlap"),
        prose("ddp", "ddp_bucketed_benchmarking", "Solution", lines=3, hardware="H100", unit="s",
              **TWO_XL, batch_size="32", method=("overlap",) + ("bucketed",) * 4),
        prose("sizes", "communication_accounting", lines=3, hardware="none", size="xxl"),
        prose("accounting", "communication_accounting", "Solution", lines=24,
              hardware=("none",) * 3 + ("H100",) + ("TPU v5p",) * 4,
              unit=("", "GiB", "GiB", "", "GiB", "", "s", ""),
              quantity=("parameters of xxl", STATE, SAVED, "devices of 80 GB",
                        "half of what is saved for backward, of batch 1",
                        "ranks of FSDP are more than, 95 GB each",
                        "compute of a layer, of batch 1",
                        "batch below which communication takes longer")),
        prose("sharding", "Optimizer State Sharding", "Solution", lines=4, **TWO_XL, unit="GB",
              optimizer=("sharded", "whole", "sharded"),
              quantity=("peak", "peak", "peak saved")),
        prose("sharding", "Optimizer State Sharding", "(b) Over", **TWO_XL, unit="s", steps="100",
              optimizer=("sharded", "whole"), quantity=("step", "step")),
    ],
}  # fmt: skip
