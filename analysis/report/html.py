"""The report as one HTML file with embedded images, without external resources or scripts."""

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

from .. import style
from ..output import write_text
from ..tables.table import Table
from . import environment
from .section import LONGEST_OPEN, REPEATED, Drawing, Section, first_figures
from .terms import DIFFERENCES, NO_SUMMARY, TERMS, WRITE_UPS

if TYPE_CHECKING:
    from . import Report

STYLESHEET = Path(__file__).with_name("report.css")
HALF = (8.4, 6.7)  # inches: figures up to this size are side by side in print


def write(report: "Report", target: Path) -> list[Path]:
    write_text(target, page(report))
    return [target]


def page(report: "Report") -> str:
    counted = enumerate(zip(report.sections, first_figures(report.sections), strict=True), 1)
    sections = [of_section(number, one, first) for number, (one, first) in counted]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(report.title)}</title>",
            f"<style>{STYLESHEET.read_text(encoding='utf-8')}</style></head>",
            "<body><main>",
            f"<h1>{escape(report.title)}</h1>",
            f"<p>{escape(report.origin)}</p>",
            *summary(report),
            *terms(),
            *contents(report),
            *sections,
            *repeats(report),
            *of_environment(report),
            "</main></body></html>",
            "",
        ]
    )


def summary(report: "Report") -> list[str]:
    told = [section for section in report.sections if section.headline]
    lines = ['<section id="summary"><h2>Summary</h2>']
    if told:
        items = [f'<li><b><a href="#{s.name}">{escape(s.title)}</a></b> {escape(s.headline)}</li>'
                 for s in told]  # fmt: skip
        lines += [f"<p>{DIFFERENCES}</p>", "<ul>", *items, "</ul>"]
    else:
        lines.append(f"<p>{NO_SUMMARY}</p>")
    return [*lines, "</section>"]


def repeats(report: "Report") -> list[str]:
    if not report.repeats:
        return []
    items = [f"<li>{with_code(one.sentence)}</li>" for one in report.repeats]
    return ['<section id="repeats"><h2>Settings in several files</h2>',
            f"<p>{escape(REPEATED)}</p><ul>", *items, "</ul></section>"]  # fmt: skip


def with_code(words: str) -> str:
    """`command` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def terms() -> list[str]:
    items = [f"<dt>{escape(term)}</dt><dd>{escape(told)}</dd>" for term, told in TERMS.items()]
    return ['<section id="terms"><h2>Terms</h2><dl>', *items, "</dl>",
            f"<p>{escape(WRITE_UPS)}</p></section>"]  # fmt: skip


def contents(report: "Report") -> list[str]:
    lines = ['<nav id="contents"><h2>Contents</h2><ol>']
    for section in report.sections:
        note = "" if section.is_measured else ' <span class="absent">not measured</span>'
        lines.append(f'<li><a href="#{section.name}">{escape(section.title)}</a>{note}</li>')
    return [*lines, '</ol><p><a href="#environment">Files and commands</a></p></nav>']


def of_section(number: int, section: Section, first_figure: int) -> str:
    lines = [
        f'<section id="{section.name}"><h2>{number}. {escape(section.title)}</h2>',
        f'<p class="question"><b>{escape(section.problem)}.</b> {escape(section.question)}</p>',
    ]
    if not section.is_measured:
        lines.append(
            '<p class="absent">Not measured in these files. This measures it: '
            f"<code>{escape(section.command)}</code></p>"
        )
    if section.lead:
        lines.append(listed(section.lead, "answer"))
    if section.rest:
        lines += [folding(f"More in sentences ({len(section.rest)})"),
                  '<div class="folded sentences">',
                  listed(section.rest, "more"), "</div>"]  # fmt: skip
    ahead, others = section.tables[: section.ahead], section.tables[section.ahead :]
    lines += [of_table(section.name, table) for table in ahead]
    lines += [image(drawing, index) for index, drawing in enumerate(section.drawings, first_figure)]
    lines += [of_table(section.name, table) for table in (*others, *section.published)]
    return "\n".join([*lines, "</section>"])


def listed(sentences: Sequence[str], kind: str) -> str:
    return "".join([f'<ul class="{kind}">', *(f"<li>{escape(s)}</li>" for s in sentences), "</ul>"])


def folding(title: str) -> str:
    """A details element that opens and closes the element of the class `folded` after it. The text
    is not inside the details element, because no style sheet can open a closed one in print; so the
    style sheet hides the text on the screen while the details element is closed."""
    return f"<details><summary>{title}</summary></details>"


def image(drawing: Drawing, number: int) -> str:
    """A separate image, so that identifiers of different figures cannot collide."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(style.SETTINGS):
        drawing.figure.savefig(buffer, format="svg", metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    caption, source = escape(drawing.caption), escape(drawing.source)
    width, height = drawing.figure.get_size_inches()
    is_half = width <= HALF[0] and height <= HALF[1]
    shape = "tall" if height > width else "half" if is_half else ""
    named = f' class="{shape}"' if shape else ""
    return (
        f'<figure id="figure-{escape(drawing.name)}"{named}><img alt="{caption}" '
        f'src="data:image/svg+xml;base64,{data}"><figcaption><b>Figure {number}.</b> {caption} '
        f"<small>{source}</small></figcaption></figure>"
    )


def of_table(section: str, table: Table) -> str:
    """The table, folded if it has many rows or none of ours."""
    title = escape(table.title)
    opening, wrapper = f"<h3>{title}</h3>", "<div>"
    if table.is_aside or len(table.rows) > LONGEST_OPEN:
        rows = f"{len(table.rows)} row{'s' * (len(table.rows) != 1)}"
        opening = folding(f"{title} ({rows})")
        wrapper = '<div class="folded">'
    return "\n".join(
        [
            f'<div class="table" id="{escape(section)}-{escape(table.name)}">{opening}{wrapper}',
            f'<p class="caption">{escape(" ".join(table.caption))}</p>',
            f'<div class="wide"><table><thead>{line("th", table.header, table.numeric)}</thead>',
            *(line("td", row, table.numeric) for row in table.rows),
            "</table></div></div></div>",
        ]
    )


def line(tag: str, cells: Sequence[str], numeric: Sequence[bool]) -> str:
    parts = (
        f"<{tag}{kind(number)}>{escape(cell)}</{tag}>"
        for cell, number in zip(cells, numeric, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"


def kind(is_numeric: bool) -> str:
    return ' class="number"' if is_numeric else ""


def of_environment(report: "Report") -> list[str]:
    commands = "\n".join(environment.commands(report.runs))
    return [
        '<section id="environment"><h2>Files and commands</h2>',
        of_table("environment", environment.table(report.runs)),
        f"<pre>{escape(commands)}</pre>" if commands else "",
        "</section>",
    ]
