"""Find memories in an injected text that its list of items does not name, and items that the text lacks (EX-17).

Measures read the list, so a system that lists one memory and writes all of them would look safe, and one that lists
many and writes none useful. Texts are compared by their letters and digits alone: without markup, case, white space and
punctuation.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from html import unescape
from typing import NamedTuple

from lab.base.regex import regex

# Bytes of a block, about five English words or eight Chinese characters, and between the beginnings of two.
BLOCK, STEP = 24, 8
_NO_TEXT = regex(r"[\W_]+")
# What ends an item of a list, how long one is that may hold a short memory, and what may stand around its text.
_ENDS = regex(r'[\n\r;|•"]')
_LONGEST = 200
_AROUND = regex(r"^\W*(?:\d+\W+)?(?:\[[^\]]*\]\W*)*|(?:\W*\[[^\]]*\])+\W*$")
# What even a text in other words keeps of a memory: words of four letters, numbers, pairs of Chinese characters.
_KEPT = regex(r"[\u3400-\u9fff]{2}|[^\W\d_\u3400-\u9fff]{4,}|\d{2,}")


def letters_of(text: str) -> bytes:
    """Return the letters and digits of a text in UTF-8, folded: markup, case and width make no difference."""
    folded = unicodedata.normalize("NFKC", unescape(text) if "&" in text else text).casefold()
    return _NO_TEXT.sub("", folded).encode("utf-8", "surrogatepass")


def _blocks(letters: bytes, step: int = 1) -> Iterator[bytes]:
    return (letters[at : at + BLOCK] for at in range(0, len(letters) - BLOCK + 1, step))


class _Known(NamedTuple):
    """A memory: its letters, those of its searched text, and blocks of its letters, which overlap."""

    letters: bytes
    searched: bytes
    blocks: frozenset[bytes]


class Texts:
    """The texts of memories by key, such as those that a system could recall."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._of_block: dict[bytes, dict[str, None]] = {}
        # Memories that are shorter than a block.
        self._short: dict[bytes, dict[str, None]] = {}

    def add(self, key: str, text: str, searched: str = "") -> None:
        """Add a memory, or replace the one with this key; a system may also write its searched text."""
        self.remove(key)
        letters = letters_of(text)
        blocks = frozenset((*_blocks(letters, STEP), *_blocks(letters[-BLOCK:])))
        memory = _Known(letters, letters if searched == text else letters_of(searched), blocks)
        self._known[key] = memory
        for block in memory.blocks:
            self._of_block.setdefault(block, {})[key] = None
        if letters and not blocks:
            self._short.setdefault(letters, {})[key] = None

    def remove(self, key: str) -> None:
        """Remove a memory, if it is there."""
        memory = self._known.pop(key, None)
        if memory is None:
            return
        for held, name in (*((self._of_block, block) for block in memory.blocks), (self._short, memory.letters)):
            if key in held.get(name, {}):
                del held[name][key]
                if not held[name]:
                    del held[name]

    def unwritten(self, items: Iterable[tuple[str, str]], context: str) -> bool:
        """Return whether a text has nothing of one of the ``items`` (key and text), not even a word."""
        lacking = [item for item in items if item[1] not in context]
        if not lacking:
            return False
        written = letters_of(context)
        for key, text in lacking:
            pieces = [letters_of(piece) for piece in _KEPT.findall(text)]
            if key in self._known:
                searched = self._known[key].searched
                pieces += [*_blocks(searched, STEP)] or [searched]
            if any(pieces) and not any(piece and piece in written for piece in pieces):
                return True
        return False

    def unlisted(self, context: str, listed: Collection[str], prompt: str) -> set[str]:
        """Return the keys of the memories that a text holds, other than the ``listed`` ones; in linear time.

        A memory is held if at least half of its blocks are in the text; one that is shorter than a block, if it is a
        whole line or item. What also is in a listed memory, or in the prompt, is no evidence.
        """
        named = [letters_of(prompt)]
        for key in listed:
            if key in self._known:
                named += self._known[key].letters, self._known[key].searched
        beyond: set[str] = set()
        found = set(filter(self._of_block.__contains__, _blocks(letters_of(context))))
        if found:
            explained = set(_blocks(b" ".join(named)))
            for key in {key for block in found - explained for key in self._of_block[block]}:
                blocks = self._known[key].blocks
                own = blocks - explained
                if 2 * len(own & found) >= len(own) and 2 * len(blocks & found) >= len(blocks):
                    beyond.add(key)
        for piece in _ENDS.split(unescape(context)) if self._short else ():
            if len(piece) <= _LONGEST:
                for letters in {letters_of(piece), letters_of(_AROUND.sub("", piece))} & self._short.keys():
                    if not any(letters in spoken for spoken in named):
                        beyond.update(self._short[letters])
        return beyond
