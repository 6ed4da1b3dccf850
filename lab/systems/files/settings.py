"""The host's settings of its memory search: ``memory.search`` of an openclaw.json, and what releases fix (HB-4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import digest
from lab.base.shape import with_keys
from lab.systems.files.folder import operators_files

SOURCES = ("memory", "sessions")
TOKENIZERS = ("unicode61", "trigram")
# Keys of the host about its embedder, its caches and other files, which do not apply here.
HOSTS_OWN = (
    "enabled",
    "provider",
    "model",
    "remote",
    "fallback",
    "local",
    "cache",
    "sync",
    "multimodal",
    "experimental",
    "rememberAcrossConversations",
    "inputType",
    "queryInputType",
    "documentInputType",
    "outputDimensionality",
)


class Release(NamedTuple):
    """What a release of the host fixes in its search.

    ``candidates``: the depth of each lane, or None for four times the results. ``by_entry``: every item of
    ``MEMORY.md`` is a chunk. ``keywords``: a prompt whose words are not all in one chunk is searched word by word, and
    coverage counts. ``decay``: half-life of dated files in days. ``mmr``: weight of relevance in the final order.
    ``fill``: slots that are left go to chunks that only the words found.
    """

    candidates: int | None
    by_entry: bool
    keywords: bool
    decay: float | None
    mmr: float | None
    fill: bool


RELEASES = {
    "2026.6.6": Release(None, by_entry=False, keywords=False, decay=None, mmr=None, fill=False),
    "2026.9.6": Release(200, by_entry=True, keywords=True, decay=30.0, mmr=0.7, fill=True),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The host's search. ``sources`` None: notes, and transcripts too if the system captures.

    ``extra_paths`` are files and folders of the operator, searched beside what the recording gives. ``missing`` names
    keys of the host that do not apply here.
    """

    version: str
    sources: tuple[str, ...] | None = None
    tokenizer: str = "unicode61"
    max_results: int = 6
    min_score: float = 0.35
    tokens: int = 400
    overlap: int = 80
    vector_weight: float = 0.7
    text_weight: float = 0.3
    extra_paths: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def chunk_key(self) -> Hashable:
        """What chunks depend on besides the files."""
        return self.sources, self.tokens, self.overlap, self.release.by_entry, self.extra_paths

    def inputs(self) -> dict[str, str]:
        """Return a digest of the operator's files."""
        return {"extraPaths": digest(operators_files(self.extra_paths))} if self.extra_paths else {}

    @property
    def release(self) -> Release:
        """What the release fixes."""
        return RELEASES[self.version]

    def config(self) -> dict[str, Any]:
        """Return the settings in the host's spelling; ``release`` is the lab's own key."""
        own = {"extraPaths": list(self.extra_paths)} if self.extra_paths else {}
        return own | {
            "release": self.version,
            "sources": None if self.sources is None else list(self.sources),
            "store": {"fts": {"tokenizer": self.tokenizer}},
            "chunking": {"tokens": self.tokens, "overlap": self.overlap},
            "query": {
                "maxResults": self.max_results,
                "minScore": self.min_score,
                "hybrid": {"vectorWeight": self.vector_weight, "textWeight": self.text_weight},
            },
        }


class Reader:
    """Reads values of one object of a configuration; messages name file, key and value."""

    def __init__(self, value: object, where: str, known: Sequence[str]) -> None:
        self._value, self._where = with_keys(value, known, where), where

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value as it is."""
        return self._value.get(key, default)

    def inner(self, key: str, known: Sequence[str]) -> Reader:
        """Return the reader of a nested object, which may be absent."""
        return Reader(self._value.get(key, {}), f"{self._where}: {key}", known)

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """Return a number of a range."""
        value = self._value.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self._wrong(key, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number of a range."""
        value = self._value.get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(key, f"a whole number from {low} to {high}", value)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of some names, the first by default."""
        value = self._value.get(key, choices[0])
        if value not in choices:
            raise self._wrong(key, f"one of {', '.join(choices)}", value)
        return str(value)

    def texts(self, key: str, default: Sequence[str], among: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._value.get(key, default)
        what = f"a list of {', '.join(among)}" if among else "a list of texts"
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise self._wrong(key, what, value)
        if among and not {*value} <= {*among}:
            raise self._wrong(key, what, value)
        return tuple(value)

    def wrong(self, key: str, what: str) -> UnusableInput:
        """Return the error for the value of a key."""
        return self._wrong(key, what, self._value.get(key))

    def _wrong(self, key: str, what: str, value: object) -> UnusableInput:
        return UnusableInput(f"{self._where}: {key}: expected {what}, found {value!r:.60}")


def read_settings(value: object, where: str, version: str) -> Settings:
    """Return the settings of a section ``memory.search``; ``version`` is the release unless it names another.

    Raises :class:`UnusableInput` for unknown keys and values out of range.
    """
    known = ("release", "sources", "store", "chunking", "query", "extraPaths", "paths")
    top = Reader(value, where, (*known, *HOSTS_OWN))
    fts = top.inner("store", ("fts", "vector")).inner("fts", ("tokenizer",))
    chunking = top.inner("chunking", ("tokens", "overlap"))
    query = top.inner("query", ("maxResults", "minScore", "hybrid"))
    hybrid = query.inner("hybrid", ("vectorWeight", "textWeight"))
    tokens = chunking.whole("tokens", 400, 8, 100_000)
    # Older files of the host name them ``paths``.
    extra = (*top.texts("extraPaths", ()), *top.texts("paths", ()))
    operators_files(extra, where)
    return Settings(
        version=top.choice("release", (version, *(name for name in RELEASES if name != version))),
        sources=None if top.get("sources") is None else top.texts("sources", (), SOURCES),
        tokenizer=fts.choice("tokenizer", TOKENIZERS),
        max_results=query.whole("maxResults", 6, 1, 100),
        min_score=query.number("minScore", 0.35, 0, 1),
        tokens=tokens,
        overlap=chunking.whole("overlap", min(80, tokens - 1), 0, tokens - 1),
        vector_weight=hybrid.number("vectorWeight", 0.7, 0, 1),
        text_weight=hybrid.number("textWeight", 0.3, 0, 1),
        extra_paths=extra,
        missing=tuple(key for key in HOSTS_OWN if top.get(key) is not None),
    )


def host_section(raw: object) -> Any:
    """Return the section of the memory search in a host's parsed file, new or old; None if it is no such file."""
    for path in (("memory", "search"), ("agents", "defaults", "memorySearch")):
        value: Any = raw
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return {} if isinstance(raw, Mapping) and raw.keys() & {"agents", "gateway", "models", "plugins"} else None
