"""docs/file-format.md: the contents of a result file, from the output of `paceline columns`.

python3 tools/file_format.py > docs/file-format.md
"""

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(__file__).parents[1] / "build/paceline"
FACTORS = "factors of "
ATTRIBUTES = " attributes"
# Groups at the root; all others are in the group of a case.
OF_FILE = (
    "/", "runs/<run>", "environment", "ranks", "summary", "fit", "fit_residuals", "speed_up",
    "predict", "recompute", "dtypes",
)  # fmt: skip

HEAD = """# The result file

Made by `python3 tools/file_format.py > docs/file-format.md` from what `paceline columns` says. Every
dataset carries its `unit` and `description` as attributes, so the file documents itself; this page
lists the same texts.

A result file is HDF5, schema version 2. Version 1 and files of version 2 without `/runs` or
descriptions are still read by the analysis.

- `/summary` is a table: a one-dimensional dataset for each column, a value for each case. All other
  groups of columns are tables, too.
- `/cases/<id>` is a case. Its attributes are its factors: what was asked for.
- `/cases/<id>/samples/<phase>` are seconds `[rank, repetition]`: every repetition on every rank.
- `/runs/<run>` is a launch of the program: command, environment and ranks. `--resume` adds one, and
  the attribute `run` of a case names the run that measured it. The root's attributes, `/environment`
  and `/ranks` describe the newest run.
- Units: `1` is dimensionless, such as a ratio or a count; flags are 0 and 1; `text` is text.
- Text is UTF-8 of variable length. Timestamps are ISO 8601, UTC.
- Data that a case lacks is absent: no group, no column, no attribute. In a column that other cases
  need, it is NaN or an empty text, never 0.

## Reading it

With pandas and h5py:

```python
{readme}
```

`pip install ./analysis` gives `paceline_analysis`, which does the same and keeps the units:

```python
import paceline_analysis

table = paceline_analysis.load("results/tiny.h5")  # a row per case
table.attrs["units"]["step_median_s"]  # "s"
samples = paceline_analysis.samples("results/tiny.h5", table["case"][0])
samples.groupby("phase")["seconds"].median()  # phase, rank, repetition, seconds, warmup
```

| tool | what it shows |
|---|---|
| `h5ls -r F.h5` | every group and dataset with its shape |
| `h5ls -v F.h5/summary` | every column, its type and the names `unit` and `description`; HDF5 1.10 does not show their text |
| `h5dump -A -g /summary F.h5` | every column with its unit and description |
| `h5dump -d /cases/<id>/samples/step F.h5` | seconds, unit, `DIMENSION_LABELS` rank and repetition, and in `DIMENSION_LIST` their scales |
| h5py | `dataset.dims[0].label` is `rank`, `dataset.dims[1][0]` the scale |
| `ncdump -h F.h5` | samples as `double step(rank, repetition)`; columns of tables have dimensions without names (`phony_dim_0`), flags among the attributes are left out |
| xarray | `xarray.open_dataset("F.h5", group="cases/<id>/samples")`, with netCDF4 or h5netcdf as engine: variables with the dimensions `rank` and `repetition`; `open_datatree` reads the whole file with netCDF4, and gives up with h5netcdf, which takes a table's column `rank` for the case's dimension |
| `pandas.read_hdf` | nothing: it reads only files written by PyTables |
"""  # noqa: E501


class Line(NamedTuple):
    group: str
    name: str
    unit: str
    text: str


def lines() -> list[Line]:
    done = subprocess.run([PROGRAM, "columns"], capture_output=True, text=True, check=True)
    return [Line(*line.split("\t")) for line in done.stdout.splitlines()]


def readme_lines() -> str:
    """The Python of README.md."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    return text.split("```python\n")[1].split("\n```")[0]


def place(group: str) -> str:
    """The path in a file of a group of descriptions."""
    path, is_attributes = group.removesuffix(ATTRIBUTES), group.endswith(ATTRIBUTES)
    if path.startswith("/"):
        return "`/`, attributes"
    at = path if path in OF_FILE or path.startswith("cases/") else f"cases/<id>/{path}"
    return f"`/{at}`, attributes" if is_attributes else f"`/{at}/`"


def cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("*", r"\*").replace("<", "&lt;")


def tables(described: list[Line]) -> list[str]:
    parts = []
    for group, members in groupby(described, key=lambda line: line.group):
        rows = list(members)
        parts.append(f"\n## {place(group)}\n")
        if not rows[0].name:
            parts.append(f"\n{rows.pop(0).text}\n")
        if rows:
            parts.append("\n| name | unit | what it is |\n|---|---|---|\n")
        parts += [f"| `{r.name}` | {r.unit} | {cell(r.text)} |\n" for r in rows]
    return parts


def factors(described: list[Line]) -> list[str]:
    """A table of factors; factors that several experiments share are listed once."""
    by_meaning: dict[tuple[str, str, str], list[str]] = {}
    for line in described:
        experiment = line.group.removeprefix(FACTORS)
        by_meaning.setdefault((line.name, line.unit, line.text), []).append(experiment)
    parts = [
        "\n## Factors\n\nAttributes of `/cases/<id>`, where they apply, and columns of `/summary`: "
        "the options of the same names. Where no unit stands, it is `1` or `text`.\n"
        "\n| name | unit | what it is | of |\n|---|---|---|---|\n"
    ]
    parts += [
        f"| `{name}` | {unit} | {cell(text)} | {', '.join(experiments)} |\n"
        for (name, unit, text), experiments in by_meaning.items()
    ]
    return parts


def document() -> str:
    all_lines = lines()
    of_factors = [line for line in all_lines if line.group.startswith(FACTORS)]
    others = [line for line in all_lines if not line.group.startswith(FACTORS)]
    head = HEAD.replace("{readme}", readme_lines())
    return "".join([head, *tables(others), *factors(of_factors)])


if __name__ == "__main__":
    sys.stdout.write(document())
