"""The memory figures of files in results/reference/ agree with the values in the file."""

import h5py
import numpy as np
import pytest

from analysis import tables
from analysis.figures import memory
from analysis.result_file import opened
from analysis.results import load
from reference_figures import figure_of, raw, reference, results_of


def test_memory_marks_are_of_the_first_step():
    path = reference("zero-course")
    drawn = figure_of(path, "memory-marks")
    table = next(one for one in tables.of(results_of(path)) if one.name == "memory-marks")
    marks = ["after init", "before optimizer", "after step"]
    assert {axes.get_xlim() for axes in drawn.axes} == {drawn.axes[0].get_xlim()}
    with opened(path) as file:
        names = [case.decode() for case in file["summary/case"][:]]
        for column, (axes, mark) in enumerate(zip(drawn.axes, marks, strict=True)):
            peaks = [path.vertices[0, 0] for path in axes.collections[0].get_paths()]
            for place, case in enumerate(names):
                memory = {n: c[:] for n, c in file["cases"][case]["memory"].items()
                          if isinstance(c, h5py.Dataset)}  # fmt: skip
                rows = (memory["step"] == b"first") & (memory["mark"] == mark.encode())
                row = np.flatnonzero(rows)[memory["active"][rows].argmax()]
                bars = [bar for bar in axes.patches if round(bar.get_y() + 0.35 - 0.5) == place]
                total = sum(bar.get_width() for bar in bars) * 2**30
                assert total == pytest.approx(memory["active"][row])
                assert peaks[place] * 2**30 == pytest.approx(memory["peak"][row])
                written = table.data.iloc[3 * place + column]
                assert written["active_bytes"] == memory["active"][row]
                assert written["optimizer_state_bytes"] == memory["optimizer_state"][row]


def test_stacked_memory_over_time_peaks_at_the_bytes_in_use():
    path = reference("model-memory-timeline")
    drawn = figure_of(path, "memory")
    with opened(path) as file:
        names = [case.decode() for case in file["summary/case"][:]]
        for axes, case in zip(drawn.axes, names, strict=True):
            used = np.cumsum(file["cases"][case]["memory/timeline/bytes"][:])
            stack = [one for one in axes.collections if hasattr(one, "get_paths")][-1]
            # The upper edges of the stacked memory kinds.
            tops = [
                collection.get_paths()[0].vertices[:, 1].max()
                for collection in axes.collections
            ]  # fmt: skip
            assert max(tops) * 2**30 == pytest.approx(used.max(), rel=1e-6), stack
    words = [one.get_text() for one in drawn.texts]
    assert not any("…" in one for one in words)
    assert "activation: computing attention scores" in words and "activation: ffn" in words
    named = [{one.get_text() for one in axes.texts} for axes in drawn.axes]
    assert named == [{"forward"}, {"forward"}, {"forward", "backward"}]


def test_activations_are_stacked_by_scope_under_the_bands_of_phases():
    path = reference("model-memory-timeline")
    axes = figure_of(path, "memory").axes[-1]
    (results,) = load([path])
    timeline = results.case_tables[2]["memory/timeline"]
    events = len(timeline) - memory.first_shown(timeline)
    bands = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    assert [patch[0] for patch in bands[1:]] == [patch[1] for patch in bands[:-1]]
    assert bands[-1][1] == axes.get_xlim()[1] == events

    used = timeline[timeline["kind"] == "activation"]
    for scope, layer in (("ffn", 3), ("computing attention scores", 4)):
        own = used[used["scope"].str.endswith(f"/{scope}")]["bytes"].cumsum()
        low, high = (
            axes.collections[index].get_paths()[0].vertices[:, 1].max() * 2**30
            for index in (layer - 1, layer)
        )
        assert high - low == pytest.approx(own.max(), rel=1e-6)


def test_a_scope_that_is_a_block_has_no_number():
    assert memory.part_of("forward/block 12") == memory.part_of("forward/block 3") == "block"
    assert memory.part_of("forward/block 3/ffn") == "ffn"


def test_predicted_and_measured_memory_are_drawn():
    path = reference("ddp-course")
    both, more = figure_of(path, "predicted-memory").axes
    frame = raw(path)
    points = both.get_lines()[1]
    np.testing.assert_allclose(points.get_xdata(), frame["predicted_peak_bytes"] / 2**30)
    np.testing.assert_allclose(points.get_ydata(), frame["peak_bytes"] / 2**30)
    beyond = 100 * (frame["peak_bytes"] / frame["predicted_peak_bytes"] - 1)
    np.testing.assert_allclose(more.get_lines()[1].get_ydata(), beyond)


@pytest.mark.long
def test_the_peak_of_attention_is_drawn_without_the_workspace():
    path = reference("attention-flash-benchmark")
    both, more = figure_of(path, "predicted-memory").axes
    frame = raw(path)
    own = frame["peak_bytes"] - frame["workspace_bytes"]
    assert (own < frame["peak_bytes"]).any()
    np.testing.assert_allclose(both.get_lines()[1].get_ydata(), own / 2**30)
    np.testing.assert_allclose(more.get_lines()[1].get_ydata(), 0, atol=1e-9)  # the form is exact
