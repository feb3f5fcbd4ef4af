"""The factors that each preset resolves to are those of tests/golden/presets.json."""

import json

import pytest

from conftest import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/presets.json").read_text())
NOT_PINNED = {"case", "threads", "reason"}


def resolved(rows: list[dict]) -> dict:
    """The number of cases, and the values of each factor in the order of the cases."""
    factors = {}
    for row in rows:
        for name, value in row.items():
            if name not in NOT_PINNED and not name.startswith("predicted_"):
                values = factors.setdefault(name, [])
                if value not in values:
                    values.append(value)
    return {"cases": len(rows), **factors}


@pytest.mark.parametrize("preset", GOLDEN)
def test_a_preset_resolves_to_the_same_factors(paceline, preset):
    experiment, name = preset.split()
    # The compiled cases of 'compile' need a GPU.
    eager = ("--exec", "eager") if name == "compile" else ()
    done = paceline(experiment, "--preset", name, *eager, "--device", "cpu", "--dry-run", "--json")
    assert done.code == 0, done.err
    assert resolved([json.loads(line) for line in done.out.splitlines()]) == GOLDEN[preset]
