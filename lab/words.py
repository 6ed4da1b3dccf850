"""Words for people."""

from __future__ import annotations

import re
from typing import Any

_USER = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://)[^\s/?#'\"]+@", re.IGNORECASE)
_QUERY = re.compile(
    r"(?P<before>[?&;][\w.-]*(?:key|token|secret|passw|pwd|sig|auth|credential)[\w.-]*=)[^&;#\s'\"]+", re.IGNORECASE
)
HIDDEN = "***"


def without_credentials(text: str) -> str:
    """Return ``text`` with ``***`` for the user and password of every URI in it, and for keys in its query.

    ``https://me:pw@host/v1?api_key=x`` becomes ``https://***@host/v1?api_key=***``. Paths stay as they are.
    """
    if "://" in text:
        text = _USER.sub(rf"\g<before>{HIDDEN}@", text)
    return _QUERY.sub(rf"\g<before>{HIDDEN}", text) if "=" in text else text


def free_of_credentials(value: Any) -> Any:
    """Return a JSON value with every string in it, keys aside, :func:`without_credentials`."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: free_of_credentials(one) for key, one in value.items()}
    return [free_of_credentials(one) for one in value] if isinstance(value, list | tuple) else value


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 probe``, ``3 probes``, ``2 memories``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
