"""Random valid configurations of data-parallel training: --verify must pass in each of them.

As a program, python3 tests/random_training.py --launches 100 --jobs 4 runs 100 launches of several
configurations each and prints the largest errors, relative to their tolerances.
"""

import argparse
import concurrent.futures
import os
import random
import subprocess
import tempfile
from pathlib import Path

from conftest import command
from result_files import rows

SYNCS = ("naive", "flat", "overlap", "bucketed")
SHARDS = ("none", "broadcast", "zero1", "zero2", "fsdp")
ERRORS = ("verify_gradient_error", "verify_sgd_error", "verify_adamw_error")


def launch(seed: int) -> tuple[int, list[object]]:
    """(ranks, arguments) of one launch of four to eight configurations."""
    rng = random.Random(seed)
    heads = rng.randint(1, 4)
    zero = rng.random() < 0.5
    strategy = (
        ("zero", "--shard", ",".join(rng.sample(SHARDS, 2)))
        if zero
        else ("ddp", "--sync", ",".join(rng.sample(SYNCS, 2)))
    )
    size = {
        "--d-model": heads * rng.choice((2, 4, 6, 8, 18, 24)),
        "--d-ff": rng.randint(1, 64),
        "--layers": rng.randint(1, 3),
        "--heads": heads,
        "--vocab": rng.randint(2, 128),
        "--batch-size": rng.randint(1, 3),
        "--seed": seed,
        "--attention": rng.choice(("naive", "fused", "flash")),
        "--recompute": rng.choice(("none", "swiglu", "block", "2")),
        "--verify": rng.randint(1, 10),
    }
    if size["--attention"] == "flash":
        size["--fp32-attention"] = rng.choice(("exact", "bf16x3", "tf32"))
    contexts = ",".join(map(str, sorted(rng.sample((1, 2, 3, 5, 8, 13, 16, 24, 32), 2))))
    once = ("--warmup", 0, "--steps", 1, "--device", "cpu", "--threads", 1, "--quiet")
    words = [*strategy, *(word for pair in size.items() for word in pair), "--context", contexts]
    if "fsdp" in strategy[2]:
        words += ["--prefetch", rng.randint(0, 4), "--reshard", rng.choice(("yes", "no", "yes,no"))]
    if zero or "bucketed" in strategy[2]:
        words += ["--bucket-mb", f"{10 ** rng.uniform(-4, 0):.4f}"]
    return rng.randint(1, 6), [*words, *once, "--output", "out.h5"]


def run(seed: int, *options: object) -> tuple[str, int, list[dict[str, object]]]:
    """(the command line, its exit code, the rows of its file)."""
    ranks, words = launch(seed)
    line = command(ranks, *words, *options)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            line, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        path = Path(folder) / "out.h5"
        return " ".join(line), done.returncode, rows(path) if path.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first launch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    configurations, failed = 0, 0
    largest = dict.fromkeys(ERRORS, 0.0)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line, code, table in pool.map(run, range(args.first, args.first + args.launches)):
            configurations += len(table)
            bad = [row for row in table if row["status"] != "ok"]
            failed += len(bad) + (code != 0 and not bad)
            if code != 0:
                print(code, line, *(row["reason"] for row in bad), sep="\n  ", flush=True)
            for name in ERRORS:
                largest[name] = max([largest[name], *(row[name] for row in table)])
    errors = ", ".join(f"{name} {error:.3f}" for name, error in largest.items())
    print(f"{configurations} configurations, {failed} failed; largest errors: {errors}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
