"""Measures attention in paceline and in PyTorch on this machine and prints the ratios.

    python3 bench/peers/attention_ratios.py --batch-size 1 --heads 16 --context 2048,16384 \\
        --head-dim 64,128 --causal no,yes --precision bf16 --variants flash cudnn

All options except --variants, --flash-kernels, --paceline and --output are passed to both programs.
paceline runs before and after PyTorch's variants; its time is the slower of the two medians. The
table gives TFLOP/s per phase (forward 4 B H S^2 d FLOPs, half of that under a causal mask; backward
2.5 times as many), and the time of PyTorch's fastest variant over paceline's: above 1, paceline is
faster.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from attention_cases import FACTORS, VARIANTS
from json_rows import Row, rows_of

PEER = Path(__file__).with_name("attention.py")
FORWARD = {"forward": 1.0, "backward": 2.5, "both": 3.5}  # FLOPs over those of the forward pass


def paceline(program: str, arguments: list[str]) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", f"{folder}/attention.h5", "--quiet", "--json"]
        command = [program, "attention", "--device", "cuda", "--attention", "flash"]
        return rows_of([*command, *arguments, *output])


def key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in FACTORS)


def tflops(row: Row, phase: str) -> float:
    batch, heads, context, head_dim = (int(row[name]) for name in FACTORS[:4])
    forward = 4 * batch * heads * context**2 * head_dim / (2 if row["causal"] == "yes" else 1)
    return FORWARD[phase] * forward / row[f"{phase}_median_s"] / 1e12


def kernels(ours: Row, phase: str) -> str:
    passes = ["forward", "backward"] if phase == "both" else [phase]
    return ", ".join(dict.fromkeys(ours[f"{p}_kernels"] for p in passes))


def lines(ours: Row, peers: list[Row], variants: list[str]) -> list[str]:
    rows = []
    for phase in FORWARD:
        times = {p["variant"]: p for p in peers if p["status"] == "ok"}
        shown = [f"{tflops(times[v], phase):.0f}" if v in times else "-" for v in variants]
        best = min((p[f"{phase}_median_s"] for p in times.values()), default=None)
        own = ours[f"{phase}_median_s"]
        ratio = f"{best / own:.2f}" if best else "-"
        own_cells = [phase, kernels(ours, phase), f"{1e6 * own:.1f}", f"{tflops(ours, phase):.0f}"]
        rows.append("| " + " | ".join([*map(str, key(ours)), *own_cells, *shown, ratio]) + " |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Other options: those of attention.py."
    )
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["flash", "cudnn"])
    parser.add_argument("--paceline", default="build/paceline", help="the program to measure")
    parser.add_argument("--flash-kernels", help="of paceline: newest,sm80")
    parser.add_argument("--output", type=Path, help="writes every row as a JSON line")
    options, arguments = parser.parse_known_args()

    chosen = ["--flash-kernels", options.flash_kernels] if options.flash_kernels else []
    before = paceline(options.paceline, [*arguments, *chosen])
    peers = rows_of([sys.executable, str(PEER), *arguments, "--variants", *options.variants])
    after = paceline(options.paceline, [*arguments, *chosen])
    header = [
        *FACTORS,
        "phase",
        "kernels",
        "paceline [us]",
        "paceline",
        *options.variants,
        "fastest / paceline",
    ]
    print("| " + " | ".join(header) + " |", "|---" * len(header) + "|", sep="\n")
    slower = []
    for first, second in zip(before, after, strict=True):
        if first["status"] != "ok":
            continue
        row = first | {
            name: max(first[name], second[name]) for name in (f"{p}_median_s" for p in FORWARD)
        }
        slower.append({"software": "paceline", "variant": "paceline flash", **row})
        beside = [p for p in peers if key(p) == key(row)]
        print(*lines(row, beside, options.variants), sep="\n", flush=True)
    if options.output:
        options.output.write_text("".join(json.dumps(r) + "\n" for r in [*slower, *peers]))


if __name__ == "__main__":
    main()
