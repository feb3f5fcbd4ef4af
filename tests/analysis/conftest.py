"""Fixtures of the analysis tests."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analysis import report
from conftest import ROOT
from synthetic import CaseDict, write_file


@pytest.fixture
def make_file(tmp_path: Path) -> Callable[..., Path]:
    """make_file([case(...)], "a.h5", created="..."): writes a result file to tmp_path."""

    def make(cases: Sequence[CaseDict], name: str = "sweep.h5", **attributes: object) -> Path:
        return write_file(tmp_path / name, cases, **attributes)

    return make


@pytest.fixture(scope="session")
def whole_report() -> report.Report:
    """The report of all published files. Made once per session, since it takes half a minute."""
    folder = ROOT / "results/reference"
    return report.of(sorted(folder.iterdir()))


@pytest.fixture(scope="session")
def whole_page(whole_report: report.Report) -> str:
    return report.html.page(whole_report)
