"""Reading Markdown in tests."""


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of all lines of tables: the header, the rule, and the rows."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
