"""Words of the text lane.

Exactly the tokens that LanceDB's index makes of a text, kept in the cache so that LanceDB is asked once.

Settings and reasons are in the architecture notes of ``docs/engine.md``: ICU word splitting (a Chinese sentence
becomes words), lower case, accents folded, English stems.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from lab.embedding.cache import ChunkCache, cache_folder
from lab.engine.store.quiet import import_lancedb, quiet_lance
from lab.engine.store.stop_words import ENGLISH
from lab.files import digest


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How texts become words. ``stop_words``: ``english`` (this project's list) or ``none`` (every word kept)."""

    stop_words: str = "english"
    stem: bool = True

    def options(self) -> dict[str, Any]:
        """The keyword arguments of LanceDB's ``FTS`` index."""
        chosen = list(ENGLISH) if self.stop_words == "english" else []
        return {
            "base_tokenizer": "icu/split",
            "language": "English",
            "lower_case": True,
            "ascii_folding": True,
            "stem": self.stem,
            "remove_stop_words": bool(chosen),
            "custom_stop_words": chosen or None,
            "with_position": False,
            "max_token_length": 40,
        }

    def identity(self) -> dict[str, Any]:
        """What tokens depend on besides the text."""
        return {"lancedb": version("lancedb"), **self.options()}


class Tokens:
    """Cached tokens under one setting."""

    def __init__(self, settings: TextSettings) -> None:
        import pyarrow as pa

        self.settings = settings
        self._cache = ChunkCache(cache_folder() / "tokens" / digest(settings.identity())[:16], pa.list_(pa.string()))

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise the texts that the cache lacks; return how many those were."""
        import pyarrow as pa

        missing = self._cache.missing(texts)
        if missing:
            with quiet_lance(), tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
                table = _table_with_index(folder, self.settings)
                self._cache.fill(
                    missing,
                    lambda part: pa.array(
                        [[token.text for token in table.tokenize(text, column="index_text")] for text in part],
                        pa.list_(pa.string()),
                    ),
                    lambda _: None,
                )
        return len(missing)

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokens of each text, in its order, repeated ones included. All of them must have been prepared."""
        return [value.as_py() for value in self._cache.values(texts)]


def _table_with_index(folder: str, settings: TextSettings) -> Any:
    import pyarrow as pa

    lancedb = import_lancedb()
    from lancedb.index import FTS

    # Tokenising belongs to an index, and an index to a table; one row is enough.
    table = lancedb.connect(folder).create_table("words", pa.table({"index_text": ["one"]}))
    table.create_index("index_text", config=FTS(**settings.options()))
    return table
