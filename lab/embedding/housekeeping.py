"""What a cache folder holds, and what of it can go.

A cache folder has a sub-folder for every kind of thing (``vectors``, ``tokens``, ``docs``, ``candidates``); below it,
things that were made in one way (by one model, say) lie in a folder, or begin their names with one word and a hyphen,
which is a hash of that way. Kinds that this module never heard of are listed, and left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.embedding.cache import ABOUT
from lab.embedding.chunks import KEY_BYTES, Chunk, write_chunk
from lab.embedding.verify import CHUNKED, Checked, check, check_file, in_order
from lab.errors import CannotMeasure
from lab.files import leftovers

# Rows of a merged chunk: 25 MB of vectors of 384 numbers. One with half of that is not merged again.
MERGED = 16384


class Part(NamedTuple):
    """Files of one kind that were made in one way; ``key`` is that way's hash, or empty."""

    kind: str
    key: str
    folder: Path
    files: tuple[Path, ...]


class Maker(NamedTuple):
    """What made the things under a key: a model or a setting, and the version of what ran it."""

    name: str | None
    version: str | None


class Held(NamedTuple):
    """What a part holds. ``entries`` is None where nothing countable is known; ``used`` is a day, in UTC."""

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
    """So many chunks of a folder become so many."""

    folder: Path
    before: int
    after: int


class Freed(NamedTuple):
    """What was removed or merged, or would be."""

    leftovers: list[Path]
    others: list[Path]
    damaged: list[Path]
    merged: list[Merge]
    bytes: int


def parts(root: Path) -> list[Part]:
    """Everything in a cache folder, by kind and key."""
    found: list[Part] = []
    for kind in sorted(path for path in root.glob("*") if path.is_dir()):
        beside: dict[str, list[Path]] = {}
        for path in sorted(kind.glob("[!.]*")):
            if path.is_dir():
                inside = sorted(one for one in path.rglob("[!.]*") if one.is_file() and one.name != ABOUT)
                found.append(Part(kind.name, path.name, path, tuple(inside)))
            else:
                head, hyphen, _ = path.stem.partition("-")
                beside.setdefault(head if hyphen else "", []).append(path)
        found += [Part(kind.name, key, kind, tuple(files)) for key, files in sorted(beside.items())]
    return found


def stat(root: Path, present: Mapping[str, Set[str]], known: Mapping[str, Maker]) -> list[Held]:
    """What a cache folder holds.

    ``present``: keys in use, of each kind that has such. ``known``: what made the things under a key, where they do
    not say so themselves.
    """
    return [_held(part, present, known) for part in parts(root)]


def damage(root: Path) -> Iterator[tuple[Part, list[Checked]]]:
    """Every part, and its files checked."""
    for part in parts(root):
        yield part, check(part.files, part.kind)


def collect(
    root: Path, present: Mapping[str, Set[str]], *, other_models: bool, damaged: bool, dry_run: bool = False
) -> Freed:
    """Remove what killed processes left, and merge small chunks.

    ``other_models``: remove what was made by none of the present models as well. ``damaged``: remove damaged files.
    Whoever has a file open keeps it: it is unlinked, never changed. A chunk goes when what it is merged into is there.
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
            broken += [one.path for one in checked if one.problem]
        small = _small(checked) if part.kind in CHUNKED else []
        if small:
            before = sum(size_of([one.path]) for one in small)
            after = _merge(part.folder, small, dry_run=dry_run)
            merged.append(Merge(part.folder, len(small), len(after)))
            freed += before - size_of(after) if after and not dry_run else 0
    going = [*dead, *others, *broken]
    freed += size_of(going)
    if not dry_run:
        for path in going:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in others}:
            _remove_emptied(folder)
    return Freed(dead, others, broken, merged, freed)


def size_of(files: Sequence[Path]) -> int:
    """Bytes of those files that are there."""
    return sum(path.stat().st_size for path in files if path.exists())


def describe(about: Mapping[str, Any]) -> Maker:
    """What an embedder, or words of an index, say of themselves, in a few words."""
    if "lancedb" in about:
        stops = "stop words" if about.get("remove_stop_words") else "every word"
        return Maker(f"{stops}, {'stems' if about.get('stem') else 'no stems'}", f"LanceDB {about['lancedb']}")
    name = str(about.get("model", "unnamed"))
    name += f" at {about['url']}" if "url" in about else ""
    # Roles with prompts of their own have a folder each.
    name += f", prompt {about['prompt']!r}" if about.get("prompt") else ""
    return Maker(name, f"torch {about['torch']}" if "torch" in about else None)


def _held(part: Part, present: Mapping[str, Set[str]], known: Mapping[str, Maker]) -> Held:
    stats = [path.stat() for path in part.files if path.exists()]
    used = max((max(one.st_atime, one.st_mtime) for one in stats), default=0.0)
    rows = [_rows(path) for path in part.files]
    return Held(
        part.kind,
        part.key,
        *(_about(part.folder) or known.get(part.key) or Maker(None, None)),
        part.key in present[part.kind] if part.kind in present else None,
        sum(row for row in rows if row) if any(row is not None for row in rows) else None,
        len(stats),
        sum(one.st_size for one in stats),
        datetime.fromtimestamp(used, UTC).date().isoformat() if used else "",
    )


def _about(folder: Path) -> Maker | None:
    try:
        return describe(json.loads((folder / ABOUT).read_bytes()))
    except (OSError, ValueError, AttributeError):
        return None


def _rows(path: Path) -> int | None:
    """Rows of an Arrow file, from what describes it; None of others and of damaged ones."""
    if path.suffix != ".arrow":
        return None
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            return int(reader.read_all().num_rows)
    except (pa.ArrowException, OSError):
        return None


def _small(checked: Sequence[Checked]) -> list[Checked]:
    """The sound chunks that are worth writing anew: several small ones, or any without a checksum."""
    sound = [one for one in checked if one.chunk and one.problem is None]
    worth = [one for one in sound if not one.stamped or (one.chunk and len(one.chunk.keys) < MERGED // 2)]
    return worth if len(worth) > 1 or not all(one.stamped for one in worth) else []


def _merge(folder: Path, small: Sequence[Checked], *, dry_run: bool) -> list[Path]:
    """Write the chunks as few, then unlink them."""
    import numpy as np
    import pyarrow as pa

    chunks: list[Chunk] = [one.chunk for one in small if one.chunk]
    order, twice = in_order(chunks)
    rows = order[~twice].astype(np.int64)
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
        found = check_file(path, folder.parent.name)
        if found is not None and found.problem:
            raise CannotMeasure(f"{path}: {found.problem} right after it was written; nothing it was made of is gone")
        written.append(path)
    for one in small:
        if one.path not in written:
            one.path.unlink(missing_ok=True)
    return written


def _remove_emptied(folder: Path) -> None:
    """Remove a folder in which nothing but its description is left."""
    if {path.name for path in folder.iterdir()} <= {ABOUT} and (folder / ABOUT).exists():
        (folder / ABOUT).unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
