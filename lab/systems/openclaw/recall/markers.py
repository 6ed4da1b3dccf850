"""What a recall logs beside its receipt (E-18, E-44): a marker and the facts, as the plugin writes JSON."""

from __future__ import annotations

from collections.abc import Mapping

from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.upstream.js import Json, js_json

NAME = "openclaw-mem-engine"


def marker(name: str, value: Mapping[str, Json]) -> str:
    """One line of the log."""
    return f"{NAME}:{name} {js_json(value)}"


def fallback_markers(policy: ScopePolicy, scope: str, found: Mapping[str, Json], barred: str | None) -> list[str]:
    """What is logged of a fallback: that it was ``barred``, or which scopes it consulted (E-21)."""
    if not policy.fallback_marker:
        return []
    marks = []
    if barred is not None:
        value = {"scope": scope, "reason": barred, "validationMode": policy.validation_mode}
        marks.append(marker("scopeFallbackSuppressed", value))
    if found["consulted"]:
        kept = {name: found[name] for name in ("consultedScopes", "usedScopes", "contributed")}
        marks.append(marker("scopeFallback", {"scope": scope, **kept}))
    return marks
