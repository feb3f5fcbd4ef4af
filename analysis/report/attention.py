"""Questions on one attention: what plain attention costs, and what FlashAttention saves."""

from ..formatting import figure, gib, times
from ..tables.spread import Spread
from ..tables.table import GIB, grid
from .answer import MOST_BARS, Answer, Bar, drawn, paired, phases, ratio_bar, speedups
from .selection import Case, Pool, beside, extent, is_alike, leading, setting

PLAIN, FLASH = "pytorch-attention", "flash-benchmark"
# What plain attention and FlashAttention may differ in where their memory is compared.
OTHERWISE = ("attention", "batch_size", "causal", "precision", "fp32_attention", "heads")


def kept(case: Case) -> float:
    """Bytes for backward."""
    return case.number("saved_bytes")


def context(case: Case) -> str:
    return f"context {case.shown('context')}"


def at(case: Case) -> str:
    return f"At {context(case)} ({case.get('precision')}, batch {case.get('batch_size')})"


def plain(pool: Pool, spread: Spread) -> Answer | None:
    every = pool.of("attention", PLAIN, attention="naive")
    lead = leading([c for c in every if c.seconds("backward") > 0 and kept(c) > 0], PLAIN)
    if lead is None:
        return None
    own = beside(every, lead, "head_dim", "context")
    along = [c for c in beside(every, lead, "context") if kept(c) > 0]
    least = min((c for c in own if c.get("status") == "oom"), key=extent, default=None)
    flash = next((c for c in pool.of("attention", FLASH, attention="flash")
                  if kept(c) > 0 and is_alike(c, lead, OTHERWISE)), None)  # fmt: skip
    told = [
        f"The smallest case without enough memory: head dimension {least.get('head_dim')}, context "
        f"{least.shown('context')}." if least else "No case ran out of memory.",
        *(f"From context {short.shown('context')} to {lead.shown('context')}, what is kept for "
          f"backward grows {times(kept(lead) / kept(short))}." for short in along[-2:-1]),
        "What to do: not to store the T × T matrices. FlashAttention recomputes them by tiles in "
        "backward" + (f", and keeps {gib(kept(flash))} at context {flash.shown('context')}, batch "
                      f"{flash.get('batch_size')}." if flash else "."),
    ]  # fmt: skip
    return Answer(
        gib(kept(lead)),
        f"{at(lead)} forward takes {lead.ms('forward')}, backward {lead.ms('backward')}.",
        [Bar(context(c), kept(c) / GIB, gib(kept(c))) for c in along[-MOST_BARS:]],
        lead,
        "of memory, kept for backward",
        [("pytorch_attention", one) for one in told],
        [grid("plain", "Plain attention by head dimension and context",
              ["head dimension", "context", "forward (ms)", "backward (ms)", "before backward"],
              [[c.shown("head_dim"), c.shown("context"), *phases(c, ("forward", "backward"),
                spread), c.gib("memory_before_backward_bytes") if c.is_measured
                else c.get("status")] for c in own], f"{spread.words}. {setting(own)}.")],
        drawn(own, "attention-time", "attention-memory"),
    )  # fmt: skip


def flash(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [case for case in pool.of("attention", FLASH) if case.seconds("both") > 0]
    found = [pairs for precision in ("bf16", "fp32") if (pairs := paired(
        [case for case in ranked if case.get("precision") == precision], FLASH, "attention",
        "naive", "flash", "context"))]  # fmt: skip
    if not found:
        return None
    base, lead = found[0][-1]
    own = beside(ranked, lead, "context", "attention", "precision", "fp32_attention")
    rates = {case.number("both_tflops_per_s"): case for case in own}
    best = max((rate for rate in rates if rate > 0), default=0.0)
    return Answer(
        times(base.seconds("both") / lead.seconds("both")),
        f"{at(lead)} forward and backward take {lead.ms('both')}, of plain attention "
        f"{base.ms('both')}.",
        [ratio_bar(context(a), a, b, "both") for a, b in found[0][-MOST_BARS:]],
        lead,
        "as fast as plain attention",
        [("flash_benchmarking", f"The highest rate is {figure(best, 3)} TFLOP/s forward and "
          f"backward ({setting([rates[best]])}).")] if best else [],
        [speedups(pairs, ("context",), ("forward", "backward", "both"), spread)
         for pairs in found],
        drawn(own, "attention-speedup", "attention-throughput"),
    )  # fmt: skip
