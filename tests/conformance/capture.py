"""Adapters for capture: its pure steps, and the complete handler on a table (E-34 to E-36, E-70 to E-76)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.retrieval.contract import Filter, Query, Row
from lab.systems.openclaw.capture.candidates import (
    IMPORTANCE,
    allowed_categories,
    detect_bounded,
    is_tool_like,
    normalise,
    split_candidates,
    strip_injected,
)
from lab.systems.openclaw.capture.pipeline import Bounds, Captured, capture, captures, scan
from lab.systems.openclaw.capture.secrets import looks_secret_to_plugin, redact
from lab.systems.openclaw.capturing import UPSTREAM
from lab.systems.openclaw.config.values import number_in_range
from lab.systems.openclaw.memory import Near, label_of_score
from lab.systems.openclaw.near_duplicate import is_near_duplicate, normal_text
from tests.conformance.e2e import Table, plugin_config
from tests.conformance.embedding import embed
from tests.conformance.functions_inject import unknown_function
from tests.conformance.plugin_rules import read_messages, token_overlap
from tests.conformance.record_files import Folder, Outcome, Record, VectorFile, judge
from tests.conformance.values import UNDEFINED, Difference, difference

if TYPE_CHECKING:
    import numpy as np

Value = dict[str, Any]
# The plugin's bounds if a caller gives none.
DEFAULTS = {"maxMessages": 24, "maxTextBlocksPerMessage": 4, "maxTotalInputChars": 48_000}
TEXT = {
    "looksLikeSecret": looks_secret_to_plugin,
    "redactSensitiveText": redact,
    "looksLikeToolOutput": is_tool_like,
    "stripAutoInjectedArtifacts": strip_injected,
    "splitCaptureCandidates": split_candidates,
    "normalizeForDedupe": lambda text: normal_text(text).text,
    "detectAutoCaptureCategory": detect_bounded,
}


def capture_units(record: Value) -> Any:
    """Run one of the pure steps of capture."""
    given, name = record["input"], record["fn"]
    if name in TEXT:
        return TEXT[name](given["text"])
    if name == "normalizeCaptureText":
        return normalise(given["text"], given["maxChars"])
    if name == "tokenJaccardSimilarity":
        return token_overlap(given["a"], given["b"])
    if name == "isNearDuplicateText":
        return is_near_duplicate(given["a"], given["b"], given["threshold"])
    if name == "defaultImportanceForAutoCapture":
        return IMPORTANCE.get(given["category"], IMPORTANCE["todo"])
    if name == "resolveCaptureCategoryAllowList":
        preference, decision, todo = (given[f"capture{kind}"] for kind in ("Preference", "Decision", "Todo"))
        return list(allowed_categories(preference=preference, decision=decision, todo=todo))
    if name == "extractUserTextMessages":
        return _extracted(given)
    raise unknown_function(name)


def _extracted(given: Value) -> Value:
    options = given.get("options") or {}
    messages, blocks, units = (
        int(number_in_range(options.get(key, UNDEFINED), fallback, 1, 1 << 31, True))
        for key, fallback in DEFAULTS.items()
    )
    scanned = scan(read_messages(given["messages"]), Bounds(messages, blocks, units))
    return {
        "texts": [entry.text for entry in scanned.texts],
        "stats": {
            "scannedUserMessages": scanned.messages,
            "scannedTextBlocks": scanned.blocks,
            "scannedTextChars": scanned.units,
            "skippedOlderUserMessages": scanned.older,
            "truncatedInputChars": scanned.truncated,
        },
    }


def capture_pipeline(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Check sequences of captures, each on an empty table."""
    del folder
    for record in file.records:
        yield judge(record, partial(_compare, record))


def _compare(record: Record) -> Difference | None:
    config = plugin_config(record.value["config"])
    registered = record.value["hookRegistered"]
    table = Captures()
    mismatch = difference(registered, captures(config), "hookRegistered")
    for number, turn in enumerate(record.value["turns"]):
        if mismatch:
            break
        event, now = turn["event"], turn["nowMs"]
        captured = Captured()
        if event.get("success") is True and registered:
            vector = (lambda _: None) if turn["embeddingsFail"] else embed
            captured = capture(read_messages(event["messages"]), config, UPSTREAM, table, now_ms=now, embed=vector)
        mismatch = difference(turn["output"], _shown(captured, now, table), f"turns[{number}].output")
    return mismatch


class Captures:
    """A table that capture writes to, with the recorded embedding; ``distance`` replaces all distances."""

    def __init__(self, distance: float | None = None) -> None:
        self._table, self._distance = Table([], {}), distance
        self.listing = self._table.listing

    def nearest(self, vector: np.ndarray, limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows of a scope nearest to a vector."""
        store = self._table.store
        hits = store.view(Query("", [], vector)).search(Filter(scope), limit).vec
        return [Near(store.rows[hit.row], hit.distance if self._distance is None else self._distance) for hit in hits]

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        self._table.add(rows)


def stored_rows(captured: Captured, now_ms: int, table: Captures) -> list[Value]:
    """Store what was captured and return it in the plugin's form."""
    shown: list[Value] = []
    for item in captured.stored:
        identity, label = f"{len(shown)}-{now_ms}-{item.text}", label_of_score(item.importance)
        row = Row(identity, identity, item.text, item.text, now_ms, item.category, label, item.scope)
        table.add([row])
        shown.append(
            {
                "text": item.text,
                "createdAt": now_ms,
                "category": item.category,
                "importance": item.importance,
                "importance_label": label,
                "scope": item.scope,
                "trust_tier": "user",
            }
        )
    return shown


def _shown(captured: Captured, now_ms: int, table: Captures) -> Value:
    stored = stored_rows(captured, now_ms, table)
    return {"stored": stored, "receipt": captured.receipt, "otherLogs": [list(line) for line in captured.log]}
