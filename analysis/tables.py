"""Tables of result files: one row per case, as Markdown, LaTeX or CSV.

Markdown and LaTeX are for people: constant factors stand once in the caption, an interval beside
its median. CSV is for programs: every factor is a column, and so is each end of an interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .results import ResultError, Results, Run
from .words import ABSENT, decimals, figure, label, text

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
MILLISECONDS = 1e3
GIB = 2**30

# What LaTeX reads as a command, and how to say it.
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "“": "``", "”": "''",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    caption: list[str]  # sentences
    commands: list[str]  # set in a fixed-width face after them
    header: list[str]
    rows: list[list[str]]
    numeric: list[bool]  # by column: right-aligned


def format_for(path: Path, asked: str | None) -> str:
    """`asked`, or what the path's extension says. Throws ResultError where it says nothing."""
    found = asked or FORMATS.get(path.suffix.lower())
    if found is None:
        raise ResultError(
            f"{path}: no format is known for the extension '{path.suffix}': "
            "use .md, .tex or .csv, or --format"
        )
    return found


def write(results: Results, path: Path, form: str) -> list[Path]:
    writers = {"markdown": markdown, "latex": latex, "csv": csv}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(writers[form](results), encoding="utf-8")
    return [path]


def markdown(results: Results) -> str:
    table = build(results)
    lines = markdown_table(table.header, table.rows, table.numeric)
    commands = [f"    {command}" for command in table.commands]
    return "\n".join([" ".join(table.caption), "", *lines, "", *commands]) + "\n"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> list[str]:
    cells = [[cell.replace("|", r"\|") for cell in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = [
        "-" * (width - 1) + (":" if number else "-")
        for width, number in zip(widths, numeric, strict=True)
    ]
    return [
        "| " + " | ".join(align(cell, width, number) for cell, width, number in zipped) + " |"
        for row in (cells[0], rule, *cells[1:])
        for zipped in [zip(row, widths, numeric, strict=True)]
    ]


def align(cell: str, width: int, number: bool) -> str:
    return cell.rjust(width) if number else cell.ljust(width)


def latex(results: Results) -> str:
    table = build(results)
    lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in [table.header, *table.rows]]
    commands = [rf"\texttt{{{escape_latex(command)}}}" for command in table.commands]
    caption = " ".join([*map(escape_latex, table.caption), *commands])
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering\small",
            rf"  \caption{{{caption}}}",
            rf"  \begin{{tabular}}{{{''.join('r' if n else 'l' for n in table.numeric)}}}",
            r"    \toprule",
            f"    {lines[0]}",
            r"    \midrule",
            *(f"    {line}" for line in lines[1:]),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escape_latex(words: str) -> str:
    return "".join(LATEX_SPECIAL.get(letter, letter) for letter in words)


def csv(results: Results) -> str:
    """Every factor, then each figure in the unit that its column names, in full precision."""
    frame = results.frame
    columns = {name: frame[name].map(text) for name in results.factors}
    for phase in results.phases:
        for what in ("median", "ci_low", "ci_high"):
            columns[f"{phase}_{what}_ms"] = frame[f"{phase}_{what}_s"] * MILLISECONDS
    columns |= {name: frame[name] for name in rates(results)}
    if "peak_bytes" in frame:
        columns["peak_memory_gib"] = frame["peak_bytes"] / GIB
    columns |= {name: frame[name] for name in ("status", "reason") if name in frame}
    return pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")


def build(results: Results) -> Table:
    """The cells of the table for people, before any format's own marks."""
    frame = results.frame
    columns: list[tuple[str, bool, list[str]]] = []
    for name in results.varying:
        cells = [text(value) for value in frame[name]]
        columns.append((label(name), all(is_number(cell) for cell in cells if cell), cells))
    for phase in results.phases:
        columns.append((f"{phase} (ms)", True, phase_cells(frame, phase)))
    columns += [(rate_header(name), True, rate_cells(results, name)) for name in rates(results)]
    if "peak_bytes" in frame:
        cells = [figure(value / GIB) for value in frame["peak_bytes"]]
        columns.append(("peak memory (GiB)", True, cells))
    if (frame["status"] != "ok").any():
        columns.append(("status", False, [status_text(row) for _, row in frame.iterrows()]))
    header, numeric, cells = zip(*columns, strict=True)
    return Table(
        caption=caption(results),
        commands=[run.command for run in results.runs if run.command],
        header=list(header),
        rows=[list(row) for row in zip(*cells, strict=True)],
        numeric=list(numeric),
    )


def phase_cells(frame: pd.DataFrame, phase: str) -> list[str]:
    """Medians with their 95% intervals, "21.57 [21.44, 21.70]", in ms."""
    names = [f"{phase}_{what}_s" for what in ("median", "ci_low", "ci_high")]
    return [interval(*row) for row in (frame[names] * MILLISECONDS).itertuples(index=False)]


def interval(median: float, low: float, high: float) -> str:
    if math.isnan(median):
        return ABSENT
    digits = decimals(median)
    if math.isnan(low) or math.isnan(high):
        return f"{median:,.{digits}f}"
    return f"{median:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def rates(results: Results) -> list[str]:
    """The columns of tokens/s and of every MFU (against a measured ceiling, the datasheet)."""
    names = sorted(name for name in results.frame if name.split("_")[0] == "mfu")
    names = [name for name in results.frame if name.startswith("tokens_per_s")] + names
    return [name for name in names if results.frame[name].notna().any()]


def rate_header(name: str) -> str:
    if name.startswith("tokens"):
        return "tokens/s"
    against = label(name.removeprefix("mfu").removeprefix("_"))
    return f"MFU, {against} (%)" if against else "MFU (%)"


def rate_cells(results: Results, name: str) -> list[str]:
    is_share = name.startswith("mfu") and results.units[name] != "%"
    return [figure(value * 100 if is_share else value) for value in results.frame[name]]


def status_text(row: pd.Series) -> str:
    reason = text(row.get("reason"))
    return f"{row['status']}: {reason}" if reason else str(row["status"])


def caption(results: Results) -> list[str]:
    lines = [
        f"Medians of n = {results.repetitions} steps with 95% intervals [low, high]; "
        "each step counts as long as its slowest rank took."
        if results.phases
        else "No case was measured."
    ]
    if results.lacks_intervals:
        lines.append("Where no interval is given, there were too few steps (below 6) for one.")
    if results.constant:
        same = ", ".join(f"{label(name)} {value}" for name, value in results.constant.items())
        lines.append(f"In every case: {same}.")
    if results.implied:
        sizes = "; ".join(f"{size} is {shape}" for size, shape in results.implied.items())
        lines.append(f"Sizes: {sizes}.")
    return lines + [run_text(run.path.name, run) for run in results.runs]


def run_text(name: str, run: Run) -> str:
    ending = "" if run.complete else " The sweep was not completed."
    return f"{name}: {run.origin}.{ending}"
