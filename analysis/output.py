"""Output files, which are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import temporary_files

UMASK = os.umask(0o077)
os.umask(UMASK)


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` at the end. After an error an earlier `target` is
    unchanged. Raises OSError, which names `target`. Makes the folder."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = Path(os.path.realpath(target))  # a link stays one
        if place.exists() and not (place.is_file() and os.access(place.parent, os.W_OK)):
            yield target  # a device, or a file in a folder that takes no other
            return
        if place.exists():
            place.open("ab").close()  # raises if it must not be replaced
        partial = temporary_files.create(place.parent, ".partial-", target.suffix)
        try:
            partial.chmod(place.stat().st_mode if place.exists() else 0o666 & ~UMASK)
            yield partial
            partial.replace(place)
        finally:
            temporary_files.remove(partial)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


def write_text(target: Path, text: str) -> None:
    with whole(target) as path:
        path.write_text(text, encoding="utf-8")
