"""`attention`: its result file, presets, cases that do not fit, and refused options."""

import json
import math

import h5py
import pytest

from conftest import gpu_count
from result_files import summary

RUN = ("attention", "--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")
SMALL = (*RUN, "--context", 65, "--head-dim", 16, "--batch-size", 2, "--heads", 3, "--steps", 6)
WARM = ("--warmup", 1, "--cache", "warm")
PHASES = ("forward", "backward", "both")


def test_every_combination_of_attention_precision_and_mask_is_correct(paceline, tmp_path):
    done = paceline(
        *(*RUN, *WARM, "--attention", "naive,fused,flash", "--precision", "fp32,bf16,fp16"),
        *("--fp32-attention", "exact,bf16x3,tf32", "--causal", "no,yes", "--context", 65),
        *("--head-dim", "16,80", "--batch-size", 2, "--heads", 2, "--steps", 1),
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    # --fp32-attention is a factor only of flash attention on fp32.
    assert len(table["case"]) == 2 * 2 * (3 + 2 + 2 * 3)
    assert set(table["status"]) == {"ok"}
    assert min(table["largest_error_over_tolerance"]) > 0
    assert max(table["largest_error_over_tolerance"]) < 1
    modes = zip(table["attention"], table["precision"], table["fp32_attention"], strict=True)
    assert {mode for kind, p, mode in modes if (kind, p) == ("flash", "fp32")} == {
        "exact", "bf16x3", "tf32",
    }  # fmt: skip


def test_summary_and_case_datasets(paceline, tmp_path):
    done = paceline(*SMALL, *WARM, "--attention", "naive,flash", "--causal", ranks=2)
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert table["attention"] == ["naive", "flash"]
    assert table["causal"] == ["yes"] * 2
    one = 2 * 65 * 3 * 16 * 4  # bytes of q
    kept = [2 * 3 * 65 * 65 * 4, one + 2 * 3 * 65 * 4]
    assert table["predicted_saved_bytes"] == [3 * one + k for k in kept]
    for name in ("saved_bytes", "peak_bytes"):
        assert table[name] == pytest.approx(table[f"predicted_{name}"], rel=0.02)
    kept[1] -= one  # the output that flash saves is allocated in any case
    before = [5 * one + k for k in kept]
    assert table["memory_before_backward_bytes"] == pytest.approx(before, rel=0.02)
    assert table["forward_kernels"] == table["backward_kernels"] == ["", "cpu"]
    assert table["forward_tile_keys"][1] == 64
    assert table["forward_parts"][1] == table["backward_parts"][1] == 1
    flops = {"forward": 1, "backward": 2.5, "both": 3.5}
    sure = "too wide for a ratio" not in done.out  # on a busy host the copy rate is uncertain
    for row in range(2):
        for phase in PHASES:
            rate = flops[phase] * 2 * 2 * 3 * 65**2 * 16 / table[f"{phase}_median_s"][row] / 1e12
            assert table[f"{phase}_tflops_per_s"][row] == pytest.approx(rate)
            floor = table[f"{phase}_bandwidth_floor_s"][row]
            assert floor > 0 if sure else math.isnan(floor)
    with h5py.File(tmp_path / "out.h5") as f:
        for case in f["cases"].values():
            for phase in PHASES:
                assert case[f"samples/{phase}"].shape == (2, 6)
            check = case["check"]
            outputs = {name + row for name in ("o", "dq", "dk", "dv") for row in ("", "_row")}
            outputs |= {"logsumexp"} if case.attrs["attention"] == "flash" else set()
            assert set(check["output"].asstr()[:]) == outputs
            assert sorted(check["rank"][:]) == sorted([0, 1] * len(outputs))
            assert (check["error"][:] <= check["tolerance"][:]).all()
            assert set(check["checked_rows"][:]) == {65}
        (case,) = f["speed_up/case"].asstr()[:]
        assert case == table["case"][1]
        for phase in PHASES:
            naive, flash = table[f"{phase}_median_s"]
            assert f[f"speed_up/{phase}"][0] == pytest.approx(naive / flash)
    assert "speed_up:" in done.out


def test_a_case_that_does_not_fit_is_an_oom_row(paceline, tmp_path):
    done = paceline(
        *(*RUN, *WARM, "--attention", "naive,flash", "--context", 1024, "--batch-size", 2),
        *("--head-dim", 16, "--steps", 1, "--memory-limit", "8MB"),
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert table["status"] == ["oom", "ok"]
    arithmetic = (
        "17.8 MB are needed, 8.00 MB are available: 8 B H T d e + 2 B H T^2 e = 1.05 MB + 16.8 MB"
    )
    assert f"oom: about {arithmetic}" in " ".join(done.out.split())
    for words in (arithmetic + "; ", "scaled dot product attention", " of 8.00 MB in use"):
        assert words in table["reason"][0]


def test_defaults_are_naive_and_flash_with_a_cold_cache(paceline, tmp_path):
    done = paceline(*SMALL, "--warmup", 0, "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(r["attention"], r["cache"], r["causal"], r["launch"]) for r in rows] == [
        (kind, "cold", "no", "direct") for kind in ("naive", "flash")
    ]
    assert rows[1]["fp32_attention"] == "bf16x3"


@pytest.mark.skipif(gpu_count() == 0, reason="no GPU here")
@pytest.mark.parametrize(
    "args",
    [
        ("attention", "--attention", "naive,flash", "--head-dim", "64,48", "--context", 64),
        ("model", "--d-model", 96, "--d-ff", 8, "--layers", 1, "--heads", 2, "--context", 8),
    ],
    ids=["attention", "model"],
)
def test_a_head_dimension_without_flash_kernels_is_refused_before_anything_runs(
    paceline, tmp_path, args
):
    flash = ("--attention", "naive,flash", "--device", "cuda")
    done = paceline(*args, *(flash if args[0] == "model" else flash[2:]))
    assert done.code == 3
    assert "16, 32, 64, 80, 128, not 48" in done.message
    assert list(tmp_path.iterdir()) == []
