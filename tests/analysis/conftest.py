"""Fixtures of the analysis tests."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analysis import report
from analysis.__main__ import main
from conftest import ROOT, Run
from synthetic import CaseDict, write_file


@pytest.fixture
def make_file(tmp_path: Path) -> Callable[..., Path]:
    """make_file([case(...)], "a.h5", created="..."): writes a result file to tmp_path."""

    def make(cases: Sequence[CaseDict], name: str = "sweep.h5", **attributes: object) -> Path:
        return write_file(tmp_path / name, cases, **attributes)

    return make


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
def write(tmp_path: Path) -> Callable[..., Path]:
    """write("a.h5", case(...), ..., created="..."): writes a result file to tmp_path."""
    return lambda name, *cases, **attributes: write_file(tmp_path / name, cases, **attributes)


# Files whose sections of the report other published files fill too.
LEFT_TO_THE_LONG_RUN = (
    "attention-flash-benchmark-16gb", "attention-pytorch-16gb", "collectives-2", "collectives-4",
    "ddp-buckets", "model-compile-peers-h200", "strong-", "weak-", "zero-fsdp",
)  # fmt: skip


@pytest.fixture(scope="session", params=["most", pytest.param("all", marks=pytest.mark.long)])
def whole_report(request: pytest.FixtureRequest) -> report.Report:
    """The report of the published files. Made once per session, since it takes half a minute."""
    files = sorted((ROOT / "results/reference").iterdir())
    if request.param == "most":
        files = [path for path in files if not path.name.startswith(LEFT_TO_THE_LONG_RUN)]
    return report.of(files)


@pytest.fixture(scope="session")
def whole_page(whole_report: report.Report) -> str:
    return report.html.page(whole_report)
