"""Vectors for texts: stored ones where a run uses those of a store, else from the cache, else from the embedder."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import InUse, UnusableInput
from lab.base.files import only_writer
from lab.base.formatting import duration
from lab.embedding.cache import CHUNK, ChunkCache, cache_folder, matrix, text_key
from lab.embedding.embedder import (
    DEFAULT_MODEL,
    DOCUMENT,
    PROMPT_SETTINGS,
    Batches,
    Embedder,
    HashingEmbedder,
    Role,
    SentenceTransformerEmbedder,
    role_identity,
    role_key,
    settings_in,
)
from lab.embedding.endpoint import EndpointEmbedder, endpoint_named

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# The tolerance for the length of a stored vector, which must be 1.
UNIT = 1e-3
REMEDY = "store normalised vectors of one embedder in every row, or replay without --vectors stored"


def embedder_named(name: str) -> Embedder:
    """Return the embedder for the value of ``--embedder``.

    ``name`` is the default model, ``hashing``, a folder with a sentence-transformers model (``FOLDER``, or
    ``st:FOLDER`` with settings), or ``openai:MODEL@URL``. Settings follow a question mark, as in a URL:
    ``?query_prompt=query: ``. Raises :class:`UnusableInput` for anything else; the message never repeats a part that
    may be a password.
    """
    kind, colon, rest = name.partition(":")
    if name == "hashing":
        return HashingEmbedder()
    if kind == "openai":
        return endpoint_named(rest)
    if kind == "st" and colon:
        folder, _, given = rest.partition("?")
        if "@" in folder and not Path(folder).is_dir():
            raise UnusableInput(f"embedder st: no such folder; give {DEFAULT_MODEL} or a folder with a model")
        return SentenceTransformerEmbedder(folder, settings_in(given, PROMPT_SETTINGS, f"embedder 'st:{folder}'"))
    if ("@" in name or (colon and "/" not in kind)) and not Path(name).exists():
        shown = f" {kind + colon!r}" if colon and "@" not in kind else ""
        raise UnusableInput(
            f"unknown kind of embedder{shown}; known: {DEFAULT_MODEL}, FOLDER, st:FOLDER, openai:MODEL@URL, hashing"
        )
    return SentenceTransformerEmbedder(name)


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors by memory key: row ``rows[key]`` of ``matrix``, float32 ``[rows, dimension]``.

    Rows without an embedding are not included. Two memories with one text may have different vectors. ``where``
    names the store in messages.
    """

    where: str
    rows: Mapping[str, int]
    matrix: np.ndarray

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return int(self.matrix.shape[1])

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of keys and vectors, which identifies them in a run."""
        hasher = hashlib.sha256("\n".join(self.rows).encode("utf-8", "surrogatepass"))
        hasher.update(self.matrix.astype("<f4").tobytes())
        return hasher.hexdigest()

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def of(self, keys: Sequence[str]) -> np.ndarray:
        """Return float32 ``[len(keys), dimension]``."""
        import numpy as np

        return self.matrix[[self.rows[key] for key in keys]].astype(np.float32, copy=False)


def stored_vectors(
    where: Path, vectors: Mapping[str, tuple[Sequence[float] | np.ndarray | None, str]]
) -> tuple[StoredVectors, dict[str, str]]:
    """Check and collect vectors that were read, given by memory key with their location for messages.

    Return them, and the kind of fault of each vector that is missing, not finite, of another dimension than most, or
    not of length 1. Raises :class:`UnusableInput` if half of them or more are faulty: then it is the store that is.
    """
    import numpy as np

    rows = {key: _row(vector) for key, (vector, _) in vectors.items()}
    sizes = Counter(row.size for row in rows.values() if row.size)
    dimension = sizes.most_common(1)[0][0] if sizes else 0
    faults: dict[str, str] = {}
    for key, (vector, at) in vectors.items():
        if (fault := _fault(vector, rows[key], dimension)) is None:
            continue
        faults[key] = fault
        if 2 * len(faults) >= len(vectors):
            raise UnusableInput(f"{at}: {fault}; {REMEDY}")
    sound = [key for key in vectors if key not in faults]
    numbers = {key: number for number, key in enumerate(sound)}
    return StoredVectors(str(where), numbers, np.stack([rows[key] for key in sound])), faults


def _row(vector: Sequence[float] | np.ndarray | None) -> np.ndarray:
    """Return a vector as float32, empty if it is none."""
    import numpy as np

    try:
        row = np.asarray([] if vector is None else vector, np.float32)
    except (TypeError, ValueError):
        row = np.empty(0, np.float32)
    return row if row.ndim == 1 else np.empty(0, np.float32)


def _fault(vector: object, row: np.ndarray, dimension: int) -> str | None:
    """Return the kind of fault of a vector, if any."""
    import numpy as np

    if vector is None:
        return "it has no vector"
    if not row.size or not np.isfinite(row).all():
        return "field 'vector': expected a list of finite numbers"
    if len(row) != dimension:
        return "field 'vector': has another number of numbers than most rows"
    if not abs(float(np.linalg.norm(row.astype(np.float64))) - 1) <= UNIT:
        return "field 'vector': its length is not 1, so that distance and cosine would give different ranks"
    return None


Announce = Callable[[str], None]
# Up to this many texts, single lookups are faster than lookups by chunk.
FEW = 32
# Minimum cosine of two vectors of the same text from an endpoint, whose last bits may vary.
AGREE = 0.999
# Seconds between attempts to lock a cache that another process is filling from the same endpoint.
_LOOK_AGAIN = 0.5


class Recomputed(NamedTuple):
    """The number of recomputed texts, of texts missing in the cache, and of differing vectors by file."""

    compared: int
    lacking: int
    differing: dict[Path, int]


class Vectors:
    """Cached vectors of one embedder. The cache of a role is opened on first use."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._caches: dict[str, _Cached] = {}

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return self._of_role(DOCUMENT).dimension

    def prepare(self, texts: Sequence[str], announce: Announce | None = None, role: Role = DOCUMENT) -> int:
        """Embed the texts that the cache lacks; return how many those were.

        ``announce`` receives progress messages. A vector depends only on its text and role, so texts may be grouped
        into chunks freely: they are ordered by length, the longest first. This keeps batches full, and the announced
        remaining time is more often too long than too short.
        """
        return self._of_role(role).prepare(texts, announce or (lambda _: None))

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return float32 ``[len(texts), dimension]``. Raises KeyError if a text was not prepared."""
        return self._of_role(role).of(texts)

    def recompute(self, texts: Sequence[str], sample: int | None = None, role: Role = DOCUMENT) -> Recomputed:
        """Embed cached texts again and compare the vectors bit by bit, without writing anything.

        For an endpoint, whose last bits may vary, cosines are compared instead (:data:`AGREE`). ``sample`` limits the
        number of texts to those with the lowest keys, a reproducible sample by hash.
        """
        return self._of_role(role).recompute(texts, sample)

    def _of_role(self, role: Role) -> _Cached:
        """Return the cache of a role; roles with equal prompts share one."""
        key = role_key(self.embedder, role)
        if key not in self._caches:
            self._caches[key] = _Cached(self.embedder, role, key)
        return self._caches[key]


class _Cached:
    """The vectors of one role."""

    def __init__(self, embedder: Embedder, role: Role, key: str) -> None:
        import pyarrow as pa

        self._embedder, self._role = embedder, role
        self._endpoint = embedder if isinstance(embedder, EndpointEmbedder) else None
        known = self._endpoint is None or self._endpoint.learned()
        self._cache = ChunkCache(
            cache_folder() / "vectors" / key,
            pa.list_(pa.float32(), embedder.dimension) if known else None,
            role_identity(embedder, role),
        )
        self._matrices: dict[int, np.ndarray] = {}

    @property
    def dimension(self) -> int:
        """The number of dimensions, of the cached vectors if there are any."""
        kind = self._cache.value_type
        return self._embedder.dimension if kind is None else int(kind.list_size)

    def prepare(self, texts: Sequence[str], announce: Announce) -> int:
        """See :meth:`Vectors.prepare`."""
        missing = self._cache.missing(texts)
        if not missing or self._endpoint is None or self._endpoint.cached_only:
            return self._fill(missing, announce)
        # Only one process at a time sends requests: two could get different vectors for a text and would pay twice.
        self._endpoint.announce = announce
        try:
            with _exclusive(self._cache.folder, announce):
                return self._fill(self._cache.missing(missing), announce)
        finally:
            self._endpoint.announce = None
            with suppress(OSError):
                self._cache.folder.rmdir()  # leave no empty folder if there was no response

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """See :meth:`Vectors.of`."""
        import numpy as np

        out = np.empty((len(texts), self.dimension), np.float32)
        if len(texts) <= FEW:
            for at, (number, row) in enumerate(map(self._cache.place, texts)):
                out[at] = self._matrix(number)[row]
            return out
        for number, positions, rows in self._cache.places(texts):
            out[positions] = self._matrix(number)[rows]
        return out

    def recompute(self, texts: Sequence[str], sample: int | None) -> Recomputed:
        """See :meth:`Vectors.recompute`."""
        lacking = set(self._cache.missing(texts))
        chosen = sorted({text for text in texts if text not in lacking}, key=text_key)[:sample]
        wrong: dict[Path, int] = {}
        if chosen:
            cached, recomputed = self.of(chosen), self._embedder.encode(chosen, self._role)
            if self._endpoint is None:
                equal = (cached.view("uint32") == recomputed.view("uint32")).all(axis=1)
            else:
                equal = (cached * recomputed).sum(axis=1) >= AGREE
            for text, same in zip(chosen, equal.tolist(), strict=True):
                if not same:
                    path = self._cache.path(self._cache.place(text)[0])
                    wrong[path] = wrong.get(path, 0) + 1
        return Recomputed(len(chosen), len(lacking), wrong)

    def _fill(self, missing: Sequence[str], announce: Announce) -> int:
        if missing:
            ordered = sorted(missing, key=len, reverse=True)
            with closing(self._parts(ordered)) as parts:
                self._cache.keep(((texts, _as_list(vectors)) for texts, vectors in parts), _progress(ordered, announce))
        return len(missing)

    def _parts(self, texts: Sequence[str]) -> Generator[tuple[list[str], np.ndarray], None, None]:
        """Yield texts with their vectors as they are computed, or no texts to signal that time has passed."""
        if isinstance(self._embedder, Batches):
            for rows, vectors in self._embedder.batches(texts, self._role):
                yield [texts[row] for row in rows], vectors
            return
        slices = (list(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK))
        for part in self._endpoint.requests(texts, self._role) if self._endpoint else slices:
            vectors = self._embedder.encode(part, self._role)
            if self._cache.about is not None and self._endpoint is not None:
                self._cache.about |= self._endpoint.learned()
            yield part, vectors

    def _matrix(self, number: int) -> np.ndarray:
        """Return a chunk as a matrix over its mapped file."""
        rows_matrix = self._matrices.get(number)
        if rows_matrix is None:
            rows_matrix = self._matrices[number] = matrix(self._cache.chunk(number))
        return rows_matrix


def _as_list(vectors: np.ndarray) -> pa.Array:
    import pyarrow as pa

    flat = pa.Array.from_buffers(pa.float32(), vectors.size, [None, pa.py_buffer(vectors.tobytes())])
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


@contextmanager
def _exclusive(folder: Path, announce: Announce) -> Iterator[None]:
    """Lock a folder of the cache, waiting while another process holds the lock."""
    with ExitStack() as stack:
        waited = 0
        while True:
            try:
                stack.enter_context(only_writer(folder))
                break
            except InUse:
                if not waited:
                    announce("another process is embedding with this model; waiting for it to finish")
                waited += 1
                time.sleep(_LOOK_AGAIN)
        yield


def _progress(texts: Sequence[str], announce: Announce) -> Callable[[int], None]:
    """Return a callback that announces progress, rate and remaining time, which is estimated from characters."""
    total, all_characters = len(texts), sum(len(text) + 1 for text in texts)
    done = characters = 0
    began = started = time.perf_counter()
    announce(f"embedding {total} texts")

    def progress(count: int) -> None:
        nonlocal done, characters, started
        characters += sum(len(text) + 1 for text in texts[done : done + count])
        done += count
        if not done:
            started = time.perf_counter()  # measure the rate without the time to load the model
            announce(f"embedded 0 of {total} texts ({duration(started - began)} so far, loading the model)")
            return
        elapsed = time.perf_counter() - started
        remaining = elapsed * (all_characters / characters - 1)
        rate = f"{done / elapsed:.0f} a second" if elapsed else "at once"
        if done < total:
            announce(f"embedded {done} of {total} texts ({rate}, {duration(remaining)} left)")
        else:
            announce(f"embedded {done} of {total} texts in {duration(time.perf_counter() - began)} ({rate})")

    return progress
