"""bench/peers/data_parallel_ratios.py with stand-ins for both sides."""

import json
import sys
from itertools import pairwise

import data_parallel_ratios as ratios
import pytest
from markdown_text import markdown_rows

from analysis import peers

# Ends as its variant says: with a row of each rank, without a row, or not.
PEER = """
import json, os, sys, time
given = dict(zip(sys.argv, sys.argv[1:]))
name = given["--variant"]
open(FOLDER + "/asked", "a").write(name + "\\n")
SECONDS = {"ddp": 0.03, "ddp+view": 0.02, "zero": 0.05, "fsdp": 0.04}
row = {"software": "PyTorch 2", "variant": name, "exec": "eager", "status": "ok"}
if name == "flat":
    time.sleep(60)
if name == "overlap":
    raise SystemExit(3)
if name == "naive":
    print(json.dumps(row | {"step_median_s": 0.001}))
    print(json.dumps(row | {"status": "failed", "reason": "rank 1: no"}))
    raise SystemExit(1)
s = SECONDS[name]
times = {f"step_{n}_s": s for n in ("median", "mean", "min", "max")}
print(json.dumps(row | times | {"samples": {"step": [[s] * 6] * 2}}))
"""


@pytest.fixture
def run(tmp_path, monkeypatch, script, own):
    """run(*options): the printed tables; each launch is noted in `asked`."""
    monkeypatch.setattr(ratios, "PEER", script("peer.py", f"FOLDER = {str(tmp_path)!r}\n{PEER}"))
    monkeypatch.setattr(ratios, "launch", lambda command, ranks: command)
    monkeypatch.setattr(sys, "argv", ["data_parallel_ratios.py"])

    def paceline(_options, arguments, ranks):
        given = dict(pairwise(arguments))
        (tmp_path / "asked").open("a").write(f"{arguments[0]} on {ranks}\n")
        assert (given["--precision"], given["--batch-size"]) == ("bf16", "2")
        factor = "--sync" if arguments[0] == "ddp" else "--shard"
        names = given[factor].split(",")
        seconds = [0.01 + 0.001 * i for i in range(len(names))]
        return own([{factor[2:]: name} for name in names], seconds)

    monkeypatch.setattr(ratios, "paceline", paceline)

    def start(*options):
        output = ["--cases", "small:bf16:128:2", "--device", "cpu", "--limit", "3", *options]
        ratios.main([*output, "--output", str(tmp_path / "sweep.h5")])
        return (tmp_path / "asked").read_text().splitlines()

    return start


def test_the_fastest_replicated_and_sharded_variants_go_on(run, tmp_path, capsys):
    names = ["ddp", "ddp+view", "zero", "fsdp"]
    asked = run("--turns", "2", "--variants", *names)
    ours = ["ddp on 2", "zero on 2"]
    assert asked == [*ours, *names, *ours, "ddp+view", "fsdp"]
    best, _ = capsys.readouterr().out.split("Every variant.")
    beside = {row[1]: (row[4], row[7].split()[0], row[8]) for row in markdown_rows(best)[2:]}
    assert beside["naive"] == ("ddp+view", "0.500", "2")
    assert beside["bucketed"] == ("ddp+view", "0.650", "2")
    assert beside["zero1"] == ("fsdp", "0.275", "2")


def test_a_variant_that_fails_on_any_rank_is_a_row(run, tmp_path):
    """So is one that ends without a row, or does not end: the others are still measured."""
    asked = run("--turns", "1", "--variants", "naive", "overlap", "flat", "ddp")
    assert asked[-4:] == ["naive", "overlap", "flat", "ddp"]
    rows = peers.read(tmp_path / "sweep.h5")[0].set_index("variant")
    found = {name: (rows.loc[name, "status"], rows.loc[name, "reason"]) for name in asked[-4:]}
    assert found == {
        "naive": ("failed", "rank 1: no"), "overlap": ("failed", "the launch ended with 3"),
        "flat": ("failed", "no end within 3 s"), "ddp": ("ok", ""),
    }  # fmt: skip
    assert rows.loc["naive", "sync"] == "naive"


@pytest.mark.parametrize("text", ["small", "small:bf16:128", "small:bf15:128:2", "small:bf16:a:2"])
def test_other_cases_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        ratios.main(["--cases", text, "--output", "x.h5"])
    assert "invalid case_of value" in capsys.readouterr().err


def test_a_case_is_a_dictionary():
    assert json.loads(json.dumps(ratios.case_of("xl:fp32:128:4"))) == {
        "size": "xl", "precision": "fp32", "context": 128, "batch_size": 4,
    }  # fmt: skip
