"""Check the engine's markers other than recall receipts (E-44)."""

from __future__ import annotations

from typing import Any

from lab.canary.audit.check import MOST
from lab.canary.audit.damage import Damaged
from lab.systems.openclaw.capture.receipt import SCHEMA

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


def check_marker(name: str, value: dict[str, Any]) -> None:
    """Check a marker of :data:`MARKERS`. Raises :class:`Damaged`."""
    if name == CAPTURE and value.get("schema") != SCHEMA:
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
