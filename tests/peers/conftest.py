"""Fixtures of the tests of bench/peers/."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import h5py
import peer_file
import pytest

from synthetic import case, write_file

H200 = ("NVIDIA H200", "GPU-1", "node1")


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """script("name", "body"): a Python program, which starts fast."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable} -IS\n{body}")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., tuple]:
    """own([{factors}...], seconds): what read_own() returns for a file of paceline with these
    cases, each of which takes this many seconds, and as many GB."""

    def measured(
        factors: list[dict], seconds: list[float]
    ) -> tuple[peer_file.Origin, list[peer_file.Case]]:
        cases = [
            case(one, {"forward": [[s / 2] * 6], "step": [[s] * 6]}, {"step": [[2 * s] * 3]},
                 summary={"peak_bytes": 1e9 * s})
            for one, s in zip(factors, seconds, strict=True)
        ]  # fmt: skip
        path = write_file(tmp_path / "own.h5", cases, ranks=[H200])
        with h5py.File(path, "a") as file:
            file.create_group("environment").attrs["driver"] = "580"
        return peer_file.read_own(path)

    return measured


@pytest.fixture
def with_stub_of_torch(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """with_stub_of_torch("attention"): the module of bench/peers/, with a mock for PyTorch, which
    need not be installed."""

    def imported(name: str) -> ModuleType:
        for of_torch in ("", ".nn", ".nn.attention", ".distributed"):
            monkeypatch.setitem(sys.modules, f"torch{of_torch}", MagicMock())
        path = Path(__file__).parents[2] / "bench/peers" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"{name}_with_a_stub", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported
