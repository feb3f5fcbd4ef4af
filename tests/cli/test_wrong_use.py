"""Bad input: the documented exit code, and one line that names the option and valid values."""

import os
import shutil

import h5py
import numpy as np
import pytest

from conftest import PROGRAM, ROOT, WRITE_CODE, made, run_line

ONCE = ("--warmup", 0, "--steps", 1, "--quiet")
CPU = ("--bytes", "1KB", "--device", "cpu")
SUMS = ("precision", "--device", "cpu")
TINY = ("model", "--size", "tiny", "--vocab", 64, "--context", 8, "--device", "cpu", *ONCE)

PACKED = ROOT / "results/reference/weak-ddp-1-h200.h5.xz"
WRONG = [
    (("model", "--sizes", "tiny"), "--sizes", "--help"),
    (("model", "--size", "smal"), "--size", "tiny, small, medium"),
    (("model", "--precision", "tf32", "--device", "cpu"), "--precision", "GPU"),
    (("model", "--attention", "sparse"), "--attention", "naive, fused, flash"),
    (("model", "--fp32-attention", "tf32"), "--fp32-attention", "--attention flash"),
    (
        ("model", "--attention", "flash", "--precision", "bf16", "--fp32-attention", "exact"),
        "--fp32-attention",
        "--precision fp32",
    ),
    (("model", "--optimizer", "in-backward", "--precision", "fp16"), "--optimizer", "serial"),
    (("model", "--precision", "fp32,bf16", "--peak-tflops", "1"), "--peak-tflops", "--precision"),
    (("attention", "--precision", "fp32,fp16", "--peak-tflops", "1"), "--peak-tflops", "give one"),
    (("zero", "--peak-tflops", "0"), "--peak-tflops", "1e-06 to"),
    (("collectives", "--peak-tflops", "9"), "--peak-tflops", "unknown"),
    (("model", "--optimizer", "in-backward", "--mode", "forward"), "--optimizer", "train-step"),
    (("model", "--profile", "-1"), "--profile", "0 to"),
    (("ddp", "--verify", "--beta2", "0"), "--verify", "--beta2"),
    (("model", "--recompute", "0"), "--recompute", "none, swiglu, block"),
    (("model", "--context", "99999999999999999999"), "--context", "1 to"),
    (("model", "--context", "12.5"), "--context", "whole number"),
    (("model", "--context", "128,"), "--context", "empty"),
    (("model", "--steps", "0"), "--steps", "1 to"),
    (("model", "--steps", "3", "--steps", "4"), "--steps", "one value"),
    (("model", "--lr", "nan"), "--lr", "number"),
    (("model", "--memory-limit", "12 bananas"), "--memory-limit", "bananas"),
    (("model", "--timeout", "0.5"), "--timeout", "1 to"),
    (("model", "--max-steps", "5"), "--max-steps", "--until-ci"),
    (("model", "--resume", "--force"), "--resume", "--force"),
    (("model", "--resume", "--output", "o.h5", "--dump", "d.h5"), "--dump", "--force"),
    (("model", "--resume"), "--resume", "--output"),
    (("model", "--force"), "--force", "--output"),
    (("model", "--quiet=3"), "--quiet", "no, yes"),
    (("model", "--context"), "--context", "needs a value"),
    (("model", "--preset", "size"), "--preset", "sizes"),
    (("model", "--preset", "tuned"), "--preset", "compile"),
    (("model", "--config", "none.toml"), "--config", "none.toml"),
    (("model", "--size", "custom"), "--size", "--d-model, --d-ff, --layers and --heads"),
    (("model", "--size", "custom", "--heads", 1), "--size", "--d-model, --d-ff and --layers"),
    (("model", "--size", "xl", "--heads", 1), "--size", "--heads"),
    (("model", "--size", "custom,tiny"), "--size", "other sizes"),
    (("model", "--d-model", "64"), "--d-model", "--heads"),
    (("model", "--d-model", 64, "--d-ff", 8, "--layers", 1, "--heads", 3), "--heads", "divide"),
    (("model", "--d-model", 9, "--d-ff", 8, "--layers", 1, "--heads", 3), "--heads", "even"),
    (("model", "stray"), "stray", "lists have commas"),
    (("attention", "--fp32-attention", "exact", "--precision", "bf16"), "--fp32-attention", "fp32"),
    (("attention", "--flash-kernels", "sm70"), "--flash-kernels", "newest, sm80"),
    (
        ("attention", "--flash-kernels", "newest", "--fp32-attention", "exact"),
        "--flash-kernels",
        "--precision bf16 or fp16",
    ),
    (
        ("attention", "--precision", "bf16", "--flash-kernels", "newest,sm80", "--device", "cpu"),
        "--flash-kernels",
        "GPU",
    ),
    (("model", "--flash-kernels", "sm80"), "--flash-kernels", "--attention flash on a GPU"),
    (("attention", "--launch", "graph", "--device", "cpu"), "--launch", "direct"),
    (("attention", "--preset", "flash"), "--preset", "flash-benchmark"),
    (("collectives", "--op", "allreduce"), "--op", "all_reduce, reduce_scatter"),
    (("collectives", "--op", "all_gather", "--redop", "max"), "--redop", "takes a reduction"),
    (("collectives", "--bytes", "4KB", "--fit"), "--fit", "two message sizes"),
    (("collectives", "--ranks", "2"), "--ranks", "mpirun -np 2"),
    (("collectives", "--cadence", "graph", "--backend", "mpi"), "--cadence", "barrier"),
    (("collectives", "--deterministic"), "--deterministic", "--help"),
    (("collectives", "--backend", "nccl", *CPU), "--backend", "leave out --device cpu"),
    (("collectives", "--cadence", "graph", *CPU), "--cadence", "needs nccl"),
    (("collectives", "--registration", "symmetric", *CPU), "--registration", "needs nccl"),
    (("collectives", "--in-place", "yes", "--op", "all_to_all,send_recv"), "--in-place", "an --op"),
    (("ddp", "--bucket-mb", "1", "--sync", "flat"), "--bucket-mb", "--sync bucketed"),
    (("ddp", "--mode", "inference"), "--mode", "has no gradients"),
    (("ddp", "--verify", "--precision", "bf16"), "--verify", "compares in fp32"),
    (("ddp", "--verify", "--comm-dtype", "bf16"), "--verify", "compares in fp32"),
    (("ddp", "--verify", "--mode", "forward-backward"), "--verify", "needs train-step"),
    (("ddp", "--verify", "1001"), "--verify", "0 to 1000"),
    (("ddp", "--global-batch", "4", "--batch-size", "2"), "--global-batch", "replaces --batch"),
    (("ddp", "--predict", "fit.h5", "--sync", "flat"), "--predict", "goes with --sync bucketed"),
    (("ddp", "--verify", "--sync", "none"), "--verify", "--sync other than none"),
    (("ddp", "--comm-dtype", "bf16", "--sync", "none"), "--comm-dtype", "--sync other than none"),
    (("zero", "--sync", "naive"), "--sync", "unknown option"),
    (("zero", "--shard", "zero2", "--prefetch", 1), "--prefetch", "it goes with --shard fsdp"),
    (("zero", "--shard", "fsdp", "--bucket-mb", 1), "--bucket-mb", "--shard other than fsdp"),
    (("zero", "--mode", "forward-backward"), "--mode", "forward-backward has no optimizer"),
    (("zero", "--verify", "--precision", "bf16"), "--verify", "compares in fp32"),
    (("zero", "--comm-dtype", "bf16", "--precision", "fp16"), "--comm-dtype", "cannot be combined"),
    ((*SUMS, "--study", "sums"), "--study", "accumulation, dtypes, norms"),
    ((*SUMS, "--count", "0"), "--count", "1 to"),
    ((*SUMS, "--addend", "x"), "--addend", "number"),
    ((*SUMS, "--summation", "random"), "--summation", "sequential, pairwise, blocked, compensated"),
    ((*SUMS, "--arithmetic", "fp8"), "--arithmetic", "fp16-into-fp32"),
    ((*SUMS, "--study", "norms", "--count", "10"), "--count", "--study accumulation"),
    ((*SUMS, "--study", "norms", "--precision", "fp16"), "--precision", "--study dtypes"),
    ((*SUMS, "--precision", "tf32"), "--precision", "needs a GPU"),
    ((*SUMS, "--scale", "0"), "--scale", "out of range"),
    ((*SUMS, "--norm-dtype", "fp32"), "--norm-dtype", "fp16, bf16"),
    ((*SUMS, "--study", "accumulation", "--count", "1..5000"), "--arithmetic", "give fewer"),
    ((*SUMS, "--warmup", "1"), "--warmup", "--help"),
    ((*TINY, "--output", "out.txt"), "--output", ".h5"),
    ((*TINY, "--dump", "nowhere/dump.h5"), "--dump", "nowhere"),
    ((*TINY, "--mode", "forward,train-step", "--dump", "dump.h5"), "--dump", "one case"),
    (("modle",), "modle", "model"),
    ((), "experiment", "--help"),
    (("merge", "none.h5"), "none.h5", "does not exist"),
    (("model", "--tokens", "none.bin"), "none.bin", "cannot be read: No such file"),
    (("model", "--load-weights", "none.h5"), "none.h5", "cannot be read: No such file"),
    (("model", "--load-weights", "/bin/sh"), "/bin/sh", "cannot be read: it is not an HDF5 file"),
    (("model", "--load-weights", PACKED), PACKED.name, "decompress it with unxz first"),
    (("ddp", "--predict", "none.json"), "none.json", "make it with paceline-analysis rates"),
    (("merge",), "file is required", "--help"),
    (("merge", "a.h5", "b.h5"), "b.h5: unexpected", "--help"),
]


@pytest.mark.parametrize(("args", "names", "says"), WRONG, ids=lambda v: str(v)[:40])
def test_wrong_use_exits_with_2_and_one_line(paceline, tmp_path, args, names, says):
    done = paceline(*args)
    assert done.code == 2, done.err
    assert names in done.message
    assert says in done.message
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ranks", [0, 2])
def test_an_error_about_a_value_of_the_preset_names_the_preset(paceline, ranks):
    args = ("model", "--preset", "compile", "--device", "cpu")
    refused = "paceline: --exec: compiled needs a GPU; use eager on the CPU"
    done = paceline(*args, ranks=ranks)
    assert done.code == 2
    assert done.message == f"{refused} (--preset compile has --exec eager,compiled)"
    done = paceline(*args, "--exec", "compiled", ranks=ranks)
    assert done.code == 2
    assert done.message == refused
    done = paceline("plan", "--preset", "xxl", "--precision", "fp32", ranks=ranks)
    assert done.message.endswith(" (--preset xxl has --hardware tpu-v5p)")


@pytest.mark.parametrize(
    ("args", "code"), [(("--size", "smal"), 2), (("--device", "cuda"), 3)], ids=["2", "3"]
)
def test_every_rank_exits_with_the_same_code(tmp_path, args, code):
    """A shell around each rank writes the exit code to a file, since mpirun reports only one."""
    ranks = ["mpirun", "--oversubscribe", "-np", "3", "sh", "-c", WRITE_CODE, "sh"]
    run_line(tmp_path, [*ranks, PROGRAM, "model", *args], CUDA_VISIBLE_DEVICES="")
    codes = {p.name: int(p.read_text()) for p in tmp_path.glob("code.*")}
    assert codes == {f"code.{rank}": code for rank in range(3)}


def test_wrong_use_found_with_all_ranks_is_reported_once(paceline, tmp_path):
    done = paceline(*TINY, "--global-batch", 5, ranks=2)
    assert done.code == 2
    assert "--global-batch" in done.message
    assert "2 ranks" in done.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ranks", [0, 2])
def test_no_gpu_exits_with_3(paceline, tmp_path, ranks):
    args = ("model", "--size", "tiny", "--device", "cuda", *ONCE)
    done = paceline(*args, ranks=ranks, env={"CUDA_VISIBLE_DEVICES": "9"})
    assert done.code == 3
    assert done.message.startswith("paceline: --device: rank 0: ")
    assert ", with CUDA_VISIBLE_DEVICES=9; " in done.message
    assert list(tmp_path.iterdir()) == []


def test_srun_tasks_in_separate_mpi_worlds_exit_with_3(paceline):
    """Without Slurm's PMI, MPI makes every task of a step a world of one rank."""
    alone = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    done = paceline(*TINY, env=alone)
    assert done.code == 3
    assert "--mpi=pmix" in done.message
    # Under mpirun in an allocation, these variables describe the step of mpirun itself.
    assert paceline(*TINY, "--dry-run", env=alone, ranks=1).code == 0


def test_dump_does_not_overwrite_existing_files(paceline, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "kept.h5").write_text("mine")
    for name, says in (("folder", "folder"), ("kept.h5", "--force"), ("out.h5", "--output")):
        done = paceline(*TINY, "--output", "out.h5", "--dump", name, ranks=2)
        assert done.code == 2, done.err
        assert "--dump" in done.message
        assert says in done.message
    assert (tmp_path / "kept.h5").read_text() == "mine"


def test_dump_to_the_output_file_or_a_device_is_refused(paceline, tmp_path):
    (tmp_path / "link.h5").symlink_to("out.h5")
    for dump in ("link.h5", f"../{tmp_path.name}/out.h5"):
        done = paceline(*TINY, "--output", "out.h5", "--dump", dump)
        assert done.code == 2
        assert "--dump: is the same file as --output" in done.message
    os.mkfifo(tmp_path / "pipe")
    done = paceline(*TINY, "--output", "out.h5", "--dump", "pipe", "--force")
    assert done.code == 2
    assert "device" in done.message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.h5", "pipe"]


TOKENS = np.zeros((4, 9), np.int32)


@pytest.mark.parametrize(
    ("datasets", "says"),
    [
        ({"tokens": TOKENS + 10000}, "10000"),
        ({"tokens": TOKENS - 1}, "-1"),
        # Truncated to 32 bits it would be a valid 5.
        ({"tokens": TOKENS.astype(np.int64) + 2**32 + 5}, str(2**32 + 5)),
        ({"tokens": TOKENS, "targets": TOKENS + 10000}, "10000"),
        ({"tokens": TOKENS[:, :7]}, "[4, 8]"),
        ({"tokens": TOKENS[:3]}, "[4, 8]"),
        ({"tokens": TOKENS[0]}, "integers"),
        ({"tokens": TOKENS.astype(np.float32)}, "integers"),
        ({"tokens": TOKENS, "targets": TOKENS[:2]}, "different"),
        ({"words": TOKENS}, "tokens"),
    ],
)
def test_bad_tokens(paceline, tmp_path, datasets, says):
    with h5py.File(tmp_path / "tokens.h5", "w") as f:
        for name, value in datasets.items():
            f[name] = value
    done = paceline(*TINY, "--tokens", "tokens.h5")
    assert done.code == 2, done.err
    assert "--tokens" in done.message
    assert says in done.message
    assert [p.name for p in tmp_path.iterdir()] == ["tokens.h5"]


@pytest.mark.parametrize("option", ["--tokens", "--load-weights"])
def test_an_input_whose_name_is_not_utf_8(paceline, tmp_path, option):
    """Results with that name would not be readable."""
    name = os.fsdecode(b"in\xff.bin")
    np.zeros(4 * 8 + 1, np.uint16).tofile(tmp_path / name)
    done = paceline(*TINY, option, name)
    assert (done.code, done.out) == (2, "")
    assert done.message == f"paceline: {option}: the name is not UTF-8; rename the file"
    done = paceline(*TINY, option, name, "--print-config")
    assert (done.code, done.out) == (2, "")
    assert done.message == f"paceline: {option}: is not UTF-8, which TOML requires"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    return made(folder / "first.h5", *TINY, "--dump", "dump.h5").with_name("dump.h5")


@pytest.mark.parametrize("change", ["missing", "extra", "misshapen", "integer", "not HDF5"])
def test_bad_weights(paceline, tmp_path, weights, change):
    shutil.copy(weights, tmp_path)
    name = "layers.1.attn.k_proj.weight"
    with h5py.File(tmp_path / "dump.h5", "a") as f:
        weights = f["weights"]
        if change in ("missing", "misshapen", "integer"):
            del weights[name]
        if change == "misshapen":
            weights[name] = np.zeros((64, 63), np.float32)
        if change == "integer":
            weights[name] = np.zeros((64, 64), np.int32)
        if change == "extra":
            name = "layers.2.ln1.weight"
            weights[name] = np.zeros(64, np.float32)
    if change == "not HDF5":
        name = "dump.h5"
        (tmp_path / "dump.h5").write_text("weights")
    done = paceline(*TINY, "--load-weights", "dump.h5", "--output", "second.h5", ranks=2)
    assert done.code == 2, done.err
    assert "--load-weights" in done.message
    assert name in done.message
    assert not (tmp_path / "second.h5").exists()
    assert not (tmp_path / "second.h5.cases").exists()
