"""The JSON lines of `paceline plan`, and what the package's commands that call it make of them."""

import json
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp

from analysis import check_plan
from analysis.__main__ import main
from analysis.rates import Program, fit, read
from conftest import PROGRAM, Run


@cache
def program() -> Program:
    """Remembers its answers: every plan is asked for once."""
    return Program(PROGRAM)


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
    path.write_text(json.dumps(fit(*read(files, program()))))
    return path


@cache
def check(path: Path, *files: Path) -> list[dict]:
    """The cases of a file, predicted from `files` if there are any."""
    return check_plan.rows(check_plan.predictions(path, files, program()))


def analysis(*words: object) -> Run:
    """The package's command, in this process: pandas takes a second to start."""
    code, out, err = 0, StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*map(str, words), "--paceline", str(PROGRAM)])
        except SystemExit as stopped:
            code = stopped.code
    return Run(code, out.getvalue(), err.getvalue())
