"""A content-addressed cache on disk for values that are computed from texts.

A folder contains chunks: files of values that are written atomically and never changed. Readers need no lock: they map
the existing chunks, and a reader that misses a new chunk computes the same value again. Everything else that a value
depends on (model, settings) determines the folder's name and is described in its ``about.json``. Only the owner may
read the files, because tokens and vectors reveal the texts.

A chunk is an Arrow file with a ``key`` column (SHA-256 of a text, ascending, unique) and a ``value`` column, in one
batch. Its name is the hash of its keys, so that two writers of the same texts write the same file. The schema's
metadata contains a hash of the content and the folder's name, which are compared when a process first takes a value
from the chunk; a chunk of an earlier version may lack them.
"""

from __future__ import annotations

import hashlib
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import checksum, numbers_of
from lab.base.errors import CannotMeasure
from lab.base.files import atomic_file, dump_json, private_folder, write_atomically
from lab.base.utf16 import utf8_pieces

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KIND = "recall-lab chunk"
VERSION = "1"
KEY_BYTES = 32
WRONG_FOLDER = "it was written into another folder, so by another model or settings"


class Chunk(NamedTuple):
    """The keys (numpy ``S32``, which compares as bytes) and the values of a batch, all over the mapped file."""

    keys: np.ndarray
    values: pa.Array
    batch: pa.RecordBatch

    def problem(self, folder: Path) -> str | None:
        """Return what is wrong if the chunk does not match its checksum or was not written for ``folder``.

        Takes 1 ms a megabyte. A chunk that states neither has no problem.
        """
        import pyarrow as pa

        stated = self.batch.schema.metadata or {}
        if stated.get(b"folder", folder.name.encode()) != folder.name.encode():
            return WRONG_FOLDER
        stamp = stated.get(b"sha256")
        if stamp is None or stamp.decode("ascii", "replace") == checksum(pa.Table.from_batches([self.batch])):
            return None
        return "it does not match its checksum"


def chunk_name(keys: bytes) -> str:
    """Return the file name of a chunk with these concatenated keys."""
    return f"{hashlib.sha256(keys).hexdigest()[:24]}.arrow"


def write_chunk(folder: Path, keys: bytes, values: pa.Array) -> Path:
    """Write one chunk; ``keys`` are concatenated and must ascend."""
    import pyarrow as pa

    key_column = pa.Array.from_buffers(pa.binary(KEY_BYTES), len(values), [None, pa.py_buffer(keys)])
    table = pa.table({"key": key_column, "value": values})
    # Buffers in memory may be longer than what is written, so the checksum is computed over the data read back.
    table = pa.ipc.open_file(_written(table)).read_all()
    stated = {"kind": KIND, "schema_version": VERSION, "folder": folder.name, "sha256": checksum(table)}
    table = table.replace_schema_metadata(stated)
    path = folder / chunk_name(keys)
    with atomic_file(path, private=True) as part:
        part.write_bytes(_written(table))
    return path


def read_chunk(path: Path, value_type: pa.DataType | None = None) -> Chunk:
    """Map one chunk; if ``value_type`` is given, its values must have that type.

    Raises ``FileNotFoundError`` if the file is missing (it may have been merged meanwhile), and :class:`CannotMeasure`
    for a damaged chunk.
    """
    import numpy as np
    import pyarrow as pa

    try:
        # The mapping stays valid after the file is closed, so chunks keep no files open.
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            if reader.num_record_batches != 1:
                raise pa.ArrowInvalid(f"{reader.num_record_batches} batches")
            batch = reader.get_batch(0)
            batch.validate()
            keys, values = batch["key"], batch["value"]
        if keys.type != pa.binary(KEY_BYTES) or keys.null_count or values.null_count or not len(keys):
            raise pa.ArrowInvalid("it lacks a key or a value")
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); change its permissions") from None
    except (pa.ArrowException, KeyError, OSError) as error:
        raise CannotMeasure(f"{path}: damaged cache file ({error}); delete it and run again") from None
    if value_type is not None and values.type != value_type:
        raise CannotMeasure(f"{path}: holds {values.type}, expected {value_type}; delete it and run again")
    return Chunk(np.frombuffer(keys.buffers()[1], f"S{KEY_BYTES}", len(keys)), values, batch)


def matrix(values: pa.Array) -> np.ndarray:
    """Return the vectors as rows, over the mapped file."""
    # Not values.flatten(), which imports pyarrow.compute: that takes longer than to map the vectors.
    width = values.type.list_size
    return numbers_of(values.values.slice(values.offset * width, len(values) * width)).reshape(-1, width)


def _written(table: pa.Table) -> pa.Buffer:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


CHUNK = 1024
# Seconds after which computed values are written even if they do not fill a chunk.
WRITE_AFTER = 3.0
ABOUT = "about.json"
# Number of attempts to list a folder while another process merges its chunks.
LOOKS = 8


def cache_folder() -> Path:
    """Return the folder of the caches: ``LAB_CACHE_DIR`` if set, else the platform's cache folder of this user."""
    chosen = os.environ.get("LAB_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("recall-lab"))


@lru_cache(1 << 17)
def text_key(text: str) -> bytes:
    """Return the SHA-256 of a text in UTF-8; lone surrogates, which JSON may contain, are encoded as well."""
    digest = hashlib.sha256()
    for piece in utf8_pieces(text):
        digest.update(piece)
    return digest.digest()


class ChunkCache:
    """The chunks of one folder as a mapping from text to value.

    The row of a value is its index in the concatenation of all chunks, in the order in which they were mapped.
    """

    def __init__(self, folder: Path, value_type: pa.DataType | None, about: dict[str, Any] | None = None) -> None:
        """If ``value_type`` is None, the first chunk determines it. ``about`` is written with the first chunk."""
        self.folder, self.value_type = folder, value_type
        self.about = about
        self._chunks: list[Chunk] = []
        self._intact: set[int] = set()
        self._starts = [0]
        self._names: dict[str, None] = {}
        self._rows: dict[str, int] = {}
        self._index: tuple[np.ndarray, np.ndarray] | None = None
        # Earlier versions created folders that all users could read.
        with suppress(OSError):
            if folder.exists():
                private_folder(folder)
        self._map_new_chunks()

    def __len__(self) -> int:
        import numpy as np

        return len(np.unique(np.concatenate([chunk.keys for chunk in self._chunks]))) if self._chunks else 0

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts without a value, ordered by key so that the caller's order has no effect."""
        unknown = self._unknown(texts)
        if unknown and self._map_new_chunks():
            unknown = self._unknown(list(unknown.values()))
        return [unknown[key] for key in sorted(unknown)]

    def fill(
        self, texts: Sequence[str], compute: Callable[[list[str]], pa.Array], on_progress: Callable[[int], None]
    ) -> None:
        """Compute the values of distinct ``texts`` chunk by chunk and :meth:`keep` them."""
        parts = (list(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK))
        self.keep(((part, compute(part)) for part in parts), on_progress)

    def keep(self, parts: Iterable[tuple[list[str], pa.Array]], on_progress: Callable[[int], None]) -> None:
        """Store the values of distinct texts as they are computed, in parts of at most one chunk.

        Values are written when the next part arrives and :data:`WRITE_AFTER` seconds have passed since the last write;
        an empty part only signals that time has passed. A chunk that is not full is written again with the new values
        and replaces the smaller one. If computing a later part fails, the values so far are still stored.
        ``on_progress`` receives the number of texts stored since its last call, which is 0 if none arrived for
        :data:`WRITE_AFTER` seconds.
        """
        pending: list[tuple[list[str], pa.Array]] = []
        previous: Path | None = None
        rows = new = most = 0
        written = time.monotonic()

        def store() -> None:
            nonlocal previous
            path = self._store(pending)
            if previous is not None and previous != path:
                previous.unlink(missing_ok=True)
            previous = path

        try:
            for texts, values in parts:
                if texts:
                    pending.append((texts, values))
                    rows, new, most = rows + len(texts), new + len(texts), max(most, len(texts))
                full = new > 0 and rows + most > CHUNK
                if not full and time.monotonic() - written < WRITE_AFTER:
                    continue
                stored, new = new, 0
                if stored:
                    store()
                if full:
                    pending, previous, rows = [], None, 0
                on_progress(stored)
                written = time.monotonic()
        finally:
            if new:
                store()
        if new:
            on_progress(new)

    def _store(self, parts: Sequence[tuple[list[str], pa.Array]]) -> Path:
        """Write values as one chunk and map it."""
        import pyarrow as pa

        if self.about is not None and not (self.folder / ABOUT).exists():
            write_atomically(self.folder / ABOUT, dump_json(self.about), private=True)
        all_texts = [text for values_part, _ in parts for text in values_part]
        order = sorted(range(len(all_texts)), key=lambda at: text_key(all_texts[at]))
        texts = [all_texts[at] for at in order]
        values = pa.concat_arrays([values_part for _, values_part in parts]).take(pa.array(order, pa.int64()))
        path = write_chunk(self.folder, b"".join(map(text_key, texts)), values)
        first = self._starts[-1]
        try:
            self._map(path)
            self._rows.update((text, row) for row, text in enumerate(texts, first))
        except FileNotFoundError:
            self._map_new_chunks()  # another process merged the chunk right after it was written
        return path

    def place(self, text: str) -> tuple[int, int]:
        """Return the number of the chunk with a text's value and the row within it. Raises KeyError if it has none."""
        row = self._rows.get(text)
        if row is None:
            (row,) = self._rows_of([text])
        number = bisect_right(self._starts, row) - 1
        return number, row - self._starts[number]

    def places(self, texts: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield, per chunk with some of the texts, its number, their positions in ``texts``, and their rows in it.

        Raises KeyError if a text has no value.
        """
        import numpy as np

        rows = np.asarray(self._rows_of(texts), np.int64)
        numbers = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield number, positions, rows[positions] - self._starts[number]

    def chunk(self, number: int) -> pa.Array:
        """Return the values of a chunk; raise :class:`CannotMeasure` if it is damaged or another folder's."""
        if number not in self._intact:
            if problem := self._chunks[number].problem(self.folder):
                raise CannotMeasure(f"{self.path(number)}: damaged cache file ({problem}); delete it and run again")
            self._intact.add(number)
        return self._chunks[number].values

    def path(self, number: int) -> Path:
        """Return the file of a chunk."""
        return self.folder / list(self._names)[number]

    def _rows_of(self, texts: Sequence[str]) -> list[int]:
        known = self._rows
        try:
            return [known[text] for text in texts]
        except KeyError:
            unknown = self._unknown(texts)
        if unknown:
            raise KeyError(f"{self.folder}: {len(unknown)} texts were not prepared")
        return [known[text] for text in texts]

    def _unknown(self, texts: Sequence[str]) -> dict[bytes, str]:
        """Return the texts without a value, by key, and remember the rows of the others."""
        import numpy as np

        candidates = [text for text in dict.fromkeys(texts) if text not in self._rows]
        keys = [text_key(text) for text in candidates]
        if not keys or not self._chunks:
            return dict(zip(keys, candidates, strict=True))
        known_keys, order = self._sorted()
        wanted_keys = np.frombuffer(b"".join(keys), known_keys.dtype)
        positions = np.minimum(np.searchsorted(known_keys, wanted_keys), len(known_keys) - 1)
        unknown = {}
        for text, key, row, is_known in zip(
            candidates, keys, order[positions].tolist(), known_keys[positions] == wanted_keys, strict=True
        ):
            if is_known:
                self._rows[text] = row
            else:
                unknown[key] = text
        return unknown

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of the listed chunks, ascending, and their rows; newly written values are in ``_rows``."""
        import numpy as np

        if self._index is None:
            keys = np.concatenate([chunk.keys for chunk in self._chunks])
            # A stable sort merges sorted runs quickly and puts the first of two equal keys first.
            order = np.argsort(keys, kind="stable")
            self._index = keys[order], order
        return self._index

    def _map_new_chunks(self) -> bool:
        """Map the chunks that are not mapped yet; return whether there were any."""
        seen = len(self._names)
        for _ in range(LOOKS):
            gone = False
            for path in sorted(self.folder.glob("*.arrow")):
                if path.name in self._names:
                    continue
                try:
                    self._map(path)
                except FileNotFoundError:
                    gone = True  # merged into another chunk after it was listed
            if not gone:
                break
        else:
            raise CannotMeasure(f"{self.folder}: another process keeps merging its chunks; run the command again")
        if len(self._names) == seen:
            return False
        self._index = None
        return True

    def _map(self, path: Path) -> None:
        chunk = read_chunk(path, self.value_type)
        self.value_type = chunk.values.type
        self._names[path.name] = None
        self._chunks.append(chunk)
        self._starts.append(self._starts[-1] + len(chunk.keys))
