"""Replace secrets in a text, as the admin tools of the public plugin do (E-39)."""

from __future__ import annotations

import re

from lab.base.utf16 import WHITESPACE

_SPACE = f"[{WHITESPACE}]"
# Applied in this order. Without a flag the pattern is case-sensitive, as in the plugin.
_REPLACEMENTS = (
    (re.compile(r"\bsk-[A-Za-z0-9]{16,}\b", re.ASCII), "sk-[REDACTED]"),
    (re.compile(r"\bsk-proj-[A-Za-z0-9_-]{16,}\b", re.ASCII), "sk-proj-[REDACTED]"),
    (re.compile(rf"\bBearer{_SPACE}+[A-Za-z0-9._-]{{8,}}\b", re.ASCII), "Bearer [REDACTED]"),
    (
        re.compile(rf"\bAuthorization:{_SPACE}*Bearer{_SPACE}+[A-Za-z0-9._-]{{8,}}\b", re.IGNORECASE | re.ASCII),
        "Authorization: Bearer [REDACTED]",
    ),
    (
        re.compile(
            rf"\baws[_-]?secret[_-]?access[_-]?key\b{_SPACE}*[:=]{_SPACE}*[\"']?[A-Za-z0-9/+=]{{20,}}",
            re.IGNORECASE | re.ASCII,
        ),
        "aws_secret_access_key=[REDACTED]",
    ),
    (re.compile(r"\b[0-9]{8,12}:[A-Za-z0-9_-]{20,}\b", re.ASCII), "[TELEGRAM_BOT_TOKEN_REDACTED]"),
    (
        re.compile(
            r"-----BEGIN (?:(?:RSA|EC|DSA|OPENSSH|PGP) )?PRIVATE KEY(?: BLOCK)?-----.*?"
            r"-----END (?:(?:RSA|EC|DSA|OPENSSH|PGP) )?PRIVATE KEY(?: BLOCK)?-----",
            re.IGNORECASE | re.ASCII | re.DOTALL,
        ),
        "[PRIVATE_KEY_REDACTED]",
    ),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b", re.ASCII), "[AWS_ACCESS_KEY_REDACTED]"),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b", re.ASCII), "[GITHUB_TOKEN_REDACTED]"),
    (re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}\b", re.ASCII), "[GITHUB_TOKEN_REDACTED]"),
    (re.compile(r"\bxox[baprs]-[A-Za-z0-9-]{10,}\b", re.ASCII), "[SLACK_TOKEN_REDACTED]"),
)


def redact(text: str) -> str:
    """Return a text with known forms of keys and tokens replaced by a marker of the kind."""
    for pattern, marker in _REPLACEMENTS:
        text = pattern.sub(marker, text)
    return text
