"""The report's sentences on other software beside paceline."""

import json

import pytest

from analysis import peer_comparison, style, tables
from analysis.report import peers
from analysis.results import load
from synthetic import case


@pytest.fixture
def told(tmp_path):
    """told(rows): the section of a file of bench/peers/ with these rows."""

    def section(rows):
        path = tmp_path / "peers.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows))
        return peers.section(load([path]))

    return section


def step(variant, seconds, size="small", **others):
    software = "paceline" if variant.startswith("paceline") else "PyTorch 2.11.0"
    return {
        "software": software, "variant": variant, "size": size, "context": 128, "batch_size": 4,
        "precision": "bf16", "mode": "train-step", "step_median_s": seconds,
    } | others  # fmt: skip


def test_ours_beside_the_fastest_peer_and_losses_are_stated(told):
    rows = [
        step("paceline eager", 0.010), step("paceline eager", 0.012), step("eager", 0.02),
        step("captured", 0.01), step("paceline eager", 0.03, "xl"), step("captured", 0.06, "xl"),
        step("captured", 0.06, "2.7b"),
    ]  # fmt: skip
    section = told(rows)
    assert section.sentences[0] == (
        "Training steps (context 128, batch size 4, bf16, train-step): paceline takes 0.500 to "
        "1.20 times the time of the fastest peer over 2 cases, faster in 1, slower in 1. Each: "
        "small: 12.00 ms by paceline eager, 10.00 ms by PyTorch captured, ratio 1.20; xl: 30.00 ms "
        "by paceline eager, 60.00 ms by PyTorch captured, ratio 0.500."
    )
    assert "PyTorch captured is the whole eager step in one CUDA graph" in section.sentences[-1]
    assert "reduce-overhead" not in section.sentences[-1]
    assert len(section.tables[0].rows) == 2


def figure_of(section):
    (drawing,) = [drawn for drawn in section.drawings if "peers" in drawn.name]
    return drawing.figure


def marks(axes):
    """(ratio, row from the top, colour) of every mark."""
    return {
        (round(float(x), 3), float(y), line.get_color())
        for line in axes.lines
        if line.get_marker() not in ("None", "")
        for x, y in zip(*line.get_data(), strict=True)
    }


def test_the_figure_has_a_mark_for_each_variant_over_the_fastest_peer(told):
    rows = [
        step("paceline eager", 0.010), step("paceline eager", 0.012), step("eager", 0.02),
        step("captured", 0.01), step("paceline eager", 0.03, "xl", precision="fp32"),
        step("captured", 0.06, "xl", precision="fp32"), step("captured", 0.06, "2.7b"),
    ]  # fmt: skip
    drawn = figure_of(told(rows))
    ours, theirs = style.PHASES["forward"], "#D55E00"
    assert [marks(axes) for axes in drawn.axes] == [
        {(1.2, 0.5, ours), (2.0, 0.5, theirs), (1.0, 0.5, theirs)},
        {(0.5, 0.5, ours), (1.0, 0.5, theirs)},
    ]
    words = [text.get_text() for text in drawn.texts]
    assert {"12.0 / 10.0 ms = 1.20", "30.0 / 60.0 ms = 0.50"} <= set(words)
    assert {"small, bf16", "xl, fp32", "PyTorch eager", "paceline eager"} <= set(words)


def test_the_figure_tells_sharded_from_replicated_optimizers(told):
    ranks = {"context": 64, "ranks": 2}
    rows = [
        step("paceline bucketed", 0.01, sync="bucketed", **ranks),
        step("ddp", 0.02, **ranks),
        step("paceline zero1", 0.01, shard="zero1", **ranks),
        step("zero", 0.02, **ranks),
    ]
    words = [text.get_text() for text in figure_of(told(rows)).texts]
    assert {"ddp", "zero"} <= set(words)


def test_steps_of_one_side_alone_have_no_figure(told):
    assert told([step("paceline eager", 0.01), step("paceline compiled", 0.01)]).drawings == []


def test_of_many_cases_the_slower_ones_are_named(told):
    rows = [
        row
        for index in range(10)
        for row in (
            step("paceline eager", 0.011 if index == 3 else 0.01, f"{index}x8x2x2"),
            step("captured", 0.01002, f"{index}x8x2x2"),
        )
    ]
    (line, _) = told(rows).sentences
    assert "over 10 cases, slower in 1, within 0.5% in 9. The slower ones: 3x8x2x2: 11.0" in line
    assert line.count("by PyTorch captured") == 1


def test_no_ratio_without_a_peer(told):
    assert told([step("paceline eager", 0.01)]).sentences == []


def test_backends_are_not_mixed(told):
    def call(software, variant, seconds, **others):
        return {"software": software, "variant": variant, "op": "all_reduce", "ranks": 2,
                "bytes": 1e6, "time_median_s": seconds, **others}  # fmt: skip

    lines = told(
        [
            call("paceline", "back-to-back", 0.001, backend="nccl"),
            call("paceline", "graph", 0.0001, backend="nccl"),
            call("paceline", "barrier", 0.1, backend="mpi"),
            call("NCCL", "bare", 0.002), call("Open MPI", "bare", 0.05),
        ]
    ).sentences  # fmt: skip
    assert lines[0].endswith("by NCCL bare, ratio 0.500.")
    assert lines[1].endswith("by Open MPI bare, ratio 2.00.")


def test_sizes_without_dimensions_are_not_listed(tmp_path):
    path = tmp_path / "peers.jsonl"
    rows = [step("paceline eager", 0.01), step("paceline eager", 0.01, "xl")]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert "Sizes:" not in " ".join(tables.of(load([path])[0])[0].caption)


def test_what_several_files_of_a_machine_measured_counts_once_in_the_lead(make_file):
    """The newest file's, whatever the order of the files; another machine's is told on its own."""

    def measured(name, device, created, ours):
        sides = {"paceline eager": ours, "captured": 0.01}
        rows = [case(step(variant, 0), {"step": [[seconds] * 8]})
                for variant, seconds in sides.items()]  # fmt: skip
        for row in rows:
            del row["factors"]["step_median_s"]
        return make_file(rows, name, experiment="model-peers", created=created,
                         ranks=[(device, "GPU-1", "a")])  # fmt: skip

    files = [
        measured("new.h5", "NVIDIA H200", "2026-11-21T10:00:00Z", 0.008),
        measured("old.h5", "NVIDIA H200", "2026-11-20T10:00:00Z", 0.02),
        measured("other.h5", "NVIDIA H100", "2026-11-19T10:00:00Z", 0.005),
    ]
    compared = [(found, peer_comparison.of(found)) for path in files for found in load([path])]
    newest = peers.newest_of(compared)
    assert {part: [pair.ratio for pair in pairs] for part, pairs in newest.items()} == {
        "Training steps on NVIDIA H200": [pytest.approx(0.8)],
        "Training steps on NVIDIA H100": [pytest.approx(0.5)],
    }


def test_a_file_that_does_not_record_its_machine_is_named(tmp_path):
    paths = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for path in paths:
        rows = [step("paceline eager", 0.01), step("captured", 0.02)]
        path.write_text("\n".join(json.dumps(row) for row in rows))
    first, second, _ = peers.section([load([path])[0] for path in paths]).sentences
    assert first.startswith("Training steps in a.jsonl (small, context 128,")
    assert second.startswith("Training steps in b.jsonl (small, context 128,")
