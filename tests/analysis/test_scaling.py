"""Steps over numbers of ranks: the figure, and the step that efficiency is relative to."""

import pytest

from analysis import tables
from analysis.figures import scaling
from analysis.report.parallel import scaling as answer
from analysis.report.selection import pool_of
from analysis.results import joined, load
from analysis.tables import scaling as scaling_table
from legibility import assert_legible
from synthetic import case


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


SETTINGS = (
    {"size": "xl", "context": 512, "batch_size": 4, "precision": "bf16", "attention": "flash",
     "exec": "compiled", "warmup": 30, "steps": 20},
    {"size": "small", "context": 128, "batch_size": 2, "precision": "fp32", "attention": "naive",
     "exec": "eager", "warmup": 5, "steps": 10},
)  # fmt: skip


@pytest.fixture
def weak(make_file):
    """Loads a file for each number of ranks: a step of 0.1 s a rank, of every setting given."""

    def loaded(settings, ranks=(1, 2, 4), experiment="ddp", kind="sync", exchange="bucketed"):
        found = []
        for number, setting in enumerate(settings):
            for count in ranks:
                own = setting | {kind: exchange if count > 1 else "none", "ranks": count}
                name = f"{experiment}-{number}-{count}.h5"
                one = case(own, {"step": [[0.1 * count] * 6]})
                found += load([make_file([one], name, experiment=experiment)])
        return found

    return loaded


def efficiency(table):
    return next(one.cells for one in table.columns if one.header == "efficiency (%)")


def test_long_settings_are_legible(weak):
    """Two settings that differ in every factor, in one figure."""
    parts = weak(SETTINGS, ranks=[1, 2]) + weak(SETTINGS, ranks=[4], exchange="flat")
    drawn = scaling.draw(joined(parts))
    assert len(drawn.axes) == 2 * len(SETTINGS)
    assert_legible("scaling", drawn)


def test_the_report_joins_files_of_one_setting_from_one_rank_on(weak):
    found = answer(pool_of(weak(SETTINGS)), tables.Spread.INTERVAL)
    assert efficiency(found.tables[0]) == ["100.0", "50.00", "25.00"]
    assert (found.number, found.unit) == ("25.0%", "efficiency on 4 ranks")
    ((drawing, drawn),) = [(one, scaling.draw(one.results)) for one in found.drawings]
    assert drawing.name == "scaling"
    assert_legible("scaling", drawn)


def test_sharded_steps_scale_from_the_data_parallel_step_of_one_rank(weak):
    first, _ = SETTINGS
    alone = weak([first], ranks=[1])
    sharded = weak([first], ranks=[2, 4], experiment="zero", kind="shard", exchange="zero1")
    found = answer(pool_of(alone + sharded), tables.Spread.INTERVAL)
    assert efficiency(found.tables[0]) == ["100.0", "50.00", "25.00"]
    assert found.bars[0].text == "25.0%"
