"""Every mutant in tools/mutants.list still applies to the sources."""

from conftest import ROOT


def faults():
    lines = (ROOT / "tools" / "mutants.list").read_text("utf-8").splitlines()
    return [line.split(" :: ") for line in lines if line and not line.startswith("#")]


def test_every_mutant_applies_exactly_once():
    assert len(faults()) > 200
    stale = [
        (path, old)
        for path, old, *_ in faults()
        if (ROOT / path).read_text("utf-8").count(old) != 1
    ]
    assert stale == []


def test_every_test_of_a_mutant_exists():
    nodes = [test.split(" ")[1] for *_, test, _ in faults() if test.startswith("pytest ")]
    assert len(nodes) > 100
    missing = []
    for node in nodes:
        path, *names = node.split("[")[0].split("::")
        written = (ROOT / path).read_text("utf-8") if (ROOT / path).exists() else ""
        if not all(f"def {name}(" in written for name in names) or not written:
            missing.append(node)
    assert missing == []
