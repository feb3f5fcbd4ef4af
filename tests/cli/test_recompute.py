"""A sweep over --recompute names the value with the least memory and the fastest one."""

import h5py
import pytest

from result_files import rows

MODEL = ("model", "--d-model", 32, "--d-ff", 64, "--layers", 8, "--heads", 2, "--vocab", 64)
CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")


def test_a_sweep_over_recompute_names_least_memory_and_fastest(paceline, tmp_path):
    sweep = ("--context", "16,64", "--recompute", "none,block,2,4")
    done = paceline(*MODEL, *CPU, *sweep, "--warmup", 0, "--steps", 2)
    assert done.code == 0, done.err
    table = rows(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as f:
        named = {name: column[:] for name, column in f["recompute"].items()}
    assert [of.decode() for of in named["of"]] == ["context 16", "context 64"]
    for i, context in enumerate((16, 64)):
        of_context = [row for row in table if row["context"] == context]
        least = min(of_context, key=lambda row: row["peak_bytes"])
        fastest = min(of_context, key=lambda row: row["step_median_s"])
        assert named["least_memory"][i].decode() == least["recompute"]
        assert named["least_memory_peak_bytes"][i] == least["peak_bytes"]
        assert named["least_memory_step_s"][i] == least["step_median_s"]
        assert named["fastest"][i].decode() == fastest["recompute"]
        assert named["fastest_peak_bytes"][i] == fastest["peak_bytes"]
        assert named["fastest_step_s"][i] == fastest["step_median_s"]
        assert least["recompute"] != "none"
    assert "least_memory" in done.out or "least memory" in done.out


@pytest.mark.parametrize(("recompute", "shown"), [("none,block", True), ("block", False)])
def test_all_cases_are_one_group_and_a_single_value_has_no_table(
    paceline, tmp_path, recompute, shown
):
    done = paceline(*MODEL, *CPU, "--recompute", recompute, "--warmup", 0, "--steps", 1)
    assert done.code == 0, done.err
    assert ("of all cases" in done.out) == shown
    with h5py.File(tmp_path / "out.h5") as f:
        assert ("recompute" in f) == shown
