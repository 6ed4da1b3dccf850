"""Replace a folder by another at once (IX-12)."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from lab.base.files import flush_folder

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def replace_folder(new: Path, target: Path, old: Path) -> None:
    """Put ``new`` in the place of ``target``, and the old target, if there is one, at ``old``, where nothing is.

    All must be on one file system. On Linux they are exchanged in one step, so that ``target`` always exists. Where
    the system cannot do that, it is absent between two renames; :func:`put_back` mends a kill between them. Raises
    :class:`OSError`.
    """
    if not target.exists():
        os.rename(new, target)
    elif exchange(new, target):
        os.rename(new, old)
    else:
        os.rename(target, old)
        os.rename(new, target)
    flush_folder(target.parent)


def put_back(old: Path, target: Path) -> bool:
    """Put the old folder back if a killed :func:`replace_folder` left no successor; return whether it did."""
    if target.exists() or not old.is_dir():
        return False
    os.rename(old, target)
    flush_folder(target.parent)
    return True


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; return False if the system cannot, and then nothing has changed."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
