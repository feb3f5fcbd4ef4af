"""Tables and figures of a file that the program wrote on two ranks."""

import csv
from math import isnan

import h5py
import pytest

from analysis.__main__ import main
from conftest import made
from result_files import rows
from synthetic import statistics

PHASES = {"forward": ["forward"], "train-step": ["forward", "backward", "optimizer"]}
STEPS = 11  # the interval of eleven samples extends from the third to the tenth


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Two modes by two contexts; the second context does not fit."""
    return made(
        *(tmp_path_factory.mktemp("own") / "own.h5", "model", "--size", "tiny", "--vocab", 128),
        *("--context", "8,512", "--mode", "forward,train-step", "--memory-limit", "8MB"),
        *("--device", "cpu", "--threads", 1, "--warmup", 1, "--steps", STEPS, "--quiet"),
        ranks=2,
    )


def test_summary_statistics_are_those_of_the_samples(own):
    with h5py.File(own) as file:
        for row in rows(own):
            samples = file["cases"][row["case"]].get("samples", {})
            assert set(samples) == ({*PHASES[row["mode"]], "step"} if samples else set())
            for phase, values in samples.items():
                assert values.shape == (2, STEPS)
                for name, expected in statistics(values[:]).items():
                    assert row[f"{phase}_{name}_s"] == pytest.approx(expected, rel=1e-12)


def test_csv_has_the_figures_of_the_summary(own, tmp_path):
    main(["tables", str(own), "--output", str(tmp_path / "table.csv")])
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    expected = rows(own)
    assert [row["status"] for row in expected] == ["ok", "ok", "oom", "oom"]
    for cells, row in zip(found, expected, strict=True):
        assert (cells["context"], cells["mode"]) == (str(row["context"]), row["mode"])
        assert (cells["status"], cells["reason"]) == (row["status"], row["reason"])
        want = {name: row[name] for name in ("tokens_per_s", "peak_bytes")}
        for phase in ("forward", "backward", "optimizer", "step"):
            for name in ("median", "ci_low", "ci_high"):
                want[f"{phase}_{name}_s"] = row[f"{phase}_{name}_s"]
        for name, value in want.items():
            if isnan(value):
                assert cells[name] == ""
            else:
                assert float(cells[name]) == pytest.approx(value, rel=1e-12)
