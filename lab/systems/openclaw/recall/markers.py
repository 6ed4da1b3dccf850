"""Log lines of a recall besides its receipt (E-18, E-44): a marker and JSON as the plugin writes it."""

from __future__ import annotations

from collections.abc import Mapping

from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.upstream.js import Json, js_json

NAME = "openclaw-mem-engine"


def marker(name: str, value: Mapping[str, Json]) -> str:
    """Return one line of the log."""
    return f"{NAME}:{name} {js_json(value)}"


def fallback_markers(policy: ScopePolicy, scope: str, fallback: Mapping[str, Json], barred: str | None) -> list[str]:
    """Return the log lines of a fallback: why it was suppressed (``barred``), or the scopes it consulted (E-21)."""
    if not policy.fallback_marker:
        return []
    marks = []
    if barred is not None:
        value = {"scope": scope, "reason": barred, "validationMode": policy.validation_mode}
        marks.append(marker("scopeFallbackSuppressed", value))
    if fallback["consulted"]:
        kept = {name: fallback[name] for name in ("consultedScopes", "usedScopes", "contributed")}
        marks.append(marker("scopeFallback", {"scope": scope, **kept}))
    return marks
