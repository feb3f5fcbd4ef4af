"""How much memory a model takes (memory_profiling)."""

from math import isnan

from pandas import DataFrame, Series

from ..formatting import figure
from ..results import Results
from ..tables import marks
from ..tables.table import Table
from . import comparisons, devices, published
from .comparisons import COURSE
from .facts import Case, cases, distinct, file_factor, largest, matching
from .marks import without_repeats
from .section import Section, drawings, grid
from .selection import is_memory, of_experiment, tables_of
from .sentences import gib, setting, told_of
from .step_breakdown import cost


def section(found: list[Results]) -> Section:
    chosen = [results for results in found if is_memory(results)]
    whole = cases(of_experiment(found, "model"))
    with_peak = [case for case in whole if not isnan(case.number("peak_bytes"))]
    needed = headlines(with_peak)
    timed = chosen or [case.results for case in with_peak[:1]]
    drawn = list(map(longest_in_fp32, timed))
    return Section(
        name="memory",
        title="How much memory does a model need?",
        problem="memory_profiling (a) to (e)",
        question="What does memory in use look like over a forward pass and over a training step? "
        "What is the peak by context, in fp32 and in mixed precision? How large is a tensor of the "
        "residual stream, and which blocks are the largest?",
        command="build/paceline model --preset memory",
        sentences=[*needed, *bf16_sentence(cases(chosen)), *blocks(with_peak)],
        tables=[
            *([peak_table(with_peak)] if with_peak else []),
            *bf16_table(cases(chosen)),
            *tables_of(without_repeats(timed), marks.build),
        ],
        drawings=[
            *drawings("memory", without_repeats(drawn), ["memory-marks"]),
            *drawings("memory", drawn, ["memory"]),
        ],
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
        *file_factor(with_peak),
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
        "Peak memory of every case, and the smallest GPU that holds it",
        ["The peak of one rank by the memory ledger; the GPU is the smallest whose memory holds it "
         f"and {devices.RESERVED / 1e9} GB for CUDA, cuBLAS and NCCL: {devices.EXAMPLES}."],
        [*header, "peak (GiB)", "peak (GB)", "smallest GPU"],
        rows,
    )  # fmt: skip


def order(case: Case) -> tuple[float, float]:
    """A sort key: the largest models first."""
    return -case.number("layers") * case.number("d_model") ** 2, case.number("context")


def headlines(with_peak: list[Case]) -> list[str]:
    """On the largest model: for every precision and attention, its longest context; and the longest
    that all precisions have, at which they can be compared."""
    trained = [
        case
        for case in with_peak
        if case.get("mode") in ("", "train-step") and case.get("recompute") in ("", "none")
    ]
    longest = largest(trained, cost)
    if longest is None:
        return []
    names = {name: longest.get(name) for name in ("size", "batch_size", "exec")}
    alike = sorted(matching(trained, **names), key=lambda one: -one.number("context"))
    told = one_per_kind(alike)
    needs = "; ".join(
        f"{gib(case.number('peak_bytes'))} at context {case.get('context')} {with_what(case)}"
        for case in told
    )
    shared = at_shared_context(alike, told)
    return [
        f"A training step of {told_of(longest.values, 'size')} needs {needs}. {shared}".rstrip()
    ]


def one_per_kind(own: list[Case]) -> list[Case]:
    """The first case of every precision and attention."""
    firsts: dict[tuple[str, str], Case] = {}
    for case in own:
        firsts.setdefault((case.get("precision"), case.get("attention")), case)
    return list(firsts.values())


def with_what(case: Case) -> str:
    """The setting of a peak, and the GPU that holds it."""
    where = setting(case.values, without=("size", "context", "file"))
    return f"with {where} (a GPU of {devices.smallest(case.number('peak_bytes'))})"


def at_shared_context(alike: list[Case], told: list[Case]) -> str:
    """The peaks at the longest context that every precision has; empty if they are told already."""
    contexts = [
        set(distinct(list(matching(alike, precision=precision)), "context"))
        for precision in distinct(alike, "precision")
    ]
    shared = set.intersection(*contexts) if contexts else set()
    if not shared:
        return ""
    context = max(shared, key=float)
    own = one_per_kind(list(matching(alike, context=context)))
    if set(map(id, own)) <= set(map(id, told)):
        return ""
    peaks = "; ".join(f"{gib(case.number('peak_bytes'))} {with_what(case)}" for case in own)
    return f"At context {context}, the longest measured in every precision: {peaks}. "


def by_mode(own: list[Case]) -> list[tuple[str, str, float, float]]:
    """Mode, context, and the peaks in fp32 and in bf16, of the largest model."""
    longest = largest_with_peak(own)
    if longest is None:
        return []
    names = ("size", "batch_size", "attention", "exec")
    alike = [case for case in own if all(case.get(name) == longest.get(name) for name in names)]
    return [
        (mode, context, fp32, bf16)
        for mode in ("inference", "forward", "train-step")
        for context in sorted(distinct(alike, "context"), key=float)
        for fp32, bf16 in [peaks(alike, mode, context)]
        if not isnan(fp32) and not isnan(bf16)
    ]


def largest_with_peak(own: list[Case]) -> Case | None:
    return largest([case for case in own if not isnan(case.number("peak_bytes"))], cost)


def bf16_sentence(own: list[Case]) -> list[str]:
    """The change of the peak by bf16, over the contexts of each mode."""
    found, longest = by_mode(own), largest_with_peak(own)
    if not found or longest is None:
        return []
    told = []
    for mode in dict.fromkeys(row[0] for row in found):
        rows = [(context, f"{100 * (bf16 / fp32 - 1):+.1f}%")
                for one, context, fp32, bf16 in found if one == mode]  # fmt: skip
        contexts, changes = zip(rows[0], rows[-1], strict=True)
        told.append(
            f"{mode} {' to '.join(dict.fromkeys(changes))} at context "
            f"{' to '.join(dict.fromkeys(contexts))}"
        )
    where = setting(longest.values, without=("context", "precision", "file"))
    return [f"bf16 instead of fp32 changes the peak of {where} by: {', '.join(told)}."]


def bf16_table(own: list[Case]) -> list[Table]:
    found, longest = by_mode(own), largest_with_peak(own)
    if not found or longest is None:
        return []
    rows = [
        [
            mode,
            context,
            figure(fp32 / 2**30),
            figure(bf16 / 2**30),
            f"{100 * (bf16 / fp32 - 1):+.1f}%",
        ]
        for mode, context, fp32, bf16 in found
    ]
    caption = [f"Peaks of {setting(longest.values, without=('context', 'precision'))}."]
    header = ["mode", "context", "fp32 (GiB)", "bf16 (GiB)", "change"]
    return [grid("memory-bf16", "Peak memory in fp32 and in bf16", caption, header, rows)]


def peaks(own: list[Case], mode: str, context: str) -> list[float]:
    return [
        next(
            (case.number("peak_bytes")
             for case in matching(own, mode=mode, context=context, precision=precision)
             if not isnan(case.number("peak_bytes"))),
            float("nan"),
        )
        for precision in ("fp32", "bf16")
    ]  # fmt: skip


def blocks(with_peak: list[Case]) -> list[str]:
    """A tensor of the residual stream and the largest activation, with the course's batch where
    that was measured."""
    course = list(matching(with_peak, batch_size=COURSE["batch_size"], precision="fp32"))
    case = largest(course, cost) or largest(with_peak, cost)
    if case is None:
        return []
    sizes = [case.number(name) for name in ("batch_size", "context", "d_model")]
    if any(map(isnan, sizes)):
        return []
    batch, context, width = sizes
    stream = batch * context * width * 4
    where = setting(case.values)
    told = (
        f"A tensor of the residual stream of {where} takes {figure(stream / 2**20, 3)} MiB: "
        f"{batch:.0f} x {context:.0f} x {width:.0f} x 4 bytes"
    )
    listed = [one for one in course or with_peak if activations(one) is not None]
    case = largest(list(matching(listed, mode="forward")) or listed, cost)
    if case is None:
        return [f"{told}."]
    kept = activations(case)
    block = kept.loc[kept["bytes"].idxmax()]
    of_case = "" if setting(case.values) == where else f" of {setting(case.values)}"
    return [
        f"{told}; the largest block of activations of forward{of_case} is "
        f"{figure(block['bytes'] / 2**20, 3)} MiB: {tensor(case, block)}{of_shape(block)}."
    ]


def activations(case: Case) -> DataFrame | None:
    """The largest blocks of the forward pass."""
    table = case.results.case_tables[case.row].get("memory/blocks")
    if table is None:
        return None
    kept = table[(table["kind"] == "activation") & ~table["scope"].str.startswith("backward")]
    return kept if len(kept) else None


def tensor(case: Case, block: Series) -> str:
    """The tensor of this size in its scope, with the scope; the scope alone if none fits."""
    names = ("batch_size", "context", "d_model", "d_ff", "heads", "vocab")
    batch, context, width, hidden, heads, vocab = map(case.number, names)
    rows = batch * context
    known = {
        "ffn": {
            "gate and up projections of the feed-forward network": rows * 2 * hidden,
            "hidden activations of the feed-forward network": rows * hidden,
        },
        "attention": {"queries, keys and values": rows * 3 * width},
        "computing attention scores": {"attention scores": rows * heads * context},
        "final matmul": {"gradient of the attention probabilities": rows * heads * context},
        "logits": {"logits": rows * vocab},
    }
    scope = block["scope"]
    bytes_each = 4 if case.get("precision") in ("fp32", "tf32") else 2
    for name, count in known.get(scope.rsplit("/", 1)[-1], {}).items():
        if block["bytes"] == count * bytes_each:
            return f"{name} (scope {scope})"
    return f"scope {scope}"


def of_shape(block: Series) -> str:
    """ ", [4, 32, 512, 512] fp32"; nothing in files that do not have it."""
    return f", {block['shape']} {block['dtype']}" if "shape" in block else ""
