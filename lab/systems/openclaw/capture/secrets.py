"""Recognise keys, tokens and passwords by their form, as the public plugin does (E-35)."""

from __future__ import annotations

import re

from lab.base.utf16 import WHITESPACE

_SPACE = f"[{WHITESPACE}]"
_PRIVATE_TAG = re.compile(r"\[(?:SECRET|PRIVATE|NOEXPORT|NOMEM)\]", re.IGNORECASE | re.ASCII)
_FAMILIES = (
    re.compile(r"-----BEGIN (?:(?:RSA|EC|DSA|OPENSSH|PGP) )?PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE | re.ASCII),
    re.compile(
        r"\b(?:api[_-]?key|(?:access|refresh)[_-]?token|password|passwd|pwd|secret)\b"
        rf"{_SPACE}*[:=]{_SPACE}*[^{WHITESPACE}]",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(r"\bsk-(?:[A-Za-z0-9]{20}|proj-[A-Za-z0-9_-]{16})", re.ASCII),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b", re.ASCII),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|xox[baprs]-[A-Za-z0-9-]{10})", re.ASCII),
    re.compile(
        rf"\baws[_-]?secret[_-]?access[_-]?key\b{_SPACE}*[:=]{_SPACE}*[\"']?[A-Za-z0-9/+=]{{20}}",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(rf"\bauthorization{_SPACE}*:{_SPACE}*bearer{_SPACE}+[A-Za-z0-9._~+/=-]{{16}}", re.IGNORECASE | re.ASCII),
    re.compile(rf"\bBearer{_SPACE}+[A-Za-z0-9._~+/=-]{{24}}", re.ASCII),
)


def looks_secret(text: str) -> bool:
    """Return whether a text contains a key, a token or an assigned password."""
    return any(pattern.search(text) for pattern in _FAMILIES)


def families() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of the families."""
    return _FAMILIES


def is_tagged_private(text: str) -> bool:
    """Return whether the author tagged a text as ``[SECRET]``, ``[PRIVATE]``, ``[NOEXPORT]`` or ``[NOMEM]``."""
    return _PRIVATE_TAG.search(text) is not None
