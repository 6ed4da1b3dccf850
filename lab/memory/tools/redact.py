"""Find secrets in texts (E-35): tools replace them in what they show; profile ``seed`` does not store them."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.base.regex import regex
from lab.systems.openclaw.capture.secrets import holds_secret, redact, redact_all

MARKER = "[REDACTED]"
_REST = regex(re.escape(MARKER) + r"[A-Za-z0-9_+/=~-]+")


def redactor(*, upstream: bool) -> Callable[[str], str]:
    """Return the function that replaces secrets in a text.

    Profile ``seed`` knows more of them (E-79). Its rules come first: the plugin's would leave the second half of a
    secret that is split over two lines.
    """
    return redact if upstream else _redact_more


def _redact_more(text: str) -> str:
    # Some families are recognised by their first characters, and the rest of the token is as secret.
    return redact(_REST.sub(MARKER, redact_all(text, MARKER)))


def is_secret(*values: object) -> bool:
    """Whether profile ``seed`` refuses to store any of these texts, or texts in lists; other values hold none."""
    return any(
        holds_secret(value) if isinstance(value, str) else isinstance(value, list) and is_secret(*value)
        for value in values
    )
