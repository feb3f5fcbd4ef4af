"""How much memory a model takes (memory_profiling)."""

from math import isnan

from pandas import Series

from ..results import Results
from ..tables.table import Table
from ..words import figure
from . import comparisons, devices, published
from .facts import Case, cases, largest, matching
from .section import Section, drawings, grid
from .selection import is_memory, named, of_experiment
from .sentences import gib
from .steps_apart import cost, describe


def section(found: list[Results]) -> Section:
    chosen = [results for results in found if is_memory(results)]
    whole = cases(of_experiment(found, "model"))
    with_peak = [case for case in whole if not isnan(case.number("peak_bytes"))]
    needed = headlines(with_peak)
    timed = chosen or [case.results for case in with_peak[:1]]
    return Section(
        name="memory",
        title="How much memory does a model need?",
        problem="memory_profiling (a) to (e)",
        question="What does memory in use look like over a forward pass and over a training step? "
        "What is the peak by context, in fp32 and in mixed precision? How large is a tensor of the "
        "residual stream, and which blocks are the largest?",
        command="build/paceline model --preset memory",
        sentences=[*needed, *by_mode(cases(chosen)), *blocks(with_peak)],
        tables=[*([peak_table(with_peak)] if with_peak else []), *named(timed, "memory-marks")],
        drawings=drawings("memory", map(longest_in_fp32, timed), ["memory", "memory-marks"]),
        published=published.tables(comparisons.memory(cases(found))),
        headline=needed[0] if needed else "",
    )


def longest_in_fp32(results: Results) -> Results:
    """The modes of the largest model at its longest context, in fp32 if that was measured."""
    own = cases([results])
    case = largest(own, cost)
    if case is None:
        return results
    alike = {name: case.get(name) for name in ("size", "context")}
    rows = [one.row for one in matching(own, **alike, precision="fp32")]
    return results.only(rows or [case.row])


def peak_table(with_peak: list[Case]) -> Table:
    factors = (
        "size",
        "context",
        "batch_size",
        "precision",
        "attention",
        "exec",
        "mode",
        "recompute",
    )
    rows = [
        [*(case.get(name) for name in factors), figure(case.number("peak_bytes") / 2**30),
         figure(case.number("peak_bytes") / 1e9), devices.smallest(case.number("peak_bytes"))]
        for case in sorted(with_peak, key=order)
    ]  # fmt: skip
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    header = [name.replace("_", " ") for name in factors]
    return grid(
        "memory-peaks",
        "Peak memory of every case, and the least GPU that holds it",
        ["The peak of one rank by the memory ledger; the GPU is the smallest whose GB hold it and "
         f"{devices.RESERVED / 1e9} GB beside for CUDA, cuBLAS and NCCL: {devices.EXAMPLES}."],
        [*header, "peak (GiB)", "peak (GB)", "smallest GPU"],
        rows,
    )  # fmt: skip


def order(case: Case) -> tuple[float, float]:
    """A sort key: the largest models first."""
    return -case.number("layers") * case.number("d_model") ** 2, case.number("context")


def headlines(with_peak: list[Case]) -> list[str]:
    """Sentences on the largest model at its longest context, in every measured setting."""
    trained = [case for case in with_peak if case.get("mode") in ("", "train-step")]
    case = largest(trained, cost)
    if case is None:
        return []
    same = {
        describe(other): other.number("peak_bytes")
        for other in trained
        if all(other.get(name) == case.get(name) for name in ("size", "context"))
    }
    told = "; ".join(
        f"{gib(peak)} with {name.split(', ', 2)[2]}: a GPU of {devices.smallest(peak)}"
        for name, peak in same.items()
    )
    where = f"{case.get('size')} at context {case.get('context')}"
    return [f"A training step of {where} needs {told} ({devices.EXAMPLES})."]


def by_mode(own: list[Case]) -> list[str]:
    """Compares training with forward at the longest context in fp32, and bf16 with fp32."""
    longest = largest([case for case in own if not isnan(case.number("peak_bytes"))], cost)
    if longest is None:
        return []
    same = {
        (case.get("mode"), case.get("precision")): case.number("peak_bytes")
        for case in own
        if all(case.get(name) == longest.get(name) for name in ("size", "context"))
    }
    where = f"{longest.get('size')} at context {longest.get('context')}"
    lines = []
    for mode in ("inference", "forward", "train-step"):
        peaks = {kind: same.get((mode, kind), float("nan")) for kind in ("fp32", "bf16")}
        if all(not isnan(peak) for peak in peaks.values()):
            change = 100 * (peaks["bf16"] / peaks["fp32"] - 1)
            lines.append(
                f"{where}, {mode}: {gib(peaks['fp32'])} in fp32 and {gib(peaks['bf16'])} in bf16, "
                f"{change:+.1f}%."
            )
    return lines


def blocks(with_peak: list[Case]) -> list[str]:
    case = largest(with_peak, cost)
    if case is None:
        return []
    sizes = [case.number(name) for name in ("batch_size", "context", "d_model")]
    if any(map(isnan, sizes)):
        return []
    batch, context, width = sizes
    stream = batch * context * width * 4
    lines = [
        f"A tensor of its residual stream takes {stream / 2**20:.1f} MiB: "
        f"{batch:.0f} x {context:.0f} x {width:.0f} x 4 bytes."
    ]
    table = case.results.case_tables[case.row].get("memory/blocks")
    kept = table[table["kind"] == "activation"] if table is not None else []
    if len(kept):
        block = kept.loc[kept["bytes"].idxmax()]
        lines.append(
            f"Its largest block of activations is {block['bytes'] / 2**20:.0f} MiB: "
            f"{block['scope']}{of_shape(block)}."
        )
    return lines


def of_shape(block: Series) -> str:
    """ ", [4, 32, 512, 512] fp32"; nothing in files that do not have it."""
    return f", {block['shape']} {block['dtype']}" if "shape" in block else ""
