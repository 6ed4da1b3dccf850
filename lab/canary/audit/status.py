"""Classify the reasons in a receipt: the engine worked, it chose not to recall, or it did not work (CN-18).

A reason that is known has its meaning here. Any other one is read by its words: ``index_timeout`` says that something
did not work, ``quiet_hours`` says nothing of the kind. A reason that does not say so is *unknown*: it is counted and
shown, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.canary.audit.check import SKIPS
from lab.systems.openclaw.recall.receipt import REASONS

# Reasons for which a prompt has no vector, so that the text lane alone answers (E-09).
NO_VECTOR = ("provider_unavailable", "embedding_input_too_long")
# What a receipt shows without a reason, named like a reason.
VECTOR_LANE, STORE, DOCS_LANE = "vector_lane_silent", "store_silent", "docs_lane_failed"
# What other lines of the log show of a recall.
BACKEND, ROUTER, HOOK, HOOK_TIMEOUT = "search_backend_fallback", "route_auto_failed", "hook_failed", "hook_timeout"
# A recall that raised; one that found nothing, which in a new scope is no fault.
FAILED, EMPTY = "failed", "nothing_found"
# Reasons of a skip, as causes; ``other`` is one that is unknown.
SKIPPED = (*SKIPS, "other")
WORKED, CHOSE, FAULT, UNKNOWN = "worked", "chose", "fault", "unknown"
_KNOWN = {
    **dict.fromkeys(REASONS, WORKED),
    **dict.fromkeys((*SKIPS, "low_relevance", "disabled"), CHOSE),
    **dict.fromkeys(NO_VECTOR, FAULT),
}
# Words of a name that say that something did not work.
_FAULTY = regex(
    r"\b(?:abort(?:ed)?|broken|closed|corrupt(?:ed)?|crash(?:ed)?|dead|denied|down|err(?:ors?)?|e(?:conn\w+|noent|"
    r"timedout)|exception|exceeded|exhausted|expired|fail(?:ed|ing|s|ures?)?|fault|forbidden|invalid|killed|limited|"
    r"locked|missing|not (?:found|ready)|offline|overflow|overloaded|panic|refused|rejected|time(?:d )?outs?|"
    r"too (?:large|long|slow)|unauthorized|unavailable|unhealthy|unreachable|unreadable|unresponsive|unwired)\b"
)
_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_LONGEST = 48


class Reading(NamedTuple):
    """What a receipt says of the engine: what did not work, and the reasons that are unknown."""

    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def meaning_of(reason: str) -> str:
    """Return what a reason means: ``worked``, ``chose``, ``fault`` or ``unknown``."""
    if reason in _KNOWN:
        return _KNOWN[reason]
    if reason.startswith("no_results_"):
        return WORKED
    words = " ".join(_WORD.findall(reason)).lower()
    return FAULT if _FAULTY.search(words) else UNKNOWN


def name_of(reason: str) -> str:
    """Return a reason as it may be shown: a name of the engine; whatever may be a text is ``unnamed_reason``."""
    return reason if 0 < len(reason) <= _LONGEST and re.fullmatch(r"[\w.:-]+", reason) else "unnamed_reason"


def reading_of(receipt: Mapping[str, Any]) -> Reading:
    """Return what the receipt of a recall says: its reasons, its lanes and its documents.

    A receipt that lacks a part says nothing by it. The receipt need not be valid.
    """
    reasons = _reasons(receipt)
    faults = [name_of(reason) for reason in reasons if meaning_of(reason) == FAULT]
    unknown = [name_of(reason) for reason in reasons if meaning_of(reason) == UNKNOWN]
    # The vector lane always has a nearest neighbour where the text lane found a memory.
    if not any(reason in NO_VECTOR for reason in reasons) and receipt.get("ftsTop") and receipt.get("vecTop") == []:
        faults.append(VECTOR_LANE)
    docs = receipt.get("coldLane")
    if isinstance(docs, Mapping) and docs.get("error"):
        faults.append(DOCS_LANE)
    return Reading(tuple(dict.fromkeys(faults)), tuple(dict.fromkeys(unknown)))


def unknown_reasons(receipt: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the reasons of a receipt that no version that the lab knows writes."""
    known = (*REASONS, *SKIPS)
    return tuple(dict.fromkeys(name_of(reason) for reason in _reasons(receipt) if reason not in known))


def with_known_reasons(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt without reasons that this version does not know, so that the rest of it can be checked."""
    rejected, skip = receipt.get("rejected"), receipt.get("skipReason")
    changes: dict[str, Any] = {}
    if isinstance(rejected, list) and not all(reason in REASONS for reason in rejected):
        changes["rejected"] = [reason for reason in rejected if reason in REASONS]
    if receipt.get("skipped") is True and isinstance(skip, str) and skip not in SKIPS:
        # A skip needs a reason that the check knows; which one says nothing here.
        changes |= {"skipReason": SKIPS[0], "rejected": [SKIPS[0]]}
    return receipt | changes if changes else receipt


def checkable(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt as :func:`with_known_reasons` does, without the text of an error, which may hold the prompt."""
    docs = receipt.get("coldLane")
    if isinstance(docs, dict) and docs.get("error"):
        receipt = receipt | {"coldLane": docs | {"error": DOCS_LANE}}
    return with_known_reasons(receipt)


def _reasons(receipt: Mapping[str, Any]) -> list[str]:
    rejected, skip = receipt.get("rejected"), receipt.get("skipReason")
    listed: Iterable[Any] = [*rejected, skip] if isinstance(rejected, list) else [skip]
    return [reason for reason in dict.fromkeys(map(_text, listed)) if reason]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
