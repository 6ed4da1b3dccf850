"""Decode recorded JavaScript values, and find the first difference between two values.

Undefined, NaN, Infinity and -0, which JSON lacks, are encoded as ``{"$js": name}``. Numbers are JavaScript doubles, so
1 and 1.0 are equal. A missing key equals a key with the value :data:`UNDEFINED`.
"""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import Any, NamedTuple

SHOWN_CHARS = 60


class NoJson(Enum):
    """JavaScript values without an equivalent in Python."""

    UNDEFINED = "undefined"
    FUNCTION = "function"
    OBJECT = "object"


UNDEFINED = NoJson.UNDEFINED
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


class Difference(NamedTuple):
    """The first difference of two values: its path, and the two values at that path."""

    path: str
    expected: Any
    found: Any

    def lines(self) -> list[str]:
        """Return a small diff: the path, then ``-`` with the expected and ``+`` with the actual value.

        Long texts are shortened to the part around the first difference.
        """
        before, after = self.expected, self.found
        if isinstance(before, str) and isinstance(after, str):
            at = next((at for at, (left, right) in enumerate(zip(before, after, strict=False)) if left != right), None)
            at = min(len(before), len(after)) if at is None else at
            return [f"at {self.path}, character {at}", f"- {_around(before, at)}", f"+ {_around(after, at)}"]
        return [f"at {self.path}", f"- {shown(before)}", f"+ {shown(after)}"]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON-serializable values."""
        return {"path": self.path, "expected": plain(self.expected), "found": plain(self.found)}


def decode(value: Any) -> Any:
    """Return a parsed JSON value with every ``{"$js": …}`` replaced by its meaning."""
    if isinstance(value, dict):
        if value.keys() == {"$js"} and isinstance(value["$js"], str):
            name = value["$js"]
            return _NUMBERS[name] if name in _NUMBERS else NoJson(name)
        return {key: decode(inner) for key, inner in value.items()}
    return [decode(inner) for inner in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """Return a value in the encoding that :func:`decode` reads."""
    if isinstance(value, NoJson):
        return {"$js": value.value}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$js": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def difference(expected: Any, found: Any, path: str = "output", tolerance: float = 0.0) -> Difference | None:
    """Return the first difference between ``found`` and ``expected``, or None.

    ``tolerance`` is the largest allowed absolute difference of numbers. Tuples equal lists.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            inner = difference(expected.get(key, UNDEFINED), found.get(key, UNDEFINED), path_to(path, key), tolerance)
            if inner:
                return inner
        return None
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        for at, (left, right) in enumerate(zip(expected, found, strict=False)):
            inner = difference(left, right, f"{path}[{at}]", tolerance)
            if inner:
                return inner
        shorter = min(len(expected), len(found))
        if len(expected) == len(found):
            return None
        rest = (values[shorter] if len(values) > shorter else UNDEFINED for values in (expected, found))
        return Difference(f"{path}[{shorter}]", *rest)
    return None if _same(expected, found, tolerance) else Difference(path, expected, found)


def path_to(path: str, key: str) -> str:
    """Return the path of a key: ``path.key``, or ``path["a key"]`` if the key is not an identifier."""
    return f"{path}.{key}" if re.fullmatch(r"\w+", key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def shown(value: Any) -> str:
    """Return a value on one line, truncated if it is long."""
    if value is UNDEFINED:
        return "nothing"
    text = json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= 4 * SHOWN_CHARS else text[: 4 * SHOWN_CHARS] + "…"


def _same(expected: Any, found: Any, tolerance: float) -> bool:
    if _is_number(expected) and _is_number(found):
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) and math.isnan(found)
        return bool(expected == found or abs(expected - found) <= tolerance)
    return type(expected) is type(found) and bool(expected == found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _around(text: str, at: int) -> str:
    start, end = max(0, at - SHOWN_CHARS), at + SHOWN_CHARS
    cut = json.dumps(text[start:end], ensure_ascii=False)
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")
