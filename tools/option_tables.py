"""The options of every experiment as Markdown tables, from what the program's --help says.

python3 tools/option_tables.py > docs/options.md
"""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "build/paceline"

HEAD = """# Options

Made by `python3 tools/option_tables.py > docs/options.md` from what `paceline EXPERIMENT --help`
says. Options of the kind `a,b` take lists and are axes: the cases are the product of all of them,
less those that do not apply.
"""


def help_of(*command: str) -> str:
    done = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def experiments() -> list[tuple[str, str]]:
    """Name and summary of each, as the overview lists them."""
    return re.findall(r"^  (\w+) +(.+)$", help_of(), re.MULTILINE)


def rows(text: str) -> list[tuple[str, str, str]]:
    """Option, meaning and default."""
    found = []
    for option, meaning in re.findall(r"^  (--[\w-]+)(?: \.\.\.)? +(.+)$", text, re.MULTILINE):
        default = re.search(r" ?\[([^\[\]]*)\]$", meaning)
        found.append(
            (option, meaning[: default.start()] if default else meaning,
             default.group(1) if default else "")
        )  # fmt: skip
    return found


def document() -> str:
    parts = [HEAD]
    for name, summary in experiments():
        parts.append(f"\n## {name}\n\n{summary}\n")
        table = rows(help_of(name))
        if not table:
            continue
        parts.append("\n| option | meaning | default |\n|---|---|---|\n")
        parts += [f"| `{o}` | {m.replace('|', '&#124;')} | {d} |\n" for o, m, d in table]
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(document())
