"""The report of unusual files: correct figures or one error line, never a traceback."""

import base64
import lzma
import re
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.result_file import decompressed
from analysis.results import file_names, load
from conftest import ROOT
from synthetic import case

STEP = {"forward": [[0.03] * 6], "backward": [[0.06] * 6], "step": [[0.1] * 6]}
SMALL = {
    "size": "small", "context": 128, "batch_size": 4, "precision": "fp32", "attention": "naive",
    "exec": "eager", "mode": "train-step", "d_model": 768, "d_ff": 3072, "layers": 12, "heads": 12,
    "vocab": 10000, "ranks": 1,
}  # fmt: skip
OOM = case(SMALL | {"context": 1024}, status="oom", reason="needs 99 GB | of 80")


def made(path, tmp_path):
    target = tmp_path / "report.html"
    main(["report", str(path), "--output", str(target)])
    text = target.read_text("utf-8")
    assert not re.search(r"\bnan\b", re.sub(r"base64,[^\"]+", "", text))
    return text


SOUND = case(SMALL, STEP)


@pytest.mark.parametrize(
    ("cases", "attributes", "says"),
    [
        ([SOUND], {"ranks": [("NVIDIA H100", "GPU-1", "a")]}, "forward 30.00 ms, backward 60.00 "),
        ([OOM, SOUND], {}, "Backward takes 2.00 times as long"),
        ([OOM, SOUND], {}, "oom: needs 99 GB | of 80"),
        ([OOM], {}, "oom: needs 99 GB"),
        ([SOUND], {"complete": False}, "no: stopped early"),
        ([SOUND], {"schema_version": 1}, "backward 60.00 ms"),
        # published / ours on the same hardware: 21.57 / 30
        ([SOUND], {"ranks": [("NVIDIA H800 PCIe", "GPU-1", "a")]}, "0.719"),
    ],
)
def test_what_the_report_says(make_file, tmp_path, cases, attributes, says):
    text = made(make_file(cases, **attributes), tmp_path)
    assert says in text
    summary = text[: text.index('id="contents"')].lower()
    assert ("where a step" in summary) == (SOUND in cases)


def test_a_summary_that_is_no_time(make_file, tmp_path, refused):
    path = make_file([case(SMALL, STEP)])
    with h5py.File(path, "r+") as file:
        file["summary/step_median_s"][0] = 1e11
    assert "/summary/step_median_s: 1e+11 s is no measured" in refused(
        "report", path, "--output", tmp_path / "r.html"
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e9])
def test_extreme_times_have_short_figures(make_file, tmp_path, scale):
    own = {phase: scale * np.array(samples) for phase, samples in STEP.items()}
    text = made(make_file([case(SMALL, own, warmup=own)]), tmp_path)
    for image in re.findall(r"svg\+xml;base64,([^\"]+)", text):
        words = re.findall(r"<text[^>]*>([^<]+)<", base64.b64decode(image).decode())
        assert not [word for word in words if re.search(r"\d{13}|(,\d{3}){4}", word)]


def test_a_truncated_file(make_file, tmp_path, refused):
    path = make_file([case(SMALL, STEP)])
    path.write_bytes(path.read_bytes()[:2000])
    assert "cannot be read" in refused("report", path, "--output", tmp_path / "r.html")


def test_a_compressed_file_is_read_as_the_plain_one(make_file, tmp_path):
    path = make_file([case({"size": "xl"}, STEP)])
    packed = tmp_path / f"{path.name}.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    (plain,), (read,) = load([path]), load([packed])
    pd.testing.assert_frame_equal(plain.frame, read.frame)
    assert file_names([path]) == file_names([packed])


@pytest.mark.parametrize("fault", ["truncated", "not compressed", "of something else"])
def test_a_damaged_compressed_file(make_file, tmp_path, refused, fault):
    contents = make_file([case({"size": "xl"}, STEP)]).read_bytes()
    path = tmp_path / "x.h5.xz"
    path.write_bytes(
        {
            "truncated": lzma.compress(contents)[:1000],
            "not compressed": contents,
            "of something else": lzma.compress(b"something else"),
        }[fault]
    )
    assert "cannot be read" in refused("report", path, "--output", tmp_path / "r.html")


@pytest.mark.parametrize("group", ["profile/forward", "profile/softmax", "cases"])
def test_groups_of_a_file_may_be_missing(tmp_path, group):
    """A case without samples; a profile without one of its tables."""
    path = tmp_path / "profile.h5"
    shutil.copy(decompressed(ROOT / "results/reference/ddp-profile-h200.h5.xz"), path)
    with h5py.File(path, "r+") as file:
        if group == "cases":
            for name in list(file["cases"])[:1]:
                del file["cases"][name]["samples"]
        else:
            del file[group]
    text = made(path, tmp_path)
    assert "The costliest kernels" in text


@pytest.mark.parametrize("experiment", ["ddp", "zero", "attention", "collectives"])
def test_each_experiment_alone_with_all_cases_out_of_memory(make_file, tmp_path, experiment):
    factors = {
        "ddp": {"sync": "bucketed", "bucket_mb": 25.0, "size": "xl"},
        "zero": {"shard": "zero1", "size": "xl"},
        "attention": {"attention": "flash", "head_dim": 64, "context": 128, "precision": "bf16"},
        "collectives": {"op": "all_reduce", "backend": "nccl", "bytes": 1000, "ranks": 2},
    }[experiment]
    path = make_file([case(factors, status="oom", reason="no memory")], experiment=experiment)
    assert "no memory" in made(path, tmp_path)
