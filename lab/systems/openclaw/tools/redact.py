"""How the tools treat secrets (E-35): replaced in what they show, and refused in what profile ``seed`` stores."""

from __future__ import annotations

from collections.abc import Callable

from lab.systems.openclaw.capture.redact import redact
from lab.systems.openclaw.capture.secrets import looks_secret


def redactor(*, upstream: bool) -> Callable[[str], str]:
    """Return the function that replaces secrets in a text, as the profile does."""
    del upstream
    return redact


def holds_secret(*values: object) -> bool:
    """Whether profile ``seed`` refuses to store any of these texts, or texts in lists; other values hold none."""
    return any(
        looks_secret(value) if isinstance(value, str) else isinstance(value, list) and holds_secret(*value)
        for value in values
    )
