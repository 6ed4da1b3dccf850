"""Check the JSON that the engine logs (E-41, E-44): fields, types, and counts that agree with each other.

A check raises :class:`Damaged` for the first problem. Damaged lines are counted by kind and the first of them listed
(CL-11). Lines with the engine's JSON that cannot be read are damage if they are few. If nearly all of a log's fail for
one and the same reason, they are sound lines in a format that this version does not know, and no evidence against the
engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.gate.receipts import ENOUGH, KINDS, UNREAD, is_format
from lab.systems.openclaw.capture.pipeline import SCHEMA as CAPTURE_SCHEMA
from lab.systems.openclaw.recall.receipt import MAX_LABELS, MAX_LISTED, MAX_TIERS, REASONS, SCHEMA
from lab.systems.openclaw.select.outcome import Quota

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
# The limit of exact integers in JavaScript.
MOST = 2**53
_LONGEST_NAME = 200
_MAYBE_TEXT = regex(rb'[ \\\x80-\xff]|"[^"]{%d}' % (_LONGEST_NAME + 1))
# A sentence has punctuation, a line break or five consecutive words; ids and scopes have none of these.
_SENTENCE = regex(r"[\n\r。！？]|\S(?:\s+\S+){4}")
RECALL, CAPTURE = "autoRecall.receipt", "autoCapture.receipt"
# The required fields; a marker may have more.
MARKERS: dict[str, dict[str, type]] = {
    CAPTURE: {"candidateExtractionCount": int, "filteredOut": dict, "storedCount": int},
    "scopeFallback": {"scope": str, "consultedScopes": list, "usedScopes": list, "contributed": int},
    "scopeFallbackSuppressed": {"scope": str, "reason": str},
    "todoGuardrail": {"phase": str},
    "contextBudget": {"beforeChars": int, "afterChars": int, "droppedCount": int, "truncatedChars": int},
    "docsColdLane.search": {"returned": int},
}
# Markers without JSON, or whose JSON does not concern recall.
OTHERS = (
    *("promptHook.dedupe", "workingSet.persist_failed", "scopeValidation", "docsColdLane.ingest"),
    *("weijiMemoryPreflight", "routeAuto.receipt", "gbrainMirror", "symbolicCanvas.autoBuild", "autoRecall"),
    *("runtime", "qdrant"),
)


class Damaged(Exception):
    """A line is unusable. ``kind`` is one of :data:`KINDS`; ``what`` contains field names and numbers, never texts."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind, self.what = kind, what


class DamagedLine(NamedTuple):
    """A damaged line with its location and the problem."""

    file: str
    line: int
    kind: str
    what: str


class Damage:
    """Counts of damaged lines by kind, and a list of the first ``listed`` ones."""

    def __init__(self, listed: int) -> None:
        self._most = listed
        self.kinds = Counter[str]()
        self.listed: list[DamagedLine] = []

    def add(self, file: str, line: int, error: Damaged) -> None:
        """Count a damaged line."""
        self.kinds[error.kind] += 1
        if len(self.listed) < self._most:
            self.listed.append(DamagedLine(file, line, error.kind, error.what))

    @property
    def lines(self) -> int:
        """The number of damaged lines, including duplicates."""
        return self.kinds.total()

    @property
    def broken(self) -> int:
        """The number of damaged lines without duplicates, which come from overlapping logs."""
        return self.lines - self.kinds["duplicate"]

    def as_json(self, sound: int) -> dict[str, Any]:
        """Return the counts of all kinds and the listed lines; ``rate`` is the share of damaged among all ``of`` lines.

        Neither ``rate`` nor ``of`` includes duplicates.
        """
        broken = self.broken
        total = sound + broken
        return {
            "rate": broken / total if total else None,
            "of": total,
            "lines": self.lines,
            "duplicates": self.kinds["duplicate"],
            "by_kind": {kind: self.kinds[kind] for kind in KINDS},
            "listed": [line._asdict() for line in self.listed],
        }


@dataclass(frozen=True, slots=True)
class UnknownFormat:
    """A log whose format is not understood: the reason, how many of its lines failed for it, and the first of them."""

    file: str
    line: int
    kind: str
    what: str
    failed: int
    of: int


class Understanding:
    """How many lines of one log with the engine's JSON were read, and how many failed for which reason."""

    def __init__(self) -> None:
        self._read = 0
        self._failed = Counter[str]()
        self._first: dict[str, tuple[int, Damaged]] = {}

    def read(self) -> None:
        """Count a line that was read."""
        self._read += 1

    def failed(self, line: int, error: Damaged) -> None:
        """Count a line that was not, unless it was read before."""
        if error.kind in UNREAD:
            # Two versions of an engine leave out different fields.
            reason = error.what if error.kind == "shape" else error.kind
            self._failed[reason] += 1
            self._first.setdefault(reason, (line, error))
        elif error.kind != "duplicate":
            self._read += 1

    @property
    def is_hopeless(self) -> bool:
        """Whether enough lines failed to stop reading."""
        return self._failed.total() >= ENOUGH and self.of("") is not None

    def of(self, file: str) -> UnknownFormat | None:
        """Return why the format of the log is not understood, or None."""
        reason, failed = max(self._failed.items(), key=lambda entry: entry[1], default=("", 0))
        total = self._read + self._failed.total()
        if not failed:
            return None
        line, error = self._first[reason]
        # A log that is one endless line is not damaged in one place.
        if not is_format(failed, total) and (error.kind, failed) != ("too_long", total):
            return None
        return UnknownFormat(file, line, error.kind, error.what, failed, total)


def unknown_formats(found: Sequence[UnknownFormat]) -> dict[str, Any]:
    """Return the part of an audit on logs that are not understood; it has none if there are none."""
    return {"not_understood": [asdict(one) for one in found]} if found else {}


def check_recall(receipt: dict[str, Any]) -> None:
    """Check the receipt of an automatic recall. Raises :class:`Damaged`."""
    if receipt.get("schema") != SCHEMA:
        raise Damaged("unknown_schema", "the schema of the receipt is unknown")
    _fields(receipt, _FIELDS, "")
    _no_text(receipt)
    _reasons(receipt)
    _tiers(receipt)
    _lanes(receipt)
    _finals(receipt)
    _parts(receipt)
    _quota(receipt)


def reserved(quota: dict[str, Any], run: list[dict[str, Any]]) -> dict[str, int]:
    """Return the slots that the quotas of a receipt reserve in each tier, from the tier counts of a scope (E-15)."""
    sizes = {tier_of(count): count["candidates"] for count in run}
    slots = sum(count["selected"] for count in run)
    return Quota(quota["mustMax"], quota["niceMin"], quota["unknownMax"]).reserved(sizes, slots)


def runs_of(counts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the tier counts of each scope: the primary scope first, then those with a scope before the tier."""
    by_scope: dict[str, list[dict[str, Any]]] = {}
    for count in counts:
        by_scope.setdefault(count["tier"].rpartition(":")[0], []).append(count)
    yield from by_scope.values()


def tier_of(count: dict[str, Any]) -> str:
    """Return the tier of a count, without the optional scope before it."""
    return str(count["tier"]).rpartition(":")[2]


def _fields(record: Any, fields: dict[str, type], where: str) -> None:
    if not isinstance(record, dict):
        raise Damaged("shape", f"{where[:-1]} is not an object")
    for name, kind in fields.items():
        value = record.get(name)
        # type() instead of isinstance(), because true is not a count.
        if type(value) is not kind:
            raise Damaged("shape", f"{where}{name} {'is missing' if name not in record else 'has the wrong type'}")
        if isinstance(value, int) and kind is int and not 0 <= value <= MOST:
            raise Damaged("counts", f"{where}{name} is {'negative' if value < 0 else 'too large for a count'}")


def _strings(values: Any, where: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Damaged("shape", f"{where} is not a list of strings")
    return values


def _no_text(receipt: dict[str, Any]) -> None:
    import orjson

    # Fast path: the bytes of most receipts contain nothing that a sentence needs.
    with suppress(TypeError):
        if not _MAYBE_TEXT.search(orjson.dumps(receipt)):
            return
    for name, value in receipt.items():
        stack = [value]
        while stack:
            inner = stack.pop()
            if isinstance(inner, dict):
                stack += [*inner, *inner.values()]
            elif isinstance(inner, list):
                stack += inner
            # The id of a document contains the name of its section, which may look like a sentence (E-46).
            elif isinstance(inner, str) and not inner.startswith("docs:") and _is_text(inner):
                raise Damaged("text", f"{name if name in _KNOWN_FIELDS else 'an unknown field'} contains a text")


def _is_text(name: str) -> bool:
    return len(name) > _LONGEST_NAME or _SENTENCE.search(name) is not None


def _reasons(receipt: dict[str, Any]) -> None:
    rejected, skip = receipt["rejected"], receipt.get("skipReason")
    if "skipReason" not in receipt:
        raise Damaged("shape", "skipReason is missing")
    if rejected != [reason for reason in REASONS if reason in rejected]:
        raise Damaged("unknown_reason", "rejected has a reason that is unknown, duplicate or out of order")
    if skip is not None and skip not in SKIPS:
        raise Damaged("unknown_reason", "skipReason is not the reason of a skip")
    if receipt["skipped"] != (skip is not None):
        raise Damaged("shape", "skipped and skipReason disagree")
    if receipt["verbosity"] not in ("low", "high"):
        raise Damaged("shape", "verbosity is neither low nor high")
    if receipt["skipped"]:
        filled = [name for name in _EMPTY_OF_SKIPS if receipt.get(name)]
        if rejected != [skip] or filled:
            raise Damaged("counts", f"a skipped recall has {filled[0] if filled else 'reasons other than skipReason'}")
    elif receipt.get("selectionMode") not in MODES:
        raise Damaged("shape", "selectionMode is missing or unknown")


def _tiers(receipt: dict[str, Any]) -> None:
    counts = receipt["tierCounts"]
    for index, count in enumerate(counts):
        where = f"tierCounts[{index}]."
        _fields(count, {"tier": str, "labels": list, "candidates": int, "selected": int}, where)
        if len(_strings(count["labels"], f"{where}labels")) > MAX_LABELS:
            raise Damaged("listed", f"{where}labels has more than {MAX_LABELS} entries")
        if count["selected"] > count["candidates"]:
            raise Damaged("counts", f"{where}selected is {count['selected']} of {count['candidates']} candidates")
        if tier_of(count) not in TIERS:
            raise Damaged("shape", f"{where}tier is unknown")
    if len(counts) > MAX_TIERS:
        raise Damaged("listed", f"tierCounts has {len(counts)} entries, more than {MAX_TIERS}")
    if receipt["tiersSearched"] != [count["tier"] for count in counts]:
        raise Damaged("counts", "tiersSearched and tierCounts disagree")


def _lanes(receipt: dict[str, Any]) -> None:
    for name, numbers in (("ftsTop", ("score",)), ("vecTop", ("score", "distance"))):
        last = math.inf
        for index, hit in enumerate(receipt[name]):
            _fields(hit, {"id": str}, f"{name}[{index}].")
            for number in numbers:
                if type(hit.get(number)) not in (int, float) or not -MOST <= hit[number] <= MOST:
                    raise Damaged("shape", f"{name}[{index}].{number} is not a number")
            if hit["score"] > last:
                raise Damaged("listed", f"{name}[{index}] has a higher score than the previous hit")
            last = hit["score"]
        _unique((hit["id"] for hit in receipt[name]), name)


def _finals(receipt: dict[str, Any]) -> None:
    fused, why, final = _strings(receipt["fusedTop"], "fusedTop"), receipt["whyTheseIds"], receipt["finalCount"]
    _unique(fused, "fusedTop")
    if len(fused) > final:
        raise Damaged("counts", f"fusedTop has {len(fused)} entries, but there are {final} final items")
    # If not all final items are listed, fusedTop has reached the limit of all lists.
    limit = len(fused) if final > len(fused) else MAX_LISTED
    for name in ("fusedTop", "ftsTop", "vecTop", "whyTheseIds"):
        if len(receipt[name]) > limit:
            raise Damaged("listed", f"{name} has {len(receipt[name])} entries, more than {limit}")
    summary = receipt["whySummary"]
    _fields(summary, {"byTier": dict, "fromPrimaryScope": int, "fromFallbackScope": int}, "whySummary.")
    _fields(summary["byTier"], dict.fromkeys(TIERS, int), "whySummary.byTier.")
    named = summary["fromPrimaryScope"] + summary["fromFallbackScope"]
    if sum(summary["byTier"][tier] for tier in TIERS) != named or named > final:
        raise Damaged("counts", "whySummary does not add up to finalCount")
    in_lanes = {lane: {hit["id"] for hit in receipt[f"{lane}Top"]} for lane in ("fts", "vec")}
    for index, item in enumerate(why):
        where = f"whyTheseIds[{index}]."
        _fields(item, {"id": str, "tier": str, "scope": str, "origin": str, "signals": list}, where)
        signals = item["signals"]
        if signals != [lane for lane in ("fts", "vec") if lane in signals]:
            raise Damaged("shape", f"{where}signals are not lanes")
        if any(item["id"] in ids and lane not in signals for lane, ids in in_lanes.items()):
            raise Damaged("listed", f"{where}signals lack a lane that returned the id")
        if item["tier"] not in TIERS:
            raise Damaged("shape", f"{where}tier is unknown")
        if item["origin"] != ("primary" if item["scope"] == receipt["scope"] else "fallback"):
            raise Damaged("counts", f"{where}origin and scope disagree")
    if "" not in fused and [item["id"] for item in why] != fused:
        raise Damaged("listed", "whyTheseIds and fusedTop have different ids")
    if named == len(why):
        tiers = [item["tier"] for item in why]
        if any(tiers.count(tier) != summary["byTier"][tier] for tier in TIERS):
            raise Damaged("counts", "whySummary and whyTheseIds have different tier counts")
    # Hard rules are final without being selected. Only profile seed has them, and its receipts have "decisions".
    selected = sum(count["selected"] for count in receipt["tierCounts"])
    if final > selected and len(receipt["tierCounts"]) < MAX_TIERS and "decisions" not in receipt:
        raise Damaged("counts", f"finalCount is {final}, but only {selected} were selected")


def _parts(receipt: dict[str, Any]) -> None:
    fallback, budget, working_set, cold = (
        receipt.get(name) for name in ("fallback", "budget", "workingSet", "coldLane")
    )
    if fallback is not None:
        _fields(fallback, _FALLBACK, "fallback.")
        consulted = _strings(fallback["consultedScopes"], "fallback.consultedScopes")
        used = _strings(fallback["usedScopes"], "fallback.usedScopes")
        if fallback["consulted"] != bool(consulted) or not set(used) <= set(consulted):
            raise Damaged("counts", "fallback and its scopes disagree")
    if budget is not None:
        _fields(budget, _BUDGET, "budget.")
        if len(_strings(budget["droppedIds"], "budget.droppedIds")) != min(budget["droppedCount"], MAX_LISTED):
            raise Damaged("counts", "budget.droppedIds and budget.droppedCount disagree")
        if budget["truncated"] != (budget["beforeChars"] > budget["afterChars"]):
            raise Damaged("counts", "budget.truncated and its lengths disagree")
    if working_set is not None:
        _fields(working_set, {"enabled": bool, "generated": bool}, "workingSet.")
    if cold is not None:
        _fields(cold, {"consulted": bool, "returned": int}, "coldLane.")
    # Plus the Working Set, the documents, and one item of the router, which receipts do not mention.
    limit = (
        receipt["finalCount"] + bool(working_set and working_set["generated"]) + (cold["returned"] if cold else 0) + 1
    )
    if receipt["injectedCount"] > limit:
        raise Damaged("counts", f"injectedCount is {receipt['injectedCount']}, but there were at most {limit} items")


def _quota(receipt: dict[str, Any]) -> None:
    quota, mode = receipt.get("quota"), receipt.get("selectionMode")
    if quota is None:
        if mode == "tier_quota_v1" and "failed" not in receipt:
            raise Damaged("quota", "quota is missing under tier_quota_v1")
        return
    if mode != "tier_quota_v1":
        raise Damaged("quota", "quota is present without tier_quota_v1")
    _fields(quota, dict.fromkeys(("mustMax", "niceMin", "unknownMax", "wildcardUsed"), int), "quota.")
    # With the tier loop, quotas apply only to must and nice, and the remaining slots are filled without them.
    if "policyTier" in receipt:
        return
    used = sum(_above_quota(quota, run) for run in runs_of(receipt["tierCounts"]))
    # The list of tier counts may be truncated, and the missing counts may add to the sum.
    if quota["wildcardUsed"] < used or (quota["wildcardUsed"] > used and len(receipt["tierCounts"]) < MAX_TIERS):
        raise Damaged("quota", f"quota.wildcardUsed is {quota['wildcardUsed']}, but the tier counts give {used}")


def _above_quota(quota: dict[str, Any], run: list[dict[str, Any]]) -> int:
    """Return the number of selected items without a reserved slot; while slots remain, every candidate is selected."""
    total: int = sum(count["selected"] for count in run)
    return total - sum(reserved(quota, run).values())


def _unique(ids: Iterable[str], name: str) -> None:
    listed = list(ids)
    if len(set(listed)) < len(listed):
        raise Damaged("listed", f"{name} has a duplicate id")


_EMPTY_OF_SKIPS = (
    *("tierCounts", "tiersSearched", "ftsTop", "vecTop", "fusedTop", "whyTheseIds", "finalCount", "injectedCount"),
    *("fallback", "budget", "workingSet", "quota"),
)


_KNOWN_FIELDS = {
    *_FIELDS,
    *("schema", "skipReason", "selectionMode", "quota", "fallback", "budget", "coldLane", "workingSet", "policyTier"),
    *(
        "decisions",
        "notInjected",
        "factors",
        "suppressedByRepeat",
        "pinnedByWorkingSet",
        "excludedAsBackboneDuplicate",
        "failed",
    ),
}


def check_marker(name: str, value: dict[str, Any]) -> None:
    """Check a marker of :data:`MARKERS`. Raises :class:`Damaged`."""
    if name == CAPTURE and value.get("schema") != CAPTURE_SCHEMA:
        raise Damaged("unknown_schema", f"the schema of {name} is unknown")
    for field, kind in MARKERS[name].items():
        count = value.get(field)
        if type(count) is not kind:
            how = "has the wrong type" if field in value else "is missing"
            raise Damaged("shape", f"{name}: {field} {how}")
        if isinstance(count, int) and not 0 <= count <= MOST:
            raise Damaged("counts", f"{name}: {field} is not a count")
    if name == CAPTURE:
        counts = value["filteredOut"].values()
        if not all(type(count) is int and count >= 0 for count in counts):
            raise Damaged("shape", f"{name}: filteredOut has a value that is not a count")
        if value["storedCount"] > value["candidateExtractionCount"]:
            raise Damaged("counts", f"{name}: more items were stored than extracted")
