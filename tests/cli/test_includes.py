"""Includes point in the directions that CONTRIBUTING.md states."""

import re

from conftest import ROOT

MAY_INCLUDE = {
    "core": set(),
    "measure": {"core"},
    "record": {"core", "measure"},
    "harness": {"core", "measure", "record"},
    "model": {"core"},
    "parallel": {"core", "model"},
    "experiments": {"core", "measure", "record", "harness", "model", "parallel"},
    "cpu": {"core"},
    "cuda": {"core"},
    "mpi": {"core", "cuda"},  # NCCL's communicator enqueues on CUDA streams
}
ROOT_HEADERS = {path.name for path in (ROOT / "src").glob("*.h")}
SOURCES = {".cpp", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(folder: str):
    parent = ROOT if folder in {"cuda", "mpi"} else ROOT / "src"
    return [path for path in (parent / folder).rglob("*") if path.suffix in SOURCES]


def test_folders_include_only_those_below_them():
    wrong = []
    for folder, allowed in MAY_INCLUDE.items():
        paths = sources(folder)
        assert paths, folder
        for path in paths:
            for bracket, name in INCLUDE.findall(path.read_text("utf-8")):
                other = name.split("/")[0]
                forbidden = (MAY_INCLUDE.keys() | ROOT_HEADERS) - {folder, *allowed}
                if bracket == '"' and other in forbidden:
                    wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert wrong == []


def test_the_host_code_includes_no_header_of_cuda_nccl_or_mpi():
    paths = [path for path in (ROOT / "src").rglob("*") if path.suffix in SOURCES]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for bracket, name in INCLUDE.findall(path.read_text("utf-8"))
        if bracket == "<" and re.match(r"cu[a-z]+\.h|cuda|nccl|mpi|cupti", name)
    ]
    assert len(paths) > 200
    assert wrong == []
