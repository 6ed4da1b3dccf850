"""Split texts into words for the text lane, in one of two ways.

* ``index``: exactly the tokens of LanceDB's index, cached so that LanceDB tokenises a text once. ICU word splitting
  (LanceDB's default leaves a Chinese sentence as one word), lower case, accents folded, English stems.
* ``scan``: what the public plugin gets from LanceDB without an index: runs of letters and digits, case kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from lab.base.columns import lists, strings
from lab.base.files import digest
from lab.base.regex import regex
from lab.embedding.cache import ChunkCache, cache_folder
from lab.recordings.model import SEARCHED
from lab.retrieval.quiet import import_lancedb, quiet_lance

if TYPE_CHECKING:
    import pyarrow as pa

# English stop words of the seed profile's text lane: function words only, none that carries a topic. LanceDB's default
# list for its ICU tokenizer joins the stop words of all languages and so drops English words such as "die", "will"
# (also a testament) or "bin". Negations are kept, because "not" reverses a rule.
_WORDS = (
    "a an the i me my mine myself we us our ours ourselves you your yours yourself he him his himself "
    "she her hers herself it its itself they them their theirs themselves this that these those here "
    "there am is are was were be been being have has had having do does did doing done can could may "
    "might must shall should would and or but if because as while than then so though although of at "
    "by for with about into through to from in out on off over under up down between who whom whose "
    "which what when where why how all any both each few more most other some such own same very too "
    "just also only again once s t d ll m o re ve y "
)
ENGLISH: tuple[str, ...] = tuple(_WORDS.split())


# Whether a text must not be kept in a readable form.
IsPrivate = Callable[[str], bool]
_RUN = regex(r"\w+")
# Letters and digits as str.isalnum has them.
_RUNS = regex(r"[^\W_]+")
# How many texts are tokenised in one call, and a word that stands between two of them; it is its own stem.
JOINED, MARK = 64, "xqzvxqzv"


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How texts are split into words. ``stop_words``: ``english`` (this project's list) or ``none`` (keep all).

    ``query_words``: a word that a query repeats counts as often as it occurs (``all``) or once (``distinct``).
    """

    stop_words: str = "english"
    stem: bool = True
    lane: str = "index"
    query_words: str = "all"

    def query_tokens(self, tokens: Sequence[str]) -> Sequence[str]:
        """Return the words of a query that are searched for, in order."""
        return list(dict.fromkeys(tokens)) if self.query_words == "distinct" else tokens

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of LanceDB's ``FTS`` index."""
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
        """Return everything besides the text that tokens depend on."""
        return {"lancedb": version("lancedb"), **self.options()}


class Words(Protocol):
    """Words of texts under one setting. Prepare texts in bulk, then read them one by one."""

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise what is missing; return how many texts were new."""
        ...

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text in order, repetitions included. All texts must have been prepared."""
        ...


def words_under(settings: TextSettings, is_private: IsPrivate | None = None) -> Words:
    """Return the word splitter of a text lane; the words of private texts are not written to the cache."""
    return ScanWords() if settings.lane == "scan" else Tokens(settings, is_private)


class ScanWords:
    """Runs of letters and digits, case kept. A text entirely in double quotes has none: LanceDB fails on it."""

    def prepare(self, texts: Sequence[str]) -> int:
        """Do nothing: splitting needs no cache."""
        del texts
        return 0

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Split each text."""
        return [self._split(text[:SEARCHED]) for text in texts]

    @staticmethod
    def _split(text: str) -> list[str]:
        if len(text) > 1 and text[0] == text[-1] == '"':
            return []
        return _RUNS.findall(text)


class Tokens:
    """The tokens of LanceDB's index under one setting, cached on disk, but those of private texts in memory only."""

    def __init__(self, settings: TextSettings, is_private: IsPrivate | None = None) -> None:
        self.settings = settings
        self._is_private = is_private
        self._private: dict[str, list[str]] = {}

    @cached_property
    def _cache(self) -> ChunkCache:
        import pyarrow as pa

        return ChunkCache(
            cache_folder() / "tokens" / words_key(self.settings), pa.list_(pa.string()), self.settings.identity()
        )

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise the texts that are not cached; return how many that was."""
        missing = self._cache.missing([text for text in texts if text not in self._private])
        if missing:
            with quiet_lance(), tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
                table = table_with_index(folder, self.settings)

                private = [text for text in missing if self._is_private and self._is_private(text)]
                self._private.update(zip(private, words_of_each(table, private), strict=True))
                self._cache.fill(
                    [text for text in missing if text not in self._private],
                    lambda part: _listed(words_of_each(table, part)),
                    lambda _: None,
                )
        return len(missing)

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text in order, repetitions included; a text that was not prepared is tokenised.

        Private texts are in no cache, so that sources that are opened again do not know them.
        """
        return [self._private[text] if text in self._private else self._cached(text) for text in texts]

    def _cached(self, text: str) -> list[str]:
        try:
            number, row = self._cache.place(text)
        except KeyError:
            self.prepare([text])
            if text in self._private:
                return self._private[text]
            number, row = self._cache.place(text)
        words: list[str] = self._cache.chunk(number)[row].as_py()
        return words


def words_of(table: Any, text: str) -> list[str]:
    """Return the words of a text as the index of a LanceDB table splits it."""
    return [token.text for token in table.tokenize(text, column="index_text")]


def words_of_each(table: Any, texts: Sequence[str]) -> list[list[str]]:
    """Return the words of the searchable parts of several texts.

    A call of LanceDB takes as long as thousands of words, so that texts are joined, with a line of :data:`MARK` between
    two. Lines are split into words each by itself. If a text has the mark, all are split one by one.
    """
    found: list[list[str]] = []
    for start in range(0, len(texts), JOINED):
        part = list(map(searchable, texts[start : start + JOINED]))
        rows: list[list[str]] = [[]]
        for word in words_of(table, f"\n{MARK}\n".join(part)):
            if word == MARK:
                rows.append([])
            else:
                rows[-1].append(word)
        found += rows if len(rows) == len(part) else [words_of(table, text) for text in part]
    return found


def distinct_text(text: str, words: Sequence[str], split: Callable[[str], list[str]]) -> str:
    """Return a text whose words are ``words``, each once, for a store that takes texts only.

    A stem is not always its own stem, so such a word is written as it occurs in ``text``.
    """
    forms = {word: word for word in words if split(word) == [word]}
    if len(forms) < len(words):
        for run in dict.fromkeys(_RUN.findall(text)):
            of_run = split(run)
            if len(of_run) == 1:
                forms.setdefault(of_run[0], run)
    return " ".join(forms.get(word, word) for word in words)


def words_key(settings: TextSettings) -> str:
    """Return a short hash of everything besides the text that tokens depend on."""
    return digest(settings.identity())[:16]


def storable(text: str) -> str:
    """Return a text that LanceDB accepts: Arrow strings are UTF-8, so a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def searchable(text: str) -> str:
    """Return the part of a text that the text lane searches: the first :data:`SEARCHED` characters, storable."""
    return storable(text[:SEARCHED])


def _listed(texts: Sequence[Sequence[str]]) -> pa.Array:
    return lists([len(words) for words in texts], strings([word for words in texts for word in words]))


def table_with_index(folder: str, settings: TextSettings) -> Any:
    """Return a table of LanceDB in a folder, whose index splits texts under these settings."""
    import pyarrow as pa

    lancedb = import_lancedb()
    from lancedb.index import FTS

    # LanceDB tokenises with the index of a table, so a table of one row is created.
    table = lancedb.connect(folder).create_table("words", pa.table({"index_text": ["one"]}))
    table.create_index("index_text", config=FTS(**settings.options()))
    return table
