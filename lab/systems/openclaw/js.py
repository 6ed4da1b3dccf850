"""JavaScript's number formatting, parsing and rounding, on which the engine's bytes depend (E-3)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TypeAlias

from lab.base.regex import regex
from lab.base.utf16 import LONE_SURROGATE, WHITESPACE

# A value that JSON can hold.
Json: TypeAlias = "str | float | bool | Sequence[Json] | Mapping[str, Json] | None"
_MICRO = Decimal("0.000001")
# Whole numbers below it are doubles.
_EXACT = 1 << 53
_DECIMAL = regex(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = {None: "null", True: "true", False: "false"}
_OBJECTS = (dict, Mapping)
_RADIX = {"0x": 16, "0o": 8, "0b": 2}


def round6(value: float) -> float:
    """Round half up at six decimals on the exact binary value, as receipts do: 0.0078125 gives 0.007813.

    Values that are not finite give 0.
    """
    # The fast path for values that are no halves: nearly all.
    if value.__class__ is float and -1e9 < value < 1e9 and value * 2e6 % 2.0 != 1.0:
        return round(value, 6)
    value = _double(value)
    if not math.isfinite(value):
        return 0.0
    # Python rounds halves to even, so only values that may be halves need the slow path.
    if value.is_integer() or not (value * 2e6).is_integer():
        return round(value, 6)
    return float(Decimal(value).quantize(_MICRO, ROUND_HALF_UP))


def js_json(value: Json) -> str:
    """Return a value as JavaScript's ``JSON.stringify`` does: no spaces, 2 instead of 2.0, lone surrogates escaped."""
    if isinstance(value, str):
        text = encode_basestring(value)
        return text if text.isascii() else LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int | float):
        return number_text(value) if math.isfinite(_double(value)) else "null"
    # The abstract class is slow to ask, and nearly all objects are dicts.
    if isinstance(value, _OBJECTS):
        return f"{{{','.join([f'{_name(str(key))}:{js_json(inner)}' for key, inner in value.items()])}}}"
    return f"[{','.join([js_json(inner) for inner in value])}]"


@lru_cache(maxsize=4096)
def _name(key: str) -> str:
    # Receipts have the same names again and again.
    return js_json(key)


def js_text(value: Json) -> str:
    """Return a parsed JSON value as JavaScript's ``String`` converts it, except that null is blank."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return number_text(value)
    return "[object Object]" if isinstance(value, Mapping) else ",".join(map(js_text, value))


def text_or_blank(value: Json) -> str:
    """Return JavaScript's ``String(value || "")``: falsy values (null, 0, NaN, false) are blank."""
    if value is None or value is False or (isinstance(value, float) and math.isnan(value)):
        return ""
    return "" if isinstance(value, int | float) and value == 0 else js_text(value)


def number_text(value: float) -> str:
    """Return a number as JavaScript prints it: 2.0 is 2, -0.0 is 0, 1e21 is 1e+21, 0.00001 is 0.00001."""
    # Python prints most numbers alike: those with neither an exponent nor the n of inf and nan.
    if value.__class__ is float and value and "e" not in (text := repr(value)) and "n" not in text:
        return text.removesuffix(".0")
    if isinstance(value, int) and -_EXACT < value < _EXACT:
        return str(int(value))
    number = _double(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    # Python and JavaScript both print the shortest digits; they differ in where the decimal point goes.
    _, figures, exponent = Decimal(repr(abs(number))).normalize().as_tuple()
    digits, sign = "".join(map(str, figures)), "-" if number < 0 else ""
    point = len(digits) + int(exponent)
    if 0 < point <= 21:
        return sign + (digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def _double(value: float) -> float:
    """Return a number as a double, infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def js_number(text: str) -> float | None:
    """Parse a string like JavaScript's ``Number``: blank is 0, hexadecimal etc. are numbers; None for NaN."""
    trimmed = text.strip(WHITESPACE)
    if not trimmed:
        return 0.0
    radix = _RADIX.get(trimmed[:2].lower())
    if radix and trimmed[2:].isascii() and trimmed[2:].isalnum():
        try:
            return float(int(trimmed[2:], radix))
        except (ValueError, OverflowError):
            return None
    if trimmed in ("Infinity", "+Infinity", "-Infinity"):
        return float(trimmed)
    return float(trimmed) if _DECIMAL.fullmatch(trimmed) else None


def to_number(value: object) -> float:
    """Convert a parsed JSON value like JavaScript's ``Number``; NaN if it is not a number."""
    if value is None:
        return 0.0
    if isinstance(value, bool | int | float):
        return _double(value)
    if isinstance(value, str):
        number = js_number(value)
        return math.nan if number is None else number
    # A list is first joined to a text: an empty list gives "", one item itself; several items have a comma, so NaN.
    if isinstance(value, list) and len(value) < 2 and not any(isinstance(item, bool) for item in value):
        return to_number(value[0]) if value else 0.0
    return math.nan


def whole_count(count: float) -> int:
    """Return a count as in receipts: whole and at least 0."""
    return max(0, int(count)) if math.isfinite(count) else 0
