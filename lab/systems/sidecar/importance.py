"""Parse an importance as the sidecar does: numbers, percentages, ratios, labels, and objects with one (E-51).

The rules differ from those of the memories table (E-2, :mod:`lab.systems.openclaw.memory`): whole numbers above 1 are
percentages, a blank has no score, and there are three labels.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from lab.recordings.model import IGNORE, MUST, NICE
from lab.systems.openclaw.memory import label_of_score

_ALIASES = {label.replace("_", sign): label for label in (MUST, NICE, IGNORE) for sign in "_- "}
_ALIASES |= {"high": MUST, "medium": NICE, "low": IGNORE}
# Priorities of retention, and the kinds that are kept longer than others (RT-4).
PRIORITIES = ("P0", "P1", "P2")
DURABLE = frozenset(("preference", "decision", "fact", "learning", "plan", "entity"))
_SCORE_OF = {MUST: 0.8, NICE: 0.5, IGNORE: 0.0}


def graded_label(score: float) -> str:
    """Return the label of an unrounded score; ignore if it is not finite."""
    return label_of_score(score) if math.isfinite(score) else IGNORE


def sidecar_label(value: Any) -> str | None:
    """Return the label that a value or alias names (NFKC, any case, spaces or hyphens between words), else None."""
    if not isinstance(value, str):
        return None
    return _ALIASES.get(unicodedata.normalize("NFKC", value).strip().lower())


def parse_importance(value: Any) -> float:
    """Return an importance as a score from 0 to 1; 0 for an invalid one."""
    score = _score(value)
    return 0.0 if score is None else min(1.0, max(0.0, score))


def is_importance(value: Any) -> bool:
    """Whether a value is a valid importance for :func:`parse_importance`."""
    return _score(value) is not None


def _score(value: Any) -> float | None:
    """Return a finite score before clamping; None if there is none."""
    if isinstance(value, dict):
        score = _score(value.get("score")) if not isinstance(value.get("score"), dict) else None
        label = sidecar_label(value.get("label"))
        return score if score is not None else _SCORE_OF[label] if label else None
    number = _from_text(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        score = float(number)
    except OverflowError:  # an integer too large for a double
        return None
    if not math.isfinite(score):
        return None
    return score / 100 if 1 < score <= 100 and score.is_integer() else score


def _from_text(text: str) -> float | None:
    """Parse ``0.86``, ``86%`` or ``86/100``; None for anything else, including a ratio over 0."""
    plain = unicodedata.normalize("NFKC", text).strip()
    try:
        if plain.endswith("%"):
            return float(plain[:-1]) / 100
        numerator, ratio, denominator = plain.partition("/")
        if not ratio:
            return float(plain)
        divisor = float(denominator)
        return float(numerator) / divisor if math.isfinite(divisor) else None
    except (ValueError, ZeroDivisionError):
        return None
