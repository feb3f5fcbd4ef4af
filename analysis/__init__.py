"""Tables and figures from paceline's result files: python3 -m analysis --help.

Installed by `pip install ./analysis` as paceline_analysis: load() and samples() read result files
of every experiment and schema version.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .frames import load, samples

__all__ = ["load", "samples"]


def __getattr__(name: str) -> object:
    """load and samples, imported when needed: the command line can report missing packages."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from . import frames

    return getattr(frames, name)
