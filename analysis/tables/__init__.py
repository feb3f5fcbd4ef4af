"""Tables of result files: their list, and the files to write.

A table is a module whose build(results, spread) returns the tables for which the results have the
data. Markdown and LaTeX are for people: constant factors are in the caption, and a spread is beside
its middle value. CSV is for programs: columns have the names and units of the file.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..output import write_text
from ..result_file import ResultError
from ..results import Results, as_written, load
from . import cases, marks, norm_breaks, recorded, scaling, speedups, warmup
from .formats import csv, latex, markdown
from .spread import Spread
from .table import Table

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
WRITERS = {"markdown": markdown, "latex": latex, "csv": csv}
BUILDERS = (
    cases.build, speedups.build, scaling.build, marks.build, recorded.build, norm_breaks.build,
    warmup.build,
)  # fmt: skip


def format_for(path: Path | None, asked: str | None) -> str:
    """`asked`, or the format of the path's extension, Markdown without a path. Raises ResultError
    if it has none."""
    found = asked or (FORMATS.get(path.suffix.lower()) if path else "markdown")
    if found is None:
        raise ResultError(
            f"{path}: no format is known for the extension '{path.suffix}': "
            "use .md, .tex or .csv, or --format"
        )
    return found


def of(results: Results, spread: Spread = Spread.INTERVAL) -> list[Table]:
    """Every table for which these results have the data; that of the cases comes first."""
    return [table for build in BUILDERS for table in build(results, spread)]


def write(
    paths: Sequence[Path],
    target: Path | None,
    form: str,
    spread: Spread,
    columns: Sequence[str] | None = None,
) -> list[Path] | list[str]:
    """Writes all tables to one file; as CSV each to its own, the first to `target`. Returns the
    files, or the tables' texts without a target. With `columns` only the cases, with these. Raises
    ResultError."""
    found = load(paths)
    with as_written(paths):
        tables = [
            replace(table, name=f"{results.experiment}-{table.name}") if len(found) > 1 else table
            for results in found
            for table in (cases.of_columns(results, columns) if columns else of(results, spread))
        ]
    if not tables:
        raise ResultError(f"{', '.join(map(str, paths))}: has nothing for a table")
    texts = [WRITERS[form](table) for table in tables]
    if target is None:
        return texts
    if form != "csv":
        write_text(target, "\n".join(texts))
        return [target]
    others = [target.with_name(f"{target.stem}-{one.name}{target.suffix}") for one in tables[1:]]
    written = [target, *others]
    for path, text in zip(written, texts, strict=True):
        write_text(path, text)
    return written
