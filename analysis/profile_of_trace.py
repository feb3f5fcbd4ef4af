"""The kernels, scopes and phases of profiled cases: the tables that an older paceline has stored,
or else made of the trace. Calls, seconds, FLOPs and bytes are means over the profiled steps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from . import intervals, timeline
from .median_interval import median_interval
from .result_file import Samples, read_samples, read_table
from .timeline import RankTimeline, times

KERNELS, SCOPES, PHASES = GROUPS = ("kernels", "kernels/scopes", "kernels/phases")
# weight_update: the product of a weight's gradient, with the update as its epilogue.
PRODUCTS = ("matmul", "weight_update")
FLASH = "flash_attention"
WIDEST = 0.1  # interval of a ceiling, over its median, for ratios to it
Frame = pd.DataFrame


@dataclass(frozen=True)
class Profile:
    tables: dict[str, Frame] = field(default_factory=dict)  # by group, of all ranks
    answers: dict[str, object] = field(default_factory=dict)  # of rank 0; none if /summary has them


def of(path: Path, file: h5py.File, case: h5py.Group) -> Profile:
    """Empty for a case that was not profiled. Raises ResultError."""
    if KERNELS in case:
        stored = {group: read_table(path, case[group])[0] for group in GROUPS if group in case}
        return Profile(stored)
    if "trace/spans" not in case:
        return Profile()
    one = timeline.read_case(path, file, case.name.rpartition("/")[2])
    timed = Frame(columns=["rank", "phase", "events", "host"], dtype=float)
    if "trace/phases" in case:
        timed, _ = read_table(path, case["trace/phases"])
    samples, rates = read_samples(path, case), ceilings(path, case)
    overlap = timeline.overlap_fraction(one)
    answers = {} if np.isnan(overlap) else {"communication_overlap": overlap}
    ranks = []
    for rank in one.ranks:
        work = work_of(rank)
        kernels, scopes = kernels_of(rank, work), scopes_of(rank, work)
        phases = with_clocks(phases_of(rank, work, kernels), rank.rank, timed, samples)
        if rank.rank == 0:
            answers |= answers_of(kernels, scopes, phases)
        whole, is_flash = kernels["total"].sum(), kernels["operation"].str.contains(FLASH)
        found = (
            with_rates(kernels, whole, is_flash, *rates).drop(columns="communicates"),
            with_rates(scopes, whole, flash_shares(scopes), *rates),
            phases[phases["phase"].isin([*samples.measured, "step"])],
        )
        ranks.append([table.assign(rank=rank.rank) for table in found])
    joined = (pd.concat(parts, ignore_index=True) for parts in zip(*ranks, strict=True))
    return Profile(dict(zip(GROUPS, joined, strict=True)), answers)


def with_answers(frame: Frame, profiles: Sequence[Profile]) -> Frame:
    """/summary with the answers of the profiles of its rows."""
    names = dict.fromkeys(name for profile in profiles for name in profile.answers)
    rows = list(zip(profiles, frame.to_dict("records"), strict=True)) if names else []
    return frame.assign(
        **{name: [own.answers.get(name, row.get(name)) for own, row in rows] for name in names}
    )


def of_cases(frame: Frame, profiles: Sequence[Profile]) -> dict[str, Frame]:
    """The tables of all cases: profiled/kernels, profiled/scopes and profiled/phases."""
    rows = list(zip(frame.get("case", ()), profiles, strict=True))
    return {
        f"profiled/{group.rpartition('/')[2]}": pd.concat(found, names=["case"]).reset_index("case")
        for group in GROUPS
        if (found := {case: own.tables[group] for case, own in rows if group in own.tables})
    }


def work_of(rank: RankTimeline) -> Frame:
    """The rank's kernels, copies and memsets, with the outermost scope (phase) and the innermost
    (operation) that launched each."""
    rows = rank.on_device.drop(columns="bytes").rename(columns={"short_name": "kernel"})
    names = [path.split("/") for path in rows["path"]]
    return rows.assign(
        length=rows["end"] - rows["begin"],
        phase=pd.Series([own[0] for own in names], rows.index, object),
        operation=pd.Series([own[-1] for own in names], rows.index, object),
    )


def kernels_of(rank: RankTimeline, work: Frame) -> Frame:
    """By phase, operation and name, the most expensive first."""
    # The work of each launch of an operation is counted to the longest of its kernels.
    longest = work[work["span"] >= 0].groupby(["span", "step"])["length"].idxmax()
    done = rank.spans.loc[work.loc[longest, "span"], ["flops", "bytes"]].set_axis(longest)
    found = work.join(done).groupby(["phase", "operation", "kernel"], as_index=False).agg(
        calls=("length", "size"), total=("length", "sum"), flops=("flops", "sum"),
        bytes=("bytes", "sum"), communicates=("communication", "last"),
    )  # fmt: skip
    found[["calls", "total", "flops", "bytes"]] /= len(rank.steps)
    return found.sort_values("total", ascending=False, kind="stable", ignore_index=True)


def scopes_of(rank: RankTimeline, work: Frame) -> Frame:
    """By path, in the order in which scopes are first entered; all blocks are one. A scope includes
    what is within it, but for two kinds of work that count to their own scope alone: collectives,
    which run beside the scope that launches them and wait for other ranks; and operations within
    another, whose work is part of that one's."""
    spans, operation = rank.spans, rank.spans["operation"].to_numpy() == 1
    within = np.zeros(len(spans), bool)  # another operation
    for span, outer in enumerate(rank.parents):
        within[span] = outer >= 0 and (operation[outer] or within[outer])
    # A captured span is entered once and launched in each step.
    weight = np.where(spans["step"] < 0, 1, 1 / len(rank.steps))
    entered = spans[["path"]].assign(
        apart=(spans["elements"] > 0) | within, operation=operation.astype(int), calls=weight,
        flops=spans["flops"] * weight, bytes=spans["bytes"] * weight,
    )  # fmt: skip
    launched = work[work["span"] >= 0]
    ran = launched[["path"]].assign(
        apart=launched["communication"], total=launched["length"] / len(rank.steps)
    )
    rows = pd.concat([entered, ran]).fillna(0)
    folded = {path: re.sub(r"(?<![^/])block [0-9]+(?![^/])", "blocks", path) for path in
              rows["path"].unique()}  # fmt: skip
    rows = rows.assign(scope=rows["path"].map(folded)).drop(columns="path")
    sums = rows.groupby(["scope", "apart"], sort=False, as_index=False).sum()
    paths = [list(accumulate(scope.split("/"), "{}/{}".format)) for scope in sums["scope"]]
    order = list(dict.fromkeys(path for nested in paths for path in nested if path))
    own = sums.groupby("scope")[["operation", "calls"]].sum().reindex(order, fill_value=0)
    around = [nested[-1:] if apart else nested
              for nested, apart in zip(paths, sums["apart"], strict=True)]  # fmt: skip
    sums = sums.assign(scope=around).explode("scope").groupby("scope")[["total", "flops", "bytes"]]
    found = own.assign(operation=(own["operation"] > 0).astype(int)).join(sums.sum())
    return found.rename_axis("scope").fillna(0).reset_index()


def phases_of(rank: RankTimeline, work: Frame, kernels: Frame) -> Frame:
    """In the order in which they begin, then the whole step. Collectives overlap with a phase and
    outlast it, and wait for other ranks: only the step includes them."""
    rows = []
    for name in [*work["phase"].unique(), "step"]:
        mine, uses = work, kernels
        if name != "step":
            mine = work[(work["phase"] == name) & ~work["communication"]]
            uses = kernels[(kernels["phase"] == name) & ~kernels["communicates"]]
        running = [intervals.union(times(of_step)) for _, of_step in mine.groupby("step")]
        extent = sum(one[-1, 1] - one[0, 0] for one in running) / len(rank.steps)
        busy = sum(map(intervals.length, running)) / len(rank.steps)
        products = uses.loc[uses["operation"].isin(PRODUCTS), "total"].sum()
        rows.append((name, extent, busy, extent - busy, uses["total"].sum(), products))
    return Frame(rows, columns=["phase", "extent", "busy", "gaps", "kernels", "products"])


def with_clocks(phases: Frame, rank: int, timed: Frame, samples: Samples) -> Frame:
    """With the means by the host's clock, over the measured repetitions, and by events."""
    found = timed[timed["rank"] == rank].groupby("phase")[["host", "events"]].mean()
    host = {phase: seconds[rank].mean() for phase, seconds in samples.measured.items()
            if found["host"].get(phase, 0) > 0}  # fmt: skip
    names = phases["phase"]
    clocks = Frame({"phase": names, "host": names.map(host), "events": names.map(found["events"])})
    return clocks.join(phases.drop(columns="phase"))


def with_rates(
    uses: Frame, whole: float, flash: pd.Series, gemm: float, attention: float, copy: float
) -> Frame:
    """With means, shares, and rates where there are work and time. Products with a share `flash` of
    their FLOPs in flash attention have the ceiling of both, if each part runs at its own."""
    flops, nbytes = (uses[work] / uses["total"].where(uses[work] * uses["total"] > 0)
                     for work in ("flops", "bytes"))  # fmt: skip
    return uses.assign(
        mean=uses["total"] / uses["calls"], share=uses["total"] / whole,
        flops_per_s=flops, flops_share=flops * ((1 - flash) / gemm + flash / attention),
        bytes_per_s=nbytes, bytes_share=nbytes / copy,
    )  # fmt: skip


def flash_shares(scopes: Frame) -> pd.Series:
    flash = scopes[(scopes["operation"] == 1) & scopes["scope"].str.contains(FLASH)]
    within = [flash["flops"][(flash["scope"] + "/").str.startswith(f"{scope}/")].sum()
              for scope in scopes["scope"]]  # fmt: skip
    return within / scopes["flops"]


def ceilings(path: Path, case: h5py.Group) -> tuple[float, float, float]:
    """Rates of GEMMs, of attention's own products and of copies on the slowest rank; NaN where the
    95% interval of the median (measure/statistics.h) is too wide. GEMMs in the arithmetic of
    attention, if it has another, are last; bf16x3 takes three of bf16 for a product."""
    found = {"copy": np.nan, "GEMM": np.nan}
    table = read_table(path, case["ceilings"])[0] if "ceilings" in case else Frame({"ceiling": []})
    for name, rows in table.groupby("ceiling", sort=False):
        slowest = rows.groupby("rank")["rate"].median().idxmin()
        rates = rows["rate"][rows["rank"] == slowest].to_numpy()
        low, high = median_interval(rates)
        median = np.median(rates)
        is_narrow = high - low <= WIDEST * median  # false for NaN
        found[name] = median if is_narrow else np.nan
    gemm = [name for name in found if name.startswith("GEMM ")] or ["GEMM"]
    products = 3 if gemm[0] != gemm[-1] == "GEMM bf16" else 1
    return found[gemm[0]], found[gemm[-1]] / products, found["copy"]


def answers_of(kernels: Frame, scopes: Frame, phases: Frame) -> dict[str, object]:
    """To the usual questions about a profile; none without a forward pass."""
    if "forward" not in (rows := phases.set_index("phase")).index:
        return {}
    forward, computing = rows.loc["forward"], kernels[~kernels["communicates"]]
    products = computing["total"][computing["operation"].isin(PRODUCTS)].sum()
    found = {
        "forward_host_s": forward["host"],
        "forward_events_s": forward["events"],
        "forward_kernels_s": forward["busy"],
        "forward_products_share": forward["products"] / forward["kernels"],
        "step_products_share": products / computing["total"].sum(),
    }
    for passes in (["forward"], ["forward", "backward"]):
        if passes[-1] in rows.index:
            of_passes = costliest(computing[computing["phase"].isin(passes)])
            found |= {f"{'_'.join(passes)}_{name}": value for name, value in of_passes.items()}
    # Softmax in the forward pass's attention, and the two products around it.
    inside = scopes[scopes["scope"].str.match("forward/(.*/)?scaled dot product attention/")]
    softmax, matmul = (inside.loc[inside["scope"].str.endswith(name), ["total", "flops"]].sum()
                       for name in ("/computing softmax", "/matmul"))  # fmt: skip
    if softmax["total"] > 0:
        found |= {"softmax_s": softmax["total"], "attention_products_s": matmul["total"],
                  "softmax_flops": softmax["flops"],
                  "attention_products_flops": matmul["flops"]}  # fmt: skip
    return found


def costliest(kernels: Frame) -> dict[str, object]:
    """The costliest kernel, whatever launches it, and the three costliest that are no products."""
    uses = kernels.groupby("kernel", sort=False, as_index=False).agg(
        {"operation": "first", "calls": "sum", "total": "sum"}
    )
    if uses.empty:
        return {}
    uses["share"] = uses["total"] / uses["total"].sum()
    uses = uses.sort_values("total", ascending=False, kind="stable")
    first, others = uses.iloc[0], uses[~uses["operation"].isin(PRODUCTS)][:3]
    named = [f"{use.kernel} {100 * use.share:.1f}%" for use in others.itertuples()]
    return {"costliest_kernel": first["kernel"], "costliest_calls": first["calls"],
            "costliest_share": first["share"], "other_kernels": ", ".join(named)}  # fmt: skip
