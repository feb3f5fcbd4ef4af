"""Tables of docs/results.md that are copied from files: each figure is the file's."""

import re
from pathlib import Path

import pytest
from markdown_text import markdown_rows

from analysis import frames

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "docs/results.md").read_text("utf-8")
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def rows_under(head: str, text: str) -> list[list[str]]:
    """The rows of the table whose first row starts with `head`."""
    table = text[text.index(head) :].split("\n\n", maxsplit=1)[0]
    return markdown_rows(table)[2:]


def test_the_steps_beside_pytorch_are_those_of_the_generated_table():
    rows = rows_under("| model | precision | eager | compiled |", RESULTS)
    generated = (ROOT / "docs/training-steps.md").read_text("utf-8")
    table = rows_under("| size         | context |", generated)
    times = {
        (size, precision): row
        for size, context, batch_size, precision, attention, *row in table
        if (context, batch_size, attention) == ("512", "4", "flash")
    }
    assert len(rows) == 10
    for size, precision, *shown in rows:
        *five, variant, _, eager_ratio, compiled_ratio = times[size, precision]
        assert variant == "captured-compile"
        assert shown == [*five, eager_ratio, compiled_ratio], (size, precision)


COLLECTIVES = rows_under("| GPUs | operation | 1 KiB, back-to-back |", RESULTS)


@pytest.fixture(scope="module")
def measured():
    """By the number of GPUs."""
    files = ROOT / "results/reference"
    return {gpus: frames.load(files / f"collectives-{gpus}-h200.h5.xz") for gpus in ("2", "4")}


@pytest.mark.long
@pytest.mark.parametrize("gpus", ["2", "4"])
def test_every_collective_is_checked_and_none_is_wrong(measured, gpus):
    cases = measured[gpus]
    assert len(cases) == 484
    assert set(cases["status"]) == {"ok"}
    assert (cases["wrong_elements"] == 0).all()
    assert set(cases["op"]) == {operation for count, operation, *_ in COLLECTIVES if count == gpus}


@pytest.mark.long
@pytest.mark.parametrize("row", COLLECTIVES, ids=lambda row: "-".join(row[:2]))
def test_the_collectives_are_those_of_their_file(measured, row):
    gpus, operation, *shown = row
    cases = measured[gpus]
    ours = cases[(cases["op"] == operation) & (cases["ranks"] == int(gpus))]
    out_of_place = ours[ours["in_place"] == "no"]
    ours = out_of_place if len(out_of_place) else ours

    def value(column, size, cadence, registration):
        chosen = (ours["bytes"] == size) & (ours["cadence"] == cadence)
        (found,) = ours[chosen & (ours["registration"] == registration)][column]
        return found

    small = [
        (KIB, "back-to-back", "none"), (KIB, "graph", "none"), (KIB, "graph", "symmetric"),
        (MIB, "graph", "none"), (MIB, "graph", "symmetric"),
    ]  # fmt: skip
    large = [(size, "back-to-back", kind)
             for size in (64 * MIB, GIB) for kind in ("none", "symmetric")]  # fmt: skip
    times = [f"{1e6 * value('time_median_s', *case):.2f}" for case in small]
    rates = [f"{value('busbw_bytes_per_s', *case) / 1e9:.0f}" for case in large]
    assert shown == times + rates


def test_the_files_that_are_named_exist():
    names = re.findall(r"`(?:results/reference/)?([\w-]+-(?:h100|h200)\.\w+(?:\.xz)?)`", RESULTS)
    published = {path.name for path in (ROOT / "results/reference").iterdir()}
    assert len(names) > 20
    assert {name for name in names if name not in published} == set()
