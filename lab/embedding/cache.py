"""A content-addressed cache on disk: what was computed from a text once is never computed again.

A folder holds chunks (:mod:`lab.embedding.chunks`), each whole or absent and never changed. So readers need no lock:
they map the chunks that are there, and whoever looks too early computes the same value again. What a value depends on
besides the text (model, settings) is the folder's name, and stands in its ``about.json``. Its files are for their owner
alone: words of a text, in order, and vectors tell what it says.
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
from typing import TYPE_CHECKING, Any

from lab.embedding.chunks import Chunk, read_chunk, write_chunk
from lab.errors import CannotMeasure
from lab.files import dump_json, private_folder, write_atomically
from lab.utf16 import utf8_pieces

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

CHUNK = 1024
# Seconds after which values that were computed are written, also where they fill no chunk.
HELD_BACK = 3.0
ABOUT = "about.json"
# Looks at a folder whose chunks are being merged meanwhile.
LOOKS = 8


def cache_folder() -> Path:
    """Where caches live: ``LAB_CACHE_DIR`` if set, else the platform's cache folder for this user."""
    chosen = os.environ.get("LAB_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("recall-lab"))


@lru_cache(1 << 17)
def text_key(text: str) -> bytes:
    """sha256 of a text. Lone surrogates, which JSON can carry, are hashed as they are."""
    found = hashlib.sha256()
    for piece in utf8_pieces(text):
        found.update(piece)
    return found.digest()


class ChunkCache:
    """The chunks of one folder, as one mapping from text to value.

    A value has a row: its place when all chunks, in the order in which they were mapped, are put after one another.
    """

    def __init__(self, folder: Path, value_type: pa.DataType | None, about: dict[str, Any] | None = None) -> None:
        """``value_type`` None: that of the first chunk, read or written. ``about`` is written with the first chunk."""
        self.folder, self.value_type = folder, value_type
        self.about = about
        self._chunks: list[Chunk] = []
        self._starts = [0]
        self._names: dict[str, None] = {}
        self._rows: dict[str, int] = {}
        self._index: tuple[np.ndarray, np.ndarray] | None = None
        # Versions before made folders that everybody on the machine could read.
        with suppress(OSError):
            if folder.exists():
                private_folder(folder)
        self._look()

    def __len__(self) -> int:
        import numpy as np

        return len(np.unique(np.concatenate([chunk.keys for chunk in self._chunks]))) if self._chunks else 0

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts without a value, in order of key: what is computed must not depend on who asks first."""
        unknown = self._unknown(texts)
        if unknown and self._look():
            unknown = self._unknown(list(unknown.values()))
        return [unknown[key] for key in sorted(unknown)]

    def fill(
        self, texts: Sequence[str], compute: Callable[[list[str]], pa.Array], on_progress: Callable[[int], None]
    ) -> None:
        """Compute values for distinct ``texts``, a chunk at a time, and :meth:`keep` them."""
        parts = (list(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK))
        self.keep(((part, compute(part)) for part in parts), on_progress)

    def keep(self, parts: Iterable[tuple[list[str], pa.Array]], on_progress: Callable[[int], None]) -> None:
        """Store values of distinct texts as they are computed, part by part, at most a chunk together.

        A value is on disk :data:`HELD_BACK` seconds after it came, as soon as the next part comes; a part without
        texts only says that time has passed. A chunk with room is written again with what came since, and then takes
        the place of the smaller one. What was computed is stored when a later part fails, too. ``on_progress`` hears
        how many texts were stored since it was last called; 0 where none came for :data:`HELD_BACK` seconds.
        """
        held: list[tuple[list[str], pa.Array]] = []
        smaller: Path | None = None
        rows = new = most = 0
        written = time.monotonic()

        def store() -> None:
            nonlocal smaller
            path = self._store(held)
            if smaller is not None and smaller != path:
                smaller.unlink(missing_ok=True)
            smaller = path

        try:
            for texts, values in parts:
                if texts:
                    held.append((texts, values))
                    rows, new, most = rows + len(texts), new + len(texts), max(most, len(texts))
                full = new > 0 and rows + most > CHUNK
                if not full and time.monotonic() - written < HELD_BACK:
                    continue
                stored, new = new, 0
                if stored:
                    store()
                if full:
                    held, smaller, rows = [], None, 0
                on_progress(stored)
                written = time.monotonic()
        finally:
            if new:
                store()
        if new:
            on_progress(new)

    def _store(self, parts: Sequence[tuple[list[str], pa.Array]]) -> Path:
        """Write values as one chunk, and map it."""
        import pyarrow as pa

        if self.about is not None and not (self.folder / ABOUT).exists():
            write_atomically(self.folder / ABOUT, dump_json(self.about), private=True)
        together = [text for some, _ in parts for text in some]
        order = sorted(range(len(together)), key=lambda at: text_key(together[at]))
        texts = [together[at] for at in order]
        values = pa.concat_arrays([some for _, some in parts]).take(pa.array(order, pa.int64()))
        path = write_chunk(self.folder, b"".join(map(text_key, texts)), values)
        first = self._starts[-1]
        try:
            self._map(path)
            self._rows.update((text, row) for row, text in enumerate(texts, first))
        except FileNotFoundError:
            self._look()  # merged as soon as it was written
        return path

    def place(self, text: str) -> tuple[int, int]:
        """Number of the chunk that holds a text's value, and the row in it; ``KeyError`` where none does."""
        row = self._rows.get(text)
        if row is None:
            (row,) = self._rows_of([text])
        number = bisect_right(self._starts, row) - 1
        return number, row - self._starts[number]

    def places(self, texts: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """For every chunk that holds some of the texts: its number, their positions in ``texts``, their rows in it."""
        import numpy as np

        rows = np.asarray(self._rows_of(texts), np.int64)
        numbers = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield number, positions, rows[positions] - self._starts[number]

    def chunk(self, number: int) -> pa.Array:
        """The values of a chunk."""
        return self._chunks[number].values

    def path(self, number: int) -> Path:
        """The file of a chunk."""
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
        """Texts without a value, by key. The rows of the others are noted on the way."""
        import numpy as np

        asked = [text for text in dict.fromkeys(texts) if text not in self._rows]
        keys = [text_key(text) for text in asked]
        if not keys or not self._chunks:
            return dict(zip(keys, asked, strict=True))
        have, order = self._sorted()
        wanted = np.frombuffer(b"".join(keys), have.dtype)
        at = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
        unknown = {}
        for text, key, row, found in zip(asked, keys, order[at].tolist(), have[at] == wanted, strict=True):
            if found:
                self._rows[text] = row
            else:
                unknown[key] = text
        return unknown

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the chunks that were found, ascending, and their rows; what was filled since is in ``_rows``."""
        import numpy as np

        if self._index is None:
            keys = np.concatenate([chunk.keys for chunk in self._chunks])
            # Sorted runs behind one another: a stable sort merges them, and of two equal keys keeps the first.
            order = np.argsort(keys, kind="stable")
            self._index = keys[order], order
        return self._index

    def _look(self) -> bool:
        """Map the chunks that were not seen yet; whether there were any."""
        seen = len(self._names)
        for _ in range(LOOKS):
            gone = False
            for path in sorted(self.folder.glob("*.arrow")):
                if path.name in self._names:
                    continue
                try:
                    self._map(path)
                except FileNotFoundError:
                    gone = True  # merged since it was listed: what it was merged into is there
            if not gone:
                break
        else:
            raise CannotMeasure(f"{self.folder}: chunks go as fast as they are listed; run again")
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
