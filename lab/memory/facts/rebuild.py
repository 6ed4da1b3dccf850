"""The file of the view (TF-8): derived from the assertions byte for byte, for other programs to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, remove_leftovers, require_finite, sha256_bytes, write_atomically
from lab.memory.facts import store
from lab.memory.facts.model import SCHEMA, fact_json
from lab.memory.facts.store import Assertions
from lab.memory.facts.view import View

VIEW = "recall-lab.facts.view.v0"
REBUILT = "openclaw-mem.graph.fact.rebuild.v0"
# How the header of a view begins.
_HEADER = f'{{"schema": "{VIEW}"'.encode()


def view_path(path: Path) -> Path:
    """Return the path of the view of a file of assertions: ``facts.view.jsonl`` beside ``facts.jsonl``."""
    return path.with_suffix(f".view{path.suffix}")


def view_bytes(assertions: Assertions) -> bytes:
    """Return the view as JSON Lines: a header with the digest of the assertions, then every fact in its order."""
    view = View(assertions.records)
    size = {"records": len(assertions.records), "bytes": len(assertions.data)}
    header = {"schema": VIEW, "facts": len(view), "assertions": {**size, "sha256": sha256_bytes(assertions.data)}}
    return b"".join([dump_json(header, indent=None), *(dump_json(fact_json(fact), indent=None) for fact in view)])


def require_own_view(path: Path) -> None:
    """Raise :class:`UnusableInput` if a file with the name of the view exists and is not a view."""
    beside = view_path(path)
    require_finite(beside)
    try:
        with beside.open("rb") as file:
            begins = file.read(len(_HEADER))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnusableInput(f"{beside}: cannot be read: {error.strerror}") from None
    if begins not in (b"", _HEADER):
        raise UnusableInput(
            f"{beside}: is no view of facts, but the view of {path} has this name; give one of them another name"
        )


def write_view(path: Path, assertions: Assertions) -> None:
    """Write the view of a file of assertions beside it, in one step. What killed writers left is removed."""
    remove_leftovers(path.parent)
    write_atomically(view_path(path), view_bytes(assertions), like=path.stat())


def rebuild(path: Path, *, write: bool = False) -> dict[str, Any]:
    """Compare the view with a new one made from the assertions, and with ``write`` replace it; return the receipt.

    ``status`` is ``same`` if the file was the view byte for byte, else ``differs`` or ``missing``. Raises
    :class:`UnusableInput` as :func:`require_own_view` does.
    """
    if write:
        with store.locked(path):
            return _compared(path, write=True)
    return _compared(path, write=False)


def _compared(path: Path, *, write: bool) -> dict[str, Any]:
    assertions = store.read(path)
    require_own_view(path)
    made, beside = view_bytes(assertions), view_path(path)
    status = "missing" if not beside.is_file() else "same" if beside.read_bytes() == made else "differs"
    if write and status != "same":
        write_view(path, assertions)
    return {
        "kind": REBUILT,
        "schema": SCHEMA,
        "writes_performed": write and status != "same",
        "status": status,
        "view": str(beside),
        "count": made.count(b"\n") - 1,
        "sha256": sha256_bytes(made),
        "cut_bytes": assertions.cut_bytes,
    }
