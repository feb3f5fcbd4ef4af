"""The kernels of one training step: python3 bench/trace/kernel_table.py trace.tsv [--steps N]

Reads what kernel_trace.so wrote. A step begins with the embedding's kernel (--marker); of the last
N the one of median length is shown, kernels grouped by name and grid, with the calls, the time of
one and of all, and their share. `idle` is the time in which no kernel runs.
"""

import argparse
import csv
import itertools
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def short(name: str) -> str:
    """A demangled kernel's name without namespaces, parameters and the tail of its template."""
    name = re.sub(r"\(anonymous namespace\)::|paceline::|void |hopper::", "", name)
    depth, kept = 0, []
    for c in name:
        depth -= c == ">"
        if depth == 0 and c == "(":
            break
        if depth <= 1:
            kept.append(c)
        depth += c == "<"
    return "".join(kept)[:96]


def demangled(names: list[str]) -> list[str]:
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description="The kernels of one training step.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--marker", default="embedding_kernel")
    parser.add_argument("--list", action="store_true", help="in order, not grouped")
    options = parser.parse_args()
    with options.trace.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = sorted({row["name"] for row in rows})
    readable = dict(zip(names, map(short, demangled(names)), strict=True))
    events = sorted(
        (int(r["begin_ns"]), int(r["end_ns"]), int(r["blocks"]), readable[r["name"]]) for r in rows
    )
    begins = [i for i, event in enumerate(events) if options.marker in event[3]]
    steps = [events[a:b] for a, b in itertools.pairwise(begins)][-options.steps :]
    if not steps:
        print("no two steps in the trace", file=sys.stderr)
        return 1
    steps.sort(key=lambda step: step[-1][1] - step[0][0])
    step = steps[len(steps) // 2]
    total = step[-1][1] - step[0][0]
    busy, until = 0, step[0][0]
    for begin, end, *_ in step:
        busy += max(0, end - max(begin, until))
        until = max(until, end)
    if options.list:
        for begin, end, blocks, name in step:
            since = (begin - step[0][0]) / 1e3
            print(f"{since:12.1f} {(end - begin) / 1e3:9.1f} {blocks:7} {name}")
    groups = defaultdict(list)
    for begin, end, blocks, name in step:
        groups[name, blocks].append((end - begin) / 1e3)
    print(f"step {total / 1e3:.1f} us, {len(step)} kernels, idle {(total - busy) / 1e3:.1f} us")
    print(f"{'calls':>5} {'us':>9} {'all us':>10} {'share':>6}  blocks  kernel")
    for (name, blocks), times in sorted(groups.items(), key=lambda g: -sum(g[1])):
        print(
            f"{len(times):5} {sum(times) / len(times):9.2f} {sum(times):10.1f} "
            f"{sum(times) * 1e3 / total:6.1%}  {blocks:6}  {name}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
