"""How JavaScript counts and rounds, where the engine's bytes depend on it (spec 0.5)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_MICRO = Decimal("0.000001")


def js_length(text: str) -> int:
    """Length in UTF-16 code units: an astral character counts 2."""
    return len(text) + sum(character > "\uffff" for character in text)


def round6(value: float) -> float:
    """Round half up at six decimals on the exact binary value, as receipts do: 0.0078125 gives 0.007813."""
    # Python rounds halves to even, so only a value that may be a half needs the slow way.
    if not (value * 2e6).is_integer():
        return round(value, 6)
    return float(Decimal(value).quantize(_MICRO, ROUND_HALF_UP))
