"""An evaluation and replay lab for memory systems of AI agents.

Importing the package loads nothing heavy: the public names are imported from :mod:`lab.api` on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.api import Options, Scored, compare, explain, judge, open_run, replay, report, score
    from lab.base.code import __version__
    from lab.golden.files import read_golden

_PUBLIC = {
    "__version__": "lab.base.code",
    "Options": "lab.api",
    "Scored": "lab.api",
    "compare": "lab.api",
    "explain": "lab.api",
    "judge": "lab.api",
    "open_run": "lab.api",
    "read_golden": "lab.golden.files",
    "replay": "lab.api",
    "report": "lab.api",
    "score": "lab.api",
}
__all__ = [
    "Options",
    "Scored",
    "__version__",
    "compare",
    "explain",
    "judge",
    "open_run",
    "read_golden",
    "recordings",
    "replay",
    "report",
    "score",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name == "recordings":
        return import_module("lab.recordings")
    raise AttributeError(f"module 'lab' has no attribute {name!r}")
