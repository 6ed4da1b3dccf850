"""LanceDB, imported and used without a word on the screen.

Its warnings speak of indexes and files that this project manages itself.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_lance() -> Iterator[None]:
    """Run a block of LanceDB calls with its log at errors only and its deprecation notes unseen.

    Lance reads ``LANCE_LOG`` when it is first loaded, so a value that the user has set is respected.
    """
    os.environ.setdefault("LANCE_LOG", "error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def import_lancedb() -> Any:
    """The module ``lancedb``.

    Where the working directory is on Python's path, this project's folder ``datasets`` looks like a package of that
    name, other libraries import it while they look for the one on the index, and LanceDB then takes it for that one
    and fails. So a ``datasets`` that is a bare folder is forgotten first.
    """
    found = sys.modules.get("datasets")
    if found is not None and getattr(found, "__file__", None) is None:
        del sys.modules["datasets"]
    with quiet_lance():
        import lancedb

    return lancedb
