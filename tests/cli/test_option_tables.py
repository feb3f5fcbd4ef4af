"""docs/options.md is current: it is generated from the program's --help."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import option_tables


def test_the_tables_are_current():
    assert (ROOT / "docs/options.md").read_text() == option_tables.document()


def test_every_option_of_an_experiment_has_a_row():
    for name, _ in option_tables.experiments():
        text = option_tables.help_of(name)
        options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
        assert [row[0] for row in option_tables.rows(text)] == options, name
