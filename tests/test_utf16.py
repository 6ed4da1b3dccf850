"""Lengths and hashes of long texts, computed in pieces without a copy."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lab.base.utf16
from lab.base.files import read_json_lines
from lab.base.utf16 import js_length, js_utf8, js_utf8_length, pieces, utf8_pieces
from lab.embedding.cache import text_key
from lab.replay.candidates import _sha256
from lab.retrieval.clamp import Clamp, clamp

TEXTS = ("", "a", "abcd", "ü🔥中", "🔥" * 9, "ab\ud83d", "abc\ud83d\udd25d", "\udd25\ud83d" * 5, "a\x00b" * 7)
LONG = 4_000_000


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 1 << 18])
@pytest.mark.parametrize("text", TEXTS)
def test_lengths_in_pieces_equal_the_full_text(monkeypatch: pytest.MonkeyPatch, text: str, piece: int) -> None:
    monkeypatch.setattr(lab.base.utf16, "PIECE", piece)
    assert "".join(pieces(text)) == text
    assert max(map(len, pieces(text))) <= piece
    assert b"".join(utf8_pieces(text)) == text.encode("utf-8", "surrogatepass")
    assert js_length(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2
    assert js_utf8_length(text) == len(js_utf8(text))
    assert text_key.__wrapped__(text) == hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def peak_of(work: Callable[[], Any]) -> int:
    """Return the most bytes that Python held at once during a call, over what it held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "work",
    [js_length, js_utf8_length, text_key.__wrapped__, lambda text: _sha256([text]), lambda text: clamp(text, Clamp())],
    ids=["js_length", "js_utf8_length", "text_key", "candidates", "clamp"],
)
def test_long_text_is_measured_without_a_copy_of_it(work: Callable[[str], Any]) -> None:
    text = "🔥abc" * (LONG // 4)
    # Four bytes a character.
    assert peak_of(lambda: work(text)) < LONG


def test_long_line_is_held_at_most_twice_while_read(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text('{"a": 1}\n{"text": "' + "x" * LONG + '"}\n')
    assert LONG < peak_of(lambda: list(read_json_lines(path))) < 2.5 * LONG
