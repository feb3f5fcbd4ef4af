"""The report of the demo."""

import os
import subprocess
import sys

import pytest
from test_report import Words

from conftest import BUILD, ROOT


@pytest.mark.long
def test_the_report_of_the_demo_is_short(tmp_path):
    """The commands of `make demo`, in another folder."""
    made = [f"-o{BUILD / name}" for name in ("paceline", "config.mk")]
    variables = [f"BUILD={BUILD}", f"PYTHON={sys.executable}", "PACKAGES="]
    script = subprocess.run(
        ["make", "-s", "-n", *made, "demo", *variables],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (tmp_path / "results").mkdir()
    subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    page = (tmp_path / "results/demo.html").read_text("utf-8")
    assert page.count('class="card"') >= 8
    assert len(Words(page).found) <= 2_500
    assert len(page.encode()) <= 1_500_000
