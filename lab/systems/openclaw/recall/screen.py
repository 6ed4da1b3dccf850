"""Print a recall receipt on one screen: 24 lines of 80 columns at most (seed 000, criterion 5; E-68)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LINES, COLUMNS = 24, 80
# Of the memories in the Working Set, so many characters of each id, and so many in a row.
START, IN_A_ROW = 13, 5
# Ids are cut to this length only if a line would not fit.
_ID = 44
# What the reasons of a receipt mean; tests compare the names with those of the schema.
MEANING = {
    "trivial_prompt": "the prompt needs no memory",
    "no_query": "the prompt has no text to search for",
    "embedding_input_too_long": "the prompt is too long to embed",
    "no_results_must": "no memory of the must tier was found",
    "no_results_nice": "no memory of the nice tier was found",
    "all_excluded": "every memory that a search found was excluded",
    "provider_unavailable": "no embedding, so only the text was searched",
    "budget_cap": "all slots were taken, so the other candidates are left out",
    "low_relevance": "below the threshold of silence, so nothing is injected",
}


def receipt_screen(receipt: Mapping[str, Any]) -> list[str]:
    """Return the lines that say what was injected, pinned and left out, and why; they contain no text of a memory.

    Items come first, each with its decision (without one: its tier). If there are more lines than fit, the last one
    counts the rest. Receipts of the public plugin, which have fewer fields, are accepted.
    """
    lines = [line[:COLUMNS] for line in _lines(receipt)]
    if len(lines) <= LINES:
        return lines
    return [*lines[: LINES - 1], f"… and {len(lines) - LINES + 1} more lines; the JSON of the receipt has them all"]


def screen_rows(receipt: Mapping[str, Any]) -> int | None:
    """Return how many lines say it all, which may be more than fit; None for a receipt of another system."""
    is_known = {"scope", "scopeMode", "tierCounts", "rejected"} <= receipt.keys()
    return sum(1 for _ in _lines(receipt)) if is_known else None


def _lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    mode, quota = receipt.get("selectionMode", "no selection"), receipt.get("quota")
    caps = (
        f", must <= {quota['mustMax']}, nice >= {quota['niceMin']}, unknown <= {quota['unknownMax']}" if quota else ""
    )
    yield f"{mode}{caps}; scope {receipt['scope']} ({receipt['scopeMode']})"
    if receipt.get("skipped"):
        yield f"skipped: {receipt['skipReason']}"
        return
    counts = [f"{count['tier']} {count['selected']} of {count['candidates']}" for count in receipt["tierCounts"]]
    # A wildcard may be of a tier that is at its limit, so without it the counts seem to break the quota.
    used = (quota or {}).get("wildcardUsed", 0)
    wildcard = f"; {used} of them as wildcard" if used else ""
    yield f"selected: {', '.join(counts) or 'nothing was searched'}{wildcard}"
    yield from _items(receipt)
    yield from (f"{reason}: {MEANING.get(reason, 'no explanation here')}" for reason in receipt["rejected"])
    yield from _working_set(receipt)
    missing = receipt.get("notInjected") or {}
    if missing:
        yield "not injected, though first in the must tier:"
        yield from (_row(identity, reason) for identity, reason in missing.items())
    repeats = receipt.get("suppressedByRepeat")
    if repeats and repeats["penalized"]:
        yield f"repeats: {repeats['penalized']} candidates penalised, {repeats['count']} lost their slot"
    duplicates = receipt.get("excludedAsBackboneDuplicate")
    if duplicates and duplicates["count"]:
        yield f"duplicates of the Working Set that would have been selected: {duplicates['count']}"
    fallback = receipt.get("fallback") or {}
    if fallback.get("consulted"):
        yield f"fallback: {', '.join(fallback['consultedScopes'])} added {fallback['contributed']}"
    budget = receipt.get("budget")
    if budget:
        cut = f", {budget['droppedCount']} dropped" if budget["truncated"] else ""
        yield f"budget: {budget['afterChars']} of {budget['maxChars']} characters{cut}"


def _items(receipt: Mapping[str, Any]) -> Iterator[str]:
    why = {entry["id"]: entry for entry in receipt["whyTheseIds"]}
    decisions = receipt.get("decisions")
    shown = decisions if decisions is not None else {identity: entry["tier"] for identity, entry in why.items()}
    yield f"injected: {receipt['injectedCount']}"
    for identity, decision in shown.items():
        entry = why.get(identity)
        lanes = f" {'+'.join(entry['signals']) or 'no lane'}" if entry else ""
        origin = f" from {entry['scope']}" if entry and entry["origin"] == "fallback" else ""
        yield _row(identity, f"{decision}{lanes}{origin}")
    if (hidden := receipt["injectedCount"] - len(shown)) > 0:
        yield f"  and {hidden} more, which the receipt does not list"


def _working_set(receipt: Mapping[str, Any]) -> Iterator[str]:
    built = receipt.get("workingSet") or {}
    if not built.get("generated"):
        return
    parts = [f"{count} {name}" for name, count in built["sections"].items() if count and name != "goal"]
    stored = ", stored" if built["persisted"] else ""
    yield f"Working Set: {built['chars']} characters: {', '.join(parts) or 'no lines'}{stored}"
    ids = (receipt.get("pinnedByWorkingSet") or {}).get("ids", [])
    # The start of an id finds it; whole ids would fill a third of the screen.
    for at in range(0, len(ids), IN_A_ROW):
        yield f"  {' '.join(identity[:START].ljust(START) for identity in ids[at : at + IN_A_ROW])}".rstrip()


def _row(identity: str, what: str) -> str:
    return f"  {_short(identity, _ID):36} {what}"


def _short(identity: str, most: int) -> str:
    return identity if len(identity) <= most else f"{identity[: most - 1]}…"
