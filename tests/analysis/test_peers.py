"""bench/peers/train_step_ratios.py with fake programs for both sides; its file and its tables."""

import json
import os
import sys
import threading
from pathlib import Path

import h5py
import pytest
from markdown_text import markdown_rows

from analysis import peers
from analysis.__main__ import main
from analysis.result_file import ResultError

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/peers"))

import train_step_ratios as sweep

ROOT = Path(__file__).parents[2]
PUBLISHED = sorted((ROOT / "results/reference").glob("model-compile-peers-*"))

# A fake program: prints its rows of the given execution and order and appends its command line to
# calls.json. A case is four calls of paceline, one of the peer, and four of paceline that are 10%
# slower.
PROGRAM = """#!{python} -IS
import json, os, pathlib, sys
if "--version" in sys.argv:
    print("paceline abc")
    raise SystemExit
calls = pathlib.Path("{folder}/calls.json")
known = json.loads(calls.read_text()) if calls.exists() else []
gpu = "GPU " + os.environ["CUDA_VISIBLE_DEVICES"]
calls.write_text(json.dumps(known + [[*sys.argv, gpu]]))
slower = 1.1 if len(known) % 9 > 4 else 1.0
given = dict(zip(sys.argv, sys.argv[1:]))
for row in json.loads(pathlib.Path(__file__).with_suffix(".json").read_text()):
    factors = {{name: row[name] for name in ("exec", "optimizer") if "--" + name in given}}
    if any(given["--" + name] != value for name, value in factors.items()):
        continue
    if "step_median_s" in row:
        row["step_median_s"] *= slower
    print(json.dumps(row))
"""

OURS = [
    {"exec": e, "optimizer": o, "status": "ok", "step_median_s": seconds, "mfu_datasheet": None}
    for e, o, seconds in [
        ("eager", "serial", 0.010),
        ("eager", "in-backward", 0.009),
        ("compiled", "serial", 0.006),
        ("compiled", "in-backward", 0.007),
    ]
]
THEIRS = [
    {"software": "PyTorch 2", "sdpa_backend": "cudnn", "variant": v, "exec": e, **measured}
    for v, e, measured in [
        ("eager", "eager", {"status": "ok", "step_median_s": 0.040, "setup_s": 1.5}),
        ("captured", "eager", {"status": "ok", "step_median_s": 0.011, "setup_s": 2.0}),
        ("compile", "compiled", {"status": "ok", "step_median_s": 0.012, "setup_s": 28.0}),
        ("captured-compile", "compiled", {"status": "ok", "step_median_s": 0.0088, "setup_s": 29}),
        ("reduce-overhead", "compiled", {"status": "oom", "reason": "out of memory"}),
    ]
]


def script(path, rows):
    path.write_text(PROGRAM.format(python=sys.executable, folder=path.parent))
    path.chmod(0o755)
    path.with_suffix(".json").write_text(json.dumps(rows))
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(*options): runs the sweep into sweep.h5 and returns the calls of the fake programs."""
    program = script(tmp_path / "paceline", OURS)
    monkeypatch.setattr(sweep, "PEER", script(tmp_path / "peer.py", THEIRS))
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho NVIDIA H200\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", ["train_step_ratios.py", "--size", "of this run"])

    def start(*options):
        calls = tmp_path / "calls.json"
        calls.unlink(missing_ok=True)
        sweep.main([*options, "--paceline", str(program), "--output", str(tmp_path / "sweep.h5")])
        return json.loads(calls.read_text()) if calls.exists() else []

    return start


def value_of(call, option):
    return call[call.index(option) + 1]


def test_paceline_runs_before_and_after_the_peer_in_every_case(run, tmp_path):
    axes = ["--precision", "bf16", "--attention", "flash"]
    calls = run("--size", "small", "512x2048x6x8", "--gpus", "1", *axes)
    names = [Path(call[0]).name for call in calls]
    ours = ["paceline"] * len(OURS)  # each variant in a process of its own
    assert names == [*ours, "peer.py", *ours] * 2
    for call in calls:
        assert call[-1] == "GPU 1"
        assert value_of(call, "--precision") == "bf16" and value_of(call, "--attention") == "flash"
    assert value_of(calls[0], "--size") == "small"
    assert "--size" not in calls[9] and value_of(calls[13], "--size") == "512x2048x6x8"
    assert [value_of(calls[9], f"--{name}") for name in ("d-model", "d-ff", "layers", "heads")] == [
        "512", "2048", "6", "8",
    ]  # fmt: skip
    variants = [(value_of(call, "--exec"), value_of(call, "--optimizer")) for call in calls[:4]]
    assert variants == [(row["exec"], row["optimizer"]) for row in OURS]
    frame, _ = peers.read(tmp_path / "sweep.h5")
    assert len(frame) == 2 * (2 * len(OURS) + len(THEIRS))


def test_the_optimizer_option_is_given_only_where_it_applies(run):
    for options in (["--mode", "forward"], ["--precision", "fp16"]):
        assert "--optimizer" not in run(*options)[0]


def test_cases_in_the_output_file_are_not_measured_again(run, tmp_path, capsys):
    """Nor does one begin after the given minutes."""
    run("--context", "128", "256")
    assert run("--context", "128", "256", "512", "--minutes", "0") == []
    assert "cases left: 1" in capsys.readouterr().err
    assert {value_of(call, "--context") for call in run("--context", "256", "512")} == {"512"}
    frame, attributes = peers.read(tmp_path / "sweep.h5")
    assert list(frame["context"].unique()) == [128, 256, 512]
    assert attributes["command"] == "python3 train_step_ratios.py --size 'of this run'"


def test_an_interrupt_keeps_the_finished_cases(run, tmp_path, monkeypatch):
    measure = sweep.measure

    def breaks(options, case, gpu):
        if case["context"] == 256:
            raise KeyboardInterrupt
        return measure(options, case, gpu)

    monkeypatch.setattr(sweep, "measure", breaks)
    with pytest.raises(KeyboardInterrupt):
        run("--context", "128", "256")
    assert list(peers.read(tmp_path / "sweep.h5")[0]["context"].unique()) == [128]


def test_gpus_measure_at_the_same_time_and_the_file_is_in_order(run, tmp_path, monkeypatch):
    both = threading.Barrier(2, timeout=60)
    gpus = []

    def waits_for_the_other(options, case, gpu):
        gpus.append(gpu)
        both.wait()
        common = {"software": "paceline", "created": "now", "variant": gpu}
        return [row | case | common for row in OURS + THEIRS]

    monkeypatch.setattr(sweep, "measure", waits_for_the_other)
    run("--gpus", "2", "3", "--size", "xl", "small", "--context", "512", "128")
    assert sorted(gpus) == ["2", "2", "3", "3"]
    frame, _ = peers.read(tmp_path / "sweep.h5")
    order = list(frame[["size", "context"]].drop_duplicates().itertuples(index=False, name=None))
    assert order == [("small", 128), ("small", 512), ("xl", 128), ("xl", 512)]


def test_the_file_has_hardware_software_date_and_units_and_becomes_a_document(
    run, tmp_path, capsys
):
    run()
    with h5py.File(tmp_path / "sweep.h5") as file:
        assert file.attrs["hardware"] == "NVIDIA H200"
        assert file.attrs["software_versions"] == "paceline abc; PyTorch 2"
        assert file.attrs["created"].endswith("Z")
        assert file["summary/step_median_s"].attrs["unit"] == "s"
    main(["peers", str(tmp_path / "sweep.h5"), "--output", str(tmp_path / "new/results.md")])
    written = (tmp_path / "new/results.md").read_text("utf-8")
    assert written == peers.document([tmp_path / "sweep.h5"])
    assert written.startswith("# Training steps beside PyTorch\n")
    assert "\n## NVIDIA H200\n" in written
    assert capsys.readouterr().out.endswith("results.md\n")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H100\n")
    with pytest.raises(SystemExit, match="measured on NVIDIA H200; this is NVIDIA H100"):
        run()


def test_the_table_has_the_best_variants_and_the_slower_run_of_paceline(run, tmp_path, capsys):
    run("--size", "small", "2.7b", "--attention", "flash")
    printed = capsys.readouterr().out
    best, every = printed.split("Every variant;")
    header, _, *rows = markdown_rows(best)
    assert header == [
        "size", "paceline eager", "paceline compiled", "PyTorch eager", "captured",
        "torch.compile", "variant", "SDPA", "eager ratio", "compiled ratio",
    ]  # fmt: skip
    # paceline: 9 and 6 ms, 10% slower in the second run. PyTorch: captured 11, compiled 8.8 ms.
    assert rows[0] == [
        "small", "9.900", "6.600", "40.00", "11.00", "8.800", "captured-compile", "cudnn",
        "0.90", "0.75",
    ]  # fmt: skip
    assert "context 512, batch size 4, precision fp32, attention flash, mode train-step" in best
    assert markdown_rows(every)[2] == [
        "small", "11.00", "9.900", "6.600", "7.700", "40.00", "11.00", "12.00", "8.800", "oom",
    ]  # fmt: skip


def test_a_case_that_no_variant_could_run_shows_the_status(run, tmp_path):
    (tmp_path / "peer.json").write_text(
        json.dumps([row | {"status": "oom", "reason": ""} for row in THEIRS])
    )
    run("--attention", "flash")
    table = peers.section(tmp_path / "sweep.h5")
    row = next(row for row in markdown_rows(table) if row[0] == "small")
    assert row[3:] == ["oom", "oom", "oom", "", "cudnn", "–", "–"]


def test_a_file_of_another_experiment_is_refused(make_file):
    with pytest.raises(ResultError, match="not of bench/peers/train_step_ratios"):
        peers.read(make_file([]))


@pytest.mark.skipif(not PUBLISHED, reason="no file in results/reference")
def test_the_published_tables_are_current():
    assert (ROOT / "docs/training-steps.md").read_text("utf-8") == peers.document(PUBLISHED)
