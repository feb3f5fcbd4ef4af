"""bench/peers/train_step.py on the CPU: every variant computes the same training, and its times are
those of its steps."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import timing
from step_cases import variant

torch = pytest.importorskip("torch")
train_step = pytest.importorskip("train_step")

ROOT = Path(__file__).parents[2]
# aot_eager captures and differentiates as torch.compile does, but compiles no C++.
TINY = [
    "--device", "cpu", "--size", "16x32x2x2", "--vocab", "32", "--context", "8", "--batch-size",
    "2", "--compiler", "aot_eager", "--warmup", "2", "--max-warmup", "0", "--steps", "6",
]  # fmt: skip
ALIKE = (
    "eager", "compile", "tuned+uncaptured", "tuned+uncaptured+whole", "tuned+uncaptured+each-adamw",
    "tuned+uncaptured+fused-adamw+separate-matmuls", "tuned+uncaptured+in-backward",
)  # fmt: skip
WITH_MASTERS = (
    "master-weights+uncaptured", "master-weights+uncaptured+in-backward",
    "master-weights+uncaptured+fp32-residual", "master-weights+uncaptured+separate-matmuls",
)  # fmt: skip


@pytest.fixture
def rows(monkeypatch):
    """rows(words): the rows of these options."""

    def measured(*words):
        monkeypatch.setattr(sys, "argv", ["train_step.py", *TINY, *words])
        options = train_step.parsed()
        torch._dynamo.config.recompile_limit = 256
        return [json.loads(json.dumps(row)) for row in train_step.rows(options)]

    return measured


def losses(found):
    assert [row["status"] for row in found] == ["ok"] * len(found), found
    return [row["loss"] for row in found]


@pytest.mark.parametrize("attention", ["naive", "flash"])
def test_all_variants_compute_the_same_training(rows, attention):
    """After six steps, whose updates lower the loss by far more than the tolerance."""
    eager, *others = losses(rows("--attention", attention, "--variants", *ALIKE))
    assert others == pytest.approx([eager] * len(others), rel=2e-6)
    first = losses(rows("--attention", attention, "--mode", "forward", "--variants", "eager"))[0]
    assert first - eager > 0.005


def test_low_precision_follows_float32(rows):
    """bfloat16 has 8 bits: the mean of 16 losses agrees to 0.2% whether autocast or master weights
    are used. Without the update of the masters the loss would differ by 1%."""
    (exact,) = losses(rows("--variants", "eager"))
    found = losses(rows("--precision", "bf16", "--variants", *ALIKE, *WITH_MASTERS))
    assert found == pytest.approx([exact] * len(found), rel=2e-3)


def test_masters_keep_updates_that_bfloat16_would_round_away():
    weights = torch.nn.ParameterList([torch.nn.Parameter(torch.full((8,), 256.0))])
    masters = train_step.with_masters(weights, torch.bfloat16)
    for update in train_step.UPDATES.values():
        settings = {"backend": "eager"}
        optimizer = train_step.CompiledAdamW(weights, masters, update, settings)
        before = masters[0].clone()
        for _ in range(3):
            weights[0].grad = torch.ones(8, dtype=torch.bfloat16)
            optimizer.step()
        assert (masters[0] < before).all()
        assert weights[0].dtype == torch.bfloat16
        assert torch.equal(weights[0], masters[0].bfloat16())


def test_the_compiled_adamw_is_pytorchs():
    torch.manual_seed(0)
    start = [torch.randn(5, 7), torch.randn(3)]
    gradients = [[torch.randn_like(one) for one in start] for _ in range(4)]

    def trained(optimizer_of):
        parameters = [torch.nn.Parameter(one.clone()) for one in start]
        optimizer = optimizer_of(parameters)
        for of_step in gradients:
            for parameter, gradient in zip(parameters, of_step, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in parameters])

    expected = trained(torch.optim.AdamW)
    for update in train_step.UPDATES.values():
        found = trained(
            lambda parameters, update=update: train_step.CompiledAdamW(
                parameters, [p.detach() for p in parameters], update, {"backend": "eager"}
            )
        )
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_sample_is_the_time_of_one_step(rows, monkeypatch):
    """With a clock that advances by 0.25 s in every step."""
    now = [0.0]
    step = train_step.Trainer.step

    def timed(self):
        step(self)
        now[0] += 0.25

    monkeypatch.setattr(train_step.Trainer, "step", timed)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    (row,) = rows("--variants", "eager")
    assert row["samples"] == {"step": [[0.25] * 6]}
    assert row["samples_warmup"] == {"step": [[0.25] * 2]}
    assert row["step_median_s"] == row["step_ci_low_s"] == row["step_max_s"] == 0.25
    assert (row["compile_s"], row["setup_s"]) == (0.25, 0.25 * train_step.LOSS_STEP)


def test_a_measured_model_is_freed(rows, monkeypatch):
    """A process measures many variants, and the largest models fill most of the memory."""
    kept = []
    start = train_step.Trainer.__init__

    def noted(self, *arguments):
        start(self, *arguments)
        kept.extend(map(weakref.ref, self.model.parameters()))

    monkeypatch.setattr(train_step.Trainer, "__init__", noted)
    rows("--variants", "eager", "compile", "tuned+uncaptured", "tuned+uncaptured+in-backward")
    gc.collect()
    assert len(kept) > 40
    assert [parameter for parameter in kept if parameter() is not None] == []


def test_what_cannot_run_is_a_row(rows, monkeypatch):
    names = ["captured", "eager+fp8", "compile+flash4", "tuned+uncaptured+in-backward"]
    found = rows("--attention", "flash", "--mode", "forward", "--variants", *names)
    assert [row["status"] for row in found] == ["skipped"] * 4
    assert [bool(row["reason"]) for row in found] == [True] * 4

    def breaks(*_):
        raise torch.cuda.OutOfMemoryError("out of memory\nmore")

    monkeypatch.setattr(train_step, "Trainer", breaks)
    (row,) = rows("--variants", "eager")
    assert (row["status"], row["reason"]) == ("oom", "out of memory")


def test_a_variant_has_a_time_limit(rows, monkeypatch):
    monkeypatch.setattr(train_step.Trainer, "step", lambda self: train_step.expired(14, None))
    (row,) = rows("--variants", "eager")
    assert (row["status"], row["reason"]) == ("failed", "TimeoutError: the time limit of a variant")


def test_a_served_process_answers_line_by_line():
    command = [sys.executable, ROOT / "bench/peers/train_step.py", *TINY, "--serve"]
    done = subprocess.run(
        command, input="eager\neager\n", capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["variant"] for row in found] == ["eager", "eager"]
    assert found[0]["loss"] == found[1]["loss"]


def test_a_variant_says_how_it_runs(rows):
    (row,) = rows("--variants", "tuned+uncaptured+in-backward")
    assert (row["exec"], row["optimizer"]) == ("compiled", "in-backward")
    assert variant(row["variant"]).in_backward
