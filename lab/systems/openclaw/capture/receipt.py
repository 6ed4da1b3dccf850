"""The receipt of a capture, ``openclaw-mem-engine.autoCapture.receipt.v1`` (E-43): counts only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.upstream.js import whole_count

SCHEMA = "openclaw-mem-engine.autoCapture.receipt.v1"
FILTERED = (
    "tool_output",
    "secrets_like",
    "duplicate",
    "todo_rate_limit",
    "todo_dedupe_window",
    "older_user_messages",
    "input_chars_truncated",
)
# Candidates that the public plugin drops without counting them.
DROPPED = (
    "too_long",
    "too_short",
    "command",
    "no_category",
    "category_off",
    "embedding_failed",
    "item_limit",
)
SCANNED = ("userMessages", "textBlocks", "textChars")


def capture_receipt(
    settings: ReceiptSettings,
    *,
    extracted: float,
    filtered: Mapping[str, float],
    stored: float,
    scanned: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the receipt with its keys in the plugin's order. Missing counts are 0."""
    seen = scanned or {}
    return {
        "schema": SCHEMA,
        "verbosity": settings.verbosity,
        "candidateExtractionCount": whole_count(extracted),
        "filteredOut": {name: whole_count(filtered.get(name, 0)) for name in FILTERED},
        "scanned": {name: whole_count(seen.get(name, 0)) for name in SCANNED},
        "storedCount": whole_count(stored),
    }


def counted(dropped: Mapping[str, float]) -> dict[str, Any]:
    """Return the part of the receipt that the public plugin lacks (E-77).

    With it, the extracted candidates are the sum of the stored ones, of ``dropped``, and of ``filteredOut`` without its
    last two counts, which are messages and characters.
    """
    return {"dropped": {name: whole_count(dropped.get(name, 0)) for name in DROPPED}}
