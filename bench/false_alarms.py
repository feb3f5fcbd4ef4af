"""The false-alarm rate of `compare` on identical runs, and its detection rate of known slowdowns.

    .venv/bin/python3 bench/false_alarms.py record tests/golden/identical_runs.h5 --pairs 200
    .venv/bin/python3 bench/false_alarms.py judge tests/golden/identical_runs.h5

record: measures pairs of identical runs of `model --size tiny` while busy loops run on the same
host. The file gets the seconds of every step as a dataset [run, repetition]; runs 2i and 2i + 1 are
a pair. Options of the program follow `--`.

judge: counts the verdicts of `compare` on every group of consecutive pairs, for several
group sizes; groups overlap. The second run of each pair is taken as measured, and with all its
steps made longer by each of several percentages. Exit code 1 if more than 1% of the comparisons of
identical runs say faster or slower.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "build/paceline"
sys.path.append(str(ROOT))
from analysis.comparison import ratio_of, verdict_of  # noqa: E402

BUSY = [sys.executable, "-c", "while True: pass"]
GROUPS = (1, 2, 4, 10, 16, 32)  # pairs
SLOWDOWNS = (0, 5, 10, 50, 100)  # percent
ALLOWED = 0.01  # of identical runs
THRESHOLD = 0.02


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


def verdicts(pairs: np.ndarray, size: int, slowdown: float) -> Counter[str]:
    """Counts the verdicts on every group of `size` consecutive pairs."""
    slowed = pairs * [[1], [1 + slowdown / 100]]
    groups = np.lib.stride_tricks.sliding_window_view(slowed, size, axis=0)
    return Counter(verdict_of(ratio_of(np.moveaxis(group, -1, 0)), THRESHOLD) for group in groups)


def judge(arguments: argparse.Namespace) -> int:
    pairs = pairs_of(arguments.series)
    names = ("slower", "faster", "same", "undecided")
    print("| pairs | slowdown | comparisons | " + " | ".join(names) + " |")
    print("| ---: | ---: | ---: | " + " | ".join(["---:"] * len(names)) + " |")
    max_false = 0.0
    for size in (size for size in arguments.groups if size <= len(pairs)):
        for slowdown in SLOWDOWNS:
            found = verdicts(pairs, size, slowdown)
            shares = [found[name] / found.total() for name in names]
            if slowdown == 0:
                max_false = max(max_false, shares[0] + shares[1])
            texts = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {size} | {slowdown}% | {found.total()} | {texts} |")
    print(f"\nfalse alarms: at most {max_false:.1%}")
    return 1 if max_false > ALLOWED else 0


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
    judging = commands.add_parser("judge")
    judging.add_argument("series", type=Path)
    judging.add_argument("--groups", type=int, nargs="+", default=GROUPS, help="pairs in a group")
    arguments = parser.parse_args()
    if arguments.command == "judge":
        return judge(arguments)
    record(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
