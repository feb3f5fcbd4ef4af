"""`precision`: the figures of the course's exercises, its tables, and refused options."""

import json
import math

import h5py
import numpy as np
import pytest

from conftest import NO_MPI
from result_files import rows, summary

RUN = ("precision", "--device", "cpu", "--quiet", "--output", "out.h5")


def json_rows(done) -> list[dict]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_sums_of_the_accumulation_exercise(paceline, tmp_path):
    done = paceline(*RUN, "--study", "accumulation", "--summation", "sequential")
    assert done.code == 0, done.err
    want = {
        "fp32": "10.0001", "fp16": "9.95312", "fp16-into-fp32": "10.0021",
        "fp16-upcast": "10.0021", "bf16": "4.00000", "bf16-into-fp32": "10.0098",
    }  # fmt: skip
    table = summary(tmp_path / "out.h5")
    sums = dict(zip(table["arithmetic"], table["sum"], strict=True))
    assert {name: f"{value:#.6g}" for name, value in sums.items()} == want
    for name, value in want.items():
        assert [name, value] in [line.split()[:2] for line in done.out.splitlines()]
    assert table["exact_sum"] == pytest.approx([10] * 6)


def test_sums_have_significant_digits(paceline):
    args = ("--study", "accumulation", "--arithmetic", "fp32,fp16", "--summation", "compensated")
    out = paceline(*RUN, *args, "--addend", "1e-30,1e30").out
    shown = [line.split()[:3] for line in out.splitlines() if line.startswith((" 1e-30", " 1e+30"))]
    assert shown == [
        ["1e-30", "fp32", "1.00000e-27"], ["1e-30", "fp16", "0.00000"],
        ["1e+30", "fp32", "1.00000e+33"], ["1e+30", "fp16", "nan"],
    ]  # fmt: skip


def test_errors_are_within_their_bounds(paceline):
    orders = ("sequential", "pairwise", "blocked", "compensated")
    table = json_rows(
        paceline(
            *(*RUN, "--json", "--study", "accumulation", "--count", "1,7,1000,4096"),
            *("--addend=0.1,-3.3", "--arithmetic", "fp32,fp16,bf16,fp16-into-fp32"),
        )
    )
    assert len(table) == 4 * 2 * len(orders) * 4
    unit = {"fp32": 2**-24, "fp16": 2**-11, "bf16": 2**-8, "fp16-into-fp32": 2**-24}
    for row in table:
        n = row["count"]
        factor = {
            "sequential": n - 1,
            "pairwise": math.ceil(math.log2(n)),
            "blocked": min(n, 32) + math.ceil(n / 32) - 2,
            "compensated": 2,
        }[row["summation"]]
        assert row["rounding_bound"] == factor * unit[row["arithmetic"]]
        assert row["rounding_error"] <= row["rounding_bound"], row
        assert row["exact_sum"] == pytest.approx(n * row["addend"])
        assert row["sum_error"] == pytest.approx(abs(row["sum"] / row["exact_sum"] - 1), abs=1e-12)
    # numpy's float16 rounds after every addition.
    for row in table:
        if (row["summation"], row["arithmetic"]) != ("sequential", "fp16"):
            continue
        total = np.float16(0)
        for _ in range(row["count"]):
            total += np.float16(row["addend"])
        assert row["sum"] == total


def test_dtypes_of_the_toy_model_under_fp16(paceline, tmp_path):
    done = paceline(*RUN, "--study", "dtypes")
    assert done.code == 0, done.err
    (toy,) = [
        r for r in rows(tmp_path / "out.h5") if (r["model"], r["precision"]) == ("toy", "fp16")
    ]
    assert {name[6:]: toy[name] for name in toy if name.startswith("dtype_") and toy[name]} == {
        "parameters": "float32", "fc1_output": "float16", "ReLU_output": "float16",
        "LayerNorm_statistics": "float32", "LayerNorm_output": "float32", "logits": "float16",
        "loss": "float32", "gradients": "float32",
    }  # fmt: skip
    with h5py.File(tmp_path / "out.h5") as f:
        closing = {name: list(f["dtypes"][name].asstr()[:]) for name in f["dtypes"]}
        assert set(closing) >= {"model", "component", "fp32", "bf16", "fp16", "autocast", "note"}
        assert set(closing["fp32"]) == {"float32"}
    assert "toy          LayerNorm statistics  float32" in done.out


def test_errors_of_norms(paceline, tmp_path):
    done = paceline(
        *(*RUN, "--study", "norms", "--mean", "0,100", "--width", 256),
        *("--scale", "0.01,1,100,1e4,1e6"),
    )
    assert done.code == 0, done.err
    for row in rows(tmp_path / "out.h5"):
        u = {"fp16": 2**-11, "bf16": 2**-8}[row["norm_dtype"]]
        if row["scale"] * (1 + row["mean"]) < 6e4 / 4:  # the input is finite
            assert 0 < row["float32_statistics_error"] < u
        if row["mean"] == 0 and row["scale"] <= 1:
            assert u / 8 < row["rounded_statistics_error"] < 4 * u
        # 255^2 is the largest square in float16; 65504 is the largest number.
        if row["norm_dtype"] == "fp16" and row["mean"] == 0:
            assert (row["rounded_statistics_error"] > 0.1) == (row["scale"] >= 100)
            assert np.isinf(row["float32_statistics_error"]) == (row["scale"] == 1e6)


def test_every_study_has_a_table_of_its_own(paceline, tmp_path):
    done = paceline(*RUN, ranks=2)
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert set(table["ranks"]) == {2}
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["environment"].attrs["mpi"] != "none"
    assert set(table["status"]) == {"ok"}
    counts = {study: table["study"].count(study) for study in dict.fromkeys(table["study"])}
    assert counts == {"accumulation": 24, "dtypes": 6, "norms": 56}
    for study in counts:
        (line,) = [x for x in done.out.splitlines() if x.startswith(f"study {study}")]
        assert not any(other in line for other in set(counts) - {study})
    assert max(map(len, done.out.splitlines())) <= 100


def test_precision_without_mpirun_does_not_initialize_mpi(paceline, tmp_path):
    study = ("--study", "norms")
    done = paceline(*RUN, *study, env=NO_MPI)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["environment"].attrs["mpi"] == "none"


def test_a_lone_process_initializes_mpi_for_collectives_alone(paceline, tmp_path):
    tiny = ("--size", "tiny", "--context", 8, "--warmup", 0, "--steps", 1, "--device", "cpu")
    done = paceline("model", *tiny, "--output", "m.h5", env=NO_MPI)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "m.h5") as f:
        assert f["environment"].attrs["mpi"] == "none"
    refused = paceline("ddp", *tiny, "--output", "d.h5", env=NO_MPI)
    assert refused.code == 3
    assert refused.message.startswith("paceline: MPI does not start here, ")


def test_a_case_that_does_not_fit_is_an_oom_row(paceline, tmp_path):
    studies = ("--study", "dtypes,accumulation", "--precision", "fp32", "--summation", "pairwise")
    done = paceline(*RUN, *studies, "--arithmetic", "fp32", "--memory-limit", "1MB")
    assert done.code == 0, done.err
    status = {(r["study"], r["model"]): r["status"] for r in rows(tmp_path / "out.h5")}
    assert status == {
        ("dtypes", "toy"): "ok", ("dtypes", "transformer"): "oom", ("accumulation", ""): "ok",
    }  # fmt: skip
