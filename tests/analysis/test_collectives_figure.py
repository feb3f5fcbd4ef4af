"""The figure of a sweep of all operations, which has factors that some of them lack."""

from pathlib import Path

import numpy as np
import pytest

from analysis.figures import collectives
from analysis.results import load

REFERENCE = Path(__file__).parents[2] / "results/reference"


@pytest.mark.parametrize(
    "name",
    ["collectives-symmetric-h100", pytest.param("collectives-4-h200", marks=pytest.mark.long)],
)
def test_every_series_has_the_curve_of_its_fit(name):
    (results,) = load([REFERENCE / f"{name}.h5.xz"])
    fits = results.file_tables["fit"]
    sizes = results.frame["bytes"].to_numpy(float)
    times = collectives.draw(results).axes[::2]
    operations = results.frame["op"].unique()
    assert len(times) == len(operations)
    for axes, operation in zip(times, operations, strict=True):
        own = fits[fits["op"] == operation]
        curves = [line for line in axes.get_lines() if len(line.get_xdata()) == 60]
        for end, size in ((0, sizes.min()), (-1, sizes.max())):
            expected = 1e6 * (own["latency_s"] + size / own["bandwidth_bytes_per_s"])
            drawn = [curve.get_ydata()[end] for curve in curves]
            np.testing.assert_allclose(sorted(drawn), sorted(expected), err_msg=operation)
