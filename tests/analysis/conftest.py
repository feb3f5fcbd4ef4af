"""Fixtures of the analysis tests."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analysis.__main__ import main
from conftest import Run
from synthetic import STEP, CaseDict, case, write_file


@pytest.fixture
def make_file(tmp_path: Path) -> Callable[..., Path]:
    """make_file([case(...)], "a.h5", created="..."): writes a result file to tmp_path."""

    def make(cases: Sequence[CaseDict], name: str = "sweep.h5", **attributes: object) -> Path:
        return write_file(tmp_path / name, cases, **attributes)

    return make


@pytest.fixture
def good(make_file: Callable[..., Path]) -> Path:
    """A file of one case."""
    return make_file([case({"size": "small"}, STEP)])


@pytest.fixture
def compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Callable[..., Run]:
    """compare("a.h5", "b.h5", "--json"): runs the verb in tmp_path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object) -> Run:
        code = 0
        try:
            main(["compare", *map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        return Run(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """refused("tables", "a.h5", ...): the line on stderr, without its prefix, of a command that
    must exit with 2 and print nothing else."""

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (stopped.value.code, out) == (2, "")
        assert re.fullmatch(r"analysis: [^\n]+\n", err)
        return err.removeprefix("analysis: ").rstrip()

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write("a.h5", case(...), ..., created="..."): writes a result file to tmp_path."""
    return lambda name, *cases, **attributes: write_file(tmp_path / name, cases, **attributes)
