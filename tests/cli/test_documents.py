"""The documents: relative links have targets, the program accepts their command lines, and what is
generated is current. Presets are those of tests/golden/presets.json."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import option_tables
import reference_files

DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {"build", ".venv", "results", ".git"} & set(path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
WITH_CONFIG = ("model", "attention", "ddp", "zero", "collectives", "precision")
AT_ONCE = ("plan",)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands() -> list[str]:
    """Command lines of commands that take --print-config or finish at once: in code blocks, and
    whole ones within the text."""
    lines = []
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                lines.append(line.partition(" # ")[0].partition("build/paceline ")[2])
        for inline in re.findall(r"`(?:mpirun -np \d+ )?build/paceline ([^`]+)`", text):
            lines.append(" ".join(inline.partition(" > ")[0].split()))
    known = [line for line in lines if line.split(" ")[0] in (*WITH_CONFIG, *AT_ONCE)]
    return [line for line in known if "..." not in line and not line.endswith("--from")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_relative_links_have_targets(path):
    targets = [t for t in LINK.findall(path.read_text("utf-8")) if "://" not in t]
    assert [t for t in targets if not (path.parent / t).exists()] == []


def test_commands_are_found_in_the_documents():
    assert len(commands()) > 12


@pytest.mark.parametrize("line", commands())
def test_commands_are_accepted(paceline, line):
    words = [word for word in shlex.split(line) if word not in ("--help", "--dry-run")]
    if "--print-config" in words:
        words = words[: words.index("--print-config")]
    if "--config" in words:
        pytest.skip("needs a config file that is not in the repository")
    if words[0] in WITH_CONFIG:
        words.append("--print-config")
    done = paceline(*words)
    assert done.code == 0, done.err


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.long
def test_the_list_of_published_files_is_current():
    document = (ROOT / "results/README.md").read_text()
    assert document == reference_files.document()
    files = {path.name for path in (ROOT / "results/reference").iterdir()}
    measured = re.findall(r"^\| `([^`]+)`", document, re.M)
    planned = re.findall(r" > (\S+\.jsonl)$", document, re.M)
    assert files == {*measured, *planned}


def test_the_tables_of_options_are_current():
    assert (ROOT / "docs/options.md").read_text() == option_tables.document()


def test_every_option_of_an_experiment_has_a_row():
    for name, _ in option_tables.experiments():
        text = option_tables.help_of(name)
        options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
        assert [row[0] for row in option_tables.rows(text)] == options, name


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
