"""The norms figure of files that the program wrote."""

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.figures import norms
from analysis.result_file import opened
from analysis.results import load
from analysis.tables import norm_breaks
from reference_figures import reference

NORMS = ("precision", "--study", "norms", "--device", "cpu", "--quiet", "--output", "n.h5")


@pytest.fixture
def measured(paceline, tmp_path):
    def run(*args):
        done = paceline(*NORMS, *args)
        assert done.code == 0, done.err
        return tmp_path / "n.h5"

    return run


def test_every_norm_dtype_and_mean_has_a_panel(measured, tmp_path, capsys):
    path = measured("--mean", "0,100")
    main(["figures", str(path), "--output", str(tmp_path / "f")])
    written = capsys.readouterr().out.splitlines()
    assert written == [f"{tmp_path}/f/norms.svg", f"{tmp_path}/f/norms.png"]
    drawn = (tmp_path / "f/norms.svg").read_text("utf-8")
    for title in ("LayerNorm, fp16", "LayerNorm, bf16", "RMSNorm, fp16", "RMSNorm, bf16"):
        assert drawn.count(f">{title}<") == 2
    assert drawn.count(">mean 0<") == drawn.count(">mean 100 × scale<") == 4
    assert ">broken above<" in drawn


def test_lines_are_the_errors_with_non_finite_ones_at_the_top(measured):
    path = measured("--norm", "layer_norm", "--norm-dtype", "fp16", "--mean", "0")
    found = norms.norms_of(load([path])[0])
    frame = found.frame.sort_values("scale")
    (axes,) = norms.draw(found).axes
    lines = {line.get_color(): line for line in axes.get_lines() if len(line.get_xdata()) > 2}
    assert len(lines) == 3
    line = lines[norms.ERRORS["rounded_statistics_error"][1]]
    errors = frame["rounded_statistics_error"].to_numpy()
    assert not np.isfinite(errors).all()
    np.testing.assert_array_equal(line.get_xdata(), frame["scale"])
    expected = np.where(np.isfinite(errors), errors, norms.HIGHEST)
    np.testing.assert_allclose(line.get_ydata(), expected)


def test_a_study_without_norms_has_no_figure(paceline, tmp_path, capsys):
    done = paceline("precision", "--study", "dtypes", "--quiet", "--output", "a.h5")
    assert done.code == 0, done.err
    with pytest.raises(SystemExit) as stop:
        main(["figures", str(tmp_path / "a.h5"), "--output", str(tmp_path / "f")])
    assert stop.value.code == 2
    assert "a.h5: nothing to draw: see" in capsys.readouterr().err


def test_published_norms_break_where_their_file_says():
    """/norm_breaks of older files has what is computed here."""
    path = reference("precision-course")
    with opened(path) as f:
        stored = {name: list(f["norm_breaks"][name].asstr()[:]) for name in f["norm_breaks"]}
    computed = norm_breaks.of(load([path])[0])
    assert {name: list(computed[name]) for name in computed} == stored


def test_the_longest_run_of_scales_counts():
    assert norm_breaks.longest_run(np.array([True, False, True, True, False])) == (2, 4)
    assert norm_breaks.longest_run(np.array([True, False, True])) == (0, 1)
    assert norm_breaks.longest_run(np.array([False, False])) == (0, 0)


def test_a_norm_that_breaks_at_every_scale_has_no_range(measured, tmp_path):
    path = measured("--norm", "rms_norm", "--norm-dtype", "fp16", "--mean", "100", "--scale", "1")
    main(["tables", str(path), "--output", str(tmp_path / "t.csv")])
    table = pd.read_csv(tmp_path / "t-norm-breaks.csv", keep_default_na=False)
    assert list(table["statistics"]) == ["float32", "rounded"]
    assert list(table["holds_from"].map(str)) == ["1", ""]
    assert list(table["breaks_at"].map(str)) == ["", ""]
