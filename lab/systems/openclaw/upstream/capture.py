"""The rules of autoCapture in the public plugin."""

from __future__ import annotations

from lab.base.utf16 import js_slice
from lab.systems.openclaw.capture.categories import detect_bounded
from lab.systems.openclaw.capture.clean import strip_injected
from lab.systems.openclaw.capture.duplicates import is_near_duplicate
from lab.systems.openclaw.capture.pipeline import Rules
from lab.systems.openclaw.capture.secrets import looks_secret
from lab.systems.openclaw.capture.spans import plugin_spans
from lab.systems.openclaw.capture.tool_like import is_tool_like

RULES = Rules(
    clean=strip_injected,
    spans=plugin_spans,
    is_secret=looks_secret,
    is_tool_like=is_tool_like,
    category=detect_bounded,
    is_duplicate=is_near_duplicate,
    cut=js_slice,
)
