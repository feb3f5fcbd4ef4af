"""Steps of paceline beside PyTorch's: files of bench/peers/train_step_ratios.py as Markdown.

/summary of such a file has a row per measurement: the case (CASE), `software`, `variant`, `exec`
(eager or compiled), `status` and, where that is ok, `step_median_s`.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from . import peer_rows, peers_in_turns
from .formatting import ABSENT, figure, label, lines, printable, text
from .output import write_text
from .result_file import ResultError, hardware, opened, read_table
from .results import as_written
from .tables import formats
from .tables.table import is_number

CASE = ("size", "context", "batch_size", "precision", "attention", "mode")
EXPERIMENT = peer_rows.STEPS
SCHEMA = {
    "schema": "paceline", "schema_version": 2, "software": "paceline", "experiment": EXPERIMENT,
}  # fmt: skip

HEAD = """# Training steps beside PyTorch

Made by `python3 -m analysis peers results/reference/model-compile-peers-* --output
docs/training-steps.md`: the median time of a step in ms, both sides measured in one run on one GPU.

- A size like 512x2048x6x8 is d_model x d_ff x layers x heads.
- paceline runs before and after PyTorch; its time is the slower of the two medians. Where the
  optimizer can run after backward or in it, the first table has the faster of the two.
- In fp16 PyTorch neither scales the loss nor looks for gradients that overflow; paceline does both.
- `captured` is the whole step of eager PyTorch in one CUDA graph, without Python. `torch.compile`
  is its fastest variant, which `variant` names. `SDPA` is the backend of PyTorch's flash attention,
  the fastest at the shape.
- `eager ratio` is the time of paceline eager over that of `captured`; `compiled ratio` is the time
  of paceline compiled over that of PyTorch's fastest variant. Below 1, paceline is faster.
"""

Measured = tuple[float, str]  # seconds and their variant; NaN and a status where there are none


def write(paths: Sequence[Path], target: Path) -> list[Path]:
    with as_written(paths):
        words = document(paths)
    write_text(target, words)
    return [target]


def document(paths: Sequence[Path]) -> str:
    return "\n".join([HEAD, *(section(path) for path in paths)])


def read(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Returns the rows of /summary and the file's attributes."""
    with opened(path) as file:
        attributes = {
            name: (lines if name == "command" else text)(value)
            for name, value in file.attrs.items()
        }
        if attributes.get("experiment") != EXPERIMENT:
            raise ResultError(f"{path}: not of bench/peers/train_step_ratios.py")
        attributes.setdefault("hardware", hardware(file))
        if "runs" in file:  # of every launch that measured cases of the file
            commands = [text(run.attrs["command"]) for run in file["runs"].values()]
            attributes["command"] = "\n".join(dict.fromkeys(commands))
        return read_table(path, file["summary"])[0], attributes


def section(path: Path) -> str:
    frame, attributes = read(path)
    return (
        in_turns(path, frame, attributes)
        if "turn" in frame
        else before_and_after(path, frame, attributes)
    )


IN_TURNS = """Both sides take turns. Times are medians over turns of their medians. The ratio is the
geometric mean of the ratios of pairs, with its 95% interval by Student's t of their logarithms;
below 1, paceline is faster. Steps that update parameters after backward stand beside PyTorch's of
that kind; those that update them in backward, which excludes gradient clipping, beside PyTorch's
fastest of either kind. GB is peak memory."""


def in_turns(path: Path, frame: pd.DataFrame, attributes: dict[str, str]) -> str:
    told = "\n".join([IN_TURNS, *arithmetic(frame)])
    return "\n".join([
        f"## {attributes['hardware']}", "",
        f"`{printable(path.name)}`: paceline {attributes['software_version']} beside "
        f"{', '.join(others(frame))}; {attributes['created']}.", "", told, "",
        *peers_in_turns.tables(frame), "",
        *(f"    {command}" for command in attributes["command"].split("\n")),
    ]) + "\n"  # fmt: skip


def others(frame: pd.DataFrame) -> list[str]:
    software = dict.fromkeys(map(text, frame["software"]))
    return [name for name in software if not name.startswith("paceline") and " " in name]


def before_and_after(path: Path, frame: pd.DataFrame, attributes: dict[str, str]) -> str:
    """Of older files, in which paceline was measured before and after the peer."""
    factors = [name for name in CASE if frame[name].nunique() > 1 or name == "size"]
    groups = [rows for _, rows in frame.groupby(list(CASE), sort=False)]
    names = [[text(rows[name].iloc[0]) for name in factors] for rows in groups]
    variants = list(frame["variant"].unique())
    every = [
        {name: cell(fastest(rows[rows["variant"] == name])) for name in variants} for rows in groups
    ]
    lines = [
        f"## {attributes['hardware']}",
        "",
        caption(path, frame, attributes, factors),
        "",
        *table(factors, names, [at_its_best(rows) for rows in groups]),
        "",
        "Every variant; those not named paceline are PyTorch's:",
        "",
        *table(factors, names, every),
        "",
        *(f"    {command}" for command in attributes["command"].split("\n")),
    ]
    return "\n".join(lines) + "\n"


def caption(
    path: Path, frame: pd.DataFrame, attributes: dict[str, str], factors: Sequence[str]
) -> str:
    same = [f"{label(name)} {text(frame[name].iloc[0])}" for name in CASE if name not in factors]
    made = f"{attributes['software_versions']}; {attributes['created']}"
    parts = [f"`{printable(path.name)}`: {made}."]
    if same:
        parts.append(f"In every case: {', '.join(same)}.")
    return " ".join([*parts, *arithmetic(frame)])


def arithmetic(frame: pd.DataFrame) -> list[str]:
    """Where ours is not PyTorch's."""
    chosen = sorted(set(frame.get("fp32_attention", ())) - {""})
    told = f"Products of paceline's flash attention in fp32: {', '.join(chosen)}."
    return [told] if chosen else []


def fastest(rows: pd.DataFrame) -> Measured:
    """The fastest of these variants; the time of a variant is that of its slowest run."""
    measured = rows[rows["status"] == "ok"]
    if measured.empty:
        return math.nan, "" if rows.empty else rows["status"].iloc[0]
    times = measured.groupby("variant", sort=False)["step_median_s"].max()
    return times.min(), times.idxmin()


def at_its_best(rows: pd.DataFrame) -> dict[str, str]:
    """The cells of one case, by their headers."""
    is_ours = rows["software"].str.startswith("paceline")
    ours, theirs = rows[is_ours], rows[~is_ours]
    times = {
        "paceline eager": fastest(ours[ours["exec"] == "eager"]),
        "paceline compiled": fastest(ours[ours["exec"] == "compiled"]),
        "PyTorch eager": fastest(theirs[theirs["variant"] == "eager"]),
        "captured": fastest(theirs[theirs["variant"] == "captured"]),
        "torch.compile": fastest(theirs[theirs["exec"] == "compiled"]),
    }
    eager, compiled = times["paceline eager"][0], times["paceline compiled"][0]
    return {
        **{name: cell(measured) for name, measured in times.items()},
        "variant": "" if math.isnan(times["torch.compile"][0]) else times["torch.compile"][1],
        "SDPA": next(iter(theirs["sdpa_backend"]), ""),
        "eager ratio": ratio(eager, times["captured"][0]),
        "compiled ratio": ratio(compiled, fastest(theirs)[0]),
    }


def cell(measured: Measured) -> str:
    seconds, name = measured
    return (name or ABSENT) if math.isnan(seconds) else figure(1e3 * seconds)


def ratio(own: float, other: float) -> str:
    return ABSENT if math.isnan(own / other) else f"{own / other:.2f}"


def table(
    factors: Sequence[str], names: Sequence[list[str]], cells: Sequence[dict[str, str]]
) -> list[str]:
    header = [*map(label, factors), *cells[0]]
    rows = [[*name, *row.values()] for name, row in zip(names, cells, strict=True)]
    numeric = [any(map(is_number, column)) for column in zip(*rows, strict=True)]
    return formats.markdown_table(header, rows, numeric)
