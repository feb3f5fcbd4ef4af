"""The question beside the course: other software on the same machine (bench/peers/)."""

from collections.abc import Sequence

from .. import peer_comparison
from ..formatting import case_label, figure, grouped, label, ms, times
from ..peer_comparison import Beside
from ..tables.spread import Spread
from ..tables.table import Table, grid
from .answer import MOST_BARS, Answer, Bar, Drawing
from .selection import Case, Pool

KINDS = {
    "model-peers": "Training steps",
    "attention-peers": "Attention, forward and backward",
    "collective-peers": "Collectives",
}
SEVERAL = " on several GPUs"
SIZES = ("small", "medium", "large", "xl", "2.7b")
EQUAL = 0.005  # ratios this close to 1 are neither faster nor slower


def answer(pool: Pool, spread: Spread) -> Answer | None:
    """Of each kind of work the file with most of it; the largest step answers."""
    files = {id(case.results): case for case in pool.cases if case.results.experiment in KINDS}
    compared: dict[str, tuple[Case, list[Beside]]] = {}
    for case in files.values():
        pairs = peer_comparison.of(case.results)
        kind = KINDS[case.results.experiment] + SEVERAL * bool(pairs and pairs[0].kind)
        if len(pairs) > len(compared.get(kind, (case, []))[1]):
            compared[kind] = (case, pairs)
    if not compared:
        return None
    ordered = [kind for more in ("", SEVERAL) for name in KINDS.values()
               if (kind := name + more) in compared]  # fmt: skip
    case, pairs = compared[ordered[0]]
    first = max(pairs, key=extent)
    (mine, seconds), (theirs, other) = first.ours, first.theirs
    ratios = [1 / pair.ratio for pair in pairs]
    span = f"{figure(min(ratios), 3)}–{times(max(ratios))}"
    names = ("size", "precision", "context", "batch_size", "bytes")
    shown = sorted(first.times.items(), key=lambda item: item[1])
    rows = [one for one, record in enumerate(case.results.records)
            if first.work.get("size", "") in ("", record.get("size"))]  # fmt: skip
    return Answer(
        span,
        f"{case_label(names, [first.work.get(name, '') for name in names])}: {ms(seconds)} here, "
        f"{ms(other)} with {theirs}; over {len(pairs)} cases {span} as fast.",
        [Bar("paceline" if name == mine else name.removeprefix("PyTorch "), value, ms(value))
         for name, value in shown if name == mine or not name.startswith("paceline")][:MOST_BARS],
        case,
        "the speed of the fastest peer",
        [(kind, over_all(compared[kind][1])) for kind in ordered],
        [table(kind, compared[kind][1]) for kind in ordered],
        [Drawing(case.results.only(rows), "peers")] * peer_comparison.are_steps(case.results),
    )  # fmt: skip


def extent(pair: Beside) -> tuple[float, ...]:
    """A sort key: the largest model in bf16, then the longest context."""
    size = pair.work.get("size", "")
    numbers = (float(pair.work.get(name) or 0) for name in ("context", "batch_size", "bytes"))
    rank = SIZES.index(size) if size in SIZES else -1
    return (rank, pair.work.get("precision") == "bf16", *numbers)


def over_all(pairs: Sequence[Beside]) -> str:
    ratios = sorted(pair.ratio for pair in pairs)
    faster, slower = (sum(sign * (ratio - 1) > EQUAL for ratio in ratios) for sign in (-1, 1))
    return (
        f"{figure(ratios[0], 3)} to {figure(ratios[-1], 3)} times the time of the fastest peer "
        f"over {len(pairs)} cases: faster in {faster}, slower in {slower}."
    )


def table(kind: str, pairs: Sequence[Beside]) -> Table:
    varying = peer_comparison.varying(pairs)
    rows = [[*(grouped(pair.work[name]) for name in varying), figure(1e3 * pair.ours[1]),
             pair.theirs[0], figure(1e3 * pair.theirs[1]), figure(pair.ratio, 3)]
            for pair in pairs]  # fmt: skip
    heads = ["ours (ms)", "fastest peer", "peer (ms)", "ours / peer"]
    note = "The fastest variant of each side; ratios of medians, without an interval."
    return grid(kind, kind, [*map(label, varying), *heads], rows, note)
