"""Settings that several files measured with different times are told apart."""

import pytest

from analysis import repeats
from analysis.results import load
from analysis.tables import cases as cases_table
from analysis.tables.spread import Spread
from synthetic import case

OLD = {"created": "2026-11-20T10:00:00Z", "software_version": "aaaaaaa"}
NEW = {"created": "2026-11-21T10:00:00Z", "software_version": "bbbbbbb"}


def row(seconds, context=128, **factors):
    size = {"size": "xl", "context": context, "batch_size": 2, "precision": "fp32", "layers": 2,
            "d_model": 8, "mode": "train-step"}  # fmt: skip
    samples = {"forward": [[seconds / 2] * 8], "step": [[seconds] * 8]}
    return case(size | factors, samples, summary={"peak_bytes": seconds * 2**36})


@pytest.fixture
def two(make_file):
    """two(rows of old.h5, rows of new.h5): their paths; the newer file comes first."""

    def make(before, after, old=OLD, new=NEW):
        paths = make_file(after, "new.h5", **new), make_file(before, "old.h5", **old)
        return list(paths)

    return make


def found(paths):
    (results,) = load(paths)
    return repeats.sentences(results)


def test_the_newer_file_is_compared_with_the_older(two):
    paths = two([row(0.1), row(0.2, 256)], [row(0.115), row(0.25, 256), row(0.5, 512)])
    assert found(paths) == [
        "In 2 of the 2 settings that new and old have in common, the median of new is 1.15 to 1.25 "
        "times that of old; python3 -m analysis compare judges such changes."
    ]


def test_a_file_without_a_date_counts_as_the_older(two):
    (one,) = found(two([row(0.1)], [row(0.2)], NEW, OLD | {"created": ""}))
    assert "the median of old is 0.500 times that of new;" in one


@pytest.mark.parametrize(("after", "count"), [(0.1019, 0), (0.0982, 0), (0.103, 1), (0.097, 1)])
def test_times_within_two_percent_are_the_same(two, after, count):
    assert len(found(two([row(0.1)], [row(after)]))) == count


def test_how_long_was_measured_is_no_part_of_a_setting(two):
    (one,) = found(two([row(0.1, steps=10, warmup=5)], [row(0.2, steps=20, warmup=1)]))
    assert one.startswith("In 1 of the 1 settings")


def test_files_of_other_machines_are_not_compared(two):
    h200, h100 = ([(device, "GPU-1", "node1")] for device in ("NVIDIA H200", "NVIDIA H100"))
    assert found(two([row(0.1)], [row(0.12)], OLD | {"ranks": h100}, NEW | {"ranks": h200})) == []
    assert len(found(two([row(0.1)], [row(0.12)], OLD | {"ranks": h200}, NEW | {"ranks": h200})))


def test_a_factor_that_one_file_lacks_excludes_nothing(two):
    assert len(found(two([row(0.1)], [row(0.2, registration="symmetric")]))) == 1


def test_cases_that_only_one_file_tells_apart_are_not_compared(two):
    after = [row(0.2, registration="symmetric"), row(0.3, registration="none")]
    assert found(two([row(0.1)], after)) == []


def test_other_settings_are_no_repeats(two):
    assert found(two([row(0.1)], [row(0.2, 256)])) == []


def test_files_without_a_common_factor_have_no_common_setting(two):
    step = {"step": [[0.1] * 8]}
    assert found(two([case({"size": "xl"}, step)], [case({"context": 1}, step)])) == []


def test_the_table_tells_why_it_has_two_rows(two):
    (results,) = load(two([row(0.1)], [row(0.12)]))
    (table,) = cases_table.build(results, Spread.INTERVAL)
    assert table.header[0] == "file" and table.rows[0][0] == "new" and table.rows[1][0] == "old"
    assert table.caption[-1].startswith("In 1 of the 1 settings that new and old have in common")
