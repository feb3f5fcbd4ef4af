#!/usr/bin/env python3
"""Compares the rates in a folder of results with reference.toml: verdict.py FOLDER [REFERENCE]

A [[rate]] of the reference has a file, a column of its summary, the factors of one case, a device
and the rate that this device reaches. At least 95% of it passes. A case that failed does not pass.
Rates that were not measured, or on another device, are skipped. Exits with 0 if all pass, with 1 if
one does not, and with 2 for wrong use.
"""

import argparse
import math
import sys
from pathlib import Path

try:
    import tomllib

    import h5py
except ImportError as missing:
    print(f"verdict.py: {missing}: Python 3.11 with h5py, in PACELINE_PYTHON", file=sys.stderr)
    sys.exit(2)

SHARE = 0.95


def rate_in(path: Path, wanted: dict) -> float | None:
    """The column's value in the case with these factors on that device; NaN if the case failed,
    None if the file has no such case.
    """
    with h5py.File(path) as file:
        devices = {text.decode() for text in file["ranks/device"][:]}
        if wanted["device"] not in devices:
            return None
        summary = {name: column[:] for name, column in file["summary"].items()}
    rows = range(len(summary["status"]))
    for factor, value in wanted["case"].items():
        if factor not in summary:
            return None
        rows = [
            i
            for i in rows
            if (summary[factor][i].decode() if isinstance(value, str) else summary[factor][i])
            == value
        ]
    if len(rows) > 1:
        raise ValueError(f"{path}: {len(rows)} cases are {wanted['case']}")
    if not rows:
        return None
    ok = summary["status"][rows[0]] == b"ok" and wanted["column"] in summary
    return float(summary[wanted["column"]][rows[0]]) if ok else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares rates with a reference.")
    parser.add_argument("folder", type=Path)
    default = Path(__file__).with_name("reference.toml")
    parser.add_argument("reference", type=Path, nargs="?", default=default)
    options = parser.parse_args()
    if not options.folder.is_dir():
        raise FileNotFoundError(f"there is no folder {options.folder}")
    judged = short = 0
    for wanted in tomllib.loads(options.reference.read_text())["rate"]:
        path = options.folder / f"{wanted['file']}.h5"
        got = rate_in(path, wanted) if path.exists() else None
        case = " ".join(str(value) for value in wanted["case"].values())
        name = f"{wanted['file']} {case} {wanted['column']} on {wanted['device']}"
        if got is None:
            print(f"skipped  {name}: not measured here")
            continue
        judged += 1
        share = got / wanted["rate"]
        passed = share >= SHARE  # False for NaN
        short += not passed
        print(f"{'passed ' if passed else 'SHORT  '}  {name}: {got:.4g}, {share:.1%}")
    print(f"{judged} rates judged, {short} short of {SHARE:.0%}")
    return 1 if short else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, AttributeError) as error:
        print(f"verdict.py: {error}", file=sys.stderr)
        sys.exit(2)
