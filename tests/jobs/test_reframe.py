"""The ReFrame checks, with ReFrame's local scheduler and tiny sizes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import PROGRAM, ROOT

REFRAME = ROOT / ".venv/bin/reframe"
CHECKS = ROOT / "jobs/reframe"


def reframe(folder: Path, program: Path, *options: str) -> subprocess.CompletedProcess:
    if not REFRAME.exists():
        pytest.skip("ReFrame is not installed: make deps")
    return subprocess.run(
        [REFRAME, f"--prefix={folder}", "--nocolor", "-C", CHECKS / "settings.py", "-c", CHECKS,
         "-S", "tiny=yes", "--system=local", "--run", "--performance-report", *options],
        cwd=folder, env=os.environ | {"PACELINE": str(program), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_checks_pass_and_report_rates(tmp_path: Path):
    done = reframe(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout
    assert "Ran 4/4 test case(s) from 4 check(s) (0 failure(s)" in done.stdout
    rates = re.findall(r"│ (\w+) +│ local:cpu\+builtin │ .*│ +([\d.e+]+) │ pass", done.stdout)
    assert {name for name, _ in rates} == {"Steps", "FlashAttention", "AllReduce", "DataParallel"}
    assert all(float(rate) > 0 for _, rate in rates)


def test_a_case_that_is_not_ok_fails_its_check(tmp_path: Path):
    lying = tmp_path / "lying"  # prints the status mismatch in place of ok
    lying.write_text(f'#!/bin/sh\n{PROGRAM} "$@" | sed \'s/"status":"ok"/"status":"mismatch"/\'\n')
    lying.chmod(0o755)
    done = reframe(tmp_path, lying, "-n", "Steps")
    assert done.returncode != 0
    assert "(1 failure(s)" in done.stdout
