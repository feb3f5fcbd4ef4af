"""PyTorch's, cuDNN's and NCCL's times beside ours on the same machine (bench/peers/)."""

from collections.abc import Sequence

from .. import peer_comparison
from ..formatting import figure, label
from ..peer_comparison import Beside
from ..results import Results
from ..tables.table import Table
from .section import LEAD, Section, drawings, grid
from .selection import cases_tables
from .sentences import in_words, milliseconds, percent, spanned

EQUAL = 0.005  # ratios this close to 1 are neither faster nor slower
LISTED = 6  # slower cases that are named in a sentence
PARTS = {
    "attention-peers": "Attention, forward and backward",
    "collective-peers": "Collectives",
    "model-peers": "Training steps",
}
# The names of variants, as bench/peers/ defines them.
VARIANTS = {
    "PyTorch eager": "PyTorch, operation by operation",
    "PyTorch captured": "the whole eager step in one CUDA graph, without Python",
    "PyTorch compile": "torch.compile in its default mode",
    "PyTorch captured-compile": "the whole step of compile in one CUDA graph",
    "PyTorch reduce-overhead": "torch.compile in the mode reduce-overhead, which uses CUDA graphs "
    "itself",
    "PyTorch max-autotune-no-cudagraphs": "torch.compile in the mode of that name",
    "PyTorch captured-max-autotune": "the whole step of max-autotune-no-cudagraphs in one CUDA "
    "graph",
    "PyTorch flash": "scaled_dot_product_attention with FlashAttention-2",
    "PyTorch cudnn": "scaled_dot_product_attention with cuDNN",
    "PyTorch efficient": "scaled_dot_product_attention with the memory-efficient kernel",
    "PyTorch ddp": "DistributedDataParallel with its defaults",
    "PyTorch ddp-view": "ddp with gradient_as_bucket_view",
    "PyTorch zero": "ddp-view with ZeroRedundancyOptimizer",
    "PyTorch gloo": "all_reduce by gloo",
    "NCCL bare": "20 calls to NCCL alone between two events",
    "Open MPI bare": "one call to Open MPI alone after a barrier",
    "paceline barrier": "one call after a barrier",
    "paceline back-to-back": "20 calls between two events",
    "paceline graph": "20 calls in a CUDA graph",
    "paceline back-to-back, registered": "the same on buffers of registration symmetric",
    "paceline graph, registered": "the same on buffers of registration symmetric",
}


def section(found: list[Results]) -> Section:
    chosen = [results for results in found if results.experiment.endswith("-peers")]
    compared = [(results, peer_comparison.of(results)) for results in chosen]
    told = [line for results, pairs in compared for line in ratios(part_of(results, chosen), pairs)]
    over_alls = [over_all(part, pairs) for part, pairs in newest_of(compared).items()]
    lead = over_alls if len(told) > LEAD else []
    return Section(
        name="peers",
        title="How does it compare with PyTorch on the same machine?",
        problem="beside the course",
        question="The same work by PyTorch, cuDNN and NCCL, measured on the same GPU as ours.",
        command="python3 bench/peers/train_step_ratios.py, attention_ratios.py, "
        "collective_ratios.py or data_parallel_ratios.py",
        sentences=[*lead, *told, *definitions(chosen)],
        drawings=drawings("peers", chosen, ["peers"]),
        tables=[*(table(results.runs[0].name, pairs) for results, pairs in compared if pairs),
                *cases_tables(chosen)],
        headline=" ".join(over_alls),
    )  # fmt: skip


def part_of(results: Results, chosen: Sequence[Results]) -> str:
    """What was compared; where there are several files of it, on which hardware, or in which file
    if it does not record its hardware."""
    part = PARTS.get(results.experiment, results.experiment)
    if sum(other.experiment == results.experiment for other in chosen) < 2:
        return part
    run = results.runs[0]
    return f"{part} on {run.hardware}" if run.hardware else f"{part} in {run.name}"


def newest_of(compared: Sequence[tuple[Results, list[Beside]]]) -> dict[str, list[Beside]]:
    """The work of each part, see part_of(). Work that several files of one machine measured counts
    once, as in the newest file."""
    chosen = [results for results, _ in compared]
    parts: dict[str, dict[object, Beside]] = {part_of(one, chosen): {} for one in chosen}
    for results, pairs in sorted(compared, key=lambda one: one[0].runs[0].created):
        own = {(pair.kind, *pair.work.items()): pair for pair in pairs}
        parts[part_of(results, chosen)].update(own)
    return {part: list(own.values()) for part, own in parts.items() if own}


def ratios(part: str, pairs: Sequence[Beside]) -> list[str]:
    """A line for each group of cases."""
    return [
        of_group(f"{part}{common(group)}", group, peer_comparison.varying(group))
        for group in peer_comparison.groups(pairs)
    ]


def common(group: Sequence[Beside]) -> str:
    skipped = {"op", *peer_comparison.varying(group)}
    words = [in_words(name, value) for name, value in group[0].work.items() if name not in skipped]
    return f" ({', '.join(words)})" if words else ""


def of_group(part: str, group: Sequence[Beside], names: Sequence[str]) -> str:
    """The range of the ratios; then every case of a small group, or the slower ones."""
    if len(group) == 1:
        return f"{part}: {one(group[0], [])}."
    slower = sorted((pair for pair in group if pair.ratio > 1 + EQUAL), key=lambda p: -p.ratio)
    line = over_all(part, group)
    shown = group if len(group) <= LISTED else slower[:LISTED]
    if not shown:
        return line
    beginning = "Each" if shown is group else "The slower ones"
    more = len(slower) - LISTED
    rest = f"; {more} more are in the table" if shown is not group and more > 0 else ""
    return f"{line} {beginning}: {'; '.join(one(pair, names) for pair in shown)}{rest}."


def over_all(part: str, pairs: Sequence[Beside]) -> str:
    """The range of the ratios, and in how many cases either side is faster."""
    counts = {
        "faster": sum(pair.ratio < 1 - EQUAL for pair in pairs),
        "slower": sum(pair.ratio > 1 + EQUAL for pair in pairs),
        f"within {percent(EQUAL)}": sum(abs(pair.ratio - 1) <= EQUAL for pair in pairs),
    }
    told = ", ".join(f"{word} in {count}" for word, count in counts.items() if count)
    return (
        f"{part}: paceline takes {spanned([pair.ratio for pair in pairs], ' times')} the time of "
        f"the fastest peer over {len(pairs)} cases, {told}."
    )


def one(pair: Beside, names: Sequence[str]) -> str:
    where = ", ".join(in_words(name, pair.work[name]) for name in names)
    (ours, seconds), (theirs, other) = pair.ours, pair.theirs
    told = f"{milliseconds(seconds)} by {ours}, {milliseconds(other)} by {theirs}, ratio "
    return f"{where}{': ' * bool(where)}{told}{figure(pair.ratio, 3)}"


def table(name: str, pairs: Sequence[Beside]) -> Table:
    names = list(pairs[0].work)
    header = [*map(label, names), "ours", "ours (ms)", "fastest peer", "peer (ms)", "ours / peer"]
    rows = [
        [*pair.work.values(), pair.ours[0], figure(1e3 * pair.ours[1]), pair.theirs[0],
         figure(1e3 * pair.theirs[1]), figure(pair.ratio, 3)]
        for pair in pairs
    ]  # fmt: skip
    several = "the median of the medians" if "op" in names else "the slowest median"
    caption = [
        f"The fastest variant of each side; of one that was measured several times {several} "
        "counts. Ratios are of medians, without an interval; below 1 paceline is faster."
    ]
    if "op" in names:
        caption.append("Calls in CUDA graphs and on registered buffers, which no peer has, are "
                       "left out.")  # fmt: skip
    stem = name.rsplit(".", 1)[0]
    return grid(f"ratios-{stem}", f"Ours beside the fastest peer ({stem})", caption, header, rows)


def definitions(chosen: Sequence[Results]) -> list[str]:
    used = dict.fromkeys(name for results in chosen for name in results.frame.get("variant", ()))
    told = "; ".join(f"{name} is {VARIANTS[name]}" for name in used if name in VARIANTS)
    return [f"The variants: {told}."] if told else []
