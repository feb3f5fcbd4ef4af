"""The table of what 0, 1, 2 and 5 warm-up steps give."""

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.result_file import opened
from analysis.results import load
from analysis.tables import warmup
from reference_figures import reference
from synthetic import case


@pytest.mark.long
def test_published_cases_have_the_warm_up_that_their_file_stores():
    """/warmup of older files, whose cases are parts of one series, has what is computed here."""
    path = reference("model-warmup")
    computed = warmup.of(load([path])[0])
    assert list(computed["warmup_steps"]) == [0, 1, 2, 5] * 5
    with opened(path) as f:
        stored = {name: f["warmup"][name][:] for name in f["warmup"] if name != "case"}
    assert set(stored) == set(computed) - {"size", "warmup_steps"}
    for name, values in stored.items():
        np.testing.assert_allclose(computed[name], values, rtol=1e-12)


def test_warm_up_steps_are_those_from_the_first_on(make_file, tmp_path):
    study = "build/paceline model --preset warmup"
    steps = {"step": [[1.0, 2.0, 3.0]]}
    only = case({"size": "a", "ranks": 1}, steps, {"step": [[9.0, 5.0]]}, summary={"run": "1"})
    path = make_file([only], command=study)
    main(["tables", str(path), "--output", str(tmp_path / "t.csv")])
    table = pd.read_csv(tmp_path / "t-warmup.csv")
    # 5 warm-up steps leave none of the 5; 1 and 2 leave 4 and 3.
    assert list(table["warmup_steps"]) == [0, 1, 2]
    assert list(table["step_mean_s"]) == [(9 + 5 + 1) / 3, (5 + 1 + 2) / 3, 2]


@pytest.mark.parametrize(("runs", "ranks", "cold"), [("12", 1, 2), ("11", 1, 0), ("12", 2, 0)])
def test_a_launch_of_one_rank_for_each_case_starts_cold(make_file, runs, ranks, cold):
    cases = [
        case(
            {"size": size, "ranks": ranks}, {"step": [[1.0] * 9]}, {"step": [[2.0]]},
            summary={"run": run},
        )
        for size, run in zip("ab", runs, strict=True)
    ]  # fmt: skip
    computed = warmup.of(load([make_file(cases)])[0])
    assert len(computed) == cold * 2  # with 0 and 1 warm-up steps
