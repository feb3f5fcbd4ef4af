"""Every mutant in tools/mutants.list still applies to the sources."""

from conftest import ROOT


def test_every_mutant_applies_exactly_once():
    faults = [
        line.split(" :: ")
        for line in (ROOT / "tools" / "mutants.list").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert len(faults) > 200
    stale = [
        (path, old) for path, old, *_ in faults if (ROOT / path).read_text("utf-8").count(old) != 1
    ]
    assert stale == []
