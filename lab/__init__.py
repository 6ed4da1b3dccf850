"""An evaluation and replay lab for agent memory.

Importing it loads nothing heavy; names below are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Asked": "lab.replay.plan",
    "compare_arms": "lab.compare.paired",
    "open_run": "lab.notebook",
    "read_golden": "lab.golden.read",
    "read_library": "lab.recordings.readers",
    "run_replay": "lab.replay.run",
    "score_and_write": "lab.measures.score",
    "score_run": "lab.measures.score",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lab' has no attribute {name!r}")
