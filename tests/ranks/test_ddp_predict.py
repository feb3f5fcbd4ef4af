"""`ddp --predict`: the bucket equation, from rates of a file of `collectives --fit`, and the
sweep."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import made
from plan_output import rates
from result_files import rows

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
TINY = ("ddp", "--size", "tiny", *CPU)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A file of collectives --fit."""
    return made(
        *(tmp_path_factory.mktemp("fit") / "fit.h5", "collectives", *CPU[:-3], "--op"),
        *("all_gather,all_reduce", "--bytes", "1KB,100KB", "--dtype", "float32,bfloat16"),
        *("--cadence", "barrier,back-to-back", "--ranks", "1,2", "--fit", "--warmup", 0),
        *("--steps", 1, "--memory-limit", "20MB"),
        ranks=2,
    )


@pytest.fixture
def fitted(tmp_path, measured):
    """Rates of a file in which every fit has different figures, with the given ones."""
    path = Path(shutil.copy(measured, tmp_path / "fit.h5"))
    with h5py.File(path, "r+") as f:
        fit = f["fit"]
        fit["cadence"][:] = fit["cadence"][:][::-1]  # the wanted fit is not the first
        place = np.arange(len(fit["op"]))
        fit["latency_s"][:] = 1e-5 * (1 + place)
        fit["bandwidth_bytes_per_s"][:] = 1e9 * (2 + place)
        columns = [fit[name].asstr()[:] for name in ("op", "dtype", "cadence")]
        keys = zip(*columns, fit["ranks"][:], strict=True)
        links = zip(fit["latency_s"][:], fit["bandwidth_bytes_per_s"][:], strict=True)
        figures = dict(zip(keys, links, strict=True))
    assert len(figures) == 2 * 2 * 2 * 2
    return rates(path), figures


def test_prediction_beside_the_sweep(paceline, tmp_path, fitted):
    """Only for bucketed, from the back-to-back all_reduce with this dtype on 2 ranks."""
    path, fits = fitted
    done = paceline(
        *(*TINY, "--context", 16, "--vocab", 128, "--warmup", 0, "--steps", 3),
        *("--sync", "naive,bucketed", "--bucket-mb", "0.01,1", "--comm-dtype", "fp32,bf16"),
        *("--predict", path),
        ranks=2,
    )
    assert done.code == 0, done.err
    table = [row for row in rows(tmp_path / "out.h5") if row["sync"] == "bucketed"]
    assert len(table) == 4
    with h5py.File(tmp_path / "out.h5") as f:
        predict = {name: column[:] for name, column in f["predict"].items()}
        assert list(predict["case"].astype(str)) == [row["case"] for row in table]
    for i, row in enumerate(table):
        dtype = {"fp32": "float32", "bf16": "bfloat16"}[row["comm_dtype"]]
        latency, bandwidth = fits["all_reduce", dtype, "back-to-back", 2]
        n, s = row["communication_calls"], row["message_bytes"]
        assert predict["bucket_mb"][i] == row["bucket_mb"]
        assert predict["buckets"][i] == n
        overhead = n * latency + s / (n * bandwidth)
        assert predict["predicted_overhead_s"][i] == pytest.approx(overhead)
        best = min(s, np.sqrt(s * latency * bandwidth)) / 1e6
        assert predict["predicted_best_bucket_mb"][i] == pytest.approx(best)
        assert predict["measured_exposed_s"][i] == row["communication_exposed_median_s"] > 0
    assert "predict:" in done.out


def test_resumed_cases_are_predicted_too(paceline, tmp_path, fitted):
    path, _ = fitted
    args = (*TINY, "--context", 16, "--vocab", 128, "--warmup", 0, "--steps", 1)
    assert paceline(*args, "--bucket-mb", "0.01", ranks=2).code == 0
    args = tuple(arg for arg in args if arg != "--force")
    done = paceline(*args, "--resume", "--bucket-mb", "0.01,1", "--predict", path, ranks=2)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert list(f["predict/bucket_mb"][:]) == [0.01, 1]


def test_a_prediction_needs_its_fit(paceline, tmp_path, fitted):
    path, _ = fitted
    args = (*TINY, "--context", 16, "--vocab", 128, "--steps", 1, "--predict")

    def refused(path, ranks):
        done = paceline(*args, path, ranks=ranks)
        assert done.code == 2
        assert str(path) in done.message
        assert "paceline-analysis rates" in done.message
        assert not (tmp_path / "out.h5").exists()
        return done.message

    assert f"--predict: {path} has no fit of all_reduce, mpi, float32, 3 ranks" in refused(path, 3)
    assert "is no file" in refused(tmp_path / "missing.json", 2)
