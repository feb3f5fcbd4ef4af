"""The files in results/reference/: their values, and the figures drawn of them once a session."""

import json
from functools import cache
from pathlib import Path

import h5py
import pandas as pd

from analysis import figures
from analysis.result_file import opened, stem
from analysis.results import load

REFERENCE = Path(__file__).parents[2] / "results/reference"
FILES = sorted(REFERENCE.iterdir())


@cache
def results_of(path):
    (results,) = load([path])
    return results


@cache
def figures_of(path):
    return dict(figures.of(results_of(path)))


@cache
def figure_of(path, name):
    """One of them alone: others of a large file take seconds."""
    ((_, drawn),) = figures.of(results_of(path), {name})
    return drawn


@cache
def raw(path):
    """/summary of an HDF5 file or the rows of a .jsonl file, with the names of schema version 2."""
    return stored(path).rename(columns={"communication_sent_bytes": "sent_bytes"})


def stored(path):
    if path.suffix == ".jsonl":
        rows = pd.DataFrame([json.loads(line) for line in path.read_text("utf-8").splitlines()])
        return with_bandwidths(rows) if "op" in rows else rows
    with opened(path) as file:
        return pd.DataFrame(
            {
                name: column.asstr()[:] if h5py.check_string_dtype(column.dtype) else column[:]
                for name, column in file["summary"].items()
            }
        )


def with_bandwidths(rows):
    """All rows are of all_reduce; other software's have only times."""
    assert set(rows["op"]) == {"all_reduce"}
    algorithm = rows["algbw_bytes_per_s"].fillna(rows["bytes"] / rows["time_median_s"])
    bus = rows["busbw_bytes_per_s"].fillna(algorithm * (2 * (rows["ranks"] - 1) / rows["ranks"]))
    return rows.assign(algbw_bytes_per_s=algorithm, busbw_bytes_per_s=bus)


def reference(name):
    """The file of an H200, or of an H100 if there is none."""
    named = {stem(path): path for path in FILES}
    return named.get(f"{name}-h200") or named[f"{name}-h100"]
