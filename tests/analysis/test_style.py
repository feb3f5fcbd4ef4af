"""Estimated text widths, and shortening of texts that do not fit."""

import pytest
from matplotlib import font_manager, pyplot
from matplotlib.textpath import TextPath

from analysis import style

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
