"""The file of an audit of live receipts: its schema, whether it is evidence at all, and notes on its figures.

``lab canary audit`` writes it (:mod:`lab.canary.audit`), and rules on receipts judge it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.formatting import counted

SCHEMA = "lab.receipts.audit.v1"
# Markers of the engine whose JSON is read.
WITH_JSON = (
    *("autoRecall.receipt", "autoCapture.receipt", "scopeFallback", "scopeFallbackSuppressed"),
    *("todoGuardrail", "contextBudget", "docsColdLane.search"),
)
# Kinds of damage.
KINDS = {
    "gzip": "the gzip file is truncated or damaged",
    "too_long": "the line is longer than any line of the engine",
    "not_utf8": "the line is not valid UTF-8",
    "no_json": "a marker without its JSON",
    "cut_off": "the JSON is truncated",
    "not_json": "the JSON is invalid",
    "duplicate": "the same line, with the same time, was read before",
    "unknown_schema": "an unknown schema",
    "shape": "a field is missing or has an invalid value",
    "unknown_reason": "a reason is a duplicate, out of order, or not one of a skip",
    "counts": "the counts are inconsistent",
    "listed": "a list is too long, out of order or inconsistent with another",
    "quota": "the quotas do not match the selection",
    "text": "a text in a field for ids and names",
}


# Kinds of lines that could not be read, with what would help; the others were read, and what they say is wrong.
UNREAD = {
    "too_long": "split the file into lines, or export it as JSON with a record for each line",
    "not_utf8": "convert it to UTF-8, for example with iconv",
    "no_json": "export it as the collector's own JSON, or as it got the lines",
    "cut_off": "raise the length at which the collector cuts off lines",
    "not_json": "export it as the collector's own JSON, or as it got the lines",
    "unknown_schema": "the engine is of another version than the lab knows",
    "shape": "the engine is of another version than the lab knows",
}
BINARY = "binary"
# A log of fewer lines with the engine's JSON shows no format; this share of them fails for one reason.
_LEAST, _SHARE = 3, 0.9
# So many lines that all fail are enough: the rest of a log, however long, is not read.
ENOUGH = 1000
ACCEPTED = "accepted are the gateway's log file or console, also compressed or as a log collector keeps it"
# Figures that are counted session by session.
BY_SESSION = ("repeat.", "stale.")


def unreadable(audit: Mapping[str, Any]) -> str | None:
    """Return why the format of a log is not understood, so that the audit is no evidence; else None.

    Audits of earlier versions count such lines as damage.
    """
    for one in audit.get("not_understood", ()):
        if one["kind"] == BINARY:
            return f"{one['file']}: the format is not understood: {one['what']}; {ACCEPTED}"
        return _sentence(f"{one['file']}:{one['line']}", one["kind"], one["what"], one["failed"], one["of"])
    kinds = audit["damage"].get("by_kind", {})
    kind, failed = max(
        ((kind, kinds.get(kind, 0)) for kind in UNREAD if kind != "shape"), key=lambda entry: int(entry[1])
    )
    total = sum(int(audit.get("markers", {}).get(name, 0)) for name in WITH_JSON)
    total += sum(int(count) for kind, count in kinds.items() if kind not in ("duplicate", "gzip"))
    if not is_format(failed, total):
        return None
    return _sentence(", ".join(one["file"] for one in audit["files"]), kind, KINDS[kind], failed, total)


def nothing_found(audit: Mapping[str, Any]) -> str | None:
    """Return an explanation if the logs contain no trace of recall, not even a failed one; else None."""
    if reason := unreadable(audit):
        return reason
    if audit["recalls"]["receipts"] or audit["errors"]["attempts"] or audit["damage"]["lines"]:
        return None
    return (
        f"no recall receipt in {counted(audit['lines'], 'line')}: is this the gateway's log? "
        "Are receipts enabled (receipts.enabled)?"
    )


def notes(audit: Mapping[str, Any]) -> list[str]:
    """Return the notes on an audit, or an empty list."""
    sentences = [
        _copies(audit["copies"]),
        _pairs(audit["pairs"], audit["recalls"]["receipts"]),
        mixed_sessions(audit),
        _reasons(audit.get("unknown_reasons", {})),
    ]
    return [sentence for sentence in sentences if sentence]


def mixed_sessions(audit: Mapping[str, Any]) -> str | None:
    """Return a note on the effect of lines without a session, or None if every line has one."""
    unnamed, named = audit["repeat"]["by"]["scope"], audit["repeat"]["by"]["session"]
    if not unnamed:
        return None
    return (
        f"{unnamed} of {counted(unnamed + named, 'answered recall')} have no session: the recalls of a scope count as "
        "one session. If several sessions were open at once, repeat rate, streaks and stale answers mix them"
    )


def _reasons(unknown: Mapping[str, int]) -> str | None:
    if not unknown:
        return None
    named = ", ".join(f"{name} ({counted(count, 'receipt')})" for name, count in unknown.items())
    return f"unknown reason: {named}; the engine is of a newer version than the lab knows, and these recalls count"


def _copies(copies: Mapping[str, int]) -> str | None:
    if not copies["count"]:
        return None
    lost = f" (forgotten: {counted(copies['lost'], 'earlier line')}; some may count twice)" if copies["lost"] else ""
    lines = counted(copies["count"], "line")
    return f"{lines} also in another log of the same gateway, counted once{lost}"


def _pairs(pairs: Mapping[str, Any], receipts: int) -> str | None:
    if pairs["undecided"]:
        return (
            f"{counted(pairs['undecided'], 'receipt')} equal to the previous receipt, in lines without a time: counted "
            "as recalls, though a host that runs two hooks per turn would log the same"
        )
    if not pairs["count"]:
        return None
    how = f"{pairs['by_trace']} by trace id, {pairs['by_time']} by equal receipts within 4 s"
    twice = f"; the block was injected twice in {pairs['injected']}" if pairs["injected"] else ""
    return (
        f"{pairs['count']} of {counted(receipts, 'recall')} have a second receipt for the same turn (the host runs two "
        f"hooks), counted once: {how}{twice}"
    )


def is_format(failed: int, total: int) -> bool:
    """Return whether so many failed lines of all with the engine's JSON are a format, rather than damage."""
    return failed >= _LEAST and failed >= _SHARE * total


def _sentence(where: str, kind: str, what: str, failed: int, total: int) -> str:
    lines = f"{failed:,} of {counted(total, 'line')} with the engine's JSON cannot be read for one reason"
    return f"{where}: the format is not understood: {lines}: {what}; {UNREAD[kind]}; {ACCEPTED}"
