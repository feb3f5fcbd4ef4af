"""Descriptions in result files, and reading the files with HDF5, netCDF and Python tools."""

import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT, made
from result_files import summary

sys.path.insert(0, str(ROOT / "tools"))

import file_format

CPU = ("--device", "cpu", "--threads", 1, "--warmup", 1, "--quiet")
TINY = ("--size", "tiny", "--context", 8, *CPU)
SMALL = (*TINY, "--vocab", 64)
BRIEF = ("--cache", "warm", "--steps", 1)
SHORT = ("--memory-limit", "20MB")  # so are the messages that measure the links


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """results/tiny.h5 of two ranks, with a case that ran and a case that did not fit."""
    folder = tmp_path_factory.mktemp("tiny") / "results"
    folder.mkdir()
    return made(
        *(folder / "tiny.h5", "model", *TINY, "--steps", 3, "--mode", "forward,train-step"),
        *("--memory-limit", "20MB"),
        ranks=2,
    )


def ok_case(path):
    """The name of a measured case."""
    columns = summary(path)
    return columns["case"][columns["status"].index("ok")]


def output(*command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_file_format_document_is_current():
    assert (ROOT / "docs/file-format.md").read_text() == file_format.document()


def test_the_python_lines_of_the_readme_run(tiny, monkeypatch):
    monkeypatch.chdir(tiny.parents[1])
    found = {}
    exec(file_format.readme_lines(), found)
    table = found["table"]
    assert list(table["status"]) == ["ok", "oom"]
    assert list(table["size"]) == ["tiny", "tiny"]
    assert table["step_median_s"].dtype == np.float64
    assert np.isnan(table["step_median_s"][1])


# Every experiment with the options that add tables; the paceline fixture checks every dataset.
@pytest.mark.parametrize(
    ("ranks", "arguments"),
    [
        (0, ("model", *SMALL, "--steps", 1, "--memory-timeline", "--recompute", "none,block")),
        (2, ("model", *SMALL, "--steps", 1, "--optimizer", "in-backward")),
        (2, ("ddp", *SMALL, "--steps", 1, "--sync", "none,naive,bucketed", "--verify", 1)),
        (2, ("zero", *SMALL, "--steps", 1, "--shard", "broadcast,zero2,fsdp")),
        (0, ("attention", "--context", 16, "--attention", "naive,fused,flash", *CPU, *BRIEF)),
        (0, ("precision", "--device", "cpu", "--quiet")),
        (
            2,
            (
                "collectives",
                "--backend",
                "mpi",
                "--bytes",
                "1KB,2KB,4KB",
                "--fit",
                *SHORT,
                "--quiet",
            ),
        ),
    ],
)
def test_every_dataset_has_unit_and_description(paceline, tmp_path, ranks, arguments):
    done = paceline(*arguments, "--output", "o.h5", ranks=ranks)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "o.h5") as f:
        units = {name: column.attrs["unit"] for name, column in f["summary"].items()}
        assert units["case"] == units["run"] == "text"
        assert units["slowest_rank" if arguments[0] != "precision" else "sum"] == "1"
        assert set(units.values()) <= {
            *("text", "1", "s", "bytes", "bytes/s", "tokens", "tokens/s", "TFLOP/s", "MB", "%"),
            *("cores", "Hz", "W", "degrees Celsius"),
        }


def test_attributes_and_datasets_that_do_not_apply_are_absent(tiny):
    with h5py.File(tiny) as f:
        assert "gpu_uuid" not in f["ranks"]
        ok, oom = f["cases"].values()
        assert "reason" not in ok.attrs
        assert ok.attrs["stop_reason"] == "steps"
        assert "stop_reason" not in oom.attrs
        assert "20.0 MB" in oom.attrs["reason"]
        assert "samples" not in oom


def test_h5py_sees_the_dimensions(tiny):
    with h5py.File(tiny) as f:
        case = f["cases"][ok_case(tiny)]
        for group, scale, length in (
            ("samples", "repetition", 3),
            ("samples_warmup", "warmup_repetition", 2),
        ):
            for dataset in case[group].values():
                assert [d.label for d in dataset.dims] == ["rank", "repetition"]
                assert dataset.dims[0][0] == case["rank"]
                assert dataset.dims[1][0] == case[scale]
                assert list(dataset.dims[1][0]) == list(range(length))


def test_h5ls(tiny):
    case = ok_case(tiny)
    assert f"/cases/{case}/samples/step Dataset {{2, 3}}" in output("h5ls", "-r", tiny)
    shown = output("h5ls", "-v", f"{tiny}/cases/{case}/samples")
    assert {"unit", "description"} <= {line.split()[1] for line in shown.splitlines()
                                       if line.strip().startswith("Attribute:")}  # fmt: skip


def test_h5dump(tiny):
    shown = output("h5dump", "-A", "-d", "/summary/step_median_s", tiny)
    assert '(0): "s"' in shown
    assert "median over repetitions" in shown
    case = ok_case(tiny)
    shown = output("h5dump", "-d", f"/cases/{case}/samples/step", tiny)
    assert '(0): "rank", "repetition"' in shown
    assert f'"/cases/{case}/rank")' in shown
    assert f'"/cases/{case}/repetition")' in shown


def test_ncdump(tiny):
    shown = output("ncdump", "-h", tiny)
    assert "double step(rank, repetition) ;" in shown
    assert "double step(rank, warmup_repetition) ;" in shown
    assert 'string step:unit = "s" ;' in shown
    assert 'string status(phony_dim_' in shown  # fmt: skip
    assert ":complete" not in shown


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_xarray(tiny, engine):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine))
    group = f"cases/{ok_case(tiny)}/samples"
    with xarray.open_dataset(tiny, group=group, engine=engine) as data:
        assert dict(data.sizes) == {"rank": 2, "repetition": 3}
        assert data.step.dims == ("rank", "repetition")
        assert data.step.attrs["unit"] == "s"


def test_pandas_read_hdf_rejects_the_file(tiny):
    with pytest.raises((ImportError, ValueError, TypeError)):
        pd.read_hdf(tiny)


def test_every_name_in_the_sources_is_described():
    """Including names that are written only on a GPU."""
    described = {line.name for line in file_format.lines()}
    groups = {line.group for line in file_format.lines()}
    for path in (ROOT / "src").rglob("*.cpp"):
        if path.parent.name == "plan":  # prints tables, writes no file
            continue
        text = path.read_text()
        tables = re.findall(r'TableRows \w+\("([\w/]+)"\)', text)
        assert set(tables) <= groups, path
        names = re.findall(r'record\.add\(\s*"(\w+)",', text)
        if {"products", "fusions"} & set(tables):
            names += re.findall(r'\{"(\w+)", ', text)
        assert set(names) <= described, path
