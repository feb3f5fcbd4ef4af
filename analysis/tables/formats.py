"""Tables as Markdown, LaTeX and CSV."""

from collections.abc import Sequence

from .table import Table

# Characters with a meaning in LaTeX, and their escapes.
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "“": "``", "”": "''",
    "±": r"$\pm$", "×": r"$\times$", "→": r"$\to$", "µ": r"$\mu$",
}  # fmt: skip


def markdown(table: Table) -> str:
    lines = markdown_table(table.header, table.rows, table.numeric)
    commands = [f"    {command}" for command in table.commands]
    parts = [f"## {table.title}", "", " ".join(table.caption), "", *lines]
    return "\n".join([*parts, *(["", *commands] if commands else [])]) + "\n"


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


def latex(table: Table) -> str:
    lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in [table.header, *table.rows]]
    commands = [rf"\texttt{{{escape_latex(command)}}}" for command in table.commands]
    title = f"{table.title}."
    caption = " ".join([*map(escape_latex, [title, *table.caption]), *commands])
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


def csv(table: Table) -> str:
    return table.data.to_csv(index=False, lineterminator="\n")
