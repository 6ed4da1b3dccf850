"""heuristic-v1 (E-52): grade an observation by its words; and importances as the sidecar reads them (E-51).

Keywords match as substrings ("rule" matches "ruler") unless a rule says otherwise. Deltas are added in the order of
the rules, because the unrounded sum is compared with the thresholds. Task markers count at the start of a text, after
Markdown prefixes; a prefix is removed if a space, a marker or another prefix follows it: "1.TODO" loses its number,
"1.5 TODO" keeps it. Texts are normalised with NFKC there, so that full-width characters count as plain ones.

An importance is a number, a percentage, a ratio, a label, or an object with one. The rules differ from those of the
memories table (E-2, :mod:`lab.systems.openclaw.memory`): whole numbers above 1 are percentages, a blank has no score,
and there are three labels.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.base.regex import regex
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


_MARKERS = ("TODO", "TASK", "REMINDER")
_SEPARATORS = frozenset(":;-.。–—−")
_BULLETS = frozenset("-*+•▪‣∙·●○◦・–—−")
_BOX = regex(r"\[[ xX✓✔☐☑☒✅]\]")
_CLOSING = dict(zip("[(【〔{「『《〈«〖〘‹<", "])】〕}」』》〉»〗〙›>", strict=True))
_AFTER_NUMBER = frozenset(".)-–—−")
_ROMAN = regex(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_LETTERS = regex(r"[A-Za-z]+")


def strip_task_prefix(text: str) -> str:
    """Return a text (NFKC) without the quote signs, bullets, boxes and list numbers at its start."""
    rest = unicodedata.normalize("NFKC", text).lstrip()
    while True:
        before = rest
        for length in (_quote, _bullet, _box, _list_number):
            rest = _without(rest, length(rest))
        if rest == before:
            return rest


def has_task_marker(text: str) -> bool:
    """Whether a text begins with TODO, TASK or REMINDER in brackets, or before a separator, a space or its end."""
    plain = unicodedata.normalize("NFKC", text).lstrip()
    return _is_marked(plain) or _is_marked(strip_task_prefix(plain))


def _without(text: str, length: int) -> str:
    """Return the text without a prefix of this length (0: none), if what follows allows removing it."""
    rest = text[length:]
    if not length or not rest:
        return text
    if rest[0].isspace():
        return rest.lstrip()
    return rest if _begins_with_prefix(rest) else text


def _begins_with_prefix(text: str) -> bool:
    """Whether the text begins with a marker or a further prefix, so that a prefix before it can be removed."""
    return (
        _is_marked(text)
        or text[0] == ">"
        or text[0] in _BULLETS
        or _box(text) > 0
        or 0 < _list_number(text) < len(text)
    )


def _is_marked(text: str) -> bool:
    for marker in _MARKERS:
        after = text[len(marker) :]
        if text[: len(marker)].upper() == marker and (not after or after[0] in _SEPARATORS or after[0].isspace()):
            return True
    closing = _CLOSING.get(text[:1])
    return closing is not None and any(
        text[1 : 1 + len(marker)].upper() == marker and text[1 + len(marker) : 2 + len(marker)] == closing
        for marker in _MARKERS
    )


def _quote(text: str) -> int:
    return len(text) - len(text.lstrip(">"))


def _bullet(text: str) -> int:
    return 1 if text[:1] in _BULLETS else 0


def _box(text: str) -> int:
    return 3 if _BOX.match(text) else 0


def _list_number(text: str) -> int:
    """Return the length of a list number with its sign: digits, a letter or a roman number, as in ``(iv)``."""
    opened = text[:1] == "("
    start = 1 if opened else 0
    end = start
    while text[end : end + 1].isdigit():
        end += 1
    if end == start:
        letters = _LETTERS.match(text, start)
        end = letters.end() if letters and _is_numeral(letters[0]) else start
    sign = text[end : end + 1]
    fits = sign == ")" if opened else sign in _AFTER_NUMBER
    return end + 1 if end > start and sign and fits else 0


def _is_numeral(letters: str) -> bool:
    return len(letters) == 1 or _ROMAN.fullmatch(letters.upper()) is not None


BASELINE = 0.30
NOTHING = "Heuristic grade."
# These sentences equal the public scorer's output, so that grades can be compared word for word.
SECRET = "Secret-like content; down-ranked for safety."  # noqa: S105 - a sentence, not a secret
POLICY = "Durable preference/policy that affects future behavior."
DECISION = "Captures a decision that should be consistent over time."
IDENTIFIERS = "Contains stable identifiers useful for future lookup/automation."
RUNBOOK = "Repeatable operational step; useful as a runbook."
ERROR = "Operational issue with potential future recurrence."
MENDED = "Includes a cause/fix/workaround."
TASK = "Action item that remains relevant until done."
DEADLINE = "Has an explicit deadline/time window."
CHAT = "Acknowledgement/chit-chat; low reuse."
PROGRESS = "Pure progress update; low reuse."
CALENDAR = "Calendar-only note without lasting context."

_SECRET = ("sk-", "ghp_", "AKIA")
_PRIVATE_KEY = regex(r"BEGIN (?:RSA|OPENSSH) PRIVATE KEY", re.IGNORECASE)
_POLICY = (
    *("prefer", "preference", "always", "never", "must", "should", "do not", "don't", "required", "rule", "policy"),
    *("hard requirement", "偏好", "規則", "一定", "必須", "不要", "禁止", "原則", "硬性", "需求", "不做", "不改"),
)
_DECISION = (
    *("decide", "decision", "decided", "chose", "chosen", "we will", "we'll", "mvp", "scope", "architecture"),
    *("決定", "選擇", "採用", "方案", "架構", "範圍"),
)
_SET_UP = ("created", "create", "added", "set up", "setup")
_OF_LASTING = ("repo", "repository", "cron", "jobid", "github.com")
_COMMANDS = ("uv run", "python -m", "openclaw ", "openclaw-mem")
_PATTERNS = (
    regex(r"https?://\S", re.IGNORECASE),
    regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE),
    regex(r"\bagents\.[a-z0-9_.]+\b", re.IGNORECASE),
    regex(r"OPENCLAW_"),
)
_RUNBOOK = ("cron", "every ", "tz", "asia/taipei", "how to", "openclaw ", "uv run", "python -m")
_ERROR = ("error", "failed", "exception", "traceback", "timeout", "rate_limit", "unauthorized", "forbidden")
_CAUSES = ("root cause", "fixed by", "workaround", "mitigation", "resolved by")
_TO_DO = ("要做", "待辦")
_DEADLINE = ("今天", "明天", "之前", "today", "tomorrow", "eod", "before")
_BY_DATE = regex(r"\bby\s+\d{4}-\d{2}-\d{2}\b")
_CHAT = regex(r"\b(?:lol|thanks|thx|ok|got it|nice)\b")
_CHAT_CJK = ("收到", "謝謝", "哈哈")
_PROGRESS = ("done", "finished", "pushed", "merged", "wip")
_MEETING = ("meeting", "call", "開會", "約")
_TIME = regex(r"\b\d{1,2}[ap]m\b|\b\d{1,2}:\d{2}\b")


class Grade(NamedTuple):
    """The score of a text, 0 to 1, with the reasons that raised it and the penalties that lowered it."""

    score: float
    label: str
    rationale: str
    reasons: tuple[str, ...]
    penalties: tuple[str, ...]


def grade_observation(observation: Mapping[str, Any]) -> Grade:
    """Grade an observation by its ``kind``, ``tool_name`` (or ``tool``) and ``summary``, all optional."""
    kind, tool = _text(observation.get("kind")), _text(observation.get("tool_name") or observation.get("tool"))
    summary = _text(observation.get("summary"))
    text = f"{tool}: {summary}" if tool and summary else tool or summary
    lower = text.lower()
    task = _is_task(kind, text)
    identifiers = _has(lower, _COMMANDS) or any(pattern.search(text) for pattern in _PATTERNS)
    error = _has(lower, _ERROR)
    plain = not (identifiers or error or task)
    decided = _has(lower, _DECISION) or (_has(lower, _SET_UP) and _has(lower, _OF_LASTING))
    fired = (
        (_has(text, _SECRET) or _PRIVATE_KEY.search(text) is not None, -0.40, SECRET),
        (_has(lower, _POLICY), 0.40, POLICY),
        (decided and not task, 0.30, DECISION),
        (identifiers, 0.20, IDENTIFIERS),
        (_has(lower, _RUNBOOK), 0.20, RUNBOOK),
        (error, 0.15, ERROR),
        (error and _has(lower, _CAUSES), 0.10, MENDED),
        (task, 0.20, TASK),
        (task and (_has(lower, _DEADLINE) or _BY_DATE.search(lower) is not None), 0.10, DEADLINE),
        (_CHAT.search(lower) is not None or _has(lower, _CHAT_CJK), -0.25, CHAT),
        (plain and _has(lower, _PROGRESS), -0.20, PROGRESS),
        (plain and _has(lower, _MEETING) and _TIME.search(lower) is not None, -0.15, CALENDAR),
    )
    score = BASELINE
    for applies, delta, _ in fired:
        score += delta if applies else 0.0
    score = min(1.0, max(0.0, score))
    reasons = tuple(why for applies, delta, why in fired if applies and delta > 0)
    penalties = tuple(why for applies, delta, why in fired if applies and delta < 0)
    rationale = " ".join((*reasons[:2], *penalties[:1])) or NOTHING
    return Grade(score, graded_label(score), rationale, reasons, penalties)


def _is_task(kind: str, text: str) -> bool:
    """Whether the kind is task, or a marker is at the start of the text or after its first colon (a tool name)."""
    text = unicodedata.normalize("NFKC", text).strip()
    _, _, after = text.partition(":")
    return (
        kind.lower() == "task"
        or has_task_marker(text)
        or has_task_marker(after)
        or _has(strip_task_prefix(text), _TO_DO)
    )


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _text(value: Any) -> str:
    return str(value).strip() if value else ""
