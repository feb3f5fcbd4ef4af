"""bench/peers/data_parallel_step.py on two ranks of the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

STEP = Path(__file__).parents[2] / "bench/peers/data_parallel_step.py"
# aot_eager captures and differentiates as torch.compile does, but compiles no C++.
TINY = [
    "--device", "cpu", "--size", "16x32x2x2", "--vocab", "32", "--context", "8", "--batch-size",
    "2", "--compiler", "aot_eager", "--warmup", "2", "--max-warmup", "0", "--steps", "6",
]  # fmt: skip
# Calls data_parallel_step with a rank that fails while the other waits for it.
ONE_FAILS = f"""
import os, sys
sys.path.insert(0, {str(STEP.parent)!r})
import data_parallel_step as step

def measure(options, device):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        raise ValueError("not on this rank")
    step.dist.barrier()

step.measure = measure
step.main()
"""


def launched(*words):
    """The exit code and the rows."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", sys.executable, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("LD_PRELOAD", None)
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, rows


def row_of(variant, *words):
    code, (row,) = launched(STEP, *TINY, "--variant", variant, *words)
    assert (code, row["status"]) == (0, "ok"), row
    return row


def test_all_variants_compute_the_same_training():
    """After 14 steps, whose updates lower the loss by far more than the tolerance."""
    names = ("naive", "flat", "overlap", "ddp+view", "ddp+tuned+masters", "zero+view", "fsdp+keep")
    rows = [row_of(name) for name in names]
    assert [row["loss"] for row in rows] == pytest.approx([rows[0]["loss"]] * len(rows), rel=1e-5)
    assert rows[0]["loss"] < 3.2
    for row in rows:
        assert len(row["samples"]["step"]) == 2
        assert {len(of_rank) for of_rank in row["samples"]["step"]} == {6}
        assert row["step_max_s"] == max(map(max, row["samples"]["step"]))
        assert ("communication_exposed" in row["samples"]) == (row["variant"] in ("naive", "flat"))


def test_a_variant_that_cannot_run_is_a_row():
    code, (row,) = launched(STEP, *TINY, "--variant", "ddp+view+captured")
    assert (code, row["status"], row["reason"]) == (0, "skipped", "CUDA graphs need a GPU")


def test_a_rank_that_fails_ends_the_launch_with_its_reason(tmp_path):
    script = tmp_path / "one_fails.py"
    script.write_text(ONE_FAILS)
    code, rows = launched(script, *TINY, "--variant", "ddp")
    assert code != 0
    # The other rank may lose its connection before it is ended.
    assert {row["status"] for row in rows} == {"failed"}
    assert "ValueError: not on this rank" in [row["reason"] for row in rows]
