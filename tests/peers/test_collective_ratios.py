"""bench/peers/collective_ratios.py: the figures of several turns and their ratio."""

import sys

import collective_ratios as ratios
import pytest


def row(variant, microseconds, size=1024, low=None, high=None):
    row = {"variant": variant, "bytes": size, "registration": "none", "cadence": variant}
    row["time_median_s"] = microseconds / 1e6
    if low:
        row |= {"time_ci_low_s": low / 1e6, "time_ci_high_s": high / 1e6}
    return row


def test_a_figure_is_the_median_of_the_turns_and_spans_their_intervals():
    rows = [row("bare", 4, low=3, high=6), row("bare", 5, low=4.5, high=5.5),
            row("bare", 9, low=8, high=10), row("bare", 1, size=8), row("graph", 1)]  # fmt: skip
    figure = ratios.Figure(rows, "bare", 1024)
    assert figure.median == pytest.approx(5)
    assert str(figure) == "5 (3..10)"
    assert str(ratios.Figure([row("gloo", 7)], "gloo", 1024)) == "7"


def test_the_ratio_is_ours_over_the_bare_library(monkeypatch, capsys):
    """Both alternate, the bare library first."""
    asked = []

    def rows_of(command, ranks):
        ours = "paceline" in command[0]
        asked.append((ours, ranks))
        return [row("barrier", 6, 4096)] if ours else [row("bare", 4, 4096)]

    monkeypatch.setattr(ratios, "rows_of", rows_of)
    monkeypatch.setattr(ratios, "find_spec", lambda _: None)
    words = ["--backend", "mpi", "--bytes", "4096", "--turns", "2"]
    monkeypatch.setattr(sys, "argv", ["collective_ratios.py", *words])
    ratios.main()
    assert asked == [(False, 2), (True, 2)] * 2
    assert capsys.readouterr().out.splitlines()[-1] == "| 4096 | 6 | 4 | 1.500 |"
