"""Sentences on speed-ups: ranges with their setting, and the slower cases."""

import numpy as np
import pytest

from analysis.report import attention
from analysis.report.facts import cases
from analysis.report.speedups import of_files, speed_ups
from analysis.results import load
from synthetic import case


def around(seconds):
    return {"both": [list(np.linspace(0.99 * seconds, 1.01 * seconds, 8))]}


def attention_case(kind, context, precision, seconds, head_dim=64, **summary):
    factors = {
        "attention": kind, "head_dim": head_dim, "context": context, "precision": precision,
        "batch_size": 1, "fp32_attention": "", "causal": "yes",
    }  # fmt: skip
    if kind == "flash" and precision == "fp32":
        factors["fp32_attention"] = "bf16x3"
    return case(factors, around(seconds), summary=summary)


@pytest.fixture
def flash(make_file):
    def loaded(*rows):
        (found,) = load([make_file(list(rows), experiment="attention")])
        return found

    return loaded


def test_the_longest_context_by_precision_and_then_the_slower_cases(flash):
    rows = [
        attention_case(kind, context, precision, seconds, head_dim)
        for precision, factor in (("bf16", 1), ("fp32", 2))
        for head_dim in (64, 128)
        for context, naive, ours in ((128, 0.1, 0.15), (1024, 1.0, 0.25))
        for kind, seconds in (("naive", naive), ("flash", factor * ours))
    ]
    first, second = speed_ups(flash(*rows), "attention")
    assert first == (
        "flash attention is 4.00× as fast as naive attention at context 1024, batch size 1, bf16 "
        "(forward and backward; 2 of 2 cases faster), and 0.667 to 4.00× over all contexts (2 of 4 "
        "cases faster, 2 slower). Slower: head dim 64 and 128, context 128."
    )
    assert second.startswith("flash attention is 2.00× as fast as naive attention at context 1024")
    assert "fp32" in second


def test_slower_cases_that_are_no_whole_block_are_counted(flash):
    slow = {(64, 128), (128, 256)}
    rows = [
        attention_case(kind, context, "bf16", seconds, head_dim)
        for head_dim in (64, 128)
        for context in (128, 256, 512)
        for kind, seconds in (("naive", 1.0), ("flash", 2 if (head_dim, context) in slow else 0.5))
    ]
    (line,) = speed_ups(flash(*rows), "attention")
    assert line.endswith("Slower: 2 of 4 at head dim 64 and 128, context 128 and 256.")


@pytest.mark.parametrize("others", ["NVIDIA H100", "NVIDIA H200"])
def test_speed_ups_on_several_machines_have_theirs(make_file, others):
    found = []
    for name, gpu, seconds in (("a.h5", "NVIDIA H200", 0.25), ("b.h5", others, 0.5)):
        rows = [attention_case("naive", 128, "bf16", 1.0),
                attention_case("flash", 128, "bf16", seconds)]  # fmt: skip
        path = make_file(rows, name, experiment="attention", ranks=[(gpu, "GPU-1", "a")])
        found += load([path])
    is_one = others == "NVIDIA H200"
    machines = ["", ""] if is_one else [" on NVIDIA H200", " on NVIDIA H100"]
    for (told,), machine in zip(of_files(found, "attention"), machines, strict=True):
        assert f"at context 128, batch size 1, bf16{machine} (forward and backward; faster)" in told
    assert machines[0] in attention.flash(found).headline


def test_the_shared_setting_lacks_the_factor_compared_and_those_that_vary(make_file):
    rows = [
        case({"size": "xl", "context": 128, "batch_size": batch, "precision": precision,
              "attention": "naive", "exec": "eager"}, {"step": around(seconds)["both"]})
        for batch in (2, 4)
        for precision, seconds in (("fp32", 0.2), ("bf16", 0.1))
    ]  # fmt: skip
    (results,) = load([make_file(rows)])
    (line,) = speed_ups(results, "precision")
    assert "as fast as fp32 at xl, context 128, naive attention, eager (step; 2 of 2 cases" in line


def test_a_rate_above_the_fp32_peak_is_explained(flash):
    found = flash(
        attention_case("flash", 128, "fp32", 0.1, both_tflops_per_s=124.0),
        attention_case("flash", 128, "bf16", 0.1, both_tflops_per_s=500.0),
    )
    fp32, bf16 = attention.best_rate(cases([found]))
    assert "bf16x3), not bound by the fp32 peak" in fp32
    assert "peak" not in bf16


@pytest.mark.parametrize("status", ["diverged", "mismatch"])
def test_a_case_that_is_not_ok_has_no_speed_up_and_no_time(make_file, status):
    rows = [
        case({"precision": "fp32", "context": 128}, around(0.2)),
        case({"precision": "bf16", "context": 128}, around(0.1), status=status, reason="nan"),
    ]
    (found,) = load([make_file(rows)])
    assert speed_ups(found, "precision") == []
    assert [np.isnan(one.seconds("both")) for one in cases([found])] == [False, True]
