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
