"""How often `compare` is wrong, and which slowdowns it finds.

    .venv/bin/python3 bench/false_alarms.py record --pairs 200 F.h5 -- --context 16 --threads 1
    .venv/bin/python3 bench/false_alarms.py judge
    .venv/bin/python3 bench/false_alarms.py coverage

record: measures pairs of identical runs of `model --size tiny` while busy loops run on the same
host. The file gets the seconds of every step as a dataset [run, repetition]; runs 2i and 2i + 1 are
a pair. Options of the program follow the file and `--`.

judge: prints the table of docs/measuring.md: of pairs of identical runs, how many are called faster
or slower, and the smallest slowdown of the second run that is found in 80% of them. The pairs are
the recorded ones of tests/golden; cases that two files of results/reference have; and simulated
ones of a first-order autoregressive process. "Ten pairs": groups of ten consecutive ones, which
overlap, of ten cases where the pairs are published. Exit code 1 if more than 1% of the recorded
single pairs are called faster or slower.

coverage: prints how often the interval of a median has the true one, of simulated runs; without and
with what the interval is widened by.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "build/paceline"
sys.path.append(str(ROOT))
from analysis.comparison import EFFORT, Ratio, keyed, ratio_of, read, verdict_of  # noqa: E402
from analysis.median_interval import ODDS, binomial_rank, median_interval  # noqa: E402
from analysis.result_file import ResultError  # noqa: E402

BUSY = [sys.executable, "-c", "while True: pass"]
REPETITIONS = (10, 30, 100)
ALLOWED = 0.01  # of identical runs
THRESHOLD = 0.02
FOUND = 0.8  # of the comparisons
CPU = ("identical_runs", "identical_long_runs", "identical_runs_of_100")
LAG_1 = (0, 0.6, 0.9)  # autocorrelations of neighbours
NOISE = 0.01  # relative, of simulated repetitions


def samples_of(path: Path) -> np.ndarray:
    """Seconds of each measured step [repetition], the maximum over ranks."""
    with h5py.File(path) as file:
        (case,) = file["cases"].values()
        return case["samples/step"][:].max(axis=0)


def record(arguments: argparse.Namespace) -> None:
    """Measures the pairs; flushes the file after each run, so that an interrupt loses none."""
    command = ["model", "--size", "tiny", "--device", "cpu", "--quiet", "--warmup", "1",
               "--steps", str(arguments.steps), *arguments.options]  # fmt: skip
    loops = [subprocess.Popen(BUSY) for _ in range(arguments.busy_loops)]
    try:
        with tempfile.TemporaryDirectory() as folder, h5py.File(arguments.series, "w") as file:
            shape = (2 * arguments.pairs, arguments.steps)
            runs = file.create_dataset("step", shape, "f4", fillvalue=np.nan)
            runs.attrs.update(
                unit="s", command=" ".join(command), busy_loops=len(loops), cores=os.cpu_count()
            )
            for i in range(len(runs)):
                output = Path(folder) / f"{i}.h5"
                subprocess.run([PROGRAM, *command, "--output", output], check=True,
                               stdout=subprocess.DEVNULL)  # fmt: skip
                runs[i] = samples_of(output)
                file.flush()
                output.unlink()
    finally:
        for loop in loops:
            loop.kill()


def pairs_of(series: Path) -> np.ndarray:
    """Seconds [pair, side, repetition] of the pairs of which both runs are complete."""
    with h5py.File(series) as file:
        runs = file["step"][:].astype(float)
    pairs = runs[: len(runs) // 2 * 2].reshape(-1, 2, runs.shape[1])
    return pairs[~np.isnan(pairs).any(axis=(1, 2))]


def published_pairs(experiment: str) -> list[np.ndarray]:
    """Seconds [side, repetition] of the cases that two files of the same devices have. One file is
    left out: NCCL could not use the link between its GPUs."""
    files = []
    for path in sorted((ROOT / "results/reference").glob(f"{experiment}-*.h5*")):
        try:
            files.append(read(path))
        except ResultError:  # rows of other software
            continue
    found = []
    for a, b in combinations(files, 2):
        if a.devices == b.devices and a.experiment == b.experiment == experiment:
            of_a, of_b = keyed(a, EFFORT), keyed(b, EFFORT)
            runs = [(of_a[key].seconds, of_b[key].seconds) for key in of_a if key in of_b]
            count = [min(map(len, pair)) for pair in runs]
            found += [np.array([x[:n], y[:n]]) for (x, y), n in zip(runs, count, strict=True)]
    return found


def simulated(lag_1: float, repetitions: int, pairs: int = 500) -> np.ndarray:
    """Seconds [pair, side, repetition] with this autocorrelation of neighbours."""
    noise = np.random.default_rng(1).normal(size=(repetitions, pairs, 2))
    for i in range(1, repetitions):
        noise[i] = lag_1 * noise[i - 1] + math.sqrt(1 - lag_1**2) * noise[i]
    return np.exp(NOISE * np.moveaxis(noise, 0, -1))


def ratios(pairs: Sequence[np.ndarray], size: int) -> list[Ratio]:
    """Of every group of `size` consecutive pairs."""
    return [ratio_of(pairs[i : i + size]) for i in range(len(pairs) - size + 1)]


def false_alarms(found: Sequence[Ratio]) -> int:
    return sum(verdict_of(ratio, THRESHOLD) in ("slower", "faster") for ratio in found)


def smallest_found(found: Sequence[Ratio]) -> float:
    """The slowdown of all second runs with which the share FOUND of the ratios is "slower"."""
    needed = [(1 + THRESHOLD) / ratio.low - 1 for ratio in found]
    return float(np.quantile(needed, FOUND, method="inverted_cdf"))


def percent(slowdown: float) -> str:
    return f"{slowdown:.0%}" if slowdown < 10 else "none"


def series() -> Iterator[tuple[str, Sequence[np.ndarray], bool]]:
    """Name, pairs, whether they were recorded."""
    for name in CPU:
        yield f"CPU beside a busy loop, `{name}`", pairs_of(ROOT / f"tests/golden/{name}.h5"), True
    for name in ("model", "attention"):
        yield f"H200, `{name}`", published_pairs(name), True
    for lag_1 in LAG_1:
        yield f"simulated, {NOISE:.0%}, r_1 = {lag_1}", simulated(lag_1, max(REPETITIONS)), False


def rows(name: str, all_pairs: Sequence[np.ndarray]) -> Iterator[tuple[str, int, int]]:
    """Of the table: the line, the false alarms of single pairs, and their number."""
    for count in REPETITIONS:
        pairs = [pair[:, :count] for pair in all_pairs if pair.shape[1] >= count]
        if pairs:
            of_one, _ = found = ratios(pairs, 1), ratios(pairs, 10)
            texts = [
                f"{false_alarms(of)} of {len(of)} | {percent(smallest_found(of))}" for of in found
            ]
            line = f"| {name} | {count} | {' | '.join(texts)} |"
            yield line, false_alarms(of_one), len(of_one)


def judge() -> int:
    print(
        "| runs | repetitions | one pair: false alarms | found | ten pairs: false alarms | found |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    wrong = total = 0
    for name, pairs, recorded in series():
        for line, of_name, count in rows(name, pairs):
            print(line)
            wrong, total = wrong + recorded * of_name, total + recorded * count
    print(f"\nfalse alarms among recorded single pairs: {wrong} of {total}")
    return 1 if wrong > ALLOWED * total else 0


def coverage() -> None:
    print("| r_1 | " + " | ".join(f"{count} repetitions" for count in REPETITIONS) + " |")
    print("| ---: | ---: | ---: | ---: |")
    for lag_1 in LAG_1:
        texts = []
        for count in REPETITIONS:
            runs = simulated(lag_1, count, pairs=1000).reshape(-1, count)
            rank = binomial_rank(count, ODDS)
            ordered = np.sort(runs)
            plain = np.mean((ordered[:, rank - 1] <= 1) & (ordered[:, -rank] >= 1))
            low, high = np.transpose([median_interval(run) for run in runs])
            texts.append(f"{plain:.0%}, {np.mean((low <= 1) & (high >= 1)):.0%}")
        print(f"| {lag_1} | {' | '.join(texts)} |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("series", type=Path)
    recording.add_argument("--pairs", type=int, default=200)
    recording.add_argument("--steps", type=int, default=10)
    recording.add_argument("--busy-loops", type=int, default=1)
    recording.add_argument("options", nargs="*")
    commands.add_parser("judge")
    commands.add_parser("coverage")
    arguments = parser.parse_args()
    if arguments.command == "judge":
        return judge()
    if arguments.command == "coverage":
        coverage()
    else:
        record(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
