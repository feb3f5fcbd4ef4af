"""The layout of figures: the thresholds for unit, panels and axis, tested at and next to each; the
looks of series; the widths of texts."""

from itertools import product

import h5py
import numpy as np
import pandas as pd
import pytest
from matplotlib import font_manager, pyplot
from matplotlib.textpath import TextPath

from analysis import layout, style
from analysis.panels import log_axes, looks_of
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


def test_a_caption_has_the_command_without_options_about_the_file(make_file):
    path = make_file([case({"size": "a"}, steps(1.0))])
    of_file = "--output /tmp/a.h5 '--output=b c.h5' --output 'd e.h5' --resume --quiet"
    options = f"{of_file} --steps 3 --resumed --force"
    with h5py.File(path, "r+") as file:
        file.attrs["command"] = f"paceline model {options}\npaceline zero --output c.h5"
    line = layout.source(load([path])[0])
    assert line.endswith(": paceline model --steps 3 --resumed; paceline zero")


def test_the_same_factors_have_the_same_color_if_there_are_too_few_colors():
    keys = list(product(("none", "symmetric"), ("graph", "back-to-back"), ("yes", "no", "")))
    looks = looks_of(keys)
    assert len(set(looks.values())) == len(keys)
    for key in keys:
        assert looks[key][0] == looks[*key[:2], "yes"][0]
        assert looks[key][1] == looks["none", "graph", key[2]][1]
    assert len({looks[key][0] for key in keys}) == 4


def test_every_series_has_a_color_of_its_own_if_there_are_enough():
    keys = list(product("abc", "de"))
    looks = looks_of(keys)
    assert [color for color, _ in looks.values()] == list(style.SERIES[: len(keys)])
    assert len({marker for _, marker in looks.values()}) == len(keys)


def test_series_of_one_factor_differ_beyond_the_colors():
    keys = [(str(n),) for n in range(3 * len(style.SERIES))]
    assert len(set(looks_of(keys).values())) == len(keys)


def test_only_the_ticks_with_a_label_are_on_logarithmic_axes():
    axes = style.page(4, 3).axes(0.5, 0.5, 3, 2)
    log_axes(axes, [128, 256], np.array([40.0, 90.0]))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [axis.get_minorticklocs().tolist() for axis in (axes.xaxis, axes.yaxis)] == [[], []]


REASON = "about 54.0 MB are needed, 40.0 MB are available; 'forward/block 0' asked for 16.8 MB"


@pytest.mark.parametrize("words", ["j", "1,700 ms", "34.0 ms, mismatch", REASON])
@pytest.mark.parametrize(("size", "weight"), [(style.TEXT, "normal"), (style.TITLE, "bold")])
def test_text_width_is_an_upper_bound_within_6_percent(words, size, weight):
    with pyplot.rc_context(style.SETTINGS):
        face = font_manager.FontProperties(size=size, weight=weight)
        drawn = TextPath((0, 0), words, prop=face).get_extents().x1 / 72
        assert drawn <= style.text_width(words, size, weight) <= 1.06 * drawn + 0.02


@pytest.mark.parametrize("kept", [0, 1, 7, 40, 70])
def test_text_is_cut_where_it_no_longer_fits(kept):
    room = style.text_width(REASON[:kept] + "…", style.SMALL)
    assert style.shorten(REASON, room) == REASON[:kept].rstrip(" .,;:/") + "…"


def test_text_that_fits_is_not_cut():
    assert style.shorten(REASON, style.text_width(REASON, style.SMALL)) == REASON


def test_shortening_measures_a_long_text_few_times(monkeypatch):
    calls = []
    measure = style.text_width
    monkeypatch.setattr(style, "text_width", lambda *words: calls.append(words) or measure(*words))
    style.shorten(REASON * 10, 1.0)
    assert len(calls) <= 12
