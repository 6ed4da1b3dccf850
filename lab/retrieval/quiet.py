"""Import and use LanceDB without its log output and warnings, which concern files that this project manages itself."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lab.base.errors import UnusableInput

T = TypeVar("T")


@contextmanager
def quiet_lance() -> Iterator[None]:
    """Run a block of LanceDB calls that logs errors only and suppresses warnings.

    LanceDB reads ``LANCEDB_LOG`` when it is first loaded. A value set by the user is respected.

    If the working directory is on Python's path, this project's folder ``datasets`` can be imported as a namespace
    package; libraries that look for the package ``datasets``, such as Sentence Transformers, do so. LanceDB would take
    it for that package and fail, so it is removed from ``sys.modules`` first.
    """
    datasets = sys.modules.get("datasets")
    if datasets is not None and getattr(datasets, "__file__", None) is None:
        del sys.modules["datasets"]
    os.environ.setdefault("LANCEDB_LOG", "error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def import_lancedb() -> Any:
    """Import and return the module ``lancedb``."""
    with quiet_lance():
        import lancedb

    return lancedb


def in_table(folder: Path, name: str, read: Callable[[Any], T], remedy: str = "") -> T:
    """Return what ``read`` returns of a table in a LanceDB folder; raise :class:`UnusableInput` if that fails."""
    try:
        with quiet_lance():
            return read(import_lancedb().connect(str(folder)).open_table(name))
    except Exception as error:
        # LanceDB's messages name internal files and lines of its source; only the type of the error helps.
        raise UnusableInput(
            f"{folder}: table {name!r} cannot be read ({type(error).__name__}): it is damaged, or a newer LanceDB "
            f"wrote it{remedy}"
        ) from error
