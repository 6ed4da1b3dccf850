"""Whether a recall receipt is what the engine writes (E-41): fields, types, and what its counts say of each other.

:func:`check_recall` raises :class:`Damaged` for the first thing that is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from lab.canary.damage import Damaged
from lab.systems.openclaw.recall.receipt import MAX_LABELS, MAX_LISTED, MAX_TIERS, REASONS, SCHEMA

MODES = ("tier_first_v1", "tier_quota_v1")
SKIPS = ("trivial_prompt", "no_query")
TIERS = ("must", "nice", "unknown", "ignore")
_FIELDS: dict[str, type] = {
    "verbosity": str,
    "skipped": bool,
    "rejected": list,
    "scope": str,
    "scopeMode": str,
    "tiersSearched": list,
    "tierCounts": list,
    "ftsTop": list,
    "vecTop": list,
    "fusedTop": list,
    "whySummary": dict,
    "whyTheseIds": list,
    "finalCount": int,
    "injectedCount": int,
}
_FALLBACK: dict[str, type] = {
    "eligible": bool,
    "consulted": bool,
    "consultedScopes": list,
    "usedScopes": list,
    "contributed": int,
}
_BUDGET: dict[str, type] = {
    "enabled": bool,
    "beforeChars": int,
    "afterChars": int,
    "droppedCount": int,
    "droppedIds": list,
    "truncatedChars": int,
    "truncated": bool,
}
# The largest whole number that JavaScript counts to.
MOST = 2**53
_LONGEST_NAME = 200
_MAYBE_TEXT = re.compile(rb'[ \\\x80-\xff]|"[^"]{%d}' % (_LONGEST_NAME + 1))
# Sentences: their marks, a line break, or five words in a row. Ids and scopes have none of them.
_SENTENCE = re.compile(r"[\n\r。！？]|\S(?:\s+\S+){4}")


def check_recall(receipt: dict[str, Any]) -> None:
    """The receipt of an automatic recall."""
    if receipt.get("schema") != SCHEMA:
        raise Damaged("unknown_schema", "the schema of the receipt is not known")
    _fields(receipt, _FIELDS, "")
    _no_text(receipt)
    _reasons(receipt)
    _tiers(receipt)
    _lanes(receipt)
    _finals(receipt)
    _parts(receipt)
    _quota(receipt)


def reserved(quota: dict[str, Any], sizes: dict[str, int], places: int) -> tuple[int, int, int]:
    """Places that quotas reserve for must, nice and unknown candidates (E-15, steps 1 to 3)."""
    nice = min(quota["niceMin"], places, sizes.get("nice", 0))
    must = min(quota["mustMax"], max(0, places - nice), sizes.get("must", 0))
    unknown = min(quota["unknownMax"], max(0, places - nice - must), sizes.get("unknown", 0))
    return must, nice, unknown


def runs_of(counts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Tier counts by the scope that they are of: the primary one's first, then those with a scope before the tier."""
    by_scope: dict[str, list[dict[str, Any]]] = {}
    for count in counts:
        by_scope.setdefault(count["tier"].rpartition(":")[0], []).append(count)
    yield from by_scope.values()


def tier_of(count: dict[str, Any]) -> str:
    """The tier of a count, without the scope that may stand before it."""
    return str(count["tier"]).rpartition(":")[2]


def _fields(record: Any, fields: dict[str, type], where: str) -> None:
    if not isinstance(record, dict):
        raise Damaged("shape", f"{where[:-1]} is no object")
    for name, kind in fields.items():
        value = record.get(name)
        # type() and not isinstance(): true is no count.
        if type(value) is not kind:
            raise Damaged("shape", f"{where}{name} {'is missing' if name not in record else 'has another type'}")
        if isinstance(value, int) and kind is int and not 0 <= value <= MOST:
            raise Damaged("counts", f"{where}{name} is {'below 0' if value < 0 else 'beyond every count'}")


def _strings(values: Any, where: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Damaged("shape", f"{where} is no list of strings")
    return values


def _no_text(receipt: dict[str, Any]) -> None:
    import orjson

    # Most receipts hold nothing that a sentence needs, and one look at their bytes shows it.
    with suppress(TypeError):
        if not _MAYBE_TEXT.search(orjson.dumps(receipt)):
            return
    for name, value in receipt.items():
        stack = [value]
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                stack += [*one, *one.values()]
            elif isinstance(one, list):
                stack += one
            # The name of a document's section is part of its id (E-46).
            elif isinstance(one, str) and not one.startswith("docs:") and _is_text(one):
                raise Damaged("text", f"{name if name in _KNOWN else 'an unknown field'} holds a text")


def _is_text(name: str) -> bool:
    return len(name) > _LONGEST_NAME or _SENTENCE.search(name) is not None


def _reasons(receipt: dict[str, Any]) -> None:
    rejected, skip = receipt["rejected"], receipt.get("skipReason")
    if "skipReason" not in receipt:
        raise Damaged("shape", "skipReason is missing")
    if rejected != [reason for reason in REASONS if reason in rejected]:
        raise Damaged("unknown_reason", "rejected holds a reason that is unknown, double or out of order")
    if skip is not None and skip not in SKIPS:
        raise Damaged("unknown_reason", "skipReason is none of a skip")
    if receipt["skipped"] != (skip is not None):
        raise Damaged("shape", "skipped and skipReason do not agree")
    if receipt["verbosity"] not in ("low", "high"):
        raise Damaged("shape", "verbosity is neither low nor high")
    if receipt["skipped"]:
        filled = [name for name in _EMPTY_OF_SKIPS if receipt.get(name)]
        if rejected != [skip] or filled:
            raise Damaged("counts", f"a skipped recall has {filled[0] if filled else 'other reasons than its own'}")
    elif receipt.get("selectionMode") not in MODES:
        raise Damaged("shape", "selectionMode is missing or not known")


def _tiers(receipt: dict[str, Any]) -> None:
    counts = receipt["tierCounts"]
    for place, count in enumerate(counts):
        where = f"tierCounts[{place}]."
        _fields(count, {"tier": str, "labels": list, "candidates": int, "selected": int}, where)
        if len(_strings(count["labels"], f"{where}labels")) > MAX_LABELS:
            raise Damaged("listed", f"{where}labels lists more than {MAX_LABELS}")
        if count["selected"] > count["candidates"]:
            raise Damaged("counts", f"{where}selected is {count['selected']} of {count['candidates']} candidates")
        if tier_of(count) not in TIERS:
            raise Damaged("shape", f"{where}tier is not known")
    if len(counts) > MAX_TIERS:
        raise Damaged("listed", f"tierCounts lists {len(counts)}, more than {MAX_TIERS}")
    if receipt["tiersSearched"] != [count["tier"] for count in counts]:
        raise Damaged("counts", "tiersSearched and tierCounts do not agree")


def _lanes(receipt: dict[str, Any]) -> None:
    for name, numbers in (("ftsTop", ("score",)), ("vecTop", ("score", "distance"))):
        last = math.inf
        for place, hit in enumerate(receipt[name]):
            _fields(hit, {"id": str}, f"{name}[{place}].")
            for number in numbers:
                if type(hit.get(number)) not in (int, float) or not -MOST <= hit[number] <= MOST:
                    raise Damaged("shape", f"{name}[{place}].{number} is no number")
            if hit["score"] > last:
                raise Damaged("listed", f"{name}[{place}] scores more than the one before")
            last = hit["score"]
        _unique((hit["id"] for hit in receipt[name]), name)


def _finals(receipt: dict[str, Any]) -> None:
    fused, why, final = _strings(receipt["fusedTop"], "fusedTop"), receipt["whyTheseIds"], receipt["finalCount"]
    _unique(fused, "fusedTop")
    if len(fused) > final:
        raise Damaged("counts", f"fusedTop lists {len(fused)} of {final} final items")
    # More final items than are listed: so many are listed at most.
    most = len(fused) if final > len(fused) else MAX_LISTED
    for name in ("fusedTop", "ftsTop", "vecTop", "whyTheseIds"):
        if len(receipt[name]) > most:
            raise Damaged("listed", f"{name} lists {len(receipt[name])}, more than {most}")
    summary = receipt["whySummary"]
    _fields(summary, {"byTier": dict, "fromPrimaryScope": int, "fromFallbackScope": int}, "whySummary.")
    _fields(summary["byTier"], dict.fromkeys(TIERS, int), "whySummary.byTier.")
    named = summary["fromPrimaryScope"] + summary["fromFallbackScope"]
    if sum(summary["byTier"][tier] for tier in TIERS) != named or named > final:
        raise Damaged("counts", "whySummary does not add up to finalCount")
    in_lanes = {lane: {hit["id"] for hit in receipt[f"{lane}Top"]} for lane in ("fts", "vec")}
    for place, item in enumerate(why):
        where = f"whyTheseIds[{place}]."
        _fields(item, {"id": str, "tier": str, "scope": str, "origin": str, "signals": list}, where)
        signals = item["signals"]
        if signals != [lane for lane in ("fts", "vec") if lane in signals]:
            raise Damaged("shape", f"{where}signals are not lanes")
        if any(item["id"] in ids and lane not in signals for lane, ids in in_lanes.items()):
            raise Damaged("listed", f"{where}signals lack a lane that lists the id")
        if item["tier"] not in TIERS:
            raise Damaged("shape", f"{where}tier is not known")
        if item["origin"] != ("primary" if item["scope"] == receipt["scope"] else "fallback"):
            raise Damaged("counts", f"{where}origin and scope do not agree")
    if "" not in fused and [item["id"] for item in why] != fused:
        raise Damaged("listed", "whyTheseIds are not those of fusedTop")
    if named == len(why):
        tiers = [item["tier"] for item in why]
        if any(tiers.count(tier) != summary["byTier"][tier] for tier in TIERS):
            raise Damaged("counts", "whySummary and whyTheseIds count other tiers")
    # Hard rules, which profile seed alone knows, are final and not selected; it says what it decided.
    selected = sum(count["selected"] for count in receipt["tierCounts"])
    if final > selected and len(receipt["tierCounts"]) < MAX_TIERS and "decisions" not in receipt:
        raise Damaged("counts", f"finalCount is {final}, and {selected} were selected")


def _parts(receipt: dict[str, Any]) -> None:
    fallback, budget, digest, cold = (receipt.get(name) for name in ("fallback", "budget", "workingSet", "coldLane"))
    if fallback is not None:
        _fields(fallback, _FALLBACK, "fallback.")
        consulted = _strings(fallback["consultedScopes"], "fallback.consultedScopes")
        used = _strings(fallback["usedScopes"], "fallback.usedScopes")
        if fallback["consulted"] != bool(consulted) or not set(used) <= set(consulted):
            raise Damaged("counts", "fallback does not agree with its scopes")
    if budget is not None:
        _fields(budget, _BUDGET, "budget.")
        if len(_strings(budget["droppedIds"], "budget.droppedIds")) != min(budget["droppedCount"], MAX_LISTED):
            raise Damaged("counts", "budget.droppedIds and budget.droppedCount do not agree")
        if budget["truncated"] != (budget["beforeChars"] > budget["afterChars"]):
            raise Damaged("counts", "budget.truncated does not agree with its lengths")
    if digest is not None:
        _fields(digest, {"enabled": bool, "generated": bool}, "workingSet.")
    if cold is not None:
        _fields(cold, {"consulted": bool, "returned": int}, "coldLane.")
    # The digest, the documents, and an item of the router, of which receipts say nothing.
    most = receipt["finalCount"] + bool(digest and digest["generated"]) + (cold["returned"] if cold else 0) + 1
    if receipt["injectedCount"] > most:
        raise Damaged("counts", f"injectedCount is {receipt['injectedCount']}, and there were {most} items at most")


def _quota(receipt: dict[str, Any]) -> None:
    quota, mode = receipt.get("quota"), receipt.get("selectionMode")
    if quota is None:
        if mode == "tier_quota_v1" and "failed" not in receipt:
            raise Damaged("quota", "quota is missing under tier_quota_v1")
        return
    if mode != "tier_quota_v1":
        raise Damaged("quota", "quota is there without tier_quota_v1")
    _fields(quota, dict.fromkeys(("mustMax", "niceMin", "unknownMax", "wildcardUsed"), int), "quota.")
    # Under the loop of tiers the quotas select from must and nice alone, and what follows is filled in.
    if "policyTier" in receipt:
        return
    used = sum(_beyond(quota, run) for run in runs_of(receipt["tierCounts"]))
    # Counts that are not shown may hide more.
    if quota["wildcardUsed"] < used or (quota["wildcardUsed"] > used and len(receipt["tierCounts"]) < MAX_TIERS):
        raise Damaged("quota", f"quota.wildcardUsed is {quota['wildcardUsed']}, and the tiers say {used}")


def _beyond(quota: dict[str, Any], run: list[dict[str, Any]]) -> int:
    """Items that no quota reserved a place for. Where places were left every candidate was taken."""
    total: int = sum(count["selected"] for count in run)
    return total - sum(reserved(quota, {tier_of(count): count["candidates"] for count in run}, total))


def _unique(ids: Iterable[str], name: str) -> None:
    listed = list(ids)
    if len(set(listed)) < len(listed):
        raise Damaged("listed", f"{name} lists an id twice")


_EMPTY_OF_SKIPS = (
    *("tierCounts", "tiersSearched", "ftsTop", "vecTop", "fusedTop", "whyTheseIds", "finalCount", "injectedCount"),
    *("fallback", "budget", "workingSet", "quota"),
)
_KNOWN = {
    *_FIELDS,
    *("schema", "skipReason", "selectionMode", "quota", "fallback", "budget", "coldLane", "workingSet", "policyTier"),
    *("decisions", "factors", "suppressedByRepeat", "pinnedByWorkingSet", "excludedAsBackboneDuplicate", "failed"),
}
