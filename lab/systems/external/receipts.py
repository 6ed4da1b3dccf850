"""Receipts of hosts without texts (EX-18): a host may quote memories in them, and a run holds no texts."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from lab.base.files import sha256_bytes
from lab.systems.openclaw.capture.credentials import holds_secret

# Ids, reasons, labels, versions and times: without spaces, and short.
_WORD = re.compile(r"[A-Za-z0-9_.:@/+#=-]{0,100}", re.ASCII)


def word(text: str) -> str:
    """Return a text if it is a word that quotes nothing, else the beginning of its digest."""
    if _WORD.fullmatch(text) and not holds_secret(text):
        return text
    return f"sha256:{sha256_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"


def without_texts(value: Any) -> Any:
    """Return a JSON value with every string, names included, as by :func:`word`, and no number that is not finite."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, dict):
        return {word(name): without_texts(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [without_texts(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Integers beyond 64 bits cannot be written into a receipt.
    return float(value) if type(value) is int and not -(1 << 63) <= value < 1 << 64 else value


def text_if_free(receipt: str | None) -> str | None:
    """Return a receipt as its system wrote it if it is JSON without texts, else None."""
    if receipt is None:
        return None
    try:
        value = json.loads(receipt)
        return receipt if isinstance(value, dict) and without_texts(value) == value else None
    except (ValueError, RecursionError):
        return None
