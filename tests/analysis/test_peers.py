"""Tables of steps beside other software: files of bench/peers/train_step_ratios.py."""

import math
from pathlib import Path

import numpy as np
import pytest
from markdown_text import markdown_rows

from analysis import comparison, peers, peers_in_turns
from analysis.__main__ import main
from analysis.formatting import text
from analysis.result_file import ResultError, opened, texts
from analysis.results import read_file
from synthetic import case

ROOT = Path(__file__).parents[2]
REFERENCE = sorted((ROOT / "results/reference").glob("*.h5*"))
PUBLISHED = [path for path in REFERENCE if path.name.startswith("model-compile-peers-")]
# Of a changed tree, and published before that was refused: to be replaced by peers-h200.h5.
OF_A_CHANGED_TREE = {"model-compile-peers-h200.h5.xz"}
H200 = [("NVIDIA H200", "GPU-1", "node1")]


def measured(variant, turn, seconds, size="small", gigabytes=2.0, **factors):
    software = "paceline abc" if variant.startswith("paceline") else "PyTorch 2"
    factors = {
        "software": software, "variant": variant, "turn": turn, "size": size, "context": 512,
        "batch_size": 4, "precision": "bf16", "attention": "flash", "mode": "train-step",
        "optimizer": "serial",
    } | factors  # fmt: skip
    if seconds is None:
        return case(factors, status="oom", reason="out of memory")
    summary = {"peak_bytes": 1e9 * gigabytes, "loss": 9.2}
    return case(factors, {"step": [[seconds] * 6]}, summary=summary)


@pytest.fixture
def tables(make_file):
    """tables(cases): the rows of both tables of a file with these cases."""

    def of(cases):
        path = make_file(cases, experiment="model-peers", ranks=H200)
        best, every = peers.section(path).split("Every variant.")
        return markdown_rows(best), markdown_rows(every)

    return of


def test_ours_stands_beside_the_fastest_peer_that_does_the_same(tables):
    in_backward = {"optimizer": "in-backward"}
    (header, _, *rows), every = tables([
        measured("paceline compiled", 1, 0.006), measured("paceline compiled", 2, 0.008),
        measured("paceline compiled, in-backward", 1, 0.005, **in_backward),
        measured("paceline compiled, in-backward", 2, 0.005, **in_backward),
        measured("captured", 1, 0.011), measured("compile", 1, 0.01, gigabytes=1.5),
        measured("compile", 2, 0.01, gigabytes=1.4),
        measured("tuned+in-backward", 1, 0.008, **in_backward),
        measured("tuned+in-backward", 2, 0.008, **in_backward), measured("eager", 1, None),
    ])  # fmt: skip
    assert header == [
        "size", "paceline", "ms", "GB", "fastest peer", "its ms", "its GB", "ratio [95%]", "pairs",
    ]  # fmt: skip
    # Ratios 0.6 and 0.8: sqrt(0.48) times exp(+-12.706 ln(0.8 / 0.6) / 2).
    center, factor = math.sqrt(0.48), math.exp(12.706 * math.log(0.8 / 0.6) / 2)
    interval = f"{center:.3f} [{center / factor:.3f}, {center * factor:.3f}]"
    assert rows == [
        ["small", "compiled", "7.000", "2.0", "compile", "10.00", "1.5", interval, "2"],
        ["small", "compiled, in-backward", "5.000", "2.0", "tuned+in-backward", "8.000", "2.0",
         "0.625 [0.625, 0.625]", "2"],
    ]  # fmt: skip
    assert [row[1:4] for row in every[2:]] == [
        ["paceline compiled", "6.000 [6.000, 6.000]", "2.0"],
        ["paceline compiled, in-backward", "5.000 [5.000, 5.000]", "2.0"],
        ["captured", "11.00 [11.00, 11.00]", "2.0"], ["compile", "10.00 [10.00, 10.00]", "1.5"],
        ["tuned+in-backward", "8.000 [8.000, 8.000]", "2.0"], ["eager", "oom", ""],
    ]  # fmt: skip


def test_sharded_states_stand_beside_sharded_ones(tables):
    (_, _, *rows), _ = tables([
        measured("paceline bucketed", 1, 0.01, shard="", sync="bucketed"),
        measured("paceline zero1", 1, 0.01, shard="zero1", sync=""),
        measured("ddp+view", 1, 0.02, shard="", sync="ddp"),
        measured("fsdp", 1, 0.03, shard="fsdp", sync=""),
        measured("zero+view", 1, 0.04, shard="zero", sync=""),
    ])  # fmt: skip
    assert [(row[1], row[4], row[7]) for row in rows] == [
        ("bucketed", "ddp+view", "0.500"), ("zero1", "fsdp", "0.333"),
    ]  # fmt: skip


def test_a_case_without_a_peer_has_no_ratio(tables):
    (_, _, *rows), _ = tables([
        measured("paceline compiled", 1, 0.01), measured("eager", 1, None),
        measured("paceline compiled", 1, None, "xl"), measured("eager", 1, 0.02, "xl"),
    ])  # fmt: skip
    assert rows == [
        ["small", "compiled", "10.00", "2.0", "–", "–", "", "–", "0"],
        ["xl", "compiled", "oom", "", "eager", "20.00", "2.0", "–", "0"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "t"), [(2, 12.706), (3, 4.303), (6, 2.571), (11, 2.22814), (30, 2.04523)]
)
def test_the_interval_is_students_of_the_logarithms(pairs, t):
    ours = [1 + 0.01 * (i % 3) for i in range(pairs)]
    logs = [math.log(one / 2) for one in ours]
    mean = sum(logs) / pairs
    deviation = math.sqrt(sum((log - mean) ** 2 for log in logs) / (pairs - 1))
    ratio = peers_in_turns.ratio_of(ours, [2.0] * pairs)
    assert math.log(ratio.value) == pytest.approx(mean)
    half = pytest.approx(t * deviation / math.sqrt(pairs), rel=1e-4)  # of the expansion
    assert math.log(ratio.high) - mean == half
    assert mean - math.log(ratio.low) == half


def test_the_interval_covers_the_ratio_in_95_of_100_series():
    """Of turns whose logarithms are normal, which is what the rule assumes."""
    random = np.random.default_rng(1)
    for pairs in (2, 3, 6):
        covered = 0
        for _ in range(2000):
            ours = 0.8 * np.exp(0.01 * random.standard_normal(pairs))
            theirs = np.exp(0.01 * random.standard_normal(pairs))
            ratio = peers_in_turns.ratio_of(ours, theirs)
            covered += ratio.low <= 0.8 <= ratio.high
        assert 0.935 < covered / 2000 < 0.965, pairs


def test_a_single_pair_has_no_interval():
    assert peers_in_turns.shown(peers_in_turns.ratio_of([1.0], [2.0])) == "0.500"


def test_the_document_names_machine_versions_and_every_command(make_file, tmp_path, capsys):
    ours = measured("paceline compiled", 1, 0.01, fp32_attention="bf16x3")
    path = make_file([ours, measured("eager", 1, 0.02, fp32_attention="")],
                     experiment="model-peers", ranks=H200)  # fmt: skip
    main(["peers", str(path), "--output", str(tmp_path / "new/results.md")])
    written = (tmp_path / "new/results.md").read_text("utf-8")
    assert written == peers.document([path])
    assert written.startswith("# Training steps beside PyTorch\n")
    assert "\n## NVIDIA H200\n" in written
    assert "paceline 0123456789ab beside PyTorch 2; 2026-11-21T02:05:31Z" in written
    assert "\nProducts of paceline's flash attention in fp32: bf16x3.\n" in written
    assert "\n    build/paceline model --size small\n" in written
    assert capsys.readouterr().out.endswith("results.md\n")


def test_a_file_of_another_experiment_is_refused(make_file):
    with pytest.raises(ResultError, match="not of bench/peers/train_step_ratios"):
        peers.read(make_file([]))


@pytest.mark.skipif(not PUBLISHED, reason="no file in results/reference")
def test_the_published_tables_are_current():
    assert (ROOT / "docs/training-steps.md").read_text("utf-8") == peers.document(PUBLISHED)


def versions(file):
    """Of paceline, as far as the file names any."""
    found = {text(group.attrs.get("software_version")) for group in (file, *runs(file))}
    if "software" in file["summary"]:
        found |= set(texts(file["summary/software"]))
    return found


def runs(file):
    return file["runs"].values() if "runs" in file else ()


@pytest.mark.skipif(not REFERENCE, reason="no file in results/reference")
def test_no_published_file_is_of_a_changed_tree():
    changed = set()
    for path in REFERENCE:
        with opened(path) as file:
            if any("dirty" in version for version in versions(file)):
                changed.add(path.name)
    assert changed == OF_A_CHANGED_TREE


@pytest.mark.parametrize("path", [p for p in REFERENCE if p.name.startswith("peers")])
def test_published_turns_have_ten_repetitions_after_a_warm_up(path):
    """On both sides. read() refuses a summary that its samples contradict."""
    comparison.read(path)
    for case_of_file in read_file(path).samples:
        for seconds in case_of_file.measured.values():
            assert seconds.shape[1] >= 10
            assert case_of_file.warmup["step"].shape[1] >= 10
