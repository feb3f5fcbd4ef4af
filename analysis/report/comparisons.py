"""The choice of our case for each row of published/: models, memory, profiles."""

import numpy as np
import pandas as pd

from ..tables import warmup as warmup_table
from . import closed_forms
from .facts import Case, first, matching
from .method import without
from .published import CLOSED_FORM, Comparison, Ours

UNITS = {"ms": 1e-3, "s": 1.0}
SIZES = {"GB": 1e9, "GiB": 2**30, "MB": 1e6, "MiB": 2**20}
STEPS = 10  # measured by the write-ups
PHASES_DIFFER = "Ours keeps one T × T matrix of attention, eager PyTorch two."
# The model as the course times it, one rank.
COURSE = {
    "batch_size": 4, "vocab": 10000, "attention": "naive", "exec": "eager", "recompute": "none",
    "ranks": 1,
}  # fmt: skip
STREAM = "residual stream tensor"  # a quantity without a mode
# Nothing else is recorded while the step is timed.
TIMED = COURSE | {"memory_timeline": False, "profile": 0}


def model(cases: list[Case], **factors: object) -> Case | None:
    own = [case for case in cases if case.results.experiment == "model"]
    return first(own, **{**COURSE, "mode": "train-step", "precision": "fp32", **factors})


def timed(cases: list[Case], **factors: object) -> Case | None:
    return model(cases, **{**TIMED, **factors})


def means(case: Case | None, row: pd.Series, names: dict[str, str]) -> Ours | None:
    """Means of the phases, by published column; None if none was measured."""
    scale = UNITS.get(row["unit"])
    if case is None or scale is None:
        return None
    values = {name: case.seconds(phase, "mean") / scale for name, phase in names.items()}
    spread = {name: case.seconds(phase, "std") / scale for name, phase in names.items()}
    if np.isnan(list(values.values())).all():
        return None
    return Ours(values, case.hardware, spread, case)


TWO = {"forward": "forward", "backward": "backward"}


def timing(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        return means(timed(cases, size=row["size"], context=row["context"]), row, TWO)

    return Comparison(
        "timing", "Forward and backward by size", ("size", "context", "batch_size", "precision"),
        ("forward", "backward"), PHASES_DIFFER, find, unstated=without("size", "context"),
    )  # fmt: skip


def warmup(cases: list[Case]) -> Comparison:
    cold = [case for case in cases if case.results.samples[case.row].warmup]

    def find(row: pd.Series) -> Ours | None:
        fits = [
            case for case in matching(cold, **COURSE, context=128, size=row["size"],
                                      mode="train-step", precision="fp32")
            if case.results.experiment == "model" and row["size"]
        ]  # fmt: skip
        found = [
            from_cold(case, int(row["warmup"]))
            for case in fits
            if warmup_table.is_study(case.results)
        ]
        return next((ours for ours in found if ours), None)

    return Comparison(
        "warmup", "Warm-up", ("size", "warmup"), ("forward", "backward"),
        f"Ours: of one process per size, context 128, the {STEPS} steps that follow the stated "
        "number of warm-up steps.",
        find, unstated=without("size"),
    )  # fmt: skip


def from_cold(case: Case, warmup_steps: int) -> Ours | None:
    values, spread = {}, {}
    for phase in TWO:
        samples = case.results.samples[case.row]
        seconds = warmup_table.from_cold(samples, phase, warmup_steps, STEPS)
        if seconds is None:
            return None
        values[phase], spread[phase] = 1e3 * seconds.mean(), 1e3 * seconds.std(ddof=1)
    return Ours(values, case.hardware, spread)


def precision(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        case = timed(cases, size=row["size"], context=row["context"], precision=row["precision"])
        return means(case, row, TWO)

    return Comparison(
        "precision", "fp32 beside bf16", ("size", "context", "precision"), ("forward", "backward"),
        f"{PHASES_DIFFER} bf16 is autocast's table of dtypes.", find,
        unstated=without("size", "context"),
    )  # fmt: skip


def size_factors(size: str) -> dict[str, str]:
    """ "small", or "d_model 512, d_ff 2048, layers 6, heads 8", as factors of a case."""
    if "," not in size:
        return {"size": size}
    return {"size": "custom"} | dict(part.split() for part in size.split(", "))


def compiled(cases: list[Case]) -> Comparison:
    phases = {"forward": "forward", "backward": "backward", "train-step": "step", "step": "step"}

    def find(row: pd.Series) -> Ours | None:
        phase = phases.get(row["phase"])
        if phase is None:
            return None
        context = row["context"] or 512
        two = {
            kind: case
            for kind in ("eager", "compiled")
            if (case := timed(cases, **size_factors(row["size"]), context=context, exec=kind))
        }
        if len(two) < 2:
            return None
        scale = UNITS.get(row["unit"], 1.0)
        values = {kind: case.seconds(phase, "mean") / scale for kind, case in two.items()}
        spread = {kind: case.seconds(phase, "std") / scale for kind, case in two.items()}
        eager = two["eager"]
        return Ours(values, eager.hardware, spread, eager)

    return Comparison(
        "compile", "The whole model, eager and compiled",
        ("size", "context", "batch_size", "phase"), ("eager", "compiled"),
        "Published: torch.compile. Ours: fused kernels in one CUDA graph.",
        find, unstated=without("size", "eager"),
    )  # fmt: skip


def residual_stream(cases: list[Case], row: pd.Series) -> Ours | None:
    """Batch x context x width in fp32; of one token, if the row states no context."""
    width = next((case.number("d_model") for case in matching(cases, size=row["size"])
                  if case.get("size") and case.get("d_model")), None)  # fmt: skip
    if width is None:
        return None
    tokens = int(row["batch_size"] or COURSE["batch_size"]) * int(row["context"] or 1)
    return Ours({"value": 4 * tokens * width / SIZES[row["unit"]]}, CLOSED_FORM)


def memory(cases: list[Case]) -> Comparison:
    def unstated(row: pd.Series) -> list[str]:
        return [] if row["quantity"].startswith(STREAM) else without("context", "mode")(row)

    def find(row: pd.Series) -> Ours | None:
        if row["quantity"].startswith(STREAM):
            return residual_stream(cases, row)
        scale = SIZES.get(row["unit"])
        before, _, execution = row["quantity"].partition(", ")
        case = model(
            cases, **size_factors(row["size"]), context=row["context"], mode=row["mode"],
            precision=row["precision"] or "fp32", exec=execution or "eager",
        )  # fmt: skip
        if case is None or scale is None:
            return None
        if before == "before backward":
            value = case.number("memory_before_backward_bytes") / scale
            return Ours({"value": value}, case.hardware, case=case)
        if row["quantity"] == "peak":
            return Ours({"value": case.number("peak_bytes") / scale}, case.hardware, case=case)
        blocks = case.results.case_tables[case.row].get("memory/blocks")
        if row["quantity"] != "largest block" or blocks is None:
            return None
        kept = blocks[blocks["kind"] == "activation"]["bytes"]
        return Ours({"value": kept.max() / scale}, case.hardware) if len(kept) else None

    return Comparison(
        "memory", "Memory of the model", ("size", "context", "precision", "mode", "quantity"),
        ("value",),
        "Ours counts what the program allocates, by its ledger; PyTorch's allocator also caches. "
        "Gradients lie in one array that is kept between steps; a write-up's forward pass keeps "
        "what backward needs, as our mode forward does.",
        find, unstated=unstated,
    )  # fmt: skip


def sizes(cases: list[Case]) -> Comparison:
    dimensions = ("d_model", "d_ff", "layers", "heads")

    def find(row: pd.Series) -> Ours | None:
        if row["size"] == "xxl":
            shape = closed_forms.D_MODEL, closed_forms.D_FF, closed_forms.LAYERS
            return Ours(dict(zip(dimensions, shape, strict=False)), CLOSED_FORM)
        own = (case for case in cases if case.get("size") == row["size"] and case.hardware)
        case = next((case for case in own if case.get("d_model")), None)
        if case is None:
            return None
        return Ours({name: case.number(name) for name in dimensions}, case.hardware)

    return Comparison(
        "sizes", "Sizes of models", ("size",), dimensions,
        "The dimensions that the program uses under the same name.", find, is_timed=False,
    )  # fmt: skip


def profile(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        case, table = profiled(cases, row, "profile/forward")
        if case is None:
            return None
        return Ours(
            {"forward_host": table["host"] * 1e3, "forward_profiler": table["busy"] * 1e3},
            case.hardware,
        )

    return Comparison(
        "profile", "Forward by the host's clock and by the profiler", ("size", "context"),
        ("forward_host", "forward_profiler"),
        "Ours: the host's clock around the pass, and the time in which a kernel runs.", find,
        unstated=without("size", "context"),
    )  # fmt: skip


def kernels(cases: list[Case]) -> Comparison:
    def find(row: pd.Series) -> Ours | None:
        case, table = profiled(cases, row, "profile/costliest")
        if case is None or row["mode"] != "forward":
            return None
        return Ours({"share": table["share"] * 100, "launches": table["calls"]}, case.hardware)

    return Comparison(
        "kernels", "The kernel that takes longest", ("size", "context", "mode", "kernel"),
        ("share", "launches"), "The table above names our kernel.", find,
        unstated=without("size", "context"),
    )  # fmt: skip


def profiled(cases: list[Case], row: pd.Series, group: str) -> tuple[Case | None, pd.Series | None]:
    """The case with the course's setting, and its row in a table of its file."""
    own = [case for case in cases if group in case.results.file_tables]
    case = model(own, size=row["size"], context=row["context"])
    if case is None:
        return None, None
    table = case.results.file_tables[group]
    fits = table[table["case"] == case.get("case")]
    fits = fits[fits["phases"] == "forward"] if "phases" in fits else fits
    return (case, fits.iloc[0]) if len(fits) else (None, None)
