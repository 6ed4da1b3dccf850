"""Decide what the result of a memory tool says that the tool did (TE-1).

The details of a result decide, where they say it: an error, an ``action``, a flag. Hosts trim details, and plugins
differ; then the text of the result decides. Every plugin writes its own sentences, so the rules are words, looked for
at the head of the text, before anything that it quotes: a memory may itself speak of failures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from lab.base.regex import regex

STORED, DELETED, LISTED = "stored", "deleted", "listed"
DUPLICATE, REFUSED, FAILED, MISSING = "duplicate", "refused", "failed", "not found"
UNKNOWN = "unknown"

# The words of each outcome. The first kind that a head matches decides: what denies comes before what affirms.
_DUPLICATE = (
    r"\b(?:de)?duplicate[sd]?\b|already (?:exist|stored|saved|known|remember|record|in memory|have|there)"
    r"|(?:exists|known) already|similar \w+ (?:already )?exists|\bunchanged\b|重复|重複|已存在|已经存在|已有"
)
_REFUSED = (
    r"refus|reject|\bnot (?:allowed|permitted|available|stored|saved|remembered|deleted|forgotten|enabled|accepted)"
    r"|forbidden|denied|blocked|prohibit|disallow|read[- ]?only|disabled|\bheld\b|skipped|skipping|filtered|ignored"
    r"|declined"
    r"|nothing (?:was |to |new )?(?:stored?|saved?|remember|add|change)|\bno (?:new )?(?:memory|memories|facts?)\b"
    r"|requires? (?:approval|confirm)|pending|queued|awaiting|too (?:long|short|large|many)|exceeds|\bmust \w"
    r"|missing|invalid|\bprovide\b|^pass \W?\w+\W? |\bno (?:\w+ )?provided|quota|limit reached"
    r"|拒绝|拒絕|不允许|不允許|禁止|跳过|跳過|忽略|未存储|未保存"
)
_FAILED = (
    r"fail|error|exception|time[d ]?[- ]?out|unavailable|unable|could ?n[o']t|\bcan(?:no|')t\b|\bcan not\b"
    r"|not (?:configured|found|ready|running|connected|initiali[sz]ed|reachable)|no such|abort|cancel|interrupt|crash"
    r"|rate.?limit|unknown tool|missing tool result|synthetic|unreachable|失败|失敗|错误|錯誤|异常|超时"
)
_STORED = (
    r"\b(?:stored|saved?|created|added|remember(?:ed)?|recorded|kept|noted|memori[sz]ed|inserted|written|persisted"
    r"|superseded|updated|upserted|imported|captured|committed|merged|done|ok(?:ay)?|success(?:ful(?:ly)?)?)\b"
    r"|[✓✅]|已存储|已保存|已儲存|已记录|已記錄|已添加|记住|記住|成功"
)
_DELETED = (
    r"\b(?:deleted(?: all)?|forgotten|forgot|removed|erased|purged|dropped|archived|done|ok(?:ay)?"
    r"|success(?:ful(?:ly)?)?)\b|[✓✅]|已删除|已刪除|已忘记|已移除|成功"
)
_LISTED = r"candidates?\b|specify|re-?run|which (?:one|of)|multiple (?:match|memories)|be more specific|ambiguous|多个"
_MISSING = (
    r"\bno (?:matching |such |relevant )?(?:memory|memories)\b|not found"
    r"|nothing (?:to |was )?(?:found|forget|forgotten|deleted?|match|removed?)"
    r"|does(?: not|n't) exist|no (?:match|result)|未找到|没有找到|不存在"
)
_RULES: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    what: tuple((outcome, regex(words, re.IGNORECASE)) for outcome, words in rules)
    for what, rules in {
        "store": ((DUPLICATE, _DUPLICATE), (REFUSED, _REFUSED), (FAILED, _FAILED), (STORED, _STORED)),
        "forget": (
            *((LISTED, _LISTED), (MISSING, _MISSING), (REFUSED, _REFUSED), (FAILED, _FAILED)),
            (DELETED, _DELETED),
        ),
    }.items()
}
# Flags of details: what a true and a false value mean for a tool that stores or deletes.
_FLAGS: dict[str, dict[str, tuple[str | None, str | None]]] = {
    "store": {"stored": (STORED, REFUSED), "created": (STORED, None), "saved": (STORED, REFUSED)},
    "forget": {"deleted": (DELETED, MISSING), "removed": (DELETED, MISSING), "forgotten": (DELETED, MISSING)},
}
_ANY_FLAGS: dict[str, tuple[str | None, str | None]] = {
    **dict.fromkeys(("duplicate", "deduplicated", "isDuplicate"), (DUPLICATE, None)),
    **dict.fromkeys(("disabled", "blocked", "skipped", "rejected", "dryRun"), (REFUSED, None)),
    "unavailable": (FAILED, None),
    "success": (None, FAILED),
    "ok": (None, FAILED),
}
_QUOTE = regex(r"[\"“”«»「『`\n]|(?:(?<=\s)|^)['‘]")
_UUID = regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_NAMED = regex(r"\A[^\n\"]*\)?: (?P<id>[^\s\"]*\d[^\s\"]*)\s*(?:\n|\Z)")
_QUOTED = regex(r"[\"“「](?P<text>.+?)(?P<cut>\.\.\.|…)?[\"”」]", re.DOTALL)
# Characters of a text that are searched for words.
_HEAD = 300


class Outcome(NamedTuple):
    """What a tool did, the details that say so, and the text of the result."""

    kind: str
    details: dict[str, Any]
    text: str


def outcome_of(what: str, *, failed: bool, details: dict[str, Any], text: str) -> Outcome:
    """Return what a tool did; ``what`` is ``store`` or ``forget``, and ``failed`` the host's own flag."""
    text = text.strip()
    # Hosts write a result that is an object as JSON, as they do with the errors of tools.
    given = details if details and not details.get("persistedDetailsTruncated") else object_in(text) | details
    decided = _of_details(what, given)
    if failed:
        kind = REFUSED if REFUSED in (decided, _of_text(what, text)) else FAILED
    else:
        kind = decided or _of_text(what, text) or _by_id(what, given)
    return Outcome(kind, given, text)


def row_in(text: str) -> str | None:
    """Return the id of a row that a text names: an UUID, or what alone follows the last colon of its first line."""
    line = _QUOTE.split(text, maxsplit=1)[0]
    if found := _UUID.findall(line):
        return str(found[-1])
    match = _NAMED.match(text)
    return match["id"] if match else None


def quoted_in(text: str) -> Iterable[tuple[str, bool]]:
    """Yield the quotations in a text, and whether they are cut."""
    for match in _QUOTED.finditer(text):
        yield match["text"], match["cut"] is not None


def _of_details(what: str, details: dict[str, Any]) -> str | None:
    error = details.get("error")
    if error:
        return REFUSED if isinstance(error, str) and _word(what, error) in (REFUSED, DUPLICATE) else FAILED
    for name, (true, false) in (_ANY_FLAGS | _FLAGS[what]).items():
        value = details.get(name)
        if isinstance(value, bool) and (outcome := true if value else false):
            return outcome
    for name in ("action", "status", "outcome", "event"):
        if isinstance(value := details.get(name), str) and (outcome := _word(what, value)):
            return outcome
    return None


def _word(what: str, value: str) -> str | None:
    """Return the outcome that a code such as ``noise_filtered`` or ``createdNew`` names."""
    return _match(what, re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", value))


def _of_text(what: str, text: str) -> str | None:
    quote = _QUOTE.search(text)
    head = text[: quote.start()] if quote else text
    head = head[:_HEAD]
    before, _, after = head.partition(": ")
    # "Stored: no new memories were found": a colon may be followed by what was stored, or by a denial.
    if re.match(r"(?:0|no|none|nothing)\b", after, re.IGNORECASE) and (denied := _match(what, after)):
        return denied if denied not in (STORED, DELETED) else REFUSED
    return _match(what, before) or _match(what, head) or (_match(what, text[:_HEAD]) if not head.strip() else None)


def _match(what: str, text: str) -> str | None:
    text = re.sub(r"\b(?:no|not an?|without|0) (?:near-)?(?:duplicates?|errors?|failures?)\b", "", text, flags=re.I)
    return next((outcome for outcome, words in _RULES[what] if words.search(text)), None)


def _by_id(what: str, details: dict[str, Any]) -> str:
    """Return the outcome of a result that says nothing but the id of a row."""
    named = isinstance(details.get("id"), str) and bool(details["id"].strip())
    return STORED if what == "store" and named and not details.get("persistedDetailsTruncated") else UNKNOWN


def object_in(text: str) -> dict[str, Any]:
    """Return a JSON object, empty for anything else."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
