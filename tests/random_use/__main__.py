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
from functools import partial

from conftest import gpu_count
from random_use.judge import MAX_RANKS, run_seed, shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first launch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--environments", action="store_true", help="mix in environments (environments.py)"
    )
    options = parser.parse_args()
    ranks = MAX_RANKS if options.device == "cpu" else min(MAX_RANKS, gpu_count())
    one = partial(
        run_seed, device=options.device, max_ranks=ranks, environments=options.environments
    )
    counts: Counter[str] = Counter()
    seeds = range(options.first, options.first + options.launches)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, outcome in zip(seeds, pool.map(one, seeds), strict=True):
            end = "failed" if outcome.complaint else f"code {outcome.code}"
            counts[f"{outcome.use.experiment}: {end}"] += 1
            if outcome.complaint:
                print(f"{seed}: {outcome.complaint}\n    {shown(outcome.use)}", flush=True)
    print(*(f"{count:6} {end}" for end, count in sorted(counts.items())), sep="\n")
    return int(any(end.endswith("failed") for end in counts))


if __name__ == "__main__":
    sys.exit(main())
