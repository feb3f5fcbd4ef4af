"""Compares the tables of analysis/published with the texts that they were taken from.

python3 tools/check_published.py FOLDER

FOLDER holds a text per write-up, whose name begins with its number in three digits. Every figure of
every file must be in its text at the place that tools/published_sources.py gives: tables cell by
cell, figures of prose within a few lines. Conversely, every cell with a digit in a text's tables
must be in a file. Code, its output and the questions are not tables. Exits with 1 if something
differs.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from published_sources import NUMBERS, PROSE, TABLES, Prose, Rows

PUBLISHED = Path(__file__).parents[1] / "analysis/published"
EMPTY = {"", "-", "–", "—", "N/A", "OOM"}
NAMES = {
    "2.7B": "2.7b", "med": "medium", "xlarge": "xl", "XL": "xl", "bfloat16": "bf16",
    "float32": "fp32", "False": "fp32", "True": "mixed", "Triton FA": "triton",
}  # fmt: skip
# Labels that a text may write as 1000.000000; other figures must have the same digits.
NUMERIC_LABELS = {"ranks", "message_mb"}
POWER = re.compile(r"(?<=\d)\s*(?:\\cdot|\\times|\*)\s*10\^\{?(-?\d+)\}?")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
TYPE = re.compile(r"\bfp(?:16|32)\b")


@dataclass(eq=False)
class Row:
    """A row of a file, and which of its columns have been found in the text."""

    file: str
    line: int
    cells: dict[str, str]
    found: set[str] = field(default_factory=lambda: {"source", "note"})

    def missing(self) -> list[str]:
        return [name for name, cell in self.cells.items() if cell and name not in self.found]

    def has(self, wanted: dict[str, str]) -> bool:
        return all(same(name, cell, self.cells.get(name)) for name, cell in wanted.items())


def same(name: str, written: str, cell: str | None) -> bool:
    if name in NUMERIC_LABELS and written and cell:
        return float(written) == float(cell)
    return written == cell


def read_rows(folder: Path) -> list[Row]:
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for line, cells in enumerate(csv.DictReader(file, strict=True), 2):
                rows.append(Row(path.stem, line, cells))
    return rows


def split_cells(line: str) -> list[str]:
    """The cells of a table line, separated by three or more bars or by tabs."""
    line = line.strip()
    if line.count("|") >= 3:
        cells = line.removeprefix("|").removesuffix("|").split("|")
    else:
        cells = line.split("\t")
    return [re.sub(r"[`*~\\]", "", cell).strip() for cell in cells]


def text_tables(lines: Sequence[str]) -> list[list[tuple[int, list[str]]]]:
    """The lines of each table below its header, with line numbers."""
    tables, before = [], False
    for number, line in enumerate(lines, 1):
        cells = split_cells(line)
        if len(cells) < 3:
            before = False
        elif not before:
            tables.append([])
            before = True
        elif any(cell.strip(":- ") for cell in cells):
            tables[-1].append((number, cells))
    return tables


def name_of(written: str) -> str:
    """The spelling in a table for one in a text; units in capitals are kept."""
    if written in EMPTY:
        return ""
    return NAMES.get(written) or (written if written.isupper() else written.lower())


def read_cells(template: str, cells: Sequence[str]) -> tuple[dict[str, str], set[int]] | None:
    """The values that a template such as `{size} | {forward} ± {std} |` reads, and their cells."""
    parts = template.split("|")
    if len(parts) != len(cells):
        return None
    read: dict[str, str] = {}
    claimed = set()
    for index, (part, cell) in enumerate(zip(parts, cells, strict=True)):
        if not part.strip():
            continue
        claimed.add(index)
        pieces = re.split(r"\{(\w+)\}", part.strip())
        if pieces[1::2] and cell in EMPTY:
            read |= dict.fromkeys(pieces[1::2], "")
            continue
        pieces[::2] = map(re.escape, pieces[::2])
        pieces[1::2] = [f"(?P<{name}>.+?)" for name in pieces[1::2]]
        match = re.fullmatch("".join(pieces), cell)
        if match is None:
            return None
        read |= {name: name_of(value) for name, value in match.groupdict().items()}
    return read, claimed


def check_table(
    source: str, table: list[tuple[int, list[str]]], kinds: Sequence[Rows], rows: Sequence[Row]
) -> Iterator[str]:
    """Finds a row for each line of a table and each kind of rows whose template matches it."""
    free = [[row for row in rows if row.file == kind.file] for kind in kinds]
    for number, cells in table:
        left = {index for index, cell in enumerate(cells) if any(map(str.isdigit, cell))}
        for kind, candidates in zip(kinds, free, strict=True):
            fits = read_cells(kind.template, cells)
            if fits is None:
                continue
            read, claimed = fits
            left -= claimed
            wanted = kind.fixed | read
            row = next((row for row in candidates if row.has(wanted)), None)
            if row is None:
                yield f"{source}, line {number}: no row of {kind.file}.csv has {wanted}"
            else:
                row.found |= wanted.keys()
                candidates.remove(row)
        for index in sorted(left):
            yield f"{source}, line {number}: in no file: {cells[index]}"


def tokens_of(line: str) -> list[str]:
    """Figures and precisions of a line: 2 \\cdot 10^{-6} is 2e-6, float16 is fp16."""
    line = POWER.sub(r"e\1", line).lower().replace("float", "fp")
    return re.findall(f"{NUMBER.pattern}|{TYPE.pattern}", line)


def figures_of(row: Row, fixed: dict[str, str]) -> list[str]:
    """The numbers and precisions of a row that must be in the text."""
    return [cell for name, cell in row.cells.items() if name not in {"source", "note", *fixed}
            and (name == "dtype" or NUMBER.fullmatch(cell))]  # fmt: skip


def check_prose(
    source: str, lines: Sequence[str], prose: Prose, rows: Sequence[Row]
) -> Iterator[str]:
    """Finds rows after the anchors, in order, with the figures of each row in one line."""
    start = 0
    for anchor in prose.anchors:
        start = next((i for i in range(start, len(lines)) if anchor in lines[i]), len(lines))
    stream = [
        (i, token)
        for i in range(start, min(start + prose.lines, len(lines)))
        for token in tokens_of(lines[i])
    ]
    after = 0
    left = [row for row in rows if row.file == prose.file and row.missing()]
    for wanted in prose.rows():
        row = next((row for row in left if row.has(wanted) and row.missing()), None)
        figures = figures_of(row, wanted) if row else []
        place = next((p for p in range(after, len(stream)) if stands(figures, stream, p)), None)
        if row is None or (figures and place is None):
            where = f"{source}, {' / '.join(prose.anchors)}"
            yield f"{where}: no row of {prose.file}.csv has {wanted} and its figures"
            return
        if place is not None:
            after = place + 1
        row.found |= row.cells.keys()


def stands(figures: Sequence[str], stream: Sequence[tuple[int, str]], place: int) -> bool:
    """Whether one of the figures is at that position and all others follow it in the same line."""
    number, first = stream[place]
    line = [token for i, token in stream[place:] if i == number]
    return first in figures and not Counter(figures) - Counter(line)


def check(
    texts: dict[str, str],
    rows: Sequence[Row],
    tables: dict[str, Sequence[Sequence[Rows]]],
    prose: dict[str, Sequence[Prose]],
) -> list[str]:
    """All differences between the rows and the texts."""
    found = []
    for source, text in texts.items():
        lines = text.splitlines()
        its = [row for row in rows if row.cells["source"] == source]
        in_text = text_tables(lines)
        known = tables.get(source, [])
        if len(in_text) != len(known):
            found.append(f"{source}: {len(in_text)} tables, {len(known)} are known")
        for table, kinds in zip(in_text, known, strict=False):
            found += check_table(source, table, kinds, its)
        for one in prose.get(source, []):
            found += check_prose(source, lines, one, its)
        for row in its:
            hardware = row.cells["hardware"]
            if hardware not in {"unnamed", "none"} and hardware not in text:
                found.append(f"{row.file}.csv:{row.line}: {source} does not name {hardware}")
    for row in rows:
        if row.missing():
            found.append(f"{row.file}.csv:{row.line}: not found: {', '.join(row.missing())}")
    return found


def read_texts(folder: Path) -> dict[str, str]:
    texts = {}
    for source, number in NUMBERS.items():
        paths = list(folder.glob(f"{number:03}*.txt"))
        if len(paths) != 1:
            sys.exit(f"{folder}: {len(paths)} files {number:03}*.txt for {source}; one is needed")
        texts[source] = paths[0].read_text("utf-8")
    return texts


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python3 tools/check_published.py FOLDER")
    texts = read_texts(Path(sys.argv[1]))
    found = check(texts, read_rows(PUBLISHED), TABLES, PROSE)
    for line in found:
        print(line)
    print(f"{len(texts)} texts; {len(found)} differ")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
