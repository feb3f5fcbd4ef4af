"""bench/peers/attention_ratios.py: FLOPs, ratios, and which of several times counts."""

import json
import sys
from itertools import pairwise

import attention_cases
import attention_ratios as ratios
import pytest

CASE = {"batch_size": 2, "heads": 16, "context": 10000, "head_dim": 64, "causal": "no",
        "precision": "bf16"}  # fmt: skip
TIMES = {"forward": 1, "backward": 2.5, "both": 3.5}  # over that of forward, as the FLOPs are
FORWARD = 4 * 2 * 16 * 10000**2 * 64  # FLOPs


def row(seconds, **others):
    times = {f"{phase}_median_s": seconds * factor for phase, factor in TIMES.items()}
    return CASE | {"status": "ok", "forward_kernels": "hopper", "backward_kernels": "ampere",
                   **times, **others}  # fmt: skip


@pytest.fixture
def printed(monkeypatch, capsys, tmp_path):
    """printed(ours, peers): the table's rows; `ours` are the rows of both runs of paceline."""

    def of(ours, peers):
        runs = iter([[ours[0]], peers, [ours[1]]])
        commands = []

        def rows_of(command):
            commands.append(command)
            return next(runs)

        monkeypatch.setattr(ratios, "rows_of", rows_of)
        words = ["--variants", "flash", "cudnn", "--output", str(tmp_path / "rows.jsonl")]
        monkeypatch.setattr(sys, "argv", ["attention_ratios.py", *words, "--context", "1000"])
        ratios.main()
        assert all(("--context", "1000") in pairwise(command) for command in commands)
        lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
        return lines[2:]

    return of


def test_the_fastest_peer_stands_over_the_slower_run_of_ours(printed, tmp_path):
    peers = [row(0.004, variant="flash"), row(0.003, variant="cudnn")]
    forward, backward, both = printed([row(0.001), row(0.002)], peers)
    # The same FLOPs in 2, 4 and 3 ms; backward has 2.5 times the FLOPs and takes 2.5 times as long.
    flops = [f"{FORWARD / seconds / 1e12:.0f}" for seconds in (0.002, 0.004, 0.003)]
    assert forward[6:] == ["forward", "hopper", "2000.0", *flops, "1.50"]
    assert backward[6:] == ["backward", "ampere", "5000.0", *flops, "1.50"]
    assert both[6:9] == ["both", "hopper, ampere", "7000.0"]
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [r["forward_median_s"] for r in written] == [0.002, 0.004, 0.003]


def test_a_causal_mask_halves_the_flops():
    causal = row(0.001) | {"causal": "yes"}
    assert ratios.tflops(causal, "forward") == pytest.approx(FORWARD / 2 / 0.001 / 1e12)
    assert ratios.tflops(row(0.001), "backward") == pytest.approx(FORWARD / 0.001 / 1e12)


def test_a_peer_without_a_kernel_is_left_out(printed):
    skipped = {"variant": "cudnn", "status": "skipped"} | CASE
    forward, *_ = printed([row(0.002), row(0.001)], [row(0.001, variant="flash"), skipped])
    assert forward[9:] == [f"{FORWARD / 0.002 / 1e12:.0f}", f"{FORWARD / 0.001 / 1e12:.0f}", "-",
                           "0.50"]  # fmt: skip
    forward, *_ = printed([row(0.002), row(0.001)], [skipped])
    assert forward[-3:] == ["-", "-", "-"]


def test_other_cases_of_the_peer_do_not_count(printed):
    others = [row(0.0001, variant="flash") | {"context": 10}, row(0.001, variant="flash")]
    assert printed([row(0.001), row(0.001)], others)[0][-1] == "1.00"


def test_the_cases_are_those_of_both_programs():
    assert tuple(CASE) == attention_cases.FACTORS
