"""The figures have every case with its phases and labels, and are well-formed files."""

import numpy as np
import pytest

from analysis import figures, layout
from analysis.figures import speedups, steps, warmup
from analysis.results import load
from legibility import texts
from synthetic import case

PHASES = {"forward": 0.010, "backward": 0.020, "optimizer": 0.003, "step": 0.034}
PNG = b"\x89PNG\r\n\x1a\n"


def samples(scale=1.0, ranks=1, count=10):
    return {phase: np.full((ranks, count), value * scale) for phase, value in PHASES.items()}


def measured(factors, scale=1.0, ranks=1, cold=None):
    warm = {"step": np.full((ranks, 3), 0.04 * scale)}
    if cold is not None:
        warm["step"][:, 0] = cold
    return case(factors, samples(scale, ranks), warm)


@pytest.fixture
def sizes(make_file):
    """Two sizes by two contexts; step times differ by up to 50x; the last case is out of memory."""
    return make_file(
        [
            measured({"size": "small", "d_model": 768, "context": 128, "precision": "fp32"}),
            measured({"size": "small", "d_model": 768, "context": 256, "precision": "fp32"}, 2),
            measured({"size": "xl", "d_model": 1600, "context": 128, "precision": "fp32"}, 50),
            case(
                {"size": "xl", "d_model": 1600, "context": 256, "precision": "fp32"},
                status="oom",
                reason="rank 0 needs 78.2 GiB",
            ),
        ],
        command="build/paceline model --size small,xl --context 128,256",
    )


def draw(path, results):
    return figures.write([results], figures.targets_for(path))


def test_the_svg_has_all_labels(sizes, tmp_path):
    written = draw(tmp_path / "out.svg", sizes)
    assert written == [tmp_path / "out.svg", tmp_path / "out-warmup.svg"]
    words = texts(written[0])
    for expected in [
        "Step time by phase", "forward", "backward", "optimizer", "small", "xl", "d_model 768",
        "context 128", "context 256", "time per step (ms)", "34.0 ms", "68.0 ms", "1,700 ms",
        "10.0", "20.0", "out of memory", "rank 0 needs 78.2 GiB", "fp32",
    ]:  # fmt: skip
        assert expected in words
    caption = " ".join(words)
    assert "n = 10 measured steps" in caption
    assert "build/paceline model --size small,xl --context 128,256" in caption


def test_the_warmup_figure_gives_the_first_step_beside_the_median(make_file, tmp_path):
    path = make_file([measured({"size": "small"}, ranks=2, cold=0.34)])
    words = texts(draw(tmp_path / "out.svg", path)[1])
    for expected in ["Step time from cold", "first step", "second", "340 → 34.0 ms, 10.0×"]:
        assert expected in words


def test_every_step_from_cold_is_a_mark_over_the_median_of_the_slowest_rank(make_file):
    warm, steps = np.array([[0.9, 0.06], [0.1, 0.08]]), np.full((2, 10), 0.04)
    path = make_file([case({"size": "small"}, {"step": steps}, {"step": warm})])
    (axes,) = warmup.draw(load([path])[0]).axes
    later, second, first = (line.get_xdata() for line in axes.get_lines()[1:])
    assert [list(first), list(second)] == [pytest.approx([22.5]), pytest.approx([2.0])]
    np.testing.assert_allclose(later, np.ones(10))
    assert axes.get_xlabel() == "time over the median step (log scale)"


@pytest.mark.parametrize("times", [(0.0062, 0.009), (0.6, 0.61), (0.0031, 0.0095), (0.001, 0.9)])
def test_the_axis_of_speed_ups_has_labelled_ticks(make_file, times):
    rows = [
        case({"size": "small", "exec": kind}, {"step": [[seconds] * 8]})
        for kind, seconds in zip(("compiled", "eager"), times, strict=True)
    ]
    (results,) = load([make_file(rows)])
    axes = speedups.draw(results).axes[0]
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert len(ticks) >= 3
    assert axes.get_xscale() == ("linear" if times[1] / times[0] < 2 else "log")
    assert ("log scale" in axes.get_xlabel()) == (axes.get_xscale() == "log")


def test_without_warmup_samples_there_is_one_figure(make_file, tmp_path):
    path = make_file([case({"size": "small"}, samples())])
    assert draw(tmp_path / "out.png", path) == [tmp_path / "out.png"]
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)


def test_bars_hold_the_medians_in_the_axis_unit(sizes):
    results = load([sizes])[0]
    bar = steps.bar_of(results, 1, 1e3)
    expected = {"forward": 20, "backward": 40, "optimizer": 6, "rest": 2}
    assert dict(bar.phases) == pytest.approx(expected)
    assert (bar.median, bar.low, bar.high) == pytest.approx((68, 68, 68))
    assert bar.end == pytest.approx(68)
    lost = steps.bar_of(results, 3, 1e3)
    assert (lost.phases, lost.end, lost.status) == ([], 0.0, "oom")


def test_times_far_apart_are_in_separate_panels(sizes):
    panels = layout.panels_of(load([sizes])[0])
    assert [(panel.title, panel.note, panel.labels) for panel in panels] == [
        ("small", "d_model 768", ["context 128", "context 256"]),
        ("xl", "d_model 1600", ["context 128", "context 256"]),
    ]


def test_of_many_cases_the_slowest_are_drawn(make_file):
    """12 panels of steps, 12 rows of first steps."""
    factors = [{"size": f"s{n}", "context": context} for n in range(13) for context in (128, 256)]
    cases = [measured(one, 1 + n, cold=0.05 * (1 + n) ** 2) for n, one in enumerate(factors)]
    (results,) = load([make_file(cases)])
    drawn = steps.draw(results)
    words = [one.get_text() for one in drawn.texts]
    assert len(drawn.axes) == 12 and "s0" not in words and {"s1", "s12"} <= set(words)
    assert "The 12 of 13 panels with the slowest steps." in " ".join(words)
    words = [one.get_text() for one in warmup.draw(results).texts]
    assert [f"{one['size']}, context {one['context']}" for one in factors[-12:]] == [
        one for one in words if one.startswith("s") and ", context" in one
    ]
    assert "The 12 of 26 cases with the slowest first steps." in " ".join(words)


def test_a_sweep_without_measured_cases_has_a_figure(make_file, tmp_path):
    lost = [
        case({"size": size}, status="skipped", reason=f"no GPU for {size}")
        for size in ("xl", "2.7b")
    ]
    words = texts(draw(tmp_path / "out.svg", make_file(lost))[0])
    assert words.count("skipped") == 2
    assert "no GPU for 2.7b" in words


def test_a_mismatch_is_named_beside_its_bar(make_file, tmp_path):
    wrong = measured({"size": "small"}) | {"status": "mismatch", "reason": "loss differs"}
    assert "34.0 ms, mismatch" in texts(draw(tmp_path / "out.svg", make_file([wrong]))[0])


def test_cases_that_share_a_run_have_one_warmup_cell(make_file, tmp_path):
    steps = np.array([[0.9, 0.05, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04]])
    path = make_file(
        [
            case(
                {"size": "small", "context": 128, "warmup": count},
                {"step": steps[:, count:][:, :6]},
                {"step": steps[:, :count]},
            )
            for count in (0, 2)
        ]
    )
    (_, figure) = draw(tmp_path / "out.svg", path)
    first = [words for words in texts(figure) if words.startswith("900 →")]
    assert first == ["900 → 40.0 ms, 22.5×"]
