"""How the tools treat secrets (E-35): replaced in what they show, and refused in what profile ``seed`` stores."""

from __future__ import annotations

from collections.abc import Callable

from lab.systems.openclaw.capture.credentials import holds_secret, redact_all
from lab.systems.openclaw.capture.redact import redact


def redactor(*, upstream: bool) -> Callable[[str], str]:
    """Return the function that replaces secrets in a text.

    Profile ``seed`` knows more of them (E-81). Where both know one, it has the plugin's marker.
    """
    return redact if upstream else lambda text: redact_all(redact(text))


def is_secret(*values: object) -> bool:
    """Whether profile ``seed`` refuses to store any of these texts, or texts in lists; other values hold none."""
    return any(
        holds_secret(value) if isinstance(value, str) else isinstance(value, list) and is_secret(*value)
        for value in values
    )
