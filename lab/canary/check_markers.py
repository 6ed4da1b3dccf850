"""Whether the engine's other markers (E-44) hold what they should."""

from __future__ import annotations

from typing import Any

from lab.canary.check import MOST
from lab.canary.damage import Damaged
from lab.systems.openclaw.capture.receipt import SCHEMA

RECALL, CAPTURE = "autoRecall.receipt", "autoCapture.receipt"
# The fields that are counted on; a marker may hold more.
MARKERS: dict[str, dict[str, type]] = {
    CAPTURE: {"candidateExtractionCount": int, "filteredOut": dict, "storedCount": int},
    "scopeFallback": {"scope": str, "consultedScopes": list, "usedScopes": list, "contributed": int},
    "scopeFallbackSuppressed": {"scope": str, "reason": str},
    "todoGuardrail": {"phase": str},
    "contextBudget": {"beforeChars": int, "afterChars": int, "droppedCount": int, "truncatedChars": int},
    "docsColdLane.search": {"consulted": bool, "returned": int},
}
# Those that need no JSON, or whose JSON says nothing of recall.
OTHERS = (
    *("promptHook.dedupe", "workingSet.persist_failed", "scopeValidation", "docsColdLane.ingest"),
    *("weijiMemoryPreflight", "routeAuto.receipt", "gbrainMirror", "symbolicCanvas.autoBuild", "autoRecall"),
    *("runtime", "qdrant"),
)


def check_marker(name: str, value: dict[str, Any]) -> None:
    """A marker of :data:`MARKERS`. Raises :class:`Damaged`."""
    if name == CAPTURE and value.get("schema") != SCHEMA:
        raise Damaged("unknown_schema", f"the schema of {name} is not known")
    for field, kind in MARKERS[name].items():
        found = value.get(field)
        if type(found) is not kind:
            how = "has another type" if field in value else "is missing"
            raise Damaged("shape", f"{name}: {field} {how}")
        if isinstance(found, int) and not 0 <= found <= MOST:
            raise Damaged("counts", f"{name}: {field} is no count")
    if name == CAPTURE:
        counts = value["filteredOut"].values()
        if not all(type(count) is int and count >= 0 for count in counts):
            raise Damaged("shape", f"{name}: filteredOut holds what is no count")
        if value["storedCount"] > value["candidateExtractionCount"]:
            raise Damaged("counts", f"{name}: more was stored than was found")
