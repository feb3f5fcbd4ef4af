"""The choice of our case for each row of published/: attention, collectives, several ranks."""

from dataclasses import replace
from math import isnan, nan

import pandas as pd

from .. import memory_marks
from . import closed_forms
from .comparisons import SIZES, TWO, UNITS, means
from .facts import Case, first
from .method import without
from .published import CLOSED_FORM, Comparison, Ours

THREE = {"forward": "forward", "backward": "backward", "both": "both"}
# The course's names of implementations, and ours.
KINDS = {"eager": "naive", "compiled": "fused", "torch": "naive", "triton": "flash"}
BACKENDS = {"gloo": "mpi", "nccl": "nccl"}


def of_experiment(cases: list[Case], *names: str) -> list[Case]:
    return [case for case in cases if case.results.experiment in names]


def with_memory(ours: Ours | None, case: Case | None, row: pd.Series) -> Ours | None:
    scale = SIZES.get(row["memory_unit"])
    if ours is None or case is None or scale is None:
        return ours
    sizes = {
        "memory_before_backward": case.number("memory_before_backward_bytes") / scale,
        "peak_memory": case.number("peak_bytes") / scale,
    }
    return replace(ours, values=ours.values | sizes)


def one_head(cases: list[Case], row: pd.Series, kind: str, **factors: object) -> Case | None:
    """A case of attention with a single head."""
    where = {"head_dim": row["head_dim"], "context": row["context"], "heads": 1}
    return first(of_experiment(cases, "attention"), attention=kind, **where, **factors)


def attention(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        case = one_head(cases, row, "naive", batch_size=8, causal="no", precision="fp32")
        return with_memory(means(case, row, TWO), case, row)

    return Comparison(
        "attention", "Attention in plain PyTorch", ("head_dim", "context"),
        ("forward", "backward", "memory_before_backward", "peak_memory"),
        "Batch 8, one head, fp32, not causal. Ours flushes the L2 cache before each repetition and "
        "keeps one T × T matrix where eager PyTorch keeps two.",
        find,
    )  # fmt: skip


def attention_compile(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        kind = KINDS[row["method"]]
        case = one_head(cases, row, kind, batch_size=8, causal="no", precision="fp32")
        return with_memory(means(case, row, TWO), case, row)

    return Comparison(
        "attention_compile", "Attention, eager and compiled", ("head_dim", "context", "method"),
        ("forward", "backward", "memory_before_backward"),
        "compiled is torch.compile there, and here one kernel for scale, mask and softmax.", find,
    )  # fmt: skip


def flash(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        kind = KINDS[row["implementation"]]
        case = one_head(cases, row, kind, batch_size=1, causal="yes", precision=row["precision"])
        return means(case, row, THREE)

    def unstated(row: pd.Series) -> list[str]:
        kind = ["dtype of mixed precision"] if row["precision"] == "mixed" else []
        return without("precision", "head_dim", "context")(row) + kind

    return Comparison(
        "flash", "FlashAttention-2 beside plain PyTorch",
        ("precision", "head_dim", "context", "implementation"), tuple(THREE),
        "Batch 1, one head, causal. torch is our naive attention, triton our flash kernels, whose "
        "backward pass is a kernel too; fp32 inputs are split into three bf16 products.",
        find, unstated=unstated,
    )  # fmt: skip


def collectives(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        case = first(
            of_experiment(cases, "collectives"), op="all_reduce", backend=BACKENDS[row["backend"]],
            ranks=row["ranks"], bytes=int(row["message_mb"]) * 10**6, dtype="float32", redop="sum",
        )  # fmt: skip
        if case is None or isnan(case.seconds("time")):
            return None
        mean, median, spread = (case.seconds("time", name) for name in ("mean", "median", "std"))
        scale = UNITS.get(row["unit"], 1e-3)
        values = {"mean": mean / scale, "median": median / scale}
        values["bandwidth_gb_s"] = int(row["message_mb"]) * 1e6 / mean / 1e9
        return Ours(values, case.hardware, {"mean": spread / scale})

    return Comparison(
        "collectives", "All-reduce", ("backend", "ranks", "message_mb"),
        ("mean", "median", "bandwidth_gb_s"),
        "Gloo's counterpart is MPI in host memory. Bandwidth is the algorithm bandwidth on both "
        "sides, bytes over the mean, as published; that of the bus is in the table above, over "
        "the median. Where no unit is stated ours are ms.",
        find,
    )  # fmt: skip


def ddp(cases: list[Case]) -> Comparison:
    kinds = {"naive": "naive", "triton": "flash", "": "naive"}

    def find(row: pd.Series) -> Ours | None:
        context = row["context"] or ("32" if row["batch_size"] == "32" else "128")
        case = first(
            of_experiment(cases, "ddp"), size=row["size"] or "xl", ranks=row["ranks"] or 2,
            context=context, sync=row["method"], attention=kinds[row["attention"]],
            bucket_mb=row["bucket_mb"], precision="fp32", exec="eager", comm_dtype="fp32",
            batch_size=int(row["batch_size"] or 4) // 2, profile=0,
        )  # fmt: skip
        step = means(case, row, {"step": "step"})
        if case is None or step is None:
            return None
        scale = UNITS[row["unit"]]
        synced = {"sync": case.seconds("communication_exposed", "mean") / scale}
        share = case.seconds("communication_exposed") / case.seconds("step")
        return replace(step, values=step.values | synced | {"share": share * 100})

    def unstated(row: pd.Series) -> list[str]:
        return without("bucket_mb")(row) if row["method"] == "bucketed" else []

    return Comparison(
        "ddp", "Data-parallel steps",
        ("size", "context", "batch_size", "attention", "method", "bucket_mb"),
        ("step", "sync", "share"),
        "Ours: sync is exposed communication (what the step waits for), share is its part of the "
        "step; a flat exchange copies nothing, for gradients lie in one array. Ours is of xl on 2 "
        "ranks in fp32, where a row does not say otherwise.",
        find, unstated=unstated,
    )  # fmt: skip


# Of sharded beside whole: the column, the sign of the change, and its units.
CHANGES = {
    "peak saved": ("peak_bytes", -1, SIZES),
    "step longer by": ("step_mean_s", 1, UNITS),
}


def changed(row: pd.Series, case: Case, whole: Case) -> Ours | None:
    """The change in the row's unit, % being of the whole."""
    column, sign, units = CHANGES[row["quantity"]]
    change = sign * (case.number(column) - whole.number(column))
    scale = whole.number(column) / 100 if row["unit"] == "%" else units.get(row["unit"], nan)
    return None if isnan(change / scale) else Ours({"value": change / scale}, case.hardware)


def least_state(row: pd.Series, case: Case) -> Ours | None:
    """Optimizer state of the rank with the least of it."""
    table = case.results.case_tables[case.row].get("memory")
    scale = SIZES.get(row["unit"])
    if table is None or scale is None or "optimizer_state" not in table:
        return None
    after = table[(table["step"] == "first") & (table["mark"] == "after step")]
    return Ours({"value": after["optimizer_state"].min() / scale}, case.hardware)


def sharding(cases: list[Case]) -> Comparison:
    kinds = {"whole": "none", "sharded": "broadcast", "either": "none"}
    marks = {
        "peak after init": ("after init", "peak"),
        "peak before step": ("before optimizer", "peak"),
        "peak after step": ("after step", "peak"),
        "parameters": ("after init", "parameter"),
        "gradients": ("after step", "gradient"),
        "optimizer state": ("after step", "optimizer_state"),
        "optimizer state, most of ranks": ("after step", "optimizer_state"),
    }

    def sharded(row: pd.Series, optimizer: str) -> Case | None:
        found = of_experiment(cases, "zero")
        return first(found, size=row["size"], ranks=row["ranks"], shard=kinds[optimizer],
                     context=128, precision="fp32")  # fmt: skip

    def find(row: pd.Series) -> Ours | None:
        case, whole = sharded(row, row["optimizer"]), sharded(row, "whole")
        if case is None or whole is None:
            return None
        quantity = row["quantity"]
        if quantity in CHANGES:
            return changed(row, case, whole)
        if quantity == "optimizer state, least of ranks":
            return least_state(row, case)
        if quantity == "step":
            return means(case, row, {"value": "step"})
        table = memory_marks.of_row(case.results, case.row)
        scale = SIZES.get(row["unit"])
        if quantity == "peak" and scale:
            return Ours({"value": case.number("peak_bytes") / scale}, case.hardware)
        if table is None or scale is None or quantity not in marks:
            return None
        mark, kind = marks[quantity]
        return Ours({"value": table.loc[mark, kind] / scale}, case.hardware)

    return Comparison(
        "sharding", "Optimizer sharding", ("size", "ranks", "optimizer", "quantity"), ("value",),
        "whole is our shard none, sharded our broadcast, the course's design: each tensor's "
        "state on one rank. Ours is of the rank with the most, at context 128 in fp32; its "
        "gradients lie in one array that is kept between steps.",
        find,
    )  # fmt: skip


def accumulation(cases: list[Case]) -> Comparison:
    arithmetic = {
        ("fp32", "fp32"): "fp32", ("fp16", "fp16"): "fp16", ("fp32", "fp16"): "fp16-into-fp32",
        ("fp32", "fp16 cast to fp32"): "fp16-upcast",
    }  # fmt: skip

    def find(row: pd.Series) -> Ours | None:
        case = first(
            of_experiment(cases, "precision"), study="accumulation", summation="sequential",
            arithmetic=arithmetic[row["accumulator"], row["addend"]], count=1000, addend=0.01,
        )  # fmt: skip
        return Ours({"sum": case.number("sum")}, case.hardware) if case else None

    return Comparison(
        "accumulation", "0.01 added 1,000 times", ("accumulator", "addend"), ("sum",),
        "The same sums, which do not depend on the machine.", find, is_timed=False,
    )  # fmt: skip


def dtypes(cases: list[Case]) -> Comparison:
    components = {"fc1": "fc1 output", "layer norm": "LayerNorm output"}
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}

    def find(row: pd.Series) -> Ours | None:
        found = (case for case in cases if "dtypes" in case.results.file_tables)
        case = next(found, None)
        if case is None:
            return None
        table = case.results.file_tables["dtypes"]
        component = components.get(row["component"], row["component"])
        fits = table[(table["model"] == "toy") & (table["component"] == component)]
        if fits.empty or "fp16" not in fits:
            return None
        dtype = fits["fp16"].iloc[0]
        return Ours({"dtype": short.get(dtype, dtype)}, case.hardware)

    return Comparison(
        "dtypes", "Dtypes of the toy model under fp16", ("component",), ("dtype",),
        "Ours are read off the running toy model, whose operations follow autocast's table.", find,
        is_timed=False,
    )  # fmt: skip


def accounting() -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        value = closed_forms.PUBLISHED.get(row["quantity"])
        if value is None:
            return None
        return Ours({"value": value / SIZES.get(row["unit"], 1)}, CLOSED_FORM)

    return Comparison(
        "accounting", "Memory and communication on paper", ("quantity",), ("value",),
        "Ours are the closed forms above; GB are 10^9 bytes, GiB 2^30.", find,
        absent="no closed form here", is_timed=False,
    )  # fmt: skip
