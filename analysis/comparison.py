"""Whether runs of B are faster or slower than runs of A, case by case. docs/measuring.md has the
rule, its reasons and how often it is wrong."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import nan, sqrt
from pathlib import Path

import h5py
import numpy as np

from .factors import EFFORT, NOT_FACTORS
from .formatting import text
from .median_interval import autocorrelation_time, interval_rank
from .result_file import ResultError, opened, read_phase, read_table, texts

MACHINE = {"device", "threads", "ranks"}  # factors whose default follows from the machine
FEWEST_REPETITIONS = 6
ODDS = 1000  # against a false alarm of the pairs' ratios, on each side
ENOUGH = 60  # independent repetitions of a run, whose spread needs no widening
# Statistics by which a summary is recognized as that of the samples.
CHECKED = {"median": np.median, "mean": np.mean, "min": np.min, "max": np.max}

Key = tuple[tuple[str, str], ...]  # the factors that cases are matched by, and their texts
Times = np.ndarray  # seconds of each repetition


@dataclass(frozen=True)
class Case:
    factors: dict[str, object]
    summary: dict[str, object]  # its row
    status: str
    reason: str
    seconds: Times  # on the slowest rank of each repetition; empty if nothing was measured

    @property
    def is_ok(self) -> bool:
        return self.status == "ok"

    def key(self, ignored: set[str]) -> Key:
        values = ((name, text(value)) for name, value in self.factors.items())
        return tuple((name, value) for name, value in values if value and name not in ignored)


@dataclass(frozen=True)
class File:
    path: Path
    experiment: str
    devices: list[str]  # of all ranks, sorted
    cpus: list[str]
    cases: list[Case]


@dataclass(frozen=True)
class Ratio:
    """Of B's time to A's, with an interval that covers the variation between runs."""

    value: float = nan
    low: float = nan
    high: float = nan


@dataclass(frozen=True)
class Judged:
    """A case, its verdict, and what the verdict follows from."""

    key: dict[str, str]
    factors: dict[str, object]
    verdict: str
    figures: dict[str, object] = field(default_factory=dict)  # by their names in JSON

    @property
    def row(self) -> dict[str, object]:
        return self.factors | {"verdict": self.verdict} | self.figures


def read(path: Path) -> File:
    """Raises ResultError if a summary contradicts its samples."""
    with opened(path) as file:
        summary, _ = read_table(path, file["summary"])
        rows = summary.set_index("case").to_dict("index")
        groups = {text(name): group for name, group in file["cases"].items()}
        if rows.keys() != groups.keys():
            raise ResultError(f"{path}: the summary names other cases than the file has")
        old = text(file.attrs["schema_version"]) == "1"
        devices, cpus = (sorted(texts(file[f"ranks/{name}"])) for name in ("device", "cpu"))
        cases = [
            Case(
                factors_of(groups[name], old),
                row,
                text(groups[name].attrs["status"]),
                text(groups[name].attrs.get("reason")),
                seconds_of(path, name, groups[name], row),
            )
            for name, row in rows.items()
        ]
        return File(path, text(file.attrs["experiment"]), devices, cpus, cases)


def factors_of(case: h5py.Group, of_version_1: bool) -> dict[str, object]:
    factors = {name: case.attrs[name] for name in sorted(case.attrs) if name not in NOT_FACTORS}
    if factors.get("cold_start") == np.False_:
        del factors["cold_start"]  # of older files; what every case is now
    if not of_version_1:
        return factors
    # It recorded factors that did not apply to a case, and called bf16x3 near.
    alone = factors.get("sync") == "none"
    in_vain = {
        "bucket_mb": factors.get("sync", "bucketed") != "bucketed",
        "comm_dtype": alone,
        "registration": alone,
        "verify": alone,
        "recompute": factors.get("mode") == "inference",
        "redop": factors.get("redop") == "none",
        "in_place": factors.get("op", "reduce")
        not in ("all_reduce", "reduce_scatter", "all_gather", "reduce"),
        "fp32_attention": factors.get("precision") == "tf32",
    }
    return {
        name: "bf16x3" if (name, value) == ("fp32_attention", "near") else value
        for name, value in factors.items()
        if not in_vain.get(name)
    }


def seconds_of(path: Path, name: str, case: h5py.Group, row: dict[str, object]) -> Times:
    if "samples" not in case:
        return np.empty(0)
    by_phase = {phase: read_phase(path, one).max(axis=0) for phase, one in case["samples"].items()}
    for phase, seconds in by_phase.items():
        for figure, statistic in CHECKED.items():
            column = f"{phase}_{figure}_s"
            found = statistic(seconds) if seconds.size else nan
            if not np.isclose(row[column], found, rtol=1e-9, atol=0, equal_nan=True):
                raise ResultError(
                    f"{path}: case {name}: {column} is {row[column]:.6g} in the summary and "
                    f"{found:.6g} by the samples: it was changed; measure again"
                )
    return by_phase[text(case["samples"].attrs["headline"])]


def judged(files: Sequence[File], threshold: float, any_machine: bool) -> list[Judged]:
    """The cases of all files: A1, B1, A2, B2, ... Raises ResultError if the files cannot be
    compared."""
    for other in files[1:]:
        require_alike(files[0], other, any_machine)
    ignored = EFFORT | (MACHINE if any_machine else set())
    ignored -= {name for file in files for name in distinguishing(file, ignored)}
    by_key = [keyed(file, ignored) for file in files]
    a, b = by_key[::2], by_key[1::2]
    found = []
    for key in dict.fromkeys(key for cases in (*b, *a) for key in cases):
        pairs = [(x[key], y[key]) for x, y in zip(a, b, strict=True) if key in x and key in y]
        if pairs:
            found.append(judge(dict(key[0]), pairs, threshold))
            continue
        sides = [side for side, cases in (("A", a), ("B", b)) if any(key in one for one in cases)]
        where = f"only in {sides[0]}" if len(sides) == 1 else "in no pair"
        (case, *_) = (one[key] for one in by_key if key in one)
        found.append(Judged(dict(key[0]), case.factors, where))
    if not any(one.figures for one in found):
        raise ResultError(f"no case of {files[1].path} has the factors of one in {files[0].path}")
    return found


def require_alike(a: File, b: File, any_machine: bool) -> None:
    if a.experiment != b.experiment:
        raise ResultError(
            f"{a.path} holds results of '{a.experiment}', {b.path} of '{b.experiment}': "
            "nothing to compare"
        )
    machines = {
        "rank counts": ([str(len(a.devices))], [str(len(b.devices))]),
        "devices": (a.devices, b.devices),
        "the hosts' CPUs": (a.cpus, b.cpus),
    }
    for what, (of_a, of_b) in machines.items():
        if of_a != of_b and not any_machine:
            names = [", ".join(dict.fromkeys(names)) for names in (of_a, of_b)]
            raise ResultError(
                f"{what} differ: {names[0]} in {a.path}, {names[1]} in {b.path}; "
                "--any-machine compares them anyway"
            )


def distinguishing(file: File, ignored: set[str]) -> Iterator[str]:
    """The ignored factors, but for the seed, in which cases of the file differ that are otherwise
    the same."""
    first: dict[Key, Case] = {}
    for case in file.cases:
        other = first.setdefault(case.key(ignored), case)
        for name in ignored - {"seed"}:
            if text(case.factors.get(name)) != text(other.factors.get(name)):
                yield name


def keyed(file: File, ignored: set[str]) -> dict[tuple[Key, int], Case]:
    """Cases that only differ in the seed are numbered."""
    counts: Counter[Key] = Counter()
    cases = {}
    for case in file.cases:
        key = case.key(ignored)
        cases[key, counts[key]] = case
        counts[key] += 1
    return cases


def judge(key: dict[str, str], pairs: Sequence[tuple[Case, Case]], threshold: float) -> Judged:
    measured, lost, regained = (
        [(a, b) for a, b in pairs if (a.is_ok, b.is_ok) == ok]
        for ok in ((True, True), (True, False), (False, True))
    )
    ratio = ratio_of([(a.seconds, b.seconds) for a, b in measured])
    if lost:
        verdict = "no longer ok"
    elif measured:
        verdict = verdict_of(ratio, threshold)
    else:
        verdict = "ok now" if regained else "not ok"
    figures: dict[str, object] = {}
    shown = (lost or measured or regained or pairs)[0]
    runs_of_sides = zip(*measured, strict=True) if measured else ((), ())
    for side, case, runs in zip("ab", shown, runs_of_sides, strict=True):
        figures |= {
            f"{side}_status": case.status,
            f"{side}_reason": case.reason,
            f"{side}_median_s": median([median(one.seconds) for one in runs]),
            f"{side}_repetitions": sum(len(one.seconds) for one in runs),
        }
    figures |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return Judged(key, shown[1].factors, verdict, figures | {"pairs": len(measured)})


def ratio_of(pairs: Sequence[tuple[Times, Times]]) -> Ratio:
    """Of runs of A and the runs of B made next to them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.array([np.float64(median(b)) / median(a) for a, b in pairs])
    value = median(ratios)
    runs = [run for pair in pairs for run in pair]
    if not runs or any(len(run) < FEWEST_REPETITIONS or not (run > 0).all() for run in runs):
        return Ratio(value)
    if all(np.array_equal(a, b) for a, b in pairs):  # a file and itself
        return Ratio(1.0, 1.0, 1.0)
    if rank := interval_rank(ratios, ODDS):
        ratios.sort()
        return Ratio(value, float(ratios[rank - 1]), float(ratios[-rank]))
    a, b = zip(*pairs, strict=True)
    factor = allowance(a) * allowance(b)
    return Ratio(value, value / factor, value * factor)


def allowance(runs: Sequence[Times]) -> float:
    """The factor by which another run of the same side may differ."""
    together = np.concatenate(runs)
    independent = np.mean([len(run) / autocorrelation_time(run) for run in runs])
    return (together.max() / together.min()) ** max(1.0, sqrt(ENOUGH / independent))


def median(values: Sequence[float] | Times) -> float:
    return float(np.median(values)) if len(values) else nan


def verdict_of(ratio: Ratio, threshold: float) -> str:
    """`threshold`: 0.02 is 2%."""
    most = 1 + threshold
    least = 1 / most
    if ratio.low > most:
        return "slower"
    if ratio.high < least:
        return "faster"
    return "same" if least <= ratio.low and ratio.high <= most else "undecided"
