"""Hashes of the source code that receipts depend on. They change with every edit, committed or not."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import lab

# Packages and files that receipts depend on.
RECEIPT_SOURCES = (
    *("columns.py", "files.py", "processes.py", "shape.py", "set_registry.py", "draw.py", "utf16.py"),
    *("embedding", "golden", "recordings", "replay", "retrieval", "runs", "systems"),
)


@cache
def code_key() -> str:
    """Return the sha256 of the sources in :data:`RECEIPT_SOURCES`, names and contents."""
    return sources_key.__wrapped__(*RECEIPT_SOURCES)


@cache
def sources_key(*names: str) -> str:
    """Return the sha256 of some files and packages of the lab, names and contents."""
    root = Path(lab.__file__).parent
    parts = [root / part for part in names]
    files = [path for part in parts for path in (sorted(part.rglob("*.py")) if part.is_dir() else [part])]
    result = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        result.update(f"{path.relative_to(root).as_posix()}:{len(data)}:".encode())
        result.update(data)
    return result.hexdigest()
