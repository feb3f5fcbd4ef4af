"""The options of every experiment as Markdown tables, from the program's --help.

python3 tools/option_tables.py > docs/options.md
"""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "build/paceline"

HEAD = """# Options

Made by `python3 tools/option_tables.py > docs/options.md` from what `paceline EXPERIMENT --help`
says. Options marked `a,b` take lists and are axes: the cases are the product of all of them, except
those that do not apply. Options marked `a..b` are numbers and also take ranges:
`128..65536*2` doubles, `64..512+64` adds 64, `1..5` adds 1, `1KB,4KB..1MB*4` is a value and a
range. The end is included if the steps reach it exactly; a range has at most 10,000 values.

`--config F.toml` reads options from a TOML 1.0 file, by their names without `--`: numbers, strings
and booleans, lists as arrays, ranges as strings. The command line overrides the file, and the file
overrides the preset. `--print-config` prints the options given by name as such a file, those of the
preset and the defaults as comments, and runs nothing:

```toml
# paceline model --size small,xl --context 128..1024*2 --steps 20 --memory-timeline --print-config
size = ["small", "xl"]
context = "128..1024*2"
memory-timeline = true
steps = 20
```
"""


def help_of(*command: str) -> str:
    done = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def experiments() -> list[tuple[str, str]]:
    """Name and summary of each experiment, in the order of the overview."""
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
