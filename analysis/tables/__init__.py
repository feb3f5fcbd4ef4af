"""Tables of result files: which there are, and where they go.

A table is a module whose build(results, spread) returns those that the results have the data for.
Markdown and LaTeX are for people: constant factors stand once in the caption, a spread beside its
middle. CSV is for programs: columns have the file's own names and units.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..result_file import ResultError
from ..results import Results, as_written, load
from . import cases, marks, recorded, scaling, speedups
from .formats import csv, latex, markdown
from .spread import Spread
from .table import Table

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
WRITERS = {"markdown": markdown, "latex": latex, "csv": csv}
BUILDERS = (cases.build, speedups.build, scaling.build, marks.build, recorded.build)


def format_for(path: Path, asked: str | None) -> str:
    """`asked`, or what the path's extension says. Throws ResultError where it says nothing."""
    found = asked or FORMATS.get(path.suffix.lower())
    if found is None:
        raise ResultError(
            f"{path}: no format is known for the extension '{path.suffix}': "
            "use .md, .tex or .csv, or --format"
        )
    return found


def of(results: Results, spread: Spread = Spread.INTERVAL) -> list[Table]:
    """Every table that these results have the data for, that of the cases first."""
    return [table for build in BUILDERS for table in build(results, spread)]


def write(paths: Sequence[Path], target: Path, form: str, spread: Spread) -> list[Path]:
    """All tables in one file; as CSV each in its own, the first at `target`. Throws ResultError."""
    found = load(paths)
    with as_written(paths):
        tables = [
            replace(table, name=f"{results.experiment}-{table.name}") if len(found) > 1 else table
            for results in found
            for table in of(results, spread)
        ]
    texts = [WRITERS[form](table) for table in tables]
    target.parent.mkdir(parents=True, exist_ok=True)
    if form != "csv":
        target.write_text("\n".join(texts), encoding="utf-8")
        return [target]
    others = [target.with_name(f"{target.stem}-{one.name}{target.suffix}") for one in tables[1:]]
    written = [target, *others]
    for path, text in zip(written, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return written
