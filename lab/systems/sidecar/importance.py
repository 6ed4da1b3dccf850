"""How the sidecar reads an importance: numbers, percentages, ratios, labels, and objects that hold one (E-51).

Other rules than those of the memories table (E-2, :mod:`lab.systems.openclaw.memory`): whole scores above 1 are
percent, blank is nothing, and a label is one of three.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from lab.recordings.model import IGNORE, MUST, NICE
from lab.systems.openclaw.memory import label_of_score

_ALIASES = {one.replace("_", sign): one for one in (MUST, NICE, IGNORE) for sign in "_- "}
_ALIASES |= {"high": MUST, "medium": NICE, "low": IGNORE}
_SCORE_OF = {MUST: 0.8, NICE: 0.5, IGNORE: 0.0}


def graded_label(score: float) -> str:
    """The label of a score, compared unrounded; one that is not finite is ignore."""
    return label_of_score(score) if math.isfinite(score) else IGNORE


def sidecar_label(value: Any) -> str | None:
    """A label or one of its aliases (NFKC, any case, a space or a hyphen between all words); None for anything else."""
    if not isinstance(value, str):
        return None
    return _ALIASES.get(unicodedata.normalize("NFKC", value).strip().lower())


def parse_importance(value: Any) -> float:
    """An importance as a score from 0 to 1; 0 for what is none."""
    score = _score(value)
    return 0.0 if score is None else min(1.0, max(0.0, score))


def is_importance(value: Any) -> bool:
    """Whether :func:`parse_importance` finds an importance in a value."""
    return _score(value) is not None


def _score(value: Any) -> float | None:
    """A finite score, not yet clamped; None where there is none."""
    if isinstance(value, dict):
        score = _score(value.get("score")) if not isinstance(value.get("score"), dict) else None
        label = sidecar_label(value.get("label"))
        return score if score is not None else _SCORE_OF[label] if label else None
    number = _from_text(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        score = float(number)
    except OverflowError:  # a whole number beyond every double
        return None
    if not math.isfinite(score):
        return None
    return score / 100 if 1 < score <= 100 and score.is_integer() else score


def _from_text(text: str) -> float | None:
    """``0.86``, ``86%`` or ``86/100``; a ratio over nothing is none."""
    plain = unicodedata.normalize("NFKC", text).strip()
    try:
        if plain.endswith("%"):
            return float(plain[:-1]) / 100
        above, ratio, below = plain.partition("/")
        if not ratio:
            return float(plain)
        whole = float(below)
        return float(above) / whole if math.isfinite(whole) else None
    except (ValueError, ZeroDivisionError):
        return None
