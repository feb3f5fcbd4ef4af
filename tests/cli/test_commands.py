"""What users type: options from a file, presets, resume, merge, compare, info, JSON."""

import json
import shutil

import h5py
import numpy as np
import pytest

from result_files import summary

CPU = ("--device", "cpu", "--threads", 1)
TINY = ("model", "--size", "tiny", "--context", 8, *CPU, "--warmup", 1, "--steps", 6)


def test_table_progress_and_path(paceline, tmp_path):
    done = paceline(*TINY, "--mode", "forward,train-step", "--output", "out.h5")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith("out.h5")
    assert "95% interval" in done.out
    assert max(map(len, done.out.splitlines())) <= 170
    progress = done.err.splitlines()
    assert len(progress) == 2
    assert progress[0].startswith("[1/2] tiny")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5"]


def test_json_lines_have_the_summary_s_names(paceline, tmp_path):
    done = paceline(*TINY, "--mode", "forward,inference", "--json", "--output", "out.h5")
    rows = [json.loads(line) for line in done.out.splitlines()]
    columns = summary(tmp_path / "out.h5")
    assert len(rows) == 2
    for i, row in enumerate(rows):
        for name, value in row.items():
            want = columns[name][i]
            if value is None:
                assert np.isnan(want), name
            else:
                assert want == value, name
    assert rows[0]["mode"] == "forward"


def test_default_output_lands_in_results(paceline, tmp_path):
    assert paceline(*TINY, "--quiet").code == 0
    (made,) = (tmp_path / "results").iterdir()
    assert made.name.startswith("model-")


def test_summary_columns_are_complete_and_equally_long(paceline, tmp_path):
    paceline(*TINY, "--mode", "forward,train-step", "--precision", "fp32,bf16", "--output", "o.h5")
    columns = summary(tmp_path / "o.h5")
    assert {len(c) for c in columns.values()} == {4}
    for phase in ("forward", "backward", "optimizer", "step"):
        for statistic in ("median", "ci_low", "ci_high", "mean", "std", "min", "max", "p95"):
            assert f"{phase}_{statistic}_s" in columns
    assert {"peak_bytes", "memory_before_backward_bytes", "tokens_per_s", "mfu_measured"} < set(
        columns
    )
    with h5py.File(tmp_path / "o.h5") as f:
        assert f["summary/step_median_s"].attrs["unit"] == "s"
        (case, *_) = f["cases"].values()
        assert case.attrs["size"] == "tiny"
        assert case.attrs["d_model"] == 64
        assert "PATH" not in f["environment"].attrs


def test_measured_memory_is_the_predicted(paceline, tmp_path):
    """A vocabulary so small that the blocks decide, and the course's, where the head does."""
    for vocab in (128, 10000):
        done = paceline(
            *("model", "--d-model", 128, "--d-ff", 384, "--layers", 4, "--heads", 4),
            *("--vocab", vocab, "--context", 64, *CPU, "--warmup", 0, "--steps", 1),
            *("--mode", "inference,forward,train-step", "--recompute", "none,block,2"),
            *("--precision", "fp32,bf16", "--output", "o.h5", "--force"),
        )
        assert done.code == 0, done.err
        columns = summary(tmp_path / "o.h5")
        assert len(columns["mode"]) == 14  # inference has nothing to recompute
        np.testing.assert_allclose(
            columns["peak_bytes"], columns["predicted_peak_bytes"], rtol=0.03
        )


def test_dry_run_prints_every_case_and_runs_nothing(paceline, tmp_path):
    done = paceline("model", "--preset", "sizes", "--dry-run")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("20 cases")
    assert len([line for line in lines if " 2.7b " in line]) == 4
    assert list(tmp_path.iterdir()) == []


def test_options_beside_a_preset_replace_its_values(paceline):
    done = paceline("model", "--preset", "sizes", "--size", "tiny", "--dry-run")
    assert done.out.startswith("4 cases")
    done = paceline("model", "--preset", "warmup", "--global-batch", 8, "--dry-run")
    assert done.out.startswith("5 cases"), done.err
    assert " 128 8 fp32" in done.out
    done = paceline("ddp", "--preset", "course", "--batch-size", 3, "--quiet", "--dry-run")
    assert done.out.startswith("8 cases"), done.err
    assert " 128 3 fp32" in done.out


@pytest.mark.parametrize(("preset", "cases"), [("sizes", 20), ("warmup", 5), ("precision", 10)])
def test_presets(paceline, preset, cases):
    assert paceline("model", "--preset", preset, "--dry-run").out.startswith(f"{cases} cases")


def test_dry_run_flops_follow_the_formula(paceline):
    """small, batch 4, context 128: 3 x (2 R (L (4 D^2 + 3 D F) + D V) + 4 L B T^2 D) = 378.8 G."""
    rows, d, f, layers, vocab = 4 * 128, 768, 3072, 12, 10000
    forward = 2 * rows * (layers * (4 * d * d + 3 * d * f) + d * vocab)
    forward += 4 * layers * 4 * 128**2 * d
    done = paceline("model", "--dry-run")
    assert f"{3 * forward / 1e9:.0f} G" in done.out


def test_config_file(paceline, tmp_path):
    (tmp_path / "run.toml").write_text('size = "tiny"\ncontext = [8, 16]\nlr = 0.01\n')
    done = paceline("model", "--config", "run.toml", "--dry-run")
    assert done.out.startswith("2 cases"), done.err
    done = paceline("model", "--config", "run.toml", "--context", 4, "--dry-run")
    assert done.out.startswith("1 case ")
    for line, says in (
        ('sizes = "tiny"', "sizes"),
        ('quiet = "maybe"', "--quiet: 'maybe' is unknown; choose no, yes"),
        ("resume = 3", "--resume: '3' is unknown"),
        ("context = 1.5", "--context: '1.5' is not a whole number"),
        ("steps = [3, 4]", "--steps: takes one value"),
        ("[model]", "--config"),
    ):
        (tmp_path / "run.toml").write_text(line + "\n")
        done = paceline("model", "--config", "run.toml", "--dry-run")
        assert done.code == 2
        assert says in done.message
    (tmp_path / "run.toml").write_text("quiet = false\ndry-run = true\ndeterministic = true\n")
    assert paceline("model", "--config", "run.toml").out.startswith("1 case ")


def test_an_output_that_exists_is_refused_kept_or_replaced(paceline, tmp_path):
    args = (*TINY, "--output", "out.h5", "--quiet")
    assert paceline(*args, "--mode", "forward").code == 0
    created = h5py.File(tmp_path / "out.h5").attrs["created"]
    refused = paceline(*args, "--mode", "forward")
    assert refused.code == 2
    assert "--resume" in refused.message
    assert "--force" in refused.message
    assert h5py.File(tmp_path / "out.h5").attrs["created"] == created

    kept = summary(tmp_path / "out.h5")["step_median_s"]
    assert paceline(*args, "--mode", "forward,inference", "--resume").code == 0
    both = summary(tmp_path / "out.h5")
    assert both["mode"] == ["forward", "inference"]
    assert both["step_median_s"][0] == kept[0]

    assert paceline(*args, "--mode", "forward", "--force").code == 0
    assert summary(tmp_path / "out.h5")["mode"] == ["forward"]


def test_resume_tries_again_what_did_not_fit_and_shows_what_it_kept(paceline, tmp_path):
    args = (*TINY, "--output", "out.h5", "--mode", "forward,train-step")
    assert paceline(*args, "--memory-limit", "15MB").code == 0
    assert summary(tmp_path / "out.h5")["status"] == ["ok", "oom"]
    again = paceline(*args, "--resume", "--json")
    assert summary(tmp_path / "out.h5")["status"] == ["ok", "ok"]
    assert [json.loads(line)["mode"] for line in again.out.splitlines()] == [
        "forward",
        "train-step",
    ]


def test_changed_factors_are_run_again_on_resume(paceline, tmp_path):
    args = (*TINY, "--output", "out.h5", "--quiet", "--mode", "forward")
    paceline(*args, "--seed", 1)
    paceline(*args, "--seed", 2, "--resume")
    assert sorted(summary(tmp_path / "out.h5")["seed"]) == [1, 2]


def test_resume_of_another_experiment_s_file_is_refused(paceline, tmp_path):
    paceline(*TINY, "--output", "out.h5", "--quiet", "--mode", "forward")
    with h5py.File(tmp_path / "out.h5", "a") as f:
        f.attrs["experiment"] = "ddp"
    done = paceline(*TINY, "--output", "out.h5", "--resume")
    assert done.code == 2
    assert "'ddp'" in done.message


def test_tokens_come_from_hdf5_or_a_flat_file_alike(paceline, tmp_path):
    flat = (np.arange(4 * 8 + 1) * 37 % 1000).astype(np.uint16)
    flat.tofile(tmp_path / "tokens.bin")
    with h5py.File(tmp_path / "tokens.h5", "w") as f:
        f["tokens"] = flat[:-1].reshape(4, 8)
        f["targets"] = flat[1:].reshape(4, 8)
    with h5py.File(tmp_path / "next.h5", "w") as f:
        f["tokens"] = np.stack([flat[i * 8 : i * 8 + 9] for i in range(4)]).astype(np.int64)
    losses = []
    for name in ("tokens.bin", "tokens.h5", "next.h5"):
        done = paceline(*TINY, "--tokens", name, "--dump", "d.h5", "--force", "--output", "o.h5")
        assert done.code == 0, done.err
        losses.append(h5py.File(tmp_path / "d.h5")["loss"][0])
    assert losses[0] == losses[1] == losses[2]
    paceline(*TINY, "--dump", "d.h5", "--force", "--output", "o.h5")
    assert h5py.File(tmp_path / "d.h5")["loss"][0] != losses[0]


def test_training_lowers_the_loss(paceline, tmp_path):
    paceline(*TINY, "--dump", "d.h5", "--output", "o.h5")
    assert summary(tmp_path / "o.h5")["loss"][0] < h5py.File(tmp_path / "d.h5")["loss"][0]


@pytest.fixture
def two_runs(paceline, tmp_path):
    """a.h5 with steps of 10 ms, and b.h5 with steps of twice that."""
    assert paceline(*TINY, "--mode", "forward", "--output", "a.h5", "--quiet").code == 0
    shutil.copy(tmp_path / "a.h5", tmp_path / "b.h5")
    for name, seconds in ("a.h5", 0.010), ("b.h5", 0.020):
        with h5py.File(tmp_path / name, "a") as f:
            f["summary/step_ci_low_s"][:] = 0.99 * seconds
            f["summary/step_median_s"][:] = seconds
            f["summary/step_ci_high_s"][:] = 1.01 * seconds


def test_a_dump_of_what_does_not_fit_is_not_made(paceline, tmp_path):
    done = paceline(*TINY, "--memory-limit", "15MB", "--dump", "d.h5", "--output", "o.h5")
    assert done.code == 0, done.err
    assert summary(tmp_path / "o.h5")["status"] == ["oom"]
    assert not (tmp_path / "d.h5").exists()


def test_compare(paceline, two_runs):
    slower = paceline("compare", "a.h5", "b.h5")
    assert slower.code == 1
    assert "slower" in slower.out
    faster = paceline("compare", "b.h5", "a.h5")
    assert faster.code == 0
    assert "faster" in faster.out
    same = paceline("compare", "a.h5", "a.h5")
    assert same.code == 0
    assert "same" in same.out


def test_info(paceline):
    done = paceline("info", "--device", "cpu", ranks=2)
    assert done.code == 0
    assert "Open MPI" in done.out
    assert "HDF5" in done.out or "hdf5" in done.out
    assert len([line for line in done.out.splitlines() if " cpu " in line]) == 2


def test_help_and_version(paceline):
    overview = paceline("--help")
    assert overview.code == 0
    assert "compare" in overview.out
    model = paceline("model", "--help", ranks=2)
    assert model.code == 0
    assert model.out.count("--global-batch") == 1  # one rank speaks
    assert "--profile" not in model.out
    assert paceline("--version").out.startswith("paceline ")


def test_merge_after_a_crash(paceline, tmp_path):
    args = (*TINY, "--output", "out.h5", "--quiet", "--mode", "forward,inference")
    assert paceline(*args).code == 0
    # What a killed run leaves: the case files and no result file.
    folder = tmp_path / "out.h5.cases"
    folder.mkdir()
    with h5py.File(tmp_path / "out.h5") as f:
        ids = list(f["cases"])
    assert len(ids) == 2
    (tmp_path / "out.h5").rename(folder / f"{ids[0]}.h5")
    merged = paceline("merge", "out.h5")
    assert merged.code == 0, merged.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert ids[0] in f["cases"]
        assert not f.attrs["complete"]
    assert not folder.exists()
