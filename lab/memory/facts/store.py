"""The file of assertions (TF-7): append-only JSON Lines, one record a line. Everything else is derived from it.

The file of the view (TF-8) is derived from it byte for byte, for other programs to read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import (
    cannot_write,
    dump_json,
    flush_folder,
    only_writer,
    remove_leftovers,
    require_finite,
    sha256_bytes,
    write_atomically,
)
from lab.base.sqlite import MAGIC
from lab.memory.facts.model import INVALIDATION, SCHEMA, Record, fact_json, record_json, record_of
from lab.memory.facts.view import View

# How every record begins.
_BEGIN = b'{"schema": "'
VIEW = "recall-lab.facts.view.v0"
REBUILT = "openclaw-mem.graph.fact.rebuild.v0"
# How the header of a view begins.
_HEADER = f'{{"schema": "{VIEW}"'.encode()


class Assertions(NamedTuple):
    """The records of a file in order, its complete bytes, and the number of bytes that a kill left after them."""

    records: tuple[Record, ...]
    data: bytes
    cut_bytes: int = 0


def read(path: Path, *, new: bool = False) -> Assertions:
    """Return the assertions of a file; with ``new``, it may be missing.

    A last line without a line break is read if it is complete, and ignored if it is the beginning of one that a kill
    cut off. Raises :class:`UnusableInput`, with the line and a remedy, for any other line that cannot be read.
    """
    require_finite(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if new:
            return Assertions((), b"")
        raise UnusableInput(f"{path}: no such file; make it with lab memory facts assert --write") from None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
    if data.startswith(MAGIC):
        raise UnusableInput(f"{path}: is an SQLite database; name the file of assertions (JSON Lines)")
    lines = data.split(b"\n")
    tail = lines.pop()
    records = [_parsed(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    if _is_cut(tail):
        return Assertions(tuple(records), data[: len(data) - len(tail)], len(tail))
    if tail.strip():
        records.append(_parsed(tail, path, len(lines) + 1))
    return Assertions(tuple(records), data)


def _is_cut(tail: bytes) -> bool:
    """Return whether a last line is the beginning of a record. The lab must not remove anything else."""
    if not tail or not tail.startswith(_BEGIN[: len(tail)]):
        return False
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return True
    return False


def _parsed(line: bytes, path: Path, number: int) -> Record:
    at = f"{path}:{number}"
    remedy = f"restore the file from a copy, or delete the line and run lab memory facts rebuild {path} --write"
    try:
        raw = json.loads(line)
        return record_of(raw, at)
    except UnusableInput as error:
        if isinstance(raw, dict) and not _is_assertion(raw):
            remedy = (
                "it is no assertion: name the file of assertions, and add claims to it with lab memory facts import"
            )
        raise UnusableInput(f"{error}; {remedy}") from None
    except (ValueError, RecursionError):
        raise UnusableInput(f"{at}: damaged, not one JSON object a line; {remedy}") from None


def _is_assertion(raw: dict[str, Any]) -> bool:
    """Return whether an object has the marks of a record; a claim has no digests of sources yet."""
    return raw.get("schema") == INVALIDATION or (raw.get("schema") == SCHEMA and "source_digests" in raw)


def append(path: Path, before: Assertions, records: Sequence[Record]) -> Assertions:
    """Append records, each in one write, and flush them to disk; remove a line that a kill cut off first.

    Return the new content of the file. Call it with the folder locked (:func:`lab.base.files.only_writer`), and
    ``before`` as read there. A kill leaves complete lines and at most one that is cut off, so the same command
    continues where it stopped. Raises :class:`lab.base.errors.CannotWrite` if the disk is full.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, len(before.data))
            os.lseek(handle, 0, os.SEEK_END)
            lines = [b"\n"] if before.data and not before.data.endswith(b"\n") else []
            lines += (dump_json(record_json(record), indent=None) for record in records)
            for line in lines:
                _write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        flush_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error, "; the facts before it are kept, and the same command goes on") from error
    return Assertions((*before.records, *records), before.data + b"".join(lines))


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


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
    with only_writer(path.parent) if write else nullcontext():
        assertions = read(path)
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
