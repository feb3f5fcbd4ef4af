"""The model against PyTorch in float64 (tests/golden/generate.py), through the command line."""

import h5py
import numpy as np
import pytest

from conftest import gpu_count

MODELS = ["tiny", "odd", "head80"]


def tensors(group, prefix=""):
    """Every dataset below a group, by name."""
    return {prefix + name: dataset[:] for name, dataset in group.items()}


def trained_weights(case):
    """The weights after AdamW's steps: (name, wanted rows, the stride of the rows kept)."""
    stride = case["weights_after"].attrs["row_stride"]
    for name, want in tensors(case["weights_after"]).items():
        yield name, want, slice(None, None, stride if want.ndim > 1 else 1)


def relative_l2(got, want):
    scale = np.linalg.norm(want)
    return np.linalg.norm(got.astype(np.float64) - want) / scale


@pytest.fixture(params=[("cpu", "eager"), ("cuda", "eager"), ("cuda", "compiled")], ids="-".join)
def run_golden(request, paceline, golden, tmp_path):
    device, execution = request.param
    if device == "cuda" and gpu_count() == 0:
        pytest.skip("no CUDA GPU here")

    def run(model, *args, warmup=0):
        case = golden[model]
        with h5py.File(tmp_path / "input.h5", "w") as f:
            f["tokens"], f["targets"] = case["tokens"][:], case["targets"][:]
            for name, value in tensors(case["weights"]).items():
                f[f"weights/{name}"] = value
        a = case.attrs
        if device == "cuda" and "flash" in args and a["d_model"] // a["heads"] < 16:
            pytest.skip("flash attention on a GPU serves no head dimension this small")
        done = paceline(
            *("model", "--quiet", "--force", "--output", "out.h5", "--dump", "dump.h5"),
            *("--load-weights", "input.h5", "--tokens", "input.h5"),
            *("--d-model", a["d_model"], "--d-ff", a["d_ff"], "--layers", a["layers"]),
            *("--heads", a["heads"], "--vocab", a["vocab"], "--context", a["context"]),
            *("--batch-size", a["batch"], "--threads", 1, "--device", device),
            *("--exec", execution, *args),
            *("--warmup", warmup, "--steps", 3 - warmup),
        )
        assert done.code == 0, done.err
        return case, h5py.File(tmp_path / "dump.h5")

    return run


ARGS = [
    ("--recompute", "none"), ("--recompute", "swiglu"), ("--recompute", "block"),
    ("--recompute", "2"), ("--attention", "fused"),
    ("--attention", "flash", "--fp32-attention", "exact"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "args"),
    [
        pytest.param(
            model, args, id=f"{model}-{args[1]}",
            marks=() if model == "odd" or args[1] in ("none", "flash") else pytest.mark.long,
        )
        for model in MODELS for args in ARGS
    ],
)  # fmt: skip
def test_fp32_equals_pytorch(run_golden, model, args):
    case, dump = run_golden(model, "--precision", "fp32", *args)
    np.testing.assert_allclose(dump["logits"][:], case["logits"][:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dump["loss"][0], case["loss"][()], rtol=1e-5)
    gradients = tensors(case["gradients"])
    assert set(dump["gradients"]) == set(gradients)
    for name, want in gradients.items():
        got = dump["gradients"][name][:]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=name)
    assert set(dump["weights"]) == set(case["weights_after"])
    for name, want, rows in trained_weights(case):
        assert relative_l2(dump["weights"][name][rows], want) < 1e-5, name
        before = case["weights"][name][rows]
        assert relative_l2(before, want) > 1e-4, f"{name} did not move"


@pytest.mark.parametrize(
    "model", ["odd", *(pytest.param(one, marks=pytest.mark.long) for one in ("tiny", "head80"))]
)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("attention", ["naive", "fused", "flash"])
def test_half_precisions_are_near_pytorch(run_golden, model, precision, attention):
    case, dump = run_golden(model, "--precision", precision, "--attention", attention)
    assert relative_l2(dump["logits"][:], case["logits"][:]) < 2e-2
    assert abs(dump["loss"][0] / case["loss"][()] - 1) < 2e-2
    for name, want in tensors(case["gradients"]).items():
        assert relative_l2(dump["gradients"][name][:], want) < 2e-2, name
    for name, want, rows in trained_weights(case):
        assert relative_l2(dump["weights"][name][rows], want) < 2e-2, name


def test_step_timing_gives_the_same_step(run_golden):
    _, phases = run_golden("tiny")
    kept = {name: phases["weights"][name][:] for name in phases["weights"]}
    phases.close()
    _, step = run_golden("tiny", "--timing", "step")
    for name, want in kept.items():
        np.testing.assert_array_equal(step["weights"][name][:], want, err_msg=name)


def test_warm_up_counts_as_steps(run_golden):
    """--dump's last weights come after warm-up and measured steps: 1 + 2 are 3 steps."""
    case, dump = run_golden("tiny", warmup=1)
    for name, want, rows in trained_weights(case):
        assert relative_l2(dump["weights"][name][rows], want) < 1e-5, name
