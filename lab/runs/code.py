"""Hashes of the source code that receipts depend on. They change with every edit, committed or not."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import lab

# Packages and files that receipts depend on.
RECEIPT_SOURCES = ("base", "embedding", "golden", "memory", "recordings", "replay", "retrieval", "runs", "systems")
# Files of these packages that only read or remove finished runs. No replay imports them; a test checks it.
READERS = (
    *("replay/explain.py", "replay/missed.py", "replay/rollback.py"),
    *("runs/gold.py", "runs/receipts.py", "runs/removal.py", "runs/scores.py"),
    *("runs/trial.py", "runs/writes.py"),
)


@cache
def code_key() -> str:
    """Return the sha256 of the sources in :data:`RECEIPT_SOURCES` without :data:`READERS`, names and contents."""
    return sources_key.__wrapped__(*RECEIPT_SOURCES, without=READERS)


@cache
def sources_key(*names: str, without: tuple[str, ...] = ()) -> str:
    """Return the sha256 of some files and packages of the lab, names and contents; ``without`` are files left out."""
    root = Path(lab.__file__).parent
    parts = [root / part for part in names]
    files = [path for part in parts for path in (sorted(part.rglob("*.py")) if part.is_dir() else [part])]
    result = hashlib.sha256()
    for path in files:
        if path.relative_to(root).as_posix() in without:
            continue
        data = path.read_bytes()
        result.update(f"{path.relative_to(root).as_posix()}:{len(data)}:".encode())
        result.update(data)
    return result.hexdigest()
