"""Detect task markers at the start of a text, after Markdown prefixes (E-52, rule F).

Texts are normalised with NFKC, so that full-width characters count as plain ones. A prefix is removed if a space, a
marker or another prefix follows it: "1.TODO" loses its number, "1.5 TODO" keeps it.
"""

from __future__ import annotations

import re
import unicodedata

_MARKERS = ("TODO", "TASK", "REMINDER")
_SEPARATORS = frozenset(":;-.。–—−")
_BULLETS = frozenset("-*+•▪‣∙·●○◦・–—−")
_BOX = re.compile(r"\[[ xX✓✔☐☑☒✅]\]")
_CLOSING = dict(zip("[(【〔{「『《〈«〖〘‹<", "])】〕}」』》〉»〗〙›>", strict=True))
_AFTER_NUMBER = frozenset(".)-–—−")
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_LETTERS = re.compile(r"[A-Za-z]+")


def strip_task_prefix(text: str) -> str:
    """Return a text (NFKC) without the quote signs, bullets, boxes and list numbers at its start."""
    rest = unicodedata.normalize("NFKC", text).lstrip()
    while True:
        before = rest
        for length in (_quote, _bullet, _box, _list_number):
            rest = _without(rest, length(rest))
        if rest == before:
            return rest


def has_task_marker(text: str) -> bool:
    """Whether a text begins with TODO, TASK or REMINDER in brackets, or before a separator, a space or its end."""
    plain = unicodedata.normalize("NFKC", text).lstrip()
    return _is_marked(plain) or _is_marked(strip_task_prefix(plain))


def _without(text: str, length: int) -> str:
    """Return the text without a prefix of this length (0: none), if what follows allows removing it."""
    rest = text[length:]
    if not length or not rest:
        return text
    if rest[0].isspace():
        return rest.lstrip()
    return rest if _begins_with_prefix(rest) else text


def _begins_with_prefix(text: str) -> bool:
    """Whether the text begins with a marker or a further prefix, so that a prefix before it can be removed."""
    return (
        _is_marked(text)
        or text[0] == ">"
        or text[0] in _BULLETS
        or _box(text) > 0
        or 0 < _list_number(text) < len(text)
    )


def _is_marked(text: str) -> bool:
    for marker in _MARKERS:
        after = text[len(marker) :]
        if text[: len(marker)].upper() == marker and (not after or after[0] in _SEPARATORS or after[0].isspace()):
            return True
    closing = _CLOSING.get(text[:1])
    return closing is not None and any(
        text[1 : 1 + len(marker)].upper() == marker and text[1 + len(marker) : 2 + len(marker)] == closing
        for marker in _MARKERS
    )


def _quote(text: str) -> int:
    return len(text) - len(text.lstrip(">"))


def _bullet(text: str) -> int:
    return 1 if text[:1] in _BULLETS else 0


def _box(text: str) -> int:
    return 3 if _BOX.match(text) else 0


def _list_number(text: str) -> int:
    """Return the length of a list number with its sign: digits, a letter or a roman number, as in ``(iv)``."""
    opened = text[:1] == "("
    start = 1 if opened else 0
    end = start
    while text[end : end + 1].isdigit():
        end += 1
    if end == start:
        letters = _LETTERS.match(text, start)
        end = letters.end() if letters and _is_numeral(letters[0]) else start
    sign = text[end : end + 1]
    fits = sign == ")" if opened else sign in _AFTER_NUMBER
    return end + 1 if end > start and sign and fits else 0


def _is_numeral(letters: str) -> bool:
    return len(letters) == 1 or _ROMAN.fullmatch(letters.upper()) is not None
