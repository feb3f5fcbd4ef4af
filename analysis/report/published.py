"""Write-ups' figures beside ours (analysis/published): a table for each of their tables."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import isnan, nan
from pathlib import Path

from .. import memory_marks
from ..formatting import ABSENT, figure, label
from ..plan_rows import EXPERIMENT, GROUP
from ..result_file import ResultError
from ..tables.spread import Spread
from ..tables.table import Table, grid
from .memory import largest_block
from .selection import Case, Pool
from .training import after, cold, of_file

FOLDER = Path(__file__).parents[1] / "published"
UNITS = {"ms": 1e-3, "s": 1.0, "": 1e-3}
SIZES = {"GB": 1e9, "GiB": 2**30, "MB": 1e6, "MiB": 2**20}
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
# The model as the course times it.
COURSE = {
    "batch_size": 4, "vocab": 10000, "attention": "naive", "exec": "eager", "mode": "train-step",
    "recompute": ("none", ""), "precision": "fp32", "ranks": 1,
}  # fmt: skip
TWO, THREE = ("forward", "backward"), ("forward", "backward", "both")

# Columns that are neither factors nor compared.
ASIDE = {"source", "hardware", "unit", "memory_unit", "std", "speedup", "total_launches", "note"}

Row = dict[str, str]
Ours = dict[str, str]  # by the published column


class Unmatched(Exception):
    """No case is a row's counterpart."""


@dataclass(frozen=True)
class Comparison:
    """How the rows of a file of published/ are matched. `find` gives nothing or raises Unmatched
    for a row without a counterpart; one that leaves a `needed` column empty has none."""

    name: str
    title: str
    find: Callable[[Pool, Row], Ours]
    needed: Sequence[str] = ()
    differs: str = ""  # in method


@cache
def read(name: str) -> list[Row]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def tables(pool: Pool) -> list[Table]:
    return [
        table(pool, comparison, source, [r for r in read(comparison.name) if r["source"] == source])
        for comparison in COMPARISONS
        for source in dict.fromkeys(row["source"] for row in read(comparison.name))
    ]


def table(pool: Pool, comparison: Comparison, source: str, rows: Sequence[Row]) -> Table:
    """The rows that have a counterpart, ours beside theirs; the others are counted."""
    found, odd = [], set()
    for row in rows:
        try:
            found += [(row, ours)] if (ours := counterpart(pool, comparison, row)) else []
        except ResultError as error:
            odd.add(f" Odd data: {error}.")
    filled = [name for name in rows[0] if any(row[name] for row in rows)]
    shown = [name for name in filled if any(name in ours for _, ours in found)]
    factors = [name for name in filled if name not in {*ASIDE, *shown}
               and not name.endswith(("_std", "_speedup"))]  # fmt: skip
    cells = [
        [*map(row.get, factors), row.get("unit", "") or row.get("memory_unit", ""),
         *(cell for name in shown for cell in (theirs(row, name), ours.get(name, ABSENT)))]
        for row, ours in found
    ]  # fmt: skip
    hardware = ", ".join(dict.fromkeys(row["hardware"] for row in rows))
    others = f", the other {len(rows) - len(found)} do not" * (len(rows) > len(found))
    return grid(
        f"{comparison.name}-{source.replace(' ', '-')}",
        f"{comparison.title}: {source}",
        [*map(label, factors), "unit", *(head for name in shown for head in (label(name), "ours"))],
        cells,
        f"{len(found)} of {len(rows)} rows have a counterpart in these files{others}."
        + "".join(sorted(odd)),
        f"Theirs: {hardware}; ours: {pool.machine or 'not recorded'}. {comparison.differs}",
    )


def counterpart(pool: Pool, comparison: Comparison, row: Row) -> Ours:
    """Empty without one. Raises ResultError."""
    try:
        return comparison.find(pool, row) if all(row[n] for n in comparison.needed) else {}
    except Unmatched:
        return {}


def theirs(row: Row, name: str) -> str:
    deviation = row.get(f"{name}_std", "") or (row.get("std", "") if name == "mean" else "")
    return f"{row[name]} ± {deviation}" if deviation else row[name] or ABSENT


def first(ranked: Sequence[Case]) -> Case:
    """Raises Unmatched."""
    for case in ranked:
        if case.is_measured:
            return case
    raise Unmatched


def means(case: Case, row: Row, names: dict[str, str]) -> Ours:
    """Means with deviations of these phases, by the published column, in its unit. Raises
    Unmatched."""
    scale = UNITS[row["unit"]]
    if all(isnan(case.seconds(phase, "mean")) for phase in names.values()):
        raise Unmatched
    return {
        name: Spread.STD.cell([case.seconds(phase, one) / scale for one in ("mean", "std")])
        for name, phase in names.items()
    }


def size_of(size: str) -> dict[str, str]:
    """ "small", or "d_model 512, d_ff 2048, layers 6, heads 8", as factors."""
    if "," not in size:
        return {"size": size}
    return {"size": "custom"} | dict(part.split() for part in size.split(", "))


def timing(pool: Pool, row: Row, preset: str) -> Ours:
    kind = {"precision": row["precision"] or "fp32", "context": row["context"]}
    case = first(pool.of("model", preset, **COURSE | size_of(row["size"]) | kind))
    return means(case, row, {name: name for name in TWO})


def from_cold(pool: Pool, row: Row) -> Ours:
    case = first(cold(pool, **COURSE | {"size": row["size"], "context": 128}))
    return {name: after(case, name, int(row["warmup"])) for name in TWO}


def profiled(pool: Pool, row: Row, group: str, names: dict[str, tuple[str, float]]) -> Ours:
    """Columns of the forward pass in a table of a file, by the published column, scaled."""
    ranked = pool.of("model", "profile", **COURSE, size=row["size"], context=row["context"])
    own = of_file(first([case for case in ranked if len(of_file(case, group))]), group)
    one = (own[own["phases"] == "forward"] if "phases" in own else own).iloc[0]
    return {name: figure(one[column] * scale) for name, (column, scale) in names.items()}


def whole_model(pool: Pool, row: Row) -> Ours:
    """Eager and compiled."""
    phase = "step" if row["phase"] == "train-step" else row["phase"]
    wanted = COURSE | size_of(row["size"]) | {"context": row["context"] or 512}
    eager, compiled = (
        means(first(pool.of("model", "compile", **wanted | {"exec": kind})), row, {kind: phase})
        for kind in ("eager", "compiled")
    )
    return eager | compiled


def memory(pool: Pool, row: Row) -> Ours:
    quantity, _, execution = row["quantity"].partition(", ")
    if quantity.startswith("residual stream tensor"):
        width = first(pool.of("model", size=row["size"])).number("d_model")
        size = 4 * int(row["batch_size"] or 4) * int(row["context"] or 1) * width
        return {"value": figure(size / SIZES[row["unit"]])}
    if not (row["context"] and row["mode"]):
        return {}
    wanted = size_of(row["size"]) | {"context": row["context"], "mode": row["mode"],
                                     "precision": row["precision"] or "fp32",
                                     "exec": execution or "eager"}  # fmt: skip
    case = first(pool.of("model", "memory", **COURSE | wanted))
    columns = {"peak": "peak_bytes", "before backward": "memory_before_backward_bytes"}
    block = largest_block(case)
    sizes = {name: case.number(column) for name, column in columns.items()}
    sizes |= {} if block is None else {"largest block": block["bytes"]}
    size = sizes.get(quantity, nan)
    return {} if isnan(size) else {"value": figure(size / SIZES[row["unit"]])}


def attention(pool: Pool, row: Row, preset: str, column: str = "") -> Ours:
    kinds = {"": "naive", "eager": "naive", "compiled": "fused", "torch": "naive",
             "triton": "flash"}  # fmt: skip
    wanted = (
        {"batch_size": 1, "causal": "yes", "precision": row["precision"]}
        if preset == "flash-benchmark"
        else {"batch_size": 8, "causal": "no", "precision": "fp32"}
    )
    case = first(pool.of("attention", preset, head_dim=row["head_dim"], context=row["context"],
                         heads=1, attention=kinds[row.get(column, "")], **wanted))  # fmt: skip
    found = means(case, row, {name: name for name in THREE if name in row})
    if scale := SIZES.get(row.get("memory_unit", "")):
        before, peak = (case.number(f"{name}_bytes") / scale
                        for name in ("memory_before_backward", "peak"))  # fmt: skip
        found |= {"memory_before_backward": figure(before), "peak_memory": figure(peak)}
    return found


def collectives(pool: Pool, row: Row) -> Ours:
    size = int(row["message_mb"]) * 10**6
    case = first(pool.of(
        "collectives", "single-node", op="all_reduce", bytes=size, ranks=row["ranks"],
        backend={"gloo": "mpi", "nccl": "nccl"}[row["backend"]], dtype="float32", redop="sum",
    ))  # fmt: skip
    rate = size / case.seconds("time", "mean") / 1e9
    median = case.seconds("time") / UNITS[row["unit"]]
    return means(case, row, {"mean": "time"}) | {"median": figure(median),
                                                 "bandwidth_gb_s": figure(rate)}  # fmt: skip


def ddp(pool: Pool, row: Row) -> Ours:
    if row["method"] == "bucketed" and not row["bucket_mb"]:
        return {}
    case = first(pool.of(
        "ddp", "course", size=row["size"] or "xl", ranks=row["ranks"] or 2, sync=row["method"],
        context=row["context"] or ("32" if row["batch_size"] == "32" else "128"),
        attention="flash" if row["attention"] == "triton" else "naive", precision="fp32",
        exec="eager", comm_dtype=("fp32", ""), batch_size=int(row["batch_size"] or 4) // 2,
        profile=0, bucket_mb=row["bucket_mb"],
    ))  # fmt: skip
    share = case.seconds("communication_exposed") / case.seconds("step")
    return means(case, row, {"step": "step", "sync": "communication_exposed"}) | {
        "share": figure(100 * share, 3)
    }


MARKS = {
    "peak after init": ("after init", "peak"),
    "peak before step": ("before optimizer", "peak"),
    "peak after step": ("after step", "peak"),
    "parameters": ("after init", "parameter"),
    "gradients": ("after step", "gradient"),
    "optimizer state": ("after step", "optimizer_state"),
    "optimizer state, most of ranks": ("after step", "optimizer_state"),
}


def sharding(pool: Pool, row: Row) -> Ours:
    kinds = {"whole": "none", "sharded": "broadcast", "either": "none"}
    case, whole = (first(pool.of("zero", "course", size=row["size"], ranks=row["ranks"],
                                 shard=kinds[kind], context=128, precision="fp32"))
                   for kind in (row["optimizer"], "whole"))  # fmt: skip
    if row["quantity"] == "step":
        return means(case, row, {"value": "step"})
    every = case.table("memory")
    if every.empty:
        return {}
    marks = memory_marks.of_row(case.results, case.row)
    state = every[(every["step"] == "first") & (every["mark"] == "after step")]["optimizer_state"]
    peaks, steps = ([one.number(name) for one in (whole, case)]
                    for name in ("peak_bytes", "step_mean_s"))  # fmt: skip
    values = {name: marks.loc[place] for name, place in MARKS.items()} | {
        "peak": peaks[1],
        "peak saved": peaks[0] - peaks[1],
        "step longer by": steps[1] - steps[0],
        "optimizer state, least of ranks": state.min(),
    }
    percent = (steps if "longer" in row["quantity"] else peaks)[0] / 100
    scale = (UNITS | SIZES | {"%": percent})[row["unit"]]
    return {"value": figure(float(values[row["quantity"]]) / scale)}


def accumulation(pool: Pool, row: Row) -> Ours:
    arithmetic = {
        ("fp32", "fp32"): "fp32", ("fp16", "fp16"): "fp16", ("fp32", "fp16"): "fp16-into-fp32",
        ("fp32", "fp16 cast to fp32"): "fp16-upcast",
    }  # fmt: skip
    case = first(pool.of("precision", "course", study="accumulation", summation="sequential",
                         count=1000, addend=0.01,
                         arithmetic=arithmetic[row["accumulator"], row["addend"]]))  # fmt: skip
    return {"sum": figure(case.number("sum"), 6)}


def dtypes(pool: Pool, row: Row) -> Ours:
    component = {"fc1": "fc1 output", "layer norm": "LayerNorm output"}
    wanted = component.get(row["component"], row["component"])
    case = first([case for case in pool.of("precision", "course") if len(case.table("dtypes"))])
    table = case.table("dtypes").set_index(["model", "component"])["fp16"]
    own = table.get(("toy", wanted), "")
    return {"dtype": SHORT.get(own, own)} if own else {}


def accounting(pool: Pool, row: Row) -> Ours:
    """Of the largest plan."""
    tables = first([
        case for case in pool.of(EXPERIMENT) if case.number("parameters") > 1e11
        and {GROUP + "activations", GROUP + "devices"} <= set(case.results.file_tables)
    ]).results.file_tables  # fmt: skip
    state, kept = (tables[GROUP + name].iloc[0] for name in ("state", "activations"))
    devices = tables[GROUP + "devices"].set_index("hardware")["read_as_gb"]
    devices = devices.reindex(["h100", "tpu-v5p"])
    values = {
        "parameters of xxl": state["parameters"],
        "weights in fp32": state["weights_bytes"],
        "gradients in fp32": state["gradients_bytes"],
        "Adam state in fp32": state["optimizer_bytes"],
        "weights, gradients and Adam state": state["state_bytes"],
        "saved for backward in bf16, of batch 1": kept.get("saved_bytes_per_token"),
        "devices of 80 GB": devices["h100"],
        "least ranks of FSDP, 95 GB each": devices["tpu-v5p"],
        "ranks of FSDP are more than, 95 GB each": devices["tpu-v5p"] - 1,
    }
    value = values.get(row["quantity"])
    return {} if value is None else {"value": figure(value / SIZES.get(row["unit"], 1), 6)}


PLAIN = "pytorch-attention"
CLOCKS = {"forward_host": ("host", 1e3), "forward_profiler": ("busy", 1e3)}
KERNEL = {"share": ("share", 100.0), "launches": ("calls", 1.0)}
SET = ("size", "context")
COMPARISONS = (
    Comparison("timing", "Forward and backward by size", partial(timing, preset="sizes"), SET),
    Comparison("warmup", "Warm-up", from_cold, ("size",),
               "Ours: the 10 steps after these warm-up steps, context 128."),
    Comparison("profile", "Forward by the host's clock and by the profiler",
               partial(profiled, group="profile/forward", names=CLOCKS), SET),
    Comparison("kernels", "The kernel that takes longest",
               partial(profiled, group="profile/costliest", names=KERNEL), SET),
    Comparison("accumulation", "0.01 added 1,000 times", accumulation),
    Comparison("dtypes", "Dtypes of the toy model under fp16", dtypes),
    Comparison("precision", "fp32 beside bf16", partial(timing, preset="precision"), SET),
    Comparison("memory", "Memory of the model", memory, (),
               "Ours by the ledger; PyTorch's allocator also caches."),
    Comparison("attention", "Attention in plain PyTorch", partial(attention, preset=PLAIN)),
    Comparison("attention_compile", "Attention, eager and compiled",
               partial(attention, preset=PLAIN, column="method")),
    Comparison("compile", "The whole model, eager and compiled", whole_model, ("size", "eager"),
               "Theirs: torch.compile; ours: fused kernels in a CUDA graph."),
    Comparison("flash", "FlashAttention-2",
               partial(attention, preset="flash-benchmark", column="implementation")),
    Comparison("collectives", "All-reduce", collectives, (),
               "gloo beside MPI; bytes over the mean."),
    Comparison("ddp", "Data-parallel steps", ddp, (), "Ours: sync is exposed communication."),
    Comparison("sharding", "Optimizer sharding", sharding, (),
               "sharded is our broadcast, the course's design."),
    Comparison("accounting", "Memory and communication on paper", accounting),
)  # fmt: skip
