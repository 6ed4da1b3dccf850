"""List the contents of a cache folder, check its files, and remove or merge them.

A cache folder has a subfolder per kind of content (``vectors``, ``tokens``, ``docs``, ``candidates``). Within it, the
files with the same key (a hash of the model and settings that produced them) share a subfolder, or the prefix of their
names before a hyphen. Unknown kinds are listed and never changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import checksum
from lab.base.errors import CannotMeasure
from lab.base.files import leftovers
from lab.embedding.cache import ABOUT, KEY_BYTES, WRONG_FOLDER, Chunk, chunk_name, matrix, read_chunk, write_chunk

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

    keys, values, _ = chunk
    if not bool((keys[:-1] < keys[1:]).all()):
        yield "its keys do not ascend"
    if path.name != chunk_name(keys.tobytes()):
        yield "its name is not the hash of its keys"
    if (problem := chunk.problem(path.parent)) == WRONG_FOLDER:
        yield problem
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


# Rows of a merged chunk (25 MB of vectors with 384 dimensions). Chunks of at least half that size are not merged.
MERGED = 16384


class Part(NamedTuple):
    """The files of one kind and key; ``key`` may be empty."""

    kind: str
    key: str
    folder: Path
    files: tuple[Path, ...]


class Maker(NamedTuple):
    """The producer of the files with a key: a model or a setting, and the version of its software."""

    name: str | None
    version: str | None


class Held(NamedTuple):
    """The contents of a part. ``entries`` is None if unknown; ``used`` is the date of last use in UTC, or ""."""

    kind: str
    key: str
    made_by: str | None
    version: str | None
    present: bool | None
    entries: int | None
    files: int
    bytes: int
    used: str


class Merge(NamedTuple):
    """The numbers of chunks of a folder before and after merging."""

    folder: Path
    before: int
    after: int


class Freed(NamedTuple):
    """The files that were removed or merged, or would be in a dry run, and the bytes freed."""

    leftovers: list[Path]
    others: list[Path]
    damaged: list[Path]
    merged: list[Merge]
    bytes: int


def parts(root: Path) -> list[Part]:
    """Return the parts of a cache folder, by kind and key."""
    listed: list[Part] = []
    for kind in sorted(path for path in root.glob("*") if path.is_dir()):
        by_key: dict[str, list[Path]] = {}
        for path in sorted(kind.glob("[!.]*")):
            if path.is_dir():
                inside = sorted(file for file in path.rglob("[!.]*") if file.is_file() and file.name != ABOUT)
                listed.append(Part(kind.name, path.name, path, tuple(inside)))
            else:
                head, hyphen, _ = path.stem.partition("-")
                by_key.setdefault(head if hyphen else "", []).append(path)
        listed += [Part(kind.name, key, kind, tuple(files)) for key, files in sorted(by_key.items())]
    return listed


def stat(root: Path, present: Mapping[str, Set[str]], known: Mapping[str, Maker]) -> list[Held]:
    """Return the contents of a cache folder.

    ``present`` maps kinds to the keys in use. ``known`` maps keys to their producers, for parts without a description.
    """
    return [_held(part, present, known) for part in parts(root)]


def damage(root: Path) -> Iterator[tuple[Part, list[Checked]]]:
    """Yield every part with the check results of its files."""
    for part in parts(root):
        yield part, check(part.files, part.kind)


def collect(
    root: Path, present: Mapping[str, Set[str]], *, other_models: bool, damaged: bool, dry_run: bool = False
) -> Freed:
    """Remove the temporary files of killed processes, and merge small chunks.

    ``other_models``: also remove files whose key is not in ``present``. ``damaged``: also remove damaged files. Files
    are unlinked, never changed, so processes that have them open keep working. A merged chunk is written before its
    parts are removed.
    """
    dead = [part for folder in (root, *sorted(root.rglob("*"))) if folder.is_dir() for part in leftovers(folder)]
    others: list[Path] = []
    broken: list[Path] = []
    merged: list[Merge] = []
    freed = 0
    for part in parts(root):
        if other_models and part.kind in present and part.key not in present[part.kind]:
            others += part.files
            continue
        checked = check(part.files, part.kind)
        if damaged:
            broken += [checked_file.path for checked_file in checked if checked_file.problem]
        small = _small(checked) if part.kind in CHUNKED else []
        if small:
            before = sum(size_of([checked_file.path]) for checked_file in small)
            after = _merge(part.folder, small, dry_run=dry_run)
            merged.append(Merge(part.folder, len(small), len(after)))
            freed += before - size_of(after) if after and not dry_run else 0
    to_remove = [*dead, *others, *broken]
    freed += size_of(to_remove)
    if not dry_run:
        for path in to_remove:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in others}:
            _remove_emptied(folder)
    return Freed(dead, others, broken, merged, freed)


def size_of(files: Sequence[Path]) -> int:
    """Return the total size in bytes of the files that exist."""
    return sum(path.stat().st_size for path in files if path.exists())


def describe(about: Mapping[str, Any]) -> Maker:
    """Return a short description of an embedder, a tokenizer or an external system from its ``about.json``."""
    if isinstance(hello := about.get("hello"), Mapping):
        return Maker(f"{about.get('arm')}: {hello.get('name')}", str(hello.get("version")))
    if "lancedb" in about:
        stops = "stop words" if about.get("remove_stop_words") else "every word"
        return Maker(f"{stops}, {'stems' if about.get('stem') else 'no stems'}", f"LanceDB {about['lancedb']}")
    name = str(about.get("model", "unnamed"))
    name += f" at {about['url']}" if "url" in about else ""
    # Roles with different prompts have separate folders.
    name += f", prompt {about['prompt']!r}" if about.get("prompt") else ""
    return Maker(name, f"torch {about['torch']}" if "torch" in about else None)


def _held(part: Part, present: Mapping[str, Set[str]], known: Mapping[str, Maker]) -> Held:
    stats = [path.stat() for path in part.files if path.exists()]
    used = max((max(file_stat.st_atime, file_stat.st_mtime) for file_stat in stats), default=0.0)
    rows = [_rows(path) for path in part.files]
    return Held(
        part.kind,
        part.key,
        *(_about(part.folder) or known.get(part.key) or Maker(None, None)),
        part.key in present[part.kind] if part.kind in present else None,
        sum(row for row in rows if row) if any(row is not None for row in rows) else None,
        len(stats),
        sum(file_stat.st_size for file_stat in stats),
        datetime.fromtimestamp(used, UTC).date().isoformat() if used else "",
    )


def _about(folder: Path) -> Maker | None:
    try:
        return describe(json.loads((folder / ABOUT).read_bytes()))
    except (OSError, ValueError, AttributeError):
        return None


def _rows(path: Path) -> int | None:
    """Return the number of rows of an Arrow file, or None for other or damaged files."""
    if path.suffix != ".arrow":
        return None
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            return int(reader.read_all().num_rows)
    except (pa.ArrowException, OSError):
        return None


def _small(checked: Sequence[Checked]) -> list[Checked]:
    """Return the sound chunks to rewrite: several small ones, or any without a checksum."""
    sound = [checked_file for checked_file in checked if checked_file.chunk and checked_file.problem is None]
    candidates = [
        checked_file
        for checked_file in sound
        if not checked_file.stamped or (checked_file.chunk and len(checked_file.chunk.keys) < MERGED // 2)
    ]
    return candidates if len(candidates) > 1 or not all(checked_file.stamped for checked_file in candidates) else []


def _merge(folder: Path, small: Sequence[Checked], *, dry_run: bool) -> list[Path]:
    """Write the chunks as fewer ones, then remove the originals; return the new files."""
    import numpy as np
    import pyarrow as pa

    chunks: list[Chunk] = [checked_file.chunk for checked_file in small if checked_file.chunk]
    order, is_duplicate = in_order(chunks)
    rows = order[~is_duplicate].astype(np.int64)
    keys = np.concatenate([chunk.keys for chunk in chunks])[rows].tobytes()
    starts = range(0, len(rows), MERGED)
    if dry_run:
        return [folder] * len(starts)
    values = pa.concat_arrays([chunk.values for chunk in chunks])
    written = []
    for start in starts:
        chosen = np.ascontiguousarray(rows[start : start + MERGED])
        taken = values.take(pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)]))
        path = write_chunk(folder, keys[KEY_BYTES * start : KEY_BYTES * (start + len(chosen))], taken)
        result = check_file(path, folder.parent.name)
        if result is not None and result.problem:
            raise CannotMeasure(
                f"{path}: {result.problem} right after it was written; the original files are unchanged"
            )
        written.append(path)
    for checked_file in small:
        if checked_file.path not in written:
            checked_file.path.unlink(missing_ok=True)
    return written


def _remove_emptied(folder: Path) -> None:
    """Remove a folder that is empty or contains only its description."""
    if {path.name for path in folder.iterdir()} <= {ABOUT} and (folder / ABOUT).exists():
        (folder / ABOUT).unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
