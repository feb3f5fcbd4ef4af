"""The figures of profiled cases: the streams of a step, one block, and its attention kernels."""

import h5py
import numpy as np
import pytest

from analysis import figures, profiles
from analysis.figures import attention_kernels, block, streams
from analysis.results import load
from legibility import texts
from synthetic import STEP, case, case_id
from synthetic_profile import profile, write_profile

PART = "computing attention scores", "computing softmax", "final matmul"


@pytest.fixture
def make_profiles(make_file):
    """make_profiles(syncs): writes a file with one case per sync; None is an unprofiled case."""

    def make(syncs, name="p.h5", experiment="ddp", **options):
        cases = [case({"size": "small", "sync": sync or "none"}, STEP) for sync in syncs]
        path = make_file(cases, name, experiment=experiment)
        with h5py.File(path, "r+") as file:
            for index, sync in enumerate(syncs):
                if sync:
                    write_profile(file["cases"][case_id(index)], profile(sync=sync, **options))
        return path

    return make


def words_of(path, name, tmp_path):
    """The texts of one figure."""
    ((_, drawn),) = figures.of(load([path])[0], {name})
    figures.save(drawn, [tmp_path / "drawn.svg"])
    return texts(tmp_path / "drawn.svg")


def profiled(path):
    return profiles.of(load([path])[0])


def draw(path, *files):
    return figures.write(files, figures.targets_for(path))


def test_timeline_figures_are_written_after_the_step_figure(make_profiles, tmp_path):
    written = draw(tmp_path / "folder", make_profiles(["none"], experiment="model", ranks=1))
    names = ["steps.png", "streams.png", "block.png", "attention-kernels.png"]
    assert [path.name for path in written if path.suffix == ".png"] == names


def test_timeline_figures_show_only_the_profiled_files(make_profiles, tmp_path):
    first, other = make_profiles(["naive"]), make_profiles([None], "other.h5")
    written = draw(tmp_path / "out.svg", first, other)
    assert (tmp_path / "out-streams.svg") in written
    words = texts(tmp_path / "out-streams.svg")
    assert words.count("compute (stream 7)") == 1
    assert not any("other" in one.split() for one in words)


def test_each_profiled_case_has_a_panel_with_its_streams(make_profiles, tmp_path):
    path = make_profiles(["naive", None, "overlap", "bucketed"])
    words = words_of(path, "streams", tmp_path)
    for expected in [
        "A step on its streams", "naive", "overlap", "bucketed", "forward", "backward",
        "optimizer", "all_reduce", "time since the step's first kernel (ms)",
    ]:  # fmt: skip
        assert expected in words
    assert "none" not in words
    assert words.count("compute (stream 7)") == words.count("communication (stream 20)") == 3
    assert any(one.endswith("ms, 0% of communication hidden") for one in words)


def test_bar_lengths_are_kernel_times(make_profiles):
    (one,) = profiled(make_profiles(["overlap"])).timelines
    step = profiles.last_step(one)
    panel = streams.panel_of("", step, 0.5)
    rows = step.activities
    assert set(rows["step"]) == {1}
    drawn = sum((bars[:, 1] - bars[:, 0]).sum() for row in panel.rows for bars in row.bars.values())
    assert drawn == pytest.approx(1e3 * (rows["end"] - rows["begin"]).sum())
    assert panel.length == pytest.approx(1e3 * (rows["end"].max() - rows["begin"].min()))


@pytest.mark.parametrize("options", [{}, {"captured": True}, {"source": "events"}])
def test_scopes_of_a_block_are_above_its_kernels(make_profiles, options):
    (one,) = profiled(make_profiles(["bucketed"], layers=3, **options)).timelines
    step = profiles.last_step(one)
    assert profiles.middle_block(step) == "forward/block 1"
    boxes = block.boxes_of(step.within("forward/block 1"), "forward/block 1")
    levels = {level: [box.words for box in boxes if box.level == level] for level in (0, 1, 2, 3)}
    assert levels[0] == ["block 1"]
    assert levels[1] == ["attention", "ffn"]
    assert levels[2][:4] == ["add_rms_norm", "matmul", "rope", "scaled dot product attention"]
    assert tuple(levels[3]) == PART
    kernels = [box for box in boxes if box.level > 5]
    assert len(kernels) == 13
    assert kernels[0].begin == 0
    assert max(box.end for box in boxes) == kernels[-1].end
    for kernel in kernels:  # each spans the same time as its operation
        assert any(
            (box.words, box.begin, box.end) == (kernel.operation, kernel.begin, kernel.end)
            for box in boxes
            if box.level < 5
        )


def test_cases_with_the_same_kernels_share_block_and_attention_figures(make_profiles, tmp_path):
    path = make_profiles(["naive", "overlap"])
    of_block = words_of(path, "block", tmp_path)
    assert "naive: block 1" in of_block and "overlap: block 1" not in of_block
    words = words_of(path, "attention-kernels", tmp_path)
    assert "naive" in words and "overlap" not in words
    assert set(PART) <= set(words)
    assert [word for word in words if word in ("scale", "mask", "softmax")] == [
        "scale", "mask", "softmax",
    ]  # fmt: skip


def test_attention_kernels_are_in_order(make_profiles):
    (one,) = profiled(make_profiles(["bucketed"])).timelines
    step = profiles.last_step(one)
    root = f"{profiles.middle_block(step)}/{attention_kernels.ATTENTION}"
    found = attention_kernels.kernels_of(step.within(root), root)
    assert found["operation"].tolist() == ["matmul", "scale", "mask", "softmax", "matmul"]
    assert found["part"].tolist() == [PART[0], PART[1], PART[1], PART[1], PART[2]]
    assert np.all(np.diff(found["begin"]) > 0)
