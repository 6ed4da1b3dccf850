"""Check the integrity of the files in a cache."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import checksum
from lab.base.errors import CannotMeasure
from lab.embedding.cache import ABOUT
from lab.embedding.chunks import Chunk, chunk_name, matrix, read_chunk

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Kinds whose files are chunks. Arrow files of other kinds may only have a checksum.
CHUNKED = ("vectors", "tokens")
# The tolerance for the length of a vector. Float32 rows of 384 numbers have length 1 within 2e-7.
UNIT = 1e-5


class Checked(NamedTuple):
    """One checked file: its problem, if any; whether it has a checksum (``stamped``); and its chunk, if it is one."""

    path: Path
    problem: str | None
    stamped: bool
    chunk: Chunk | None


def check(files: Sequence[Path], kind: str) -> list[Checked]:
    """Check the files of one kind and key. If two chunks have different values for a text, both have a problem.

    This does not apply to vectors of an endpoint, whose last bits may vary between requests.
    """
    checked = [checked_file for path in files if (checked_file := check_file(path, kind))]
    sound = [checked_file for checked_file in checked if checked_file.chunk and checked_file.problem is None]
    disagreeing = set() if _by_endpoint(files) else _disagreeing(sound)
    return [
        checked_file._replace(problem="another chunk has another value for the same text")
        if checked_file.path in disagreeing
        else checked_file
        for checked_file in checked
    ]


def _by_endpoint(files: Sequence[Path]) -> bool:
    """Return whether the vectors of a folder came from an endpoint, according to its description."""
    try:
        about = json.loads((files[0].parent / ABOUT).read_bytes()) if files else {}
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("kind") == "openai"


def check_file(path: Path, kind: str) -> Checked | None:
    """Check one file; return None if it does not exist or its format is unknown."""
    try:
        if path.suffix == ".sqlite":
            return Checked(path, _sqlite(path), False, None)
        if path.suffix != ".arrow":
            return None
        stamp, computed = _checksums(path)
        if stamp is not None and stamp != computed:
            return Checked(path, "does not match its checksum", True, None)
        if kind not in CHUNKED:
            return Checked(path, None, stamp is not None, None)
        chunk = read_chunk(path)
        return Checked(path, next(_problems(path, chunk, kind), None), stamp is not None, chunk)
    except FileNotFoundError:
        return None
    except CannotMeasure as error:
        return Checked(
            path, str(error).removeprefix(f"{path}: ").removesuffix("; delete it and run again"), False, None
        )


def _checksums(path: Path) -> tuple[str | None, str]:
    """Return the stored checksum of an Arrow file, or None, and the checksum of its content."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CannotMeasure(f"{path}: is not a complete Arrow file ({error})") from None
    stamp = (table.schema.metadata or {}).get(b"sha256")
    return None if stamp is None else stamp.decode("ascii", "replace"), checksum(table)


def _problems(path: Path, chunk: Chunk, kind: str) -> Iterator[str]:
    """Yield the problems of a readable chunk, the most fundamental first."""
    import numpy as np
    import pyarrow as pa

    keys, values = chunk
    if not bool((keys[:-1] < keys[1:]).all()):
        yield "its keys do not ascend"
    if path.name != chunk_name(keys.tobytes()):
        yield "its name is not the hash of its keys"
    if kind == "tokens":
        if values.type != pa.list_(pa.string()) or values.flatten().null_count:
            yield f"holds {values.type}, expected lists of words"
        return
    if not pa.types.is_fixed_size_list(values.type) or values.type.value_type != pa.float32():
        yield f"holds {values.type}, expected vectors of float32"
        return
    norms = np.linalg.norm(matrix(values).astype(np.float64), axis=1)
    wrong = int((~(np.abs(norms - 1) <= UNIT)).sum())
    if wrong:
        yield f"{wrong} of {len(norms)} vectors are not finite or not of length 1"


def _disagreeing(checked: Sequence[Checked]) -> set[Path]:
    import numpy as np

    chunks = [checked_file.chunk for checked_file in checked if checked_file.chunk]
    if len(chunks) < 2:
        return set()
    starts = np.cumsum([0, *(len(chunk.keys) for chunk in chunks)])
    order, is_duplicate = in_order(chunks)
    paths: set[Path] = set()
    for position in np.flatnonzero(is_duplicate).tolist():
        value, previous = (_value(chunks, starts, int(order[at])) for at in (position, position - 1))
        if not value[1].equals(previous[1]):
            paths |= {checked[value[0]].path, checked[previous[0]].path}
    return paths


def in_order(chunks: Sequence[Chunk]) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of the concatenated chunks in key order, and which of them repeat the previous key."""
    import numpy as np

    keys = np.concatenate([chunk.keys for chunk in chunks])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    return order, np.concatenate([[False], keys[1:] == keys[:-1]])


def _value(chunks: Sequence[Chunk], starts: np.ndarray, row: int) -> tuple[int, pa.Scalar]:
    number = int(starts.searchsorted(row, "right")) - 1
    return number, chunks[number].values[row - int(starts[number])]


def _sqlite(path: Path) -> str | None:
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            (answer,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return f"is not a complete database ({error})"
    return None if answer == "ok" else f"is not a complete database ({answer})"
