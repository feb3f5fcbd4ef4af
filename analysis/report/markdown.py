"""The report as Markdown, its images in a folder beside it."""

from pathlib import Path
from typing import TYPE_CHECKING

from .. import figures
from ..output import write_text
from ..tables import formats
from ..tables.table import Table
from . import environment
from .section import REPEATED, Section, first_figures
from .terms import DIFFERENCES, NO_SUMMARY, TERMS, WRITE_UPS

if TYPE_CHECKING:
    from . import Report


def write(report: "Report", target: Path) -> list[Path]:
    folder = target.with_name(f"{target.stem}-images")
    images = [
        path
        for section in report.sections
        for drawing in section.drawings
        for path in figures.save(drawing.figure, [folder / f"{drawing.name}.svg"])
    ]
    parts = [
        f"# {report.title}",
        "",
        report.origin,
        "",
        *summary(report),
        *terms(),
        *contents(report),
    ]
    counted = zip(report.sections, first_figures(report.sections), strict=True)
    for number, (section, first) in enumerate(counted, 1):
        parts += of_section(number, section, folder.name, first)
    parts += repeats(report)
    parts += ["## Environment", "", *table_lines(environment.table(report.runs)), ""]
    parts += [f"    {command}" for command in environment.commands(report.runs)]
    write_text(target, "\n".join(parts) + "\n")
    return [target, *images]


def summary(report: "Report") -> list[str]:
    told = [f"- **[{s.title}](#{s.name})** {s.headline}" for s in report.sections if s.headline]
    return ["## Summary", "", *([DIFFERENCES, "", *told] if told else [NO_SUMMARY]), ""]


def repeats(report: "Report") -> list[str]:
    if not report.repeats:
        return []
    items = [f"- {one.sentence}" for one in report.repeats]
    return ["## Settings in several files", "", REPEATED, "", *items, ""]


def terms() -> list[str]:
    items = [f"- **{term}**: {told}" for term, told in TERMS.items()]
    return ["## Terms", "", *items, "", WRITE_UPS, ""]


def contents(report: "Report") -> list[str]:
    lines = ["## Contents", ""]
    for number, section in enumerate(report.sections, 1):
        note = "" if section.is_measured else " (not measured)"
        lines.append(f"{number}. [{section.title}](#{section.name}){note}")
    return [*lines, ""]


def of_section(number: int, section: Section, folder: str, first_figure: int) -> list[str]:
    lines = [f'<a id="{section.name}"></a>', "", f"## {number}. {section.title}", ""]
    lines += [f"*{section.problem}.* {section.question}", ""]
    if not section.is_measured:
        lines += [f"Not measured in these files. This measures it: `{section.command}`", ""]
    lines += [*(f"- {sentence}" for sentence in section.lead), ""]
    if section.rest:
        lines += ["### More in sentences", "", *(f"- {line}" for line in section.rest), ""]
    ahead, others = section.tables[: section.ahead], section.tables[section.ahead :]
    lines += [line for table in ahead for line in titled(table)]
    for index, drawing in enumerate(section.drawings, first_figure):
        lines += [f"![{drawing.caption}]({folder}/{drawing.name}.svg)", ""]
        lines += [f"Figure {index}. {drawing.caption} ({drawing.source})", ""]
    return [*lines, *(line for table in (*others, *section.published) for line in titled(table))]


def titled(table: Table) -> list[str]:
    return [f"### {table.title}", "", " ".join(table.caption), "", *table_lines(table), ""]


def table_lines(table: Table) -> list[str]:
    return formats.markdown_table(table.header, table.rows, table.numeric)
