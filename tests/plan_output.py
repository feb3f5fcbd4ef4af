"""The JSON lines of `paceline plan`, and of the package's commands that call it."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from conftest import PROGRAM, ROOT


def sections(out: str) -> dict[str, list[dict]]:
    """The JSON rows by section."""
    found: dict[str, list[dict]] = {}
    for line in out.splitlines():
        row = json.loads(line)
        found.setdefault(row.pop("section"), []).append(row)
    return found


def plan(paceline, *options: object) -> dict[str, list[dict]]:
    done = paceline("plan", *options, "--json")
    assert done.code == 0, done.err
    return sections(done.out)


@cache
def rates(*files: Path) -> Path:
    """What paceline-analysis rates makes of the files."""
    path = Path(mkdtemp()) / "rates.json"
    done = analysis("rates", *files, "--output", path)
    assert done.returncode == 0, done.stderr
    return path


def analysis(*words: object) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "analysis", *map(str, words), "--paceline", str(PROGRAM)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


@cache
def check(path: Path, *files: Path) -> list[dict]:
    """The cases of a file, predicted from `files` if there are any."""
    sources = ["--from", *files] if files else []
    done = analysis("check-plan", path, *sources, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
