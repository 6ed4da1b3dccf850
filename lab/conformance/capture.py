"""Adapters for capture: its pure steps, and the complete handler on a table (E-34 to E-36, E-70 to E-76)."""

from __future__ import annotations

from typing import Any

from lab.conformance.functions_inject import unknown_function
from lab.conformance.values import UNDEFINED
from lab.systems.openclaw.capture.candidates import normalise, split_candidates
from lab.systems.openclaw.capture.categories import IMPORTANCE, allowed_categories, detect_bounded
from lab.systems.openclaw.capture.clean import strip_injected
from lab.systems.openclaw.capture.duplicates import is_near_duplicate, token_overlap
from lab.systems.openclaw.capture.redact import redact
from lab.systems.openclaw.capture.scan import Bounds, read_messages, scan
from lab.systems.openclaw.capture.secrets import looks_secret
from lab.systems.openclaw.capture.tool_like import is_tool_like
from lab.systems.openclaw.config.values import number_in_range
from lab.systems.openclaw.near_duplicate import normal_text

Value = dict[str, Any]
# The plugin's bounds if a caller gives none.
DEFAULTS = {"maxMessages": 24, "maxTextBlocksPerMessage": 4, "maxTotalInputChars": 48_000}
TEXT = {
    "looksLikeSecret": looks_secret,
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
        return IMPORTANCE[given["category"]]
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
