"""Random command lines of every experiment: each ends with sane rows, or with one clear line.

    cd tests
    ../.venv/bin/python3 -m random_use [--launches N] [--first S] [--jobs J] [--device cuda]
    ../.venv/bin/python3 -m random_use --disagree

A command line follows from its seed; --first S --launches 1 runs one again. Code 0 must leave a
whole file and nothing else, code 2 or 3 nothing at all, code 4 a row that says what diverged; any
other code, and what takes two minutes, is a failure, which is printed with a shorter command line
that fails alike. Some are followed by what users do with a file: --resume, --force, merge, compare.
--disagree starts ranks with command lines that differ: each must end with code 2, and one line
names what differs. Exits with 1 when anything failed. Needs build/paceline.
"""

import argparse
import concurrent.futures
import os
import sys
from collections import Counter

from conftest import gpu_count
from random_use.disagreements import run_disagreements
from random_use.judge import MOST_RANKS, Outcome, explained, run_seed, shown
from random_use.lines import EXPERIMENTS


def print_counts(counts: Counter[tuple[str, str]]) -> None:
    codes = sorted({code for _, code in counts} - {"failed"})
    print(f"{'':12}" + "".join(f"{'code ' + c:>8}" for c in codes) + f"{'failed':>8}")
    for experiment in EXPERIMENTS:
        print(
            f"{experiment:12}" + "".join(f"{counts[experiment, c]:8}" for c in [*codes, "failed"])
        )


def run_seeds(options: argparse.Namespace) -> int:
    counts: Counter[tuple[str, str]] = Counter()
    seeds = range(options.first, options.first + options.launches)

    def one(seed: int) -> Outcome:
        outcome = run_seed(seed, options.device, options.max_ranks)
        return explained(outcome) if outcome.complaint and options.shorter else outcome

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, outcome in zip(seeds, pool.map(one, seeds), strict=True):
            counts[
                outcome.use.experiment, "failed" if outcome.complaint else str(outcome.code)
            ] += 1
            if outcome.complaint:
                print(f"{seed}: {outcome.complaint}\n    {shown(outcome.use)}", flush=True)
            if outcome.shorter:
                print(f"    shorter: {outcome.shorter}", flush=True)
    print_counts(counts)
    return int(any(code == "failed" for _, code in counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first launch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--max-ranks", type=int, help="6; of --device cuda the number of GPUs")
    parser.add_argument("--shorter", action="store_true", help="shorten what fails")
    parser.add_argument("--disagree", action="store_true")
    options = parser.parse_args()
    if options.max_ranks is None:
        options.max_ranks = MOST_RANKS if options.device == "cpu" else min(MOST_RANKS, gpu_count())
    return run_disagreements(options) if options.disagree else run_seeds(options)


if __name__ == "__main__":
    sys.exit(main())
