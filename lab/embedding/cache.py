"""A content-addressed cache on disk: what was computed from a text once is never computed again.

A folder holds chunks. A chunk is one Arrow file with a ``key`` column (sha256 of the text) and a ``value`` column; it
is named by the hash of its keys, is written whole or not at all, and is never changed. So readers need no lock: they
map the chunks that are there, and two writers of the same texts write the same file. What a value depends on besides
the text (model, settings) is the folder's name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import CannotMeasure
from lab.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1024


def cache_folder() -> Path:
    """Where caches live: ``LAB_CACHE_DIR`` if set, else the platform's cache folder for this user."""
    chosen = os.environ.get("LAB_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("recall-lab"))


def text_key(text: str) -> bytes:
    """sha256 of a text. Lone surrogates, which JSON can carry, are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class ChunkCache:
    """The chunks of one folder, as one mapping from text key to value."""

    def __init__(self, folder: Path, value_type: pa.DataType) -> None:
        self.folder = folder
        self.value_type = value_type
        self._where: dict[bytes, tuple[int, int]] = {}
        self._chunks: list[pa.ChunkedArray] = []
        for path in sorted(folder.glob("*.arrow")):
            self._map(path)

    def __contains__(self, key: bytes) -> bool:
        return key in self._where

    def __len__(self) -> int:
        return len(self._where)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts without a value, in order of key: what is computed must not depend on who asks first."""
        wanted = {text_key(text): text for text in texts}
        return [wanted[key] for key in sorted(wanted) if key not in self._where]

    def fill(
        self, texts: Sequence[str], compute: Callable[[list[str]], pa.Array], on_progress: Callable[[int], None]
    ) -> None:
        """Compute and store values for ``texts`` chunk by chunk.

        A chunk that is stored survives whatever happens next.
        """
        for start in range(0, len(texts), CHUNK):
            part = list(texts[start : start + CHUNK])
            self._store([text_key(text) for text in part], compute(part))
            on_progress(len(part))

    def values(self, texts: Sequence[str]) -> Iterator[Any]:
        """The stored Arrow scalars of ``texts``, in order. Every text must be present."""
        for text in texts:
            chunk, row = self._where[text_key(text)]
            yield self._chunks[chunk][row]

    def place(self, text: str) -> tuple[int, int]:
        """Chunk number and row of a text."""
        return self._where[text_key(text)]

    def chunk(self, number: int) -> pa.ChunkedArray:
        """The value column of a chunk."""
        return self._chunks[number]

    def _store(self, keys: list[bytes], values: pa.Array) -> None:
        import pyarrow as pa

        table = pa.table({"key": pa.array(keys, pa.binary(32)), "value": values})
        path = self.folder / f"{hashlib.sha256(b''.join(keys)).hexdigest()[:24]}.arrow"
        with (
            whole_file(path) as part,
            pa.OSFile(str(part), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        self._map(path)

    def _map(self, path: Path) -> None:
        import pyarrow as pa

        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            keys, values = table["key"], table["value"]
        except (pa.ArrowException, KeyError, OSError) as error:
            raise CannotMeasure(f"{path}: damaged cache file ({error}); delete it and run again") from None
        if values.type != self.value_type:
            raise CannotMeasure(f"{path}: holds {values.type}, expected {self.value_type}; delete it and run again")
        number = len(self._chunks)
        self._chunks.append(values)
        for row, key in enumerate(keys.to_pylist()):
            self._where.setdefault(key, (number, row))
