"""List the contents of a cache folder, and remove or merge files.

A cache folder has a subfolder per kind of content (``vectors``, ``tokens``, ``docs``, ``candidates``). Within it, the
files with the same key (a hash of the model and settings that produced them) share a subfolder, or the prefix of their
names before a hyphen. Unknown kinds are listed and never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import leftovers
from lab.embedding.cache import ABOUT
from lab.embedding.chunks import KEY_BYTES, Chunk, write_chunk
from lab.embedding.verify import CHUNKED, Checked, check, check_file, in_order

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
