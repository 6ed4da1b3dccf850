"""heuristic-v1 (E-52): grade an observation by its words.

Keywords match as substrings ("rule" matches "ruler") unless a rule says otherwise. Deltas are added in the order of
the rules, because the unrounded sum is compared with the thresholds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.systems.sidecar.importance import graded_label
from lab.systems.sidecar.task_markers import has_task_marker, strip_task_prefix

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
_PRIVATE_KEY = re.compile(r"BEGIN (?:RSA|OPENSSH) PRIVATE KEY", re.IGNORECASE)
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
    re.compile(r"https?://\S", re.IGNORECASE),
    re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE),
    re.compile(r"\bagents\.[a-z0-9_.]+\b", re.IGNORECASE),
    re.compile(r"OPENCLAW_"),
)
_RUNBOOK = ("cron", "every ", "tz", "asia/taipei", "how to", "openclaw ", "uv run", "python -m")
_ERROR = ("error", "failed", "exception", "traceback", "timeout", "rate_limit", "unauthorized", "forbidden")
_CAUSES = ("root cause", "fixed by", "workaround", "mitigation", "resolved by")
_TO_DO = ("要做", "待辦")
_DEADLINE = ("今天", "明天", "之前", "today", "tomorrow", "eod", "before")
_BY_DATE = re.compile(r"\bby\s+\d{4}-\d{2}-\d{2}\b")
_CHAT = re.compile(r"\b(?:lol|thanks|thx|ok|got it|nice)\b")
_CHAT_CJK = ("收到", "謝謝", "哈哈")
_PROGRESS = ("done", "finished", "pushed", "merged", "wip")
_MEETING = ("meeting", "call", "開會", "約")
_TIME = re.compile(r"\b\d{1,2}[ap]m\b|\b\d{1,2}:\d{2}\b")


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
