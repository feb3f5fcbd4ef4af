"""One attention: plain, compiled, flash (pytorch_attention, torch_compile, flash_benchmarking)."""

from itertools import product
from math import isnan

from ..formatting import figure
from ..results import Results
from ..tables import speedups
from . import comparisons, comparisons_parallel, published
from .facts import Case, cases, distinct, matching
from .section import Section, drawings
from .selection import cases_tables, is_compile, methods, of_experiment, tables_of
from .sentences import gib, in_words, milliseconds
from .speedups import of_files

SPLIT = "; its products are of two bf16 parts per operand (bf16x3), not bound by the fp32 peak"
# How products of fp32 flash attention are computed; version 1 of the file called bf16x3 near.
PRODUCTS = {
    "bf16x3": SPLIT,
    "near": SPLIT,
    "tf32": "; its products are in TF32, not bound by the fp32 peak",
}
CHECKED = "The result of every timed case was checked against float64 before."


def pytorch(found: list[Results]) -> Section:
    own = of_experiment(found, "attention")
    chosen = [results for results in own if "flash" not in methods(results, "attention")] or [
        results for results in own if "naive" in methods(results, "attention")
    ]
    naive = list(matching(cases(chosen), attention="naive"))
    return Section(
        name="pytorch-attention",
        title="What does plain attention cost?",
        problem="pytorch_attention",
        question="Time forward and backward over head dimensions and contexts, and the memory in "
        "use before backward. Where does it run out of memory, how does what is kept for backward "
        "grow with context, and what would remove that cost?",
        command="build/paceline attention --preset pytorch-attention",
        sentences=[*out_of_memory(naive), *growth(naive), *longest(naive)],
        tables=cases_tables(chosen),
        drawings=drawings("pytorch-attention", chosen, ["attention-time", "attention-memory"]),
        published=published.tables(comparisons_parallel.attention(cases(found))),
    )


def named_attention(case: Case) -> str:
    """The case's label, with "naive attention" for "naive"."""
    kind = case.get("attention")
    words = case.label.split(", ")
    return ", ".join(in_words("attention", word) if word == kind else word for word in words)


def out_of_memory(own: list[Case]) -> list[str]:
    failed = [case for case in own if case.get("status") == "oom"]
    if not own:
        return []
    if not failed:
        return [f"No case of naive attention ran out of memory on {own[0].hardware}."]
    least = min(failed, key=lambda case: case.number("context") * case.number("head_dim"))
    reason = least.get("reason")
    return [
        f"{len(failed)} of {len(own)} cases of naive attention ran out of memory; the smallest is "
        f"{named_attention(least)}" + (f" ({reason})." if reason else ".")
    ]


def growth(own: list[Case]) -> list[str]:
    """Bytes kept for backward at the two longest contexts of one head dimension and precision."""
    settings = product(distinct(own, "head_dim"), distinct(own, "precision"))
    for head_dim, precision in settings:
        kept = {
            case.number("context"): case.number("saved_bytes")
            for case in matching(own, head_dim=head_dim, precision=precision)
            if not isnan(case.number("saved_bytes"))
        }
        if len(kept) >= 2:
            short, long = sorted(kept)[-2:]
            times = kept[long] / kept[short]
            law = (
                "with the square of the context" if times > 0.9 * (long / short) ** 2
                else "about in proportion to the context" if times < 1.1 * long / short
                else "faster than the context, slower than its square"
            )  # fmt: skip
            return [
                f"What is kept for backward grows {law}: {gib(kept[short])} at context "
                f"{short:.0f}, {gib(kept[long])} at {long:.0f} (head dimension {head_dim}, "
                f"{precision})."
            ]
    return []


def longest(own: list[Case]) -> list[str]:
    timed = [case for case in own if not isnan(case.seconds("backward"))]
    if not timed:
        return []
    case = max(timed, key=lambda one: (one.number("context"), one.number("head_dim")))
    return [
        f"{named_attention(case)}: forward {milliseconds(case.seconds('forward'))}, backward "
        f"{milliseconds(case.seconds('backward'))}."
    ]


def compiled(found: list[Results]) -> Section:
    fused = [r for r in of_experiment(found, "attention") if "fused" in methods(r, "attention")]
    whole = [results for results in found if is_compile(results)]
    attention_lines = [
        f"Attention: {told}" for lines in of_files(fused, "attention") for told in lines
    ]
    model_lines = [f"The model: {told}" for lines in of_files(whole, "exec") for told in lines]
    everything = cases(found)
    return Section(
        name="compile",
        title="What does compiling bring?",
        problem="torch_compile (a), (b)",
        question="How do forward and backward of attention compare with those of a compiled one, "
        "and how do steps of the whole model?",
        command="build/paceline attention --preset pytorch-attention, and build/paceline model "
        "--preset compile",
        sentences=[*attention_lines[:1], *model_lines, *attention_lines[1:]],
        tables=[
            *tables_of(fused, speedups.build, "speedup-attention"),
            *tables_of(whole, speedups.build, "speedup-exec"),
        ],
        drawings=[
            *drawings("compile", fused, ["attention-speedup"]),
            *drawings("compile", whole, ["speedups"]),
        ],
        published=[
            *published.tables(comparisons_parallel.attention_compile(everything)),
            *published.tables(comparisons.compiled(everything)),
        ],
        headline=" ".join(model_lines or attention_lines[:1]),
    )


def flash(found: list[Results]) -> Section:
    chosen = [r for r in of_experiment(found, "attention") if "flash" in methods(r, "attention")]
    own = list(matching(cases(chosen), attention="flash"))
    ratios = of_files(chosen, "attention")
    first, others = (ratios[0], ratios[1:]) if ratios else ([], [])
    return Section(
        name="flash",
        title="How much faster is FlashAttention-2?",
        problem="flash_forward, flash_backward, flash_benchmarking",
        question="Compare forward, backward and both with a plain implementation over contexts, "
        "head dimensions and precisions, batch 1, causal.",
        command="build/paceline attention --preset flash-benchmark",
        sentences=[
            *first,
            *growth(own),
            *best_rate(own),
            *([CHECKED] if any(case.is_measured for case in own) else []),
            *(line for lines in others for line in lines),
        ],
        tables=[*tables_of(chosen, speedups.build, "speedup-attention"), *cases_tables(chosen)],
        drawings=drawings(
            "flash",
            [results for results in chosen if results.varying],
            ["attention-time", "attention-memory", "attention-throughput", "attention-speedup"],
        ),
        published=published.tables(comparisons_parallel.flash(cases(found))),
        headline=f"Attention: {' '.join(first)}" if first else "",
    )


def best_rate(own: list[Case]) -> list[str]:
    lines = []
    for precision in distinct(own, "precision"):
        rates = {
            case.number("both_tflops_per_s"): case
            for case in matching(own, precision=precision)
            if not isnan(case.number("both_tflops_per_s"))
        }
        if rates:
            best = max(rates)
            case = rates[best]
            lines.append(
                f"The highest rate in {precision} is {figure(best, 3)} TFLOP/s, forward and "
                f"backward ({named_attention(case)})"
                + PRODUCTS.get(case.get("fp32_attention"), "")
                + "."
            )
    return lines
