"""Command lines: options from a file, presets, resume, merge, info, JSON."""

import json
import tomllib

import h5py
import numpy as np
import pytest

from result_files import rows, summary

CPU = ("--device", "cpu", "--threads", 1)
TINY = ("model", "--size", "tiny", "--vocab", 64, "--context", 8, *CPU, "--warmup", 1)
TINY += ("--steps", 6)


def test_table_progress_path_and_columns(paceline, tmp_path):
    done = paceline(*TINY, "--mode", "forward,train-step", "--output", "out.h5")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith("out.h5")
    assert "95% interval" in done.out
    assert max(map(len, done.out.splitlines())) <= 100
    progress = done.err.splitlines()
    assert len(progress) == 2
    assert progress[0].startswith("[1/2] mode forward: step ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5"]
    columns = summary(tmp_path / "out.h5")
    assert {len(c) for c in columns.values()} == {2}
    for phase in ("forward", "backward", "optimizer", "step"):
        for statistic in ("median", "ci_low", "ci_high", "mean", "std", "min", "max", "p95"):
            assert f"{phase}_{statistic}_s" in columns
    more = {"peak_bytes", "memory_before_backward_bytes", "tokens_per_s", "mfu_measured"}
    assert more < set(columns)
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["summary/step_median_s"].attrs["unit"] == "s"
        (case, *_) = f["cases"].values()
        assert (case.attrs["size"], case.attrs["d_model"]) == ("tiny", 64)
        assert "PATH" not in f["environment"].attrs


@pytest.mark.parametrize(
    ("until", "line"),
    [
        ((), ""),
        (("--min-time", "1e-9"), "measuring ended by: min_time (2 cases)"),
        (("--min-time", 1000, "--max-steps", 7), "measuring ended by: max_steps (2 cases)"),
    ],
)
def test_the_line_that_says_what_ended_measuring(paceline, until, line):
    done = paceline(*TINY, "--mode", "forward,inference", *until)
    assert done.code == 0, done.err
    found = [text for text in done.out.splitlines() if text.startswith("measuring ended")]
    assert found == [line] * bool(line)


def test_json_keys_and_values_are_those_of_the_summary(paceline, tmp_path):
    args = (*TINY, "--mode", "forward,inference", "--memory-timeline", "--json")

    def printed(*more):
        lines = paceline(*args, *more, "--output", "out.h5").out.splitlines()
        found = [json.loads(line) for line in lines]
        assert [row["mode"] for row in found] == ["forward", "inference"]
        for row in found:
            assert row["memory_timeline"] is True
            assert row["deterministic"] is False
        return found

    measured = printed()
    columns = summary(tmp_path / "out.h5")
    for i, row in enumerate(measured):
        for name, value in row.items():
            want = columns[name][i]
            assert np.isnan(want) if value is None else want == value, name
    printed("--resume")
    printed("--dry-run")


def test_options_override_the_values_of_a_preset(paceline):
    done = paceline("model", "--preset", "sizes", "--size", "tiny", "--dry-run")
    assert done.out.startswith("4 cases")
    done = paceline("model", "--preset", "warmup", "--global-batch", 8, "--dry-run")
    assert done.out.startswith("5 cases"), done.err
    assert " 128 8 fp32" in done.out
    done = paceline("ddp", "--preset", "course", "--batch-size", 3, "--quiet", "--dry-run")
    assert done.out.startswith("8 cases"), done.err
    assert " 128 3 fp32" in done.out


def test_dry_run_flops_follow_the_formula(paceline):
    """small, batch 4, context 128: 3 x (2 R (L (4 D^2 + 3 D F) + D V) + 4 L B T^2 D) = 378.8 G."""
    rows, d, f, layers, vocab = 4 * 128, 768, 3072, 12, 10000
    forward = 2 * rows * (layers * (4 * d * d + 3 * d * f) + d * vocab)
    forward += 4 * layers * 4 * 128**2 * d
    done = paceline("model", "--dry-run")
    assert f"{3 * forward / 1e9:.0f} G" in done.out
    (row,) = map(json.loads, paceline("model", "--dry-run", "--json").out.splitlines())
    assert row["predicted_flops"] == pytest.approx(3 * forward)


def test_dry_run_counts_the_flops_that_an_attention_kernel_executes(paceline):
    """Naive attention multiplies the masked half; flash multiplies q and k again in backward."""
    line = ("attention", "--causal", "--context", 64, "--head-dim", 16, "--batch-size", 2)
    done = paceline(*line, "--attention", "naive,fused,flash", "--dry-run", "--json")
    found = [json.loads(row)["predicted_flops"] for row in done.out.splitlines()]
    forward = 4 * 2 * 64**2 * 16
    assert found == [3 * forward, 3 * forward, 3.5 * forward / 2]


@pytest.mark.parametrize("experiment", ["model", "attention"])
def test_a_given_peak_is_used_and_named(paceline, tmp_path, experiment):
    size = {
        "model": ("--size", "tiny", "--vocab", 32),
        "attention": ("--head-dim", 8, "--cache", "warm"),
    }
    size = size[experiment]
    line = (experiment, *size, "--context", 8, "--batch-size", 1, "--warmup", 0, "--steps", 1)
    line += ("--attention", "flash", "--device", "cpu", "--threads", 1, "--output", "out.h5")
    for options, peak, source in (((), np.nan, ""), (("--peak-tflops", 2.5), 2.5, "--peak-tflops")):
        done = paceline(*line, *options, "--force")
        assert done.code == 0, done.err
        (row,) = rows(tmp_path / "out.h5")
        assert row["datasheet_source"] == source
        assert row["datasheet_tflops_per_s"] == pytest.approx(peak, nan_ok=True)
        if experiment == "model":
            share = row["model_tflops_per_s"] / peak
            assert row["mfu_datasheet"] == pytest.approx(share, nan_ok=True)
    assert "above_ceiling" not in row["warnings"]
    done = paceline(*line, "--peak-tflops", 1e-6, "--force")
    assert "warning: above_ceiling" in done.out
    (row,) = rows(tmp_path / "out.h5")
    assert "above_ceiling" in row["warnings"].split(",")


def test_dry_run_counts_the_bytes_of_a_collective(paceline):
    broadcast = ("collectives", "--op", "broadcast", "--bytes", "1MB", "--device", "cpu")
    (row,) = map(json.loads, paceline(*broadcast, "--dry-run", "--json").out.splitlines())
    assert (row["predicted_flops"], row["predicted_bytes"]) == (0, 1e6)


def test_config_file(paceline, tmp_path):
    (tmp_path / "run.toml").write_text('size = "tiny"\ncontext = [8, 16]\nlr = 0.01\n')
    done = paceline("model", "--config", "run.toml", "--dry-run")
    assert done.out.startswith("2 cases"), done.err
    done = paceline("model", "--config", "run.toml", "--context", 4, "--dry-run")
    assert done.out.startswith("1 case ")
    for line, says in (
        ('sizes = "tiny"', "run.toml:1:9: --sizes: unknown option of 'model'"),
        ('sizes = "tiny"', "did you mean --size?"),
        ('quiet = "maybe"', "run.toml:1:9: quiet: 'maybe' is unknown; choose no, yes"),
        ("resume = 3", "resume: '3' is unknown; choose no, yes"),
        ("context = 1.5", "run.toml:1:11: context: '1.5' is not a whole number"),
        ("context = [8, true]", "run.toml:1:11: context: 'yes' is not a whole number"),
        ("context = [8, [16]]", "run.toml:1:15: context: must be text in quotes, a number"),
        ("context = []", "context: has an empty value"),
        ("\ncontext = 0", "run.toml:2:11: context: 0 is out of range"),
        ('context = "8..4"', "run.toml:1:11: context: 8..4 descends"),
        ("steps = 1979-05-27", "steps: must be text in quotes, a number"),
        ("steps = [3, 4]", "steps: takes one value"),
        ('size = "a\\nb"', "size: 'a\\nb' is unknown"),
        ("steps = 3\nsteps = 4", "run.toml:2:"),
        ("steps = ", "run.toml:1:"),
        ("size = tiny", 'text needs quotes: size = "tiny"'),
        ("[model]\nsteps = 3", "run.toml:1:1: model: must be text in quotes, a number"),
        ('config = "other.toml"', "config: belongs on the command line"),
        ("print-config = true", "print-config: belongs on the command line"),
    ):
        (tmp_path / "run.toml").write_text(line + "\n")
        done = paceline("model", "--config", "run.toml", "--dry-run")
        assert done.code == 2
        assert "--config: " in done.message
        assert says in done.message
    (tmp_path / "run.toml").write_text("quiet = false\ndry-run = true\ndeterministic = true\n")
    assert paceline("model", "--config", "run.toml").out.startswith("1 case ")


def test_command_line_overrides_config_file_overrides_preset(paceline, tmp_path):
    def cases(*args):
        return paceline("model", *args, "--dry-run").out.split()[0]

    (tmp_path / "run.toml").write_text('preset = "sizes"\nsize = ["small", "xl"]\n')
    assert cases("--preset", "sizes") == "20"
    assert cases("--config", "run.toml") == "8"
    assert cases("--config", "run.toml", "--size", "medium") == "4"
    assert cases("--config", "run.toml", "--preset", "precision") == "4"
    (tmp_path / "run.toml").write_text("global-batch = 8\n")
    done = paceline("model", "--preset", "warmup", "--config", "run.toml", "--dry-run")
    assert " 128 8 fp32" in done.out


USES = [
    *((name,) for name in ("model", "attention", "ddp", "zero", "collectives", "precision")),
    (
        "model",
        "--context",
        "8..64*2,100",
        "--lr",
        "1e-2",
        "--memory-timeline",
        "--output",
        "a b.h5",
    ),
    ("model", "--d-model", 64, "--d-ff", 32, "--layers", 1, "--heads", 2, "--recompute", "none,2"),
    ("ddp", "--preset", "course", "--batch-size", 3, "--bucket-mb", "1..4*2", "--verify"),
    ("collectives", "--bytes", "1KiB,4KB..1MB*4", "--in-place", "no,yes", "--fit"),
    ("collectives", "--preset", "single-node", "--ranks", 1, "--device", "cpu"),
    ("attention", "--causal", "--heads", 2, "--memory-limit", "1.5GB", "--timeout", 30),
    ("precision", "--addend", "1..4*2,-0.5", "--study", "accumulation,norms", "--mean", "0,1"),
]
PRESETS = {
    "model": ("sizes", "warmup", "precision", "memory", "checkpointing", "compile"),
    "attention": ("pytorch-attention", "flash-benchmark", "leaderboard"),
    "ddp": ("course", "context", "long"),
    "zero": ("course", "fsdp"),
    "collectives": ("single-node",),
    "precision": ("course", "breaks"),
}
USES += [(name, "--preset", presets[-1]) for name, presets in PRESETS.items()]


@pytest.mark.parametrize("use", USES, ids=lambda use: " ".join(map(str, use[:3])))
def test_print_config_round_trips(paceline, tmp_path, use):
    printed = paceline(*use, "--print-config")
    assert printed.code == 0, printed.err
    (tmp_path / "run.toml").write_text(printed.out)
    again = (use[0], "--config", "run.toml")
    reprinted = paceline(*again, "--print-config")
    assert tomllib.loads(reprinted.out) == tomllib.loads(printed.out)
    # The free memory of the machine, on which 'oom' depends, changes between two programs.
    limited = use[0] == "precision" or "--memory-limit" in use
    limit = () if limited else ("--memory-limit", "8GB")
    asked = ("--dry-run", *limit)
    direct, from_file = paceline(*use, *asked), paceline(*again, *asked)
    assert (from_file.code, from_file.out) == (direct.code, direct.out), from_file.err
    assert [p.name for p in tmp_path.iterdir()] == ["run.toml"]


def test_list_names_every_preset(paceline):
    done = paceline("list")
    assert done.code == 0
    for name, presets in PRESETS.items():
        assert name in done.out
        for preset in presets:
            assert f"\n  {preset} " in done.out
    assert "--shard none,zero1,zero2,fsdp" in done.out
    assert paceline("--version").out.startswith("paceline ")
    assert max(map(len, done.out.splitlines())) <= 100


def test_existing_output_is_refused_resumed_or_replaced(paceline, tmp_path):
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


def test_resume_retries_oom_cases_and_prints_the_kept_rows(paceline, tmp_path):
    args = (*TINY, "--output", "out.h5", "--mode", "forward,train-step")
    assert paceline(*args, "--memory-limit", "1.5MB").code == 0
    assert summary(tmp_path / "out.h5")["status"] == ["ok", "oom"]
    again = paceline(*args, "--resume", "--json")
    assert summary(tmp_path / "out.h5")["status"] == ["ok", "ok"]
    modes = [json.loads(line)["mode"] for line in again.out.splitlines()]
    assert modes == ["forward", "train-step"]


def test_resume_refuses_the_file_of_another_experiment(paceline, tmp_path):
    paceline(*TINY, "--output", "out.h5", "--quiet", "--mode", "forward")
    with h5py.File(tmp_path / "out.h5", "a") as f:
        f.attrs["experiment"] = "ddp"
    done = paceline(*TINY, "--output", "out.h5", "--resume")
    assert done.code == 2
    assert "'ddp'" in done.message


def test_updates_in_backward_are_recorded(paceline, tmp_path):
    done = paceline(*TINY, "--optimizer", "serial,in-backward", "--output", "o.h5")
    assert done.code == 0, done.err
    columns = summary(tmp_path / "o.h5")
    assert columns["optimizer"] == ["serial", "in-backward"]
    assert np.isnan(columns["optimizer_hidden_share"][0])
    assert columns["optimizer_fused_share"][1] == 0  # products of the CPU update no weights
    hidden = 1 - columns["optimizer_median_s"][1] / columns["optimizer_total_median_s"][1]
    assert columns["optimizer_hidden_share"][1] == pytest.approx(hidden)
    with h5py.File(tmp_path / "o.h5") as f:
        by_order = {case.attrs["optimizer"]: case for case in f["cases"].values()}
        assert "optimizer_total" not in by_order["serial"]["samples"]
        assert "timeline" not in by_order["serial"]
        case = by_order["in-backward"]
        assert case["samples/optimizer_total"].shape == (1, 6)
        assert (case["samples/optimizer_total"][:] > 0).all()
        streams = case["timeline/stream"].asstr()[:]
        assert set(streams) == {"compute", "optimizer"}
        seconds = case["timeline/end"][:] - case["timeline/begin"][:]
        assert (seconds >= 0).all()
        updates = seconds[streams == "optimizer"].sum()
        assert updates == pytest.approx(case["samples/optimizer_total"][0, -1])


def test_updates_in_backward_reuse_gradient_memory(paceline, tmp_path):
    """Blocks share gradient memory; the losses equal those of serial updates."""
    dimensions = {"d-model": 64, "d-ff": 192, "layers": 6, "heads": 4, "vocab": 64}
    model = [word for name, n in dimensions.items() for word in (f"--{name}", n)]
    done = paceline(
        *("model", *model, "--context", 16, "--batch-size", 2, "--precision", "bf16", *CPU),
        *("--optimizer", "serial,in-backward", "--warmup", 1, "--steps", 6, "--output", "o.h5"),
    )
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "o.h5") as f:
        cases = {case.attrs["optimizer"]: case for case in f["cases"].values()}
        losses = [cases[order]["values/loss"][0] for order in ("serial", "in-backward")]
    assert losses[0] == losses[1]
    columns = summary(tmp_path / "o.h5")
    serial, in_backward = columns["peak_bytes"]
    assert in_backward < serial
    assert in_backward == pytest.approx(columns["predicted_peak_bytes"][1], rel=0.01)


def test_no_dump_is_written_for_a_case_that_does_not_fit(paceline, tmp_path):
    done = paceline(*TINY, "--memory-limit", "1.5MB", "--dump", "d.h5", "--output", "o.h5")
    assert done.code == 0, done.err
    assert summary(tmp_path / "o.h5")["status"] == ["oom"]
    assert not (tmp_path / "d.h5").exists()


NO_GPU = {"CUDA_VISIBLE_DEVICES": "9"}


def test_a_gpu_that_is_not_there_is_named_before_the_cpu_is_measured(paceline):
    """Where there never was one, nobody expects it."""
    auto = ("model", "--size", "tiny", "--context", 8, "--warmup", 0, "--steps", 1, "--quiet")
    done = paceline(*auto, env=NO_GPU)
    assert done.code == 0, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("warning: no usable GPU (rank 0: ")
    assert line.endswith(", with CUDA_VISIBLE_DEVICES=9): measuring the CPU")
    assert "\ndevice: cpu, " in done.out
    assert paceline(*auto, "--device", "cpu", env=NO_GPU).err == ""


def test_info(paceline):
    done = paceline("info", "--device", "cpu")
    assert done.code == 0
    assert "Open MPI" in done.out
    assert "HDF5" in done.out or "hdf5" in done.out
    assert len([line for line in done.out.splitlines() if " cpu " in line]) == 1
    done = paceline("info", "--device", "cpu", "--json", ranks=2)
    assert done.code == 0, done.err
    info = json.loads(done.out)
    assert [rank["rank"] for rank in info["ranks"]] == [0, 1]
    assert {rank["device"] for rank in info["ranks"]} == {"cpu"}
    assert "gpu_uuid" not in info["ranks"][0]
    assert info["environment"]
    (host,) = info["hosts"]
    assert host["host"] == info["ranks"][0]["host"]
    assert host["numa_nodes"] >= 0
    for device in host["devices"]:
        assert {"kind", "pci_address", "numa_node", "pcie", "pcie_most"} <= device.keys()
    alone = json.loads(paceline("info", "--device", "cpu", "--ceilings", "--json").out)
    rank = alone["ranks"][0]
    for ceiling in ("gemm_fp32_flops", "gemm_bf16_flops", "gemm_fp16_flops", "copy_bytes"):
        rates = rank[f"{ceiling}_per_s"]
        assert 0 < rates["ci_low"] <= rates["median"] <= rates["ci_high"]
