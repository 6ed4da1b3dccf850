"""Whether the files of a cache hold what was written into them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import checksum
from lab.embedding.cache import ABOUT
from lab.embedding.chunks import Chunk, chunk_name, matrix, read_chunk
from lab.errors import CannotMeasure

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Kinds whose files are chunks; of others it is known alone that an Arrow file may carry its checksum.
CHUNKED = ("vectors", "tokens")
# Float32 rows of 384 numbers come to 1 within 2e-7.
UNIT = 1e-5


class Checked(NamedTuple):
    """One file: what is wrong with it, if anything; whether a checksum says so; and the chunk, where it is one."""

    path: Path
    problem: str | None
    stamped: bool
    chunk: Chunk | None


def check(files: Sequence[Path], kind: str) -> list[Checked]:
    """Check files of one kind and key; two chunks with different values of one text are both wrong.

    Not so where an endpoint made them: it may answer the same text with other last bits, and either will do.
    """
    checked = [found for path in files if (found := check_file(path, kind))]
    sound = [one for one in checked if one.chunk and one.problem is None]
    disagreeing = set() if _by_endpoint(files) else _disagreeing(sound)
    return [
        one._replace(problem="another chunk has another value for the same text") if one.path in disagreeing else one
        for one in checked
    ]


def _by_endpoint(files: Sequence[Path]) -> bool:
    """Whether the vectors of a folder came from an endpoint, as their description says."""
    try:
        about = json.loads((files[0].parent / ABOUT).read_bytes()) if files else {}
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("kind") == "openai"


def check_file(path: Path, kind: str) -> Checked | None:
    """Check one file; None if it is gone, or nothing is known about its form."""
    try:
        if path.suffix == ".sqlite":
            return Checked(path, _sqlite(path), False, None)
        if path.suffix != ".arrow":
            return None
        stamp, computed = _checksums(path)
        if stamp is not None and stamp != computed:
            return Checked(path, "holds something else than its checksum says", True, None)
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
    """The checksum that an Arrow file carries, and that of what it holds."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CannotMeasure(f"{path}: is no whole Arrow file ({error})") from None
    stamp = (table.schema.metadata or {}).get(b"sha256")
    return None if stamp is None else stamp.decode("ascii", "replace"), checksum(table)


def _problems(path: Path, chunk: Chunk, kind: str) -> Iterator[str]:
    """What is wrong with a readable chunk, the deepest first."""
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

    chunks = [one.chunk for one in checked if one.chunk]
    if len(chunks) < 2:
        return set()
    starts = np.cumsum([0, *(len(chunk.keys) for chunk in chunks)])
    order, twice = in_order(chunks)
    found: set[Path] = set()
    for place in np.flatnonzero(twice).tolist():
        value, before = (_value(chunks, starts, int(order[at])) for at in (place, place - 1))
        if not value[1].equals(before[1]):
            found |= {checked[value[0]].path, checked[before[0]].path}
    return found


def in_order(chunks: Sequence[Chunk]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of several chunks, put after one another, in order of key; and which have the key of the one before."""
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
        return f"is no whole database ({error})"
    return None if answer == "ok" else f"is no whole database ({answer})"
