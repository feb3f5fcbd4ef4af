"""How the series of a panel look."""

from itertools import product

import numpy as np

from analysis import style
from analysis.panels import log_axes, looks_of


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
