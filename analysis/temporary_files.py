"""Temporary files, which are removed at the end of the process and when a signal stops it."""

import atexit
import os
from contextlib import suppress
from pathlib import Path

FILES: set[Path] = set()


def create(folder: Path, prefix: str, suffix: str) -> Path:
    """An empty file that only its owner may read. Raises OSError."""
    path = folder / f"{prefix}{os.urandom(8).hex()}{suffix}"
    FILES.add(path)  # before the file exists: a signal may come at any time
    path.touch(0o600, exist_ok=False)
    return path


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    FILES.discard(path)


@atexit.register
def remove_all() -> None:
    for path in list(FILES):
        with suppress(OSError):
            remove(path)
