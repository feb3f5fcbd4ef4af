"""The command line: python3 -m analysis VERB FILES... --output PATH; --help lists the verbs."""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

WRONG_USE = 2
CANNOT_RUN = 3


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message} (see python3 -m analysis --help)", WRONG_USE)


def fail(message: str, code: int) -> NoReturn:
    print(f"analysis: {message}", file=sys.stderr)
    raise SystemExit(code)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="analysis",
        description="Tables, figures, snapshots and traces from paceline's result files.",
    )
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="tables|figures|snapshot|trace|peers"
    )
    tables = verbs.add_parser(
        "tables",
        help="one row per case: phases with their intervals, rates and memory",
        description="Writes one table with a row per case.",
    )
    tables.add_argument(
        "--format",
        choices=["markdown", "latex", "csv"],
        help="default: by PATH's extension, .md, .tex or .csv; csv has every factor as a column",
    )
    figures = verbs.add_parser(
        "figures",
        help="step time by phase; step time from cold, where warm-up was recorded; the streams of "
        "a step, where cases were profiled; the errors of norms",
        description="Draws step time by phase and, where warm-up was recorded, every step from "
        "cold; of profiled cases, which may be of any experiment, a step on its streams, one "
        "block's forward pass and its attention kernels; of precision --study norms the errors.",
    )
    snapshot = verbs.add_parser(
        "snapshot",
        help="memory of a step over time, for pytorch.org/memory_viz",
        description="Writes a snapshot per case, of cases measured with --memory-timeline, that "
        "pytorch.org/memory_viz opens.",
    )
    trace = verbs.add_parser(
        "trace",
        help="kernels, launches and scopes of profiled steps, for Perfetto and HTA",
        description="Writes Chrome traces as PyTorch's profiler does, of profiled cases: one per "
        "rank and, of several ranks, one of all on rank 0's clock.",
    )
    peers = verbs.add_parser(
        "peers",
        help="steps beside PyTorch's, from files of bench/peers/train_step_ratios.py",
        description="Writes Markdown tables of paceline's and PyTorch's steps, eager and compiled, "
        "from files of bench/peers/train_step_ratios.py.",
    )
    for verb, output in [
        (tables, "the file to write"),
        (figures, "NAME.svg or NAME.png (others are NAME-warmup, ...), or a folder for all"),
        (snapshot, "what the files' names begin with: PATH.<case>.pickle"),
        (
            trace,
            "what the files' names begin with: PATH.<case>.rank<r>.json, PATH.<case>.json",
        ),
        (peers, "the Markdown file to write"),
    ]:
        verb.add_argument("files", nargs="+", metavar="FILE", type=Path, help="a result file (.h5)")
        verb.add_argument("--output", required=True, metavar="PATH", type=Path, help=output)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        from . import figures, peers, results, snapshot, tables, trace
    except ModuleNotFoundError as error:
        fail(
            f"the Python package {error.name} is missing: run 'make deps', "
            "then .venv/bin/python3 -m analysis",
            CANNOT_RUN,
        )
    try:
        if options.verb == "tables":
            form = tables.format_for(options.output, options.format)
            written = tables.write(results.read(options.files), options.output, form)
        elif options.verb == "snapshot":
            written = snapshot.write(options.files, options.output)
        elif options.verb == "trace":
            written = trace.write(options.files, options.output)
        elif options.verb == "peers":
            written = peers.write(options.files, options.output)
        else:
            written = figures.write(options.files, figures.targets_for(options.output))
    except results.ResultError as error:
        fail(str(error), WRONG_USE)
    except OSError as error:
        fail(f"{error.filename or options.output}: cannot be written: {error.strerror}", WRONG_USE)
    for path in written:
        print(path)


if __name__ == "__main__":
    main()
