"""Work that was measured in paceline and in other software (bench/peers/), by variant."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median

from . import peer_rows
from .formatting import text
from .results import Results

# The factors that identify the work, the same on both sides.
WORK = ("op", "backend", "size", "heads", "head_dim", "causal", "context", "batch_size",
        "precision", "attention", "mode", "ranks", "bytes")  # fmt: skip
OURS = "paceline"
# Ways to call that no peer has: they are in the tables of cases, not in the ratios.
OURS_ALONE = (
    "paceline graph",
    "paceline graph, registered",
    "paceline back-to-back, registered",
)


@dataclass(frozen=True)
class Beside:
    """One piece of work that both sides have done."""

    kind: str  # see kind_of()
    work: dict[str, str]  # by factor
    times: dict[str, float]  # seconds, by variant

    @property
    def ours(self) -> tuple[str, float]:
        """The fastest variant and its seconds."""
        return self._fastest(is_ours=True)

    @property
    def theirs(self) -> tuple[str, float]:
        return self._fastest(is_ours=False)

    @property
    def ratio(self) -> float:
        return self.ours[1] / self.theirs[1]

    @property
    def ratios(self) -> dict[str, float]:
        """The time of each variant over that of the others' fastest."""
        fastest = self.theirs[1]
        return {variant: seconds / fastest for variant, seconds in self.times.items()}

    def _fastest(self, *, is_ours: bool) -> tuple[str, float]:
        side = [item for item in self.times.items() if item[0].startswith(OURS) == is_ours]
        return min(side, key=lambda item: item[1])


def of(results: Results) -> list[Beside]:
    """All work that both sides have done. Of a variant that was measured several times, the slowest
    median counts; of a collective, the median of the medians, as in collective_ratios.py."""
    timed = [
        row
        for row in results.records
        if not isnan(seconds(row, results)) and text(row.get("variant")) not in OURS_ALONE
    ]
    names = [name for name in WORK if all(factor(row, name) for row in timed)]
    by_work: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in timed:
        of_work = by_work.setdefault((kind_of(row), *(factor(row, name) for name in names)), {})
        of_work.setdefault(text(row["variant"]), []).append(seconds(row, results))
    summed = median if "op" in results.frame else max
    return [
        Beside(
            kind,
            dict(zip(names, values, strict=True)),
            {variant: summed(turns) for variant, turns in variants.items()},
        )
        for (kind, *values), variants in by_work.items()
        if len({variant.startswith(OURS) for variant in variants}) == 2
    ]


def are_steps(results: Results) -> bool:
    """Steps beside other software's have a figure of their own."""
    return results.experiment == peer_rows.STEPS


def seconds(row: dict[str, object], results: Results) -> float:
    return float(row.get(f"{results.headline}_median_s", "nan"))


def factor(row: dict[str, object], name: str) -> str:
    """Rows of other software have no backend: it is the software."""
    if name == "backend" and "op" in row and not text(row.get(name)):
        return "nccl" if text(row.get("software")).startswith("NCCL") else "mpi"
    return text(row.get(name))


def kind_of(row: dict[str, object]) -> str:
    """zero, where the optimizer's state may be sharded; ddp, where several ranks have all of it;
    else empty."""
    if text(row.get("shard")) or row["variant"] == "PyTorch zero":
        return "zero"
    return "ddp" if text(row.get("sync")) or row["variant"].startswith("PyTorch ddp") else ""


def groups(found: Sequence[Beside]) -> list[list[Beside]]:
    """By precision, attention and backend."""
    by: dict[tuple, list[Beside]] = {}
    for one in found:
        key = tuple(one.work.get(name) for name in ("backend", "precision", "attention"))
        by.setdefault(key, []).append(one)
    return list(by.values())


def varying(group: Sequence[Beside]) -> list[str]:
    return [name for name in group[0].work if len({one.work[name] for one in group}) > 1]
