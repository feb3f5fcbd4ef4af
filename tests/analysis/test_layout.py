"""The thresholds for a figure's unit, panels and axis, tested at and next to each threshold."""

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis import layout
from analysis.figures import warmup
from analysis.results import load
from synthetic import case


def steps(seconds):
    return {"step": [[seconds] * 6]}


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [
        ([1.0, 10.0], ("s", 1.0)),
        ([np.nextafter(1, 0), 10.0], ("ms", 1e3)),
        ([1.0, np.nextafter(10, 0)], ("ms", 1e3)),
        ([np.nan, 1.0, 10.0], ("s", 1.0)),
        ([np.nan], ("ms", 1e3)),
    ],
)
def test_the_unit_of_time(seconds, unit):
    assert layout.time_unit(pd.Series(seconds)) == unit


@pytest.mark.parametrize(
    ("seconds", "panels"),
    [
        ([1.0] * 16, 1),
        ([1.0] * 18, 2),
        ([1.0, 1.0, 1.0, 20.0], 1),
        ([1.0, 1.0, 1.0, np.nextafter(20, 21)], 2),
    ],
)
def test_figures_split_into_panels_above_16_cases_or_a_ratio_of_20(make_file, seconds, panels):
    half = len(seconds) // 2
    cases = [
        case({"size": "a" if index < half else "b", "context": index % half}, steps(value))
        for index, value in enumerate(seconds)
    ]
    assert len(layout.panels_of(load([make_file(cases)])[0])) == panels


@pytest.mark.parametrize(
    ("count", "first", "relative", "logarithmic"),
    [(8, 4.0, False, True), (9, np.nextafter(4, 0), True, False)],
)
def test_the_warm_up_axis(make_file, count, first, relative, logarithmic):
    cases = [
        case({"size": "a", "context": index}, steps(1.0), {"step": [[first]]})
        for index in range(count)
    ]
    axis = warmup.axis_for(load([make_file(cases)])[0])
    assert (axis.relative, axis.logarithmic) == (relative, logarithmic)


@pytest.mark.parametrize(("ranks", "entries"), [(1, 0), (2, 2), (4, 4), (5, 2)])
def test_ranks_have_colours_up_to_four(make_file, ranks, entries):
    measured = {"step": [[0.01] * 6] * ranks}
    path = make_file([case({"size": "a"}, measured, measured)])
    assert len(warmup.legend(load([path])[0])) == entries


def test_a_caption_has_the_command_without_options_about_the_file(make_file):
    path = make_file([case({"size": "a"}, steps(1.0))])
    of_file = "--output /tmp/a.h5 '--output=b c.h5' --output 'd e.h5' --resume --quiet"
    options = f"{of_file} --steps 3 --resumed --force"
    with h5py.File(path, "r+") as file:
        file.attrs["command"] = f"paceline model {options}\npaceline zero --output c.h5"
    (line,) = layout.sources(load([path])[0])
    assert line.endswith(": paceline model --steps 3 --resumed; paceline zero")
