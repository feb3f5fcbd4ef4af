"""Random command lines of every experiment: each ends with plausible rows or one error line.

    cd tests
    ../.venv/bin/python3 -m random_use [--launches N] [--first S] [--jobs J] [--device cuda]
        [--environments]

A command line is determined by its seed; --first S --launches 1 repeats one. After exit code 0
there must be a complete result file and no other file, after 2 or 3 no file at all, after 4 a row
with the status diverged. Any other code, and a run of more than 150 s, is a failure. Failures
are printed. Some launches are followed by another use of the file: --resume, --force, merge,
compare. Exits with 1 if anything failed. Needs build/paceline.
"""

import argparse
import concurrent.futures
import os
import sys
from collections import Counter

from conftest import gpu_count
from random_use.judge import MAX_RANKS, Outcome, run_seed, shown
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
        return run_seed(seed, options.device, options.max_ranks, options.environments)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, outcome in zip(seeds, pool.map(one, seeds), strict=True):
            counts[
                outcome.use.experiment, "failed" if outcome.complaint else str(outcome.code)
            ] += 1
            if outcome.complaint:
                print(f"{seed}: {outcome.complaint}\n    {shown(outcome.use)}", flush=True)
    print_counts(counts)
    return int(any(code == "failed" for _, code in counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first launch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--max-ranks", type=int, help="default: 6; with --device cuda at most the number of GPUs"
    )
    parser.add_argument(
        "--environments", action="store_true", help="mix in environments (environments.py)"
    )
    options = parser.parse_args()
    if options.max_ranks is None:
        options.max_ranks = MAX_RANKS if options.device == "cpu" else min(MAX_RANKS, gpu_count())
    return run_seeds(options)


if __name__ == "__main__":
    sys.exit(main())
