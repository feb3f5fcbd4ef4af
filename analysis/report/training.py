"""Questions on a training step on one device: its time, kernels, warm-up, precision."""

from math import isnan, nan

import pandas as pd

from ..formatting import ABSENT, figure, label, ms, percent, times
from ..results import Results
from ..tables import norm_breaks, recorded, warmup
from ..tables.spread import Spread
from ..tables.table import grid
from .answer import FIRST, Answer, Bar, drawn, paired, phases, pivot, ratio_bar, time_bar
from .answer import speedups as speedup_table
from .selection import Case, Pool, beside, leading, setting

PHASES = ("forward", "backward", "optimizer", "step")
PARTS = ("forward", "backward", "communication_exposed", "optimizer")
PROFILED = "profiled/kernels"


def timed(pool: Pool, preset: str, **factors: object) -> list[Case]:
    ranked = pool.of("model", preset, **{"mode": "train-step"} | factors)
    return [case for case in ranked if case.seconds("step") > 0]


def passes(pool: Pool, spread: Spread) -> Answer | None:
    ranked = timed(pool, "sizes")
    lead = leading(ranked, "sizes")
    if lead is None:
        return None
    own = beside(ranked, lead, "size", "context")
    varies = [c.seconds("step", "std") / c.seconds("step", "mean") for c in own]
    return Answer(
        lead.ms(),
        f"A step of {lead.at} takes {lead.ms('forward')} forward, {lead.ms('backward')} backward "
        f"and {lead.ms('optimizer')} in the optimizer.",
        [time_bar(c.get("size"), c) for c in beside(ranked, lead, "size")],
        lead,
        f"a step of {lead.at}",
        [("benchmarking_script (b)", "The standard deviation of a step is at most "
          f"{percent(max(varies))} of its mean.")],
        [grid("passes", "Forward, backward and optimizer by size and context",
              ["size", "context", *(f"{name} (ms)" for name in PHASES)],
              [[c.get("size"), c.shown("context"), *phases(c, PHASES, spread)] for c in own],
              f"{spread.words}. {setting(own)}.")],
        drawn(own, "steps"),
    )  # fmt: skip


def where(pool: Pool, spread: Spread) -> Answer | None:
    ranked = timed(pool, "sizes")
    lead = leading(ranked, "sizes")
    parts = {name: lead.seconds(name) / lead.seconds("step") for name in PARTS
             if lead.seconds(name) > 0} if lead else {}  # fmt: skip
    if not lead or not parts:
        return None
    first, *others = sorted(parts, key=lambda name: -parts[name])
    along = beside(ranked, lead, "context")
    return Answer(
        percent(parts[first]),
        f"Of a step of {lead.ms()} ({lead.at}), {label(first)} takes {percent(parts[first])}"
        + "".join(f", {label(name)} {percent(parts[name])}" for name in others) + ".",
        [time_bar(label(name), lead, name, percent(share)) for name, share in parts.items()],
        lead,
        f"of a step is {label(first)}",
        tables=[grid("shares", "Each phase's share of the step", ["context", *map(label, parts)],
                     [[c.shown("context"), *(percent(c.seconds(name) / c.seconds("step"))
                                             for name in parts)] for c in along],
                     f"Medians of phases over the median step. {setting(along)}.")],
        drawings=drawn(along, "steps"),
    )  # fmt: skip


def of_file(case: Case, group: str) -> pd.DataFrame:
    """The case's rows of a table of its file; of rank 0."""
    table = case.table(group)
    if table.empty:
        return table
    own = table[table["case"] == case.get("case")]
    return own[own["rank"] == 0] if "rank" in own else own


def kernels(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [case for case in pool.of("model", "profile") if len(of_file(case, PROFILED))]
    lead = leading(ranked, "profile")
    if lead is None:
        return None
    table = of_file(lead, PROFILED)
    step = table.groupby("operation")["total"].sum().sort_values(ascending=False)
    forward = table[table["phase"] == "forward"].groupby("operation")["total"].sum()
    forward = forward.reindex(step.index, fill_value=0.0)
    share = {name: own / own.sum() for name, own in (("forward", forward), ("step", step))}
    matmul = {name: percent(own.get("matmul", 0.0)) for name, own in share.items()}
    others = [str(name) for name in step.index if name != "matmul"]
    softmax = next((c for c in [lead, *ranked] if len(of_file(c, "profile/softmax"))), lead)
    rows = [[name, figure(1e3 * forward[name], 3), percent(share["forward"][name]),
             figure(1e3 * step[name], 3), percent(share["step"][name])]
            for name in step.index[:12]]  # fmt: skip
    told = [
        *(("a", f"Forward takes {ms(row.host)} by the host's clock; in {ms(row.busy)} of these a "
           "kernel runs, by the profiler.")
          for row in of_file(lead, "profile/forward").itertuples() if not isnan(row.host)),
        *(("b", f"In {row.phases.replace('_', ' and ')} the costliest kernel is {row.kernel}: "
           f"{percent(row.share)} of the time, {row.calls:.0f} launches.")
          for row in of_file(lead, "profile/costliest").itertuples()),
        ("c", f"Of other kernels than matmuls, {', '.join(others[:3])} cost most; the table has "
         "them in forward and in the step."),
        ("d", f"Matmuls take {matmul['forward']} of forward and {matmul['step']} of the step."),
        *(("e", f"Softmax takes {percent(row.time_ratio)} of the time of attention's matmuls, with "
           f"{percent(row.flops_ratio)} of their FLOPs.")
          for row in of_file(softmax, "profile/softmax").itertuples()),
    ]  # fmt: skip
    return Answer(
        matmul["step"],
        f"Matmuls take {matmul['step']} of the kernels' time in a step of {lead.at}, "
        f"{matmul['forward']} in forward.",
        [Bar(name, step[name], percent(share["step"][name])) for name in step.index[:5]],
        lead,
        "of the kernels' time is matmuls",
        [(f"nsys_profile ({part})", one) for part, one in told],
        [grid("operations", "Kernels by operation, in forward and in a whole step",
              ["operation", "forward (ms)", "of it", "step (ms)", "of it"], rows,
              f"Of rank 0. {setting([lead])}.")],
        drawn([lead], "block", "streams"),
    )  # fmt: skip


def from_cold(pool: Pool, spread: Spread) -> Answer | None:
    """Of launches that measure every step from the first one of a process on."""
    ranked = cold(pool)
    lead = leading(ranked, "warmup")
    if lead is None:
        return None
    alike = beside(ranked, lead, "size")
    return Answer(
        times(slower_first(lead)),
        f"The first step of {lead.at} takes {ms(first_step(lead))}, the median of later ones is "
        f"{lead.ms()}.",
        [Bar(c.get("size"), slower_first(c), times(slower_first(c)), [(c, FIRST), (c, "step")])
         for c in alike],
        lead,
        "the time of later steps, in the first",
        [("benchmarking_script (c)", "The first step also loads kernels and allocates memory. The "
          "table has what one, two and five warm-up steps leave of that.")],
        [grid("warmup", "Mean and standard deviation after 0, 1, 2 and 5 warm-up steps",
              ["size", "warm-up steps", "forward (ms)", "backward (ms)"],
              [[c.get("size"), str(count), *(after(c, name, count) for name in PHASES[:2])]
               for c in alike for count in warmup.COUNTS],
              f"Of as many steps as were measured, in one process a size. {setting(alike)}.")],
        drawn(alike, "warmup"),
    )  # fmt: skip


def cold(pool: Pool, **factors: object) -> list[Case]:
    """Cases whose recorded warm-up begins with the first step of a process, for they have a launch
    of their own; of the preset's own file first, there those with the longest warm-up."""
    found = [c for c in timed(pool, "warmup", **factors) if first_step(c) > 0
             and (warmup.is_study(c.results) or len(c.results.frame) == 1)]  # fmt: skip
    samples = {c: c.results.samples[c.row].warmup["step"].shape[1] for c in found}
    return sorted(found, key=lambda c: (not c.is_of_preset("warmup"), -samples[c]))


def after(case: Case, phase: str, count: int) -> str:
    """Mean and deviation of the steps after `count` warm-up steps."""
    samples = case.results.samples[case.row]
    taken = warmup.from_cold(samples, phase, count, samples.measured["step"].shape[1])
    if taken is None or len(taken) < 2:
        return ABSENT
    return Spread.STD.cell([1e3 * taken.mean(), 1e3 * taken.std(ddof=1)])


def first_step(case: Case) -> float:
    """Seconds; NaN if it was not recorded."""
    steps = case.results.samples[case.row].warmup.get("step")
    return nan if steps is None or not steps.size else float(steps[:, 0].max())


def slower_first(case: Case) -> float:
    """How many times as long the first step takes as the median of later ones."""
    return first_step(case) / case.seconds("step")


def precision(pool: Pool, spread: Spread) -> Answer | None:
    pairs = paired(timed(pool, "precision"), "precision", "precision", "fp32", "bf16", "size")
    if not pairs:
        return None
    base, lead = pairs[-1]
    study = pool.of("precision", "course")
    own = study[0].results if study else None
    return Answer(
        times(base.seconds("step") / lead.seconds("step")),
        f"A step of {lead.at} takes {lead.ms()} in bf16 and {base.ms()} in fp32.",
        [ratio_bar(a.get("size"), a, b) for a, b in pairs],
        lead,
        "as fast in bf16 as in fp32",
        [("benchmarking_mixed_precision (a)", "The dtype of each component is in the folded "
          "table.")] * bool(own) + broken(own),
        [speedup_table(pairs, ("size",), PHASES, spread),
         *([t for t in recorded.build(own, spread) if t.name == "dtypes"] if own else []),
         *(norm_breaks.build(own, spread) if own else [])],
        [*drawn([c for pair in pairs for c in pair], "speedups"), *drawn(study, "norms")],
    )  # fmt: skip


def broken(own: Results | None) -> list[tuple[str, str]]:
    """At which scales LayerNorm holds, with statistics in low precision and in fp32."""
    table = norm_breaks.of(own) if own else pd.DataFrame()
    if table.empty:
        return []
    plain = table[(table["norm"] == "layer_norm") & (table["mean"] == "0") & table["holds_to"]
                  .astype(bool)]  # fmt: skip
    return [
        ("benchmarking_mixed_precision (b)", f"LayerNorm of {row.norm_dtype} with {row.statistics} "
         f"statistics has an error of at most 10% at scales {row.holds_from} to {row.holds_to}.")
        for row in plain.itertuples()
    ]  # fmt: skip


def accumulation(pool: Pool, spread: Spread) -> Answer | None:
    sums = [c for c in pool.of("precision", "course", study="accumulation", count=1000)
            if c.number("sum") > 0]  # fmt: skip
    own = [c for c in sums if c.results is sums[0].results]
    by = {c.get("arithmetic"): c for c in own if c.get("summation") in ("sequential", "")}
    if not {"fp32", "fp16", "fp16-into-fp32"} <= set(by):
        return None
    told = {name: f"{case.number('sum'):.4f}" for name, case in by.items()}
    errors = {name: case.number("sum_error") for name, case in by.items()}
    return Answer(
        told["fp16"],
        f"0.01 added 1,000 times gives {told['fp32']} in fp32, {told['fp16']} in fp16, and "
        f"{told['fp16-into-fp32']} with fp16 addends in an fp32 sum.",
        [Bar(k.replace("-", " "), error, f"off by {error:.1e}") for k, error in errors.items()],
        by["fp16"],
        "is 1,000 × 0.01 in fp16",
        [("mixed_precision_accumulation", "0.01 in fp16 is itself wrong by "
          f"{by['fp16-into-fp32'].number('addend_error'):.1e}: an fp32 sum keeps that error.")],
        [grid("sums", "Sums of 1,000 times 0.01", ["summation", "arithmetic", "sum", "error"],
              [[c.get("summation"), c.get("arithmetic"), f"{c.number('sum'):.6f}",
                f"{c.number('sum_error'):.2g}"] for c in own])],
        drawn(own, "accumulation"),
    )  # fmt: skip


def compiled(pool: Pool, spread: Spread) -> Answer | None:
    kinds = ("exec", "eager", "compiled")
    ranked = [case for case in pool.of("model", "compile") if case.seconds("step") > 0]
    pairs = paired([c for c in ranked if c.get("mode") == "train-step"], "compile", *kinds, "size")
    if not pairs:
        return None
    base, lead = pairs[-1]
    modes = paired(ranked, "compile", *kinds, "size", "mode")
    every = [case for pair in modes for case in pair]
    plain = "pytorch-attention"
    heads = paired([case for case in pool.of("attention", plain) if case.seconds("both") > 0],
                   plain, "attention", "naive", "fused", "head_dim", "context")  # fmt: skip
    told = [("torch_compile (b)", "Forward, backward and whole steps are in the table.")]
    for a, b in heads[-1:]:
        told.insert(0, ("torch_compile (a)", f"Attention at head dimension {a.get('head_dim')} and "
                        f"context {a.shown('context')}: {a.ms('both')} naive, {b.ms('both')} with "
                        "scale, mask and softmax fused."))  # fmt: skip
    return Answer(
        times(base.seconds("step") / lead.seconds("step")),
        f"In {lead.get('precision')} a step of {lead.at} takes {lead.ms()} compiled, {base.ms()} "
        "eager.",
        [ratio_bar(a.get("size"), a, b) for a, b in pairs],
        lead,
        "as fast compiled as eager",
        told,
        [speedup_table(modes, ("size", "mode"), ("step",), spread),
         pivot("before-backward", "Memory before backward, eager and compiled", every,
               ["size", "mode"], "exec", lambda c: c.gib("memory_before_backward_bytes")),
         *([speedup_table(heads, ("head_dim", "context"), ("forward", "backward"), spread)]
           if heads else [])],
        [*drawn([c for pair in pairs for c in pair], "speedups"),
         *drawn([c for pair in heads for c in pair], "attention-speedup")],
    )  # fmt: skip
