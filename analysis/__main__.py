"""The command line: python3 -m analysis VERB FILES...; --help lists the verbs."""

import argparse
import os
import signal
import sys
import traceback
from contextlib import suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from . import temporary_files
from .formatting import printable

REGRESSION = 1
WRONG_USE = 2
CANNOT_RUN = 3
UNWRITABLE = 6
INTERNAL = 7
OF_ANY = "Files are results of any experiment, or rows of bench/peers/"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message} (see python3 -m analysis --help)", WRONG_USE)

    def print_help(self, file: TextIO | None = None) -> None:
        print_out(self.format_help().rstrip("\n"))


def fail(message: str, code: int) -> NoReturn:
    print_to(sys.stderr, f"analysis: {printable(message)}")
    raise SystemExit(code)


def given(value: str) -> Path:
    """Of an empty argument, such as an unset variable, Path would make this folder."""
    if not value:
        raise argparse.ArgumentTypeError("needs a value")
    return Path(value)


def percent(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to 1000000")
    return number


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="analysis",
        description="Tables, figures, a report, comparisons, snapshots, traces and rates from "
        "paceline's result files.",
    )
    verbs = parser.add_subparsers(
        dest="verb",
        required=True,
        metavar="tables|figures|report|compare|snapshot|trace|peers|rates|check-plan",
    )
    tables = verbs.add_parser(
        "tables",
        help="cases with their phases, rates and memory; speed-ups, scaling, profiles, fits",
        description="Writes every table that the files have the data for; docs/analysis.md lists "
        f"them. {OF_ANY} or of paceline plan --json (.jsonl).",
    )
    tables.add_argument(
        "--format",
        choices=["markdown", "latex", "csv"],
        help="default: by PATH's extension, .md, .tex or .csv; csv has every factor as a column, "
        "in the file's own names and units, and writes a file per table",
    )
    tables.add_argument(
        "--columns",
        metavar="NAME,...",
        type=lambda names: names.split(","),
        help="only the table of the cases, with these columns of /summary after the factors",
    )
    figures = verbs.add_parser(
        "figures",
        help="steps, attention, collectives, speed-ups, scaling, memory, warm-up, streams",
        description="Draws every figure that the files have the data for; docs/analysis.md lists "
        f"them. {OF_ANY}.",
    )
    report = verbs.add_parser(
        "report",
        help="a page with a card for each question that the files answer, and its evidence",
        description="Writes a page of HTML: a card for each question that the files answer, with "
        "the figure, a small picture and a sentence; below, the figure and the table that answer, "
        "then the rest, folded. Questions without data are listed with the command that measures "
        f"them. {OF_ANY} or of paceline plan --json (.jsonl).",
    )
    report.add_argument(
        "--machine", default="", metavar="NAME",
        help="whose cases answer, by a part of its name (default: that with most cases)",
    )  # fmt: skip
    report.add_argument(
        "--published", action="store_true",
        help="instead, the page of write-ups' figures beside these files'",
    )  # fmt: skip
    for verb in (tables, report):
        verb.add_argument(
            "--spread",
            choices=["interval", "std"],
            default="interval",
            help="medians with 95%% intervals (the default), or means with standard deviations",
        )
    compare = verbs.add_parser(
        "compare",
        help="whether B is faster or slower than A, case by case; exits 1 on a regression",
        description="Judges each case of B by that of A: faster, slower, same or undecided; with "
        "--reference, the given values by the files. Exits with 1 if a case is slower or no longer "
        "ok, or a value is not reached.",
    )
    compare.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        type=given,
        help="A.h5 B.h5, or runs in pairs: A1.h5 B1.h5 A2.h5 B2.h5 ...; with --reference any",
    )
    compare.add_argument(
        "--any-machine", action="store_true", help="also compare runs of different machines"
    )
    compare.add_argument(
        "--threshold",
        type=percent,
        default=2,
        metavar="PERCENT",
        help="by which times may differ and count as equal (default: 2)",
    )
    compare.add_argument(
        "--reference",
        type=given,
        metavar="F.toml",
        help="values that the files must reach, in place of A (docs/measuring.md)",
    )
    compare.add_argument(
        "--json", action="store_true", help="a line of JSON for each case instead of a table"
    )
    snapshot = verbs.add_parser(
        "snapshot",
        help="memory of a step over time, for pytorch.org/memory_viz",
        description="Writes a snapshot for pytorch.org/memory_viz of each case that was measured "
        "with --memory-timeline.",
    )
    trace = verbs.add_parser(
        "trace",
        help="kernels, launches and scopes of profiled steps, for Perfetto and HTA",
        description="Writes Chrome traces of profiled cases, as PyTorch's profiler does: one per "
        "rank and, with several ranks, one of all ranks on rank 0's clock.",
    )
    peers = verbs.add_parser(
        "peers",
        help="steps beside PyTorch's, from files of bench/peers/train_step_ratios.py",
        description="Writes Markdown tables of paceline's and PyTorch's steps, eager and compiled, "
        "from files of bench/peers/train_step_ratios.py.",
    )
    rates = verbs.add_parser(
        "rates",
        help="rates of measured steps and links, for plan --rates and ddp --predict",
        description="Fits what paceline plan --rates and ddp --predict take: rates of steps, and "
        "their slowdown by overlapped collectives, to files of model, ddp and zero; links are "
        "those of files of collectives --fit.",
    )
    check = verbs.add_parser(
        "check-plan",
        help="predictions of paceline plan beside the cases of a file",
        description="Prints the closed forms of paceline plan beside each case of a file of model, "
        "ddp or zero; with --from also its step, predicted from these files without the case.",
    )
    check.add_argument("files", nargs=1, metavar="FILE", type=given, help="a result file")
    check.add_argument(
        "--from", nargs="+", default=[], metavar="FILE", type=given, dest="sources",
        help="files as for rates",
    )  # fmt: skip
    check.add_argument("--json", action="store_true", help="one line of JSON per case, no table")
    check.set_defaults(output=None)
    built = Path(__file__).parents[1] / "build/paceline"
    for verb in (rates, check):
        verb.add_argument(
            "--paceline", type=given, default=built if built.exists() else Path("paceline"),
            metavar="PATH", help="the program",
        )  # fmt: skip
    for verb, output in [
        (rates, "the JSON file to write"),
        (tables, "the file to write; without it the tables are printed"),
        (figures, "NAME.svg, .pdf or .png (others are NAME-warmup, ...), or a folder for all"),
        (report, "NAME.html, one file with all images in it"),
        (snapshot, "what the files' names begin with: PATH.<case>.pickle"),
        (
            trace,
            "what the files' names begin with: PATH.<case>.rank<r>.json, PATH.<case>.json",
        ),
        (peers, "the Markdown file to write"),
    ]:
        verb.add_argument("files", nargs="+", metavar="FILE", type=given, help="a result file")
        verb.add_argument(
            "--output", required=verb != tables, metavar="PATH", type=given, help=output
        )
    return parser.parse_args(arguments)


PROCESS = os.getpid()


def main(arguments: list[str] | None = None) -> None:
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_DFL:  # not under nohup
            signal.signal(number, stop)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent may have it ignored: no wait succeeds
    open_closed_streams()
    # Figures are saved, never shown: a notebook's backend, which may not be installed here, is not
    # needed.
    os.environ.pop("MPLBACKEND", None)
    options = parse(arguments)
    refuse_undecodable(options.files)
    if options.verb != "compare":
        options.files = distinct(options.files)
        if options.output:
            refuse_undecodable([options.output])
            refuse_inputs_as_output(options.files, options.output)
    try:
        from .result_file import ResultError

        # Only this one: matplotlib takes a second.
        verb = import_module(f".{options.verb.replace('-', '_')}", __package__)
    except ModuleNotFoundError as error:
        fail(
            f"the Python package {error.name} is missing: run 'make deps', "
            "then .venv/bin/python3 -m analysis",
            CANNOT_RUN,
        )
    regressed = False
    try:
        if options.verb == "compare":
            written, regressed = verb.run(
                options.files,
                options.threshold / 100,
                options.any_machine,
                options.reference,
                options.json,
            )
        elif options.verb == "tables":
            form = verb.format_for(options.output, options.format)
            spread = verb.Spread(options.spread)
            written = verb.write(options.files, options.output, form, spread, options.columns)
        elif options.verb == "report":
            spread = verb.Spread(options.spread)
            written = verb.write(
                options.files, options.output, options.machine, spread, options.published
            )
        elif options.verb == "figures":
            written = verb.write(options.files, verb.targets_for(options.output))
        elif options.verb == "rates":
            written = verb.write(options.files, options.output, options.paceline)
        elif options.verb == "check-plan":
            written = verb.lines(*options.files, options.sources, options.paceline, options.json)
        else:
            written = verb.write(options.files, options.output)
    except ResultError as error:
        fail(str(error), WRONG_USE)
    except OSError as error:
        code = UNWRITABLE if error.errno in (EDQUOT, EFBIG, EIO, ENOSPC) else WRONG_USE
        fail(f"{error.filename or options.output}: cannot be written: {error.strerror}", code)
    except Exception:  # a defect of ours, for which Python exits as for a regression
        traceback.print_exc()
        raise SystemExit(INTERNAL) from None
    print_out("\n".join(map(str, written)))
    if regressed:
        raise SystemExit(REGRESSION)


def stop(number: int, _frame: FrameType | None) -> None:
    """Ends the process as the signal does, but removes the temporary files first. Those that a
    forked process knows are its parent's."""
    if os.getpid() == PROCESS:
        temporary_files.remove_all()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)  # to this thread, which would go on while another one is ended


def open_closed_streams() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def refuse_undecodable(paths: list[Path]) -> None:
    """The output is UTF-8 and contains the names of the files."""
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            fail(f"{path}: the name is not UTF-8; rename it", WRONG_USE)


def refuse_inputs_as_output(files: list[Path], output: Path) -> None:
    for path in files:
        with suppress(OSError):  # of a name that no file can have
            if path.is_file() and output.is_file() and path.samefile(output):
                fail(f"--output {output}: is one of the files to read; name another", WRONG_USE)


def distinct(files: list[Path]) -> list[Path]:
    """Drops further names of the same file, whose cases would count twice."""
    return list({os.path.realpath(path): path for path in reversed(files)}.values())[::-1]


def print_out(words: str) -> None:
    error = print_to(sys.stdout, words)
    if error and not isinstance(error, BrokenPipeError):  # head has seen enough
        fail(f"standard output cannot be written: {error.strerror}", UNWRITABLE)


def print_to(stream: TextIO, words: str) -> OSError | None:
    """Returns the error of a stream that takes nothing more, which Python would meet again when it
    ends. Characters that the stream does not have are escaped."""
    known = stream.encoding or "utf-8"
    try:
        print(words.encode(known, "backslashreplace").decode(known), file=stream, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


if __name__ == "__main__":
    main()
