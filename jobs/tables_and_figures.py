#!/usr/bin/env python3
"""Tables and figures of every sweep in a folder of results: tables_and_figures.py FOLDER

The files of an array's tasks (sizes-small.h5, sizes-xl.h5) are one sweep. Exits with the code of
the last failure, or with 0.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.__main__ import main


def code_of(verb: str, files: list[Path], output: Path) -> int:
    try:
        main([verb, *map(str, files), "--output", str(output)])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def run(folder: Path) -> int:
    sweeps: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.h5")):
        sweeps.setdefault(path.stem.split("-")[0], []).append(path)
    code = 0
    for name, files in sweeps.items():
        for verb, kind in (("tables", "md"), ("figures", "svg")):
            code = code_of(verb, files, folder / f"{name}.{kind}") or code
    return code


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]).absolute()))
