"""Steps over numbers of ranks: the figure, and the step that efficiency is relative to."""

from analysis import tables
from analysis.figures import scaling
from analysis.results import load
from analysis.tables import scaling as scaling_table
from synthetic import case


def test_scaling_of_one_series_is_drawn_at_its_ranks(make_file):
    rows = [case({"size": "xl", "batch_size": 4, "ranks": n}, {"step": [[0.1 * n] * 6]})
            for n in (1, 2)]  # fmt: skip
    (results,) = load([make_file(rows, experiment="ddp")])
    for axes in scaling.draw(results).axes:
        (line,) = axes.get_lines()
        assert list(line.get_xdata()) == [1, 2]


def test_scaling_starts_from_the_same_model_of_gpu(make_file):
    """Steps of one rank, each the first of the bucketed steps of two on the same GPUs."""
    paths = []
    for gpu, seconds in (("H200", 0.1), ("A100", 0.3)):
        for ranks, sync in ((1, "none"), (2, "bucketed")):
            factors = {"size": "xl", "batch_size": 4, "sync": sync, "ranks": ranks}
            one = case(factors, {"step": [[seconds * ranks] * 6]})
            devices = [(f"NVIDIA {gpu}", f"GPU-{gpu}-{n}", "vm") for n in range(ranks)]
            name = f"{gpu}-{ranks}.h5"
            paths.append(make_file([one], name, experiment="ddp", ranks=devices))
    (results,) = load(paths)
    (table,) = scaling_table.build(results, tables.Spread.INTERVAL)
    shown = [column for column in table.columns if column.header == "efficiency (%)"]
    assert [cells for column in shown for cells in column.cells] == ["100.0", "50.00"] * 2
