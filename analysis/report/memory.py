"""Questions on memory: what a step needs, what holds it, and what sharding saves."""

import pandas as pd

from .. import memory_marks
from ..formatting import ABSENT, change, figure, gib, label, more, times
from ..tables import marks
from ..tables.spread import Spread
from ..tables.table import GIB, grid
from .answer import MOST_BARS, Answer, Bar, drawn, phases, pivot
from .selection import Case, Pool, beside, leading, setting

MIB = 2**20
MODES = ("inference", "forward", "train-step")
SHARDS = ("none", "broadcast", "zero1", "zero2", "fsdp")


def peak(case: Case) -> float:
    return case.number("peak_bytes")


def needed(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [c for c in pool.of("model", "sizes", mode="train-step", recompute="none")
              if peak(c) > 0]  # fmt: skip
    lead = leading(ranked, "sizes")
    if lead is None:
        return None
    names = ("precision", "attention", "exec")
    other = beside(ranked, lead, *names, "optimizer", elsewhere=True)
    least = min(other, key=peak)
    kind = ", ".join(least.get(name) for name in names if least.get(name) != lead.get(name))
    along = beside(ranked, lead, "context")[-MOST_BARS:]
    every = beside(ranked, lead, "size", "context")
    return Answer(
        lead.gib(),
        f"A training step of {lead.at} needs {lead.gib()} ({figure(peak(lead) / 1e9, 3)} GB) in "
        f"{lead.get('precision')}, batch {lead.get('batch_size')}"
        + (f"; {least.gib()} with {kind}." if kind else "."),
        [Bar(f"context {c.shown('context')}", peak(c) / GIB, c.gib()) for c in along],
        lead,
        f"{lead.get('size')}, context {lead.shown('context')}",
        tables=[
            pivot("needed", "Peak memory of a training step (GiB)",
                  every, ["size"], "context", lambda c: figure(peak(c) / GIB, 3),
                  f"By the ledger. {setting(every)}."),
            grid("alternatives", lead.at, ["precision", "attention", "execution", "peak"],
                 [[*map(c.get, names), c.gib()] for c in other]),
        ],
    )  # fmt: skip


def profile(pool: Pool, spread: Spread) -> Answer | None:
    """Of a file that has the forward pass alone too."""
    every = [c for c in pool.of("model", "memory", mode=MODES, recompute=("none", ""))
             if peak(c) > 0]  # fmt: skip
    forward = [c.results for c in every if c.get("mode") == "forward"]
    steps = [c for c in every if c.get("mode") == "train-step" and c.get("precision") == "fp32"
             and any(c.results is own for own in forward)]  # fmt: skip
    lead = leading(steps, "memory")
    kinds = at_peak(lead) if lead else {}
    if not lead or not kinds:
        return None
    whole = sum(kinds.values())
    first = max(kinds, key=lambda kind: kinds[kind])
    own = sorted(beside(every, lead, "context", "precision", "mode"),
                 key=lambda c: (c.number("context"), MODES.index(c.get("mode"))))  # fmt: skip
    blocks = [(c, block) for c in own if c.get("mode") == "forward"
              and (block := largest_block(c)) is not None]  # fmt: skip
    timed = [c for c in pool.of("model", "memory") if len(c.table("memory/timeline"))]
    return Answer(
        gib(kinds[first]),
        f"At the peak of {gib(whole)}, {label(first)} takes {gib(kinds[first])} ({lead.at}, "
        f"{lead.get('precision')}).",
        [Bar(label(k), size / GIB, gib(size)) for k, size in kinds.items() if size > whole / 1000],
        lead,
        f"is {label(first)}",
        parts_of(lead, own),
        [pivot("peaks", "Peak memory by context, mode and precision", own, ["context", "mode"],
               "precision", Case.gib, f"{setting(own)}."),
         grid("blocks", "The largest block of the forward pass",
              ["context", "precision", "size (MiB)", "shape", "scope"],
              [[c.shown("context"), c.get("precision"), f"{block['bytes'] / MIB:,.0f}",
                str(block.get("shape", "")), block["scope"]] for c, block in blocks])],
        drawn(timed, "memory") + drawn([lead], "memory-marks"),
    )  # fmt: skip


def at_peak(case: Case) -> dict[str, float]:
    """Bytes by kind at the highest peak of the later steps, on the rank with the most."""
    table = case.table("memory/phases")
    if table.empty:
        return {}
    steady = table[table["step"] == "steady"] if (table["step"] == "steady").any() else table
    row = steady.loc[steady["peak"].idxmax()]
    return {kind: float(row[kind]) for kind in memory_marks.KINDS if row.get(kind, 0) > 0}


def parts_of(lead: Case, own: list[Case]) -> list[tuple[str, str]]:
    at = {(c.get("mode"), c.get("precision")): c for c in own
          if c.get("context") == lead.get("context")}  # fmt: skip
    changes = [f"{mode} {change(peak(at[mode, 'bf16']) / peak(at[mode, 'fp32']))}" for mode in MODES
               if {(mode, "bf16"), (mode, "fp32")} <= set(at)]  # fmt: skip
    batch, context, width = (lead.number(name) for name in ("batch_size", "context", "d_model"))
    stream = f"{4 * batch * context * width / MIB:,.0f} MiB"
    told = [
        f"Forward peaks at {at['forward', 'fp32'].gib()}, a training step at {lead.gib()}, at "
        f"context {context:,.0f} in fp32.",
        f"bf16 changes the peak by: {', '.join(changes)}." if changes else "",
        f"A tensor of the residual stream takes {stream}: {batch:,.0f} × {context:,.0f} × "
        f"{width:,.0f} × 4 bytes.",
    ]
    block = largest_block(at["forward", "fp32"])
    if block is not None:
        told.append(f"The largest block of forward has {block['bytes'] / MIB:,.0f} MiB, in "
                    f"{block['scope']}.")  # fmt: skip
    return [(f"memory_profiling ({part})", one)
            for part, one in zip("bcde", told, strict=False) if one]  # fmt: skip


def largest_block(case: Case) -> pd.Series | None:
    """Of the activations of the forward pass."""
    table = case.table("memory/blocks")
    if table.empty:
        return None
    kept = table[(table["kind"] == "activation") & ~table["scope"].str.startswith("backward")]
    return kept.loc[kept["bytes"].idxmax()] if len(kept) else None


def sharding(pool: Pool, spread: Spread) -> Answer | None:
    """Of a file that has the whole state too; each kind with its fastest choices."""
    ranked = [c for c in pool.of("zero", "course", shard=SHARDS) if c.seconds("step") > 0]
    sharded = [c.results for c in ranked if c.get("shard") != "none"]
    lead = leading([c for c in ranked if c.get("shard") == "none"
                    and any(c.results is own for own in sharded)], "course")  # fmt: skip
    if lead is None:
        return None
    every = beside(ranked, lead, "shard", "bucket_mb", "prefetch", "reshard", "registration")
    kinds = [[c for c in every if c.get("shard") == kind] for kind in SHARDS]
    own = [min(same, key=lambda c: c.seconds("step")) for same in kinds if same]
    whole = own[0]
    least = min(own[1:], key=lambda c: (round(peak(c) / GIB, 1), c.seconds("step")))
    ratios = {c.get("shard"): times(c.seconds("step") / whole.seconds("step")) for c in own[1:]}
    sent = [f"{c.get('shard')} sends {c.number('sent_bytes') / 1e9:.2f} GB a step" for c in own[1:]
            if c.number("sent_bytes") > 0]  # fmt: skip
    told = [
        "The peaks at the marks of the first step, and the state after it, are in the tables.",
        "Beside a whole optimizer's step: "
        + ", ".join(f"{kind} {ratio}" for kind, ratio in ratios.items()) + ".",
        "The course's design is broadcast: whole tensors belong to ranks. ZeRO stage 1 shards the "
        "flat array and reduce-scatters gradients. " + "; ".join(sent) + "." * bool(sent),
    ]  # fmt: skip
    return Answer(
        change(peak(least) / peak(whole)),
        f"{least.get('shard')} takes {least.gib()} a rank instead of {whole.gib()}, and "
        f"{more(least.seconds('step') / whole.seconds('step'))} time ({whole.get('size')}, "
        f"{whole.get('ranks')} ranks).",
        [Bar("not sharded" if c is whole else c.get("shard"), peak(c) / GIB, c.gib()) for c in own],
        least,
        f"memory of a rank with {least.get('shard')}",
        [(f"optimizer_state_sharding_accounting ({part})", one)
         for part, one in zip("abc", told, strict=True)],
        [grid("sharding", "What each sharding saves and costs",
              ["sharded", *(f"peak {mark}" for mark in memory_marks.MARKS), "peak", "step (ms)"],
              [[c.get("shard"), *at_marks(c), c.gib(), *phases(c, ["step"], spread)] for c in own],
              f"The rank with the most. {spread.words}. {setting(own)}."),
         *marks.build(whole.results.only([c.row for c in own]), spread)],
        drawn([c for c in own if len(c.table("memory/timeline"))], "memory")
        + drawn(own, "memory-marks", "steps"),
    )  # fmt: skip


def at_marks(case: Case) -> list[str]:
    case.table("memory")
    table = memory_marks.of_row(case.results, case.row)
    peaks = {} if table is None else table["peak"].to_dict()
    return [gib(peaks[mark]) if mark in peaks else ABSENT for mark in memory_marks.MARKS]
