"""How the tools treat secrets (E-35): replaced in what they show, and refused in what profile ``seed`` stores."""

from __future__ import annotations

from collections.abc import Callable

from lab.systems.openclaw.capture.redact import redact
from lab.systems.openclaw.capture.secrets import looks_secret


def redactor(*, upstream: bool) -> Callable[[str], str]:
    """Return the function that replaces secrets in a text, as the profile does."""
    del upstream
    return redact


def holds_secret(text: str) -> bool:
    """Whether profile ``seed`` refuses to store a text."""
    return looks_secret(text)
