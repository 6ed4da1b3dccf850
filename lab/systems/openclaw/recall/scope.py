"""The scope of a prompt (E-30, E-31), and selection from it and its fallback scopes, one selection a scope (E-16)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE, js_slice
from lab.recordings.model import GLOBAL
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount

# Lines of a text searched for a tag, and list decorations stripped from the start of a line.
MAX_LINES, MAX_DECORATIONS = 200, 6
_SPACE = f"[{WHITESPACE}]"
_DECORATION = regex(
    rf"{_SPACE}*(?:>+|[-+*•‣▪◦·–—−・]|\[[ xX✓✔]?\]|\([0-9]{{1,3}}\)|[0-9]{{1,3}}[.)-]|[A-Za-z][.)-]){_SPACE}*"
)
_TAG = regex(rf"\[(ISO|SCOPE){_SPACE}*:{_SPACE}*([^\]]*)\]", re.IGNORECASE | re.ASCII)
_NO_SCOPE = regex("[^a-z0-9._:/-]")
_STRICT = regex(r"[a-z0-9][a-z0-9._:/-]*")


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """The plugin's ``scopePolicy``; ``fallback_when``: while slots remain, or only if there is nothing."""

    enabled: bool = True
    default_scope: str = GLOBAL
    fallback_scopes: tuple[str, ...] = ()
    validation_mode: str = "strict"
    max_length: int = 64
    fallback_marker: bool = True
    skip_fallback_on_invalid: bool = True
    fallback_when: str = "insufficient"


class Normalised(NamedTuple):
    """A scope after validation: what it became, whether it was refused, and whether it changed."""

    scope: str
    invalid: bool
    normalized: bool


def find_tag(text: str) -> str | None:
    """Return the value of the first ``[ISO: …]``, else of the first ``[SCOPE: …]``, at the start of a line, else None.

    Lines in code fences and in an injected block are ignored, and so are tags in the middle of a sentence.
    """
    fenced = injected = False
    scope: str | None = None
    for line in re.split(r"\r?\n", text)[:MAX_LINES]:
        trimmed = line.strip(WHITESPACE)
        if trimmed.startswith(("```", "~~~")):
            fenced = not fenced
            continue
        if fenced:
            continue
        if "<relevant-memories>" in trimmed.lower():
            injected = True
            continue
        if "</relevant-memories>" in trimmed.lower():
            injected = False
            continue
        if injected or not trimmed:
            continue
        tag = _TAG.match(strip_decorations(trimmed))
        value = tag[2].strip(WHITESPACE) if tag else ""
        if tag and value:
            if tag[1].upper() == "ISO":
                return value
            scope = scope or value
    return scope


def strip_decorations(line: str) -> str:
    """Return a line without the quote marks, bullets, boxes and numbers at its start, up to six of them."""
    rest = line.strip(WHITESPACE)
    for _ in range(MAX_DECORATIONS):
        decoration = _DECORATION.match(rest)
        if not decoration:
            break
        rest = rest[decoration.end() :]
    return rest


def normalise(raw: str | None, policy: ScopePolicy) -> Normalised:
    """Validate a scope under a policy (E-31)."""
    trimmed = (raw or "").strip(WHITESPACE)
    if not policy.enabled:
        return Normalised(trimmed or GLOBAL, False, False)
    candidate = trimmed.lower()
    if not candidate:
        return Normalised(policy.default_scope or GLOBAL, False, False)
    if policy.validation_mode == "none":
        return Normalised(js_slice(candidate, policy.max_length), False, False)
    if policy.validation_mode == "normalize":
        scope = js_slice(scope_token(candidate) or "", policy.max_length)
        if not scope:
            return Normalised(policy.default_scope or GLOBAL, True, False)
        return Normalised(scope, False, scope != candidate)
    if len(candidate) <= policy.max_length and _STRICT.fullmatch(candidate):
        return Normalised(candidate, False, candidate != trimmed)
    return Normalised(policy.default_scope or GLOBAL, True, True)


def scope_token(raw: object) -> str | None:
    """Turn any text into a scope by replacing invalid characters (E-31); None for blank texts and other types.

    The result may be empty: "---" gives "".
    """
    text = raw.strip(WHITESPACE) if isinstance(raw, str) else ""
    if not text:
        return None
    hyphenated = _NO_SCOPE.sub("-", re.sub(f"{_SPACE}+", "-", text.lower()))
    return re.sub("-+", "-", hyphenated).strip("-./_:")


def scope_plan(primary: str, policy: ScopePolicy, *, allow_fallback: bool = True) -> Sequence[tuple[str, str]]:
    """Return the scopes to search in order, each with its origin: the primary one, then the allowed fallbacks."""
    plan = [(primary, "primary")]
    for scope in policy.fallback_scopes if policy.enabled and allow_fallback else ():
        if scope.strip(WHITESPACE) and all(scope != known for known, _ in plan):
            plan.append((scope, "fallback"))
    return plan


def barred(policy: ScopePolicy, *, invalid: bool) -> str | None:
    """Return why fallbacks are suppressed (an ``invalid`` scope, by policy), or None if they are allowed."""
    return "invalid_scope" if invalid and policy.skip_fallback_on_invalid else None


def resolve_scope(explicit: str | None, text: str, policy: ScopePolicy) -> tuple[str, Normalised]:
    """Return mode and scope of a call (E-30): given explicitly, else from a tag in the text, else the default.

    The mode is ``explicit``, ``inferred`` or ``global``, which means the default scope, whatever its name.
    """
    if explicit is not None and explicit.strip(WHITESPACE):
        return "explicit", normalise(explicit, policy)
    tag = find_tag(text)
    return ("inferred", normalise(tag, policy)) if tag else (GLOBAL, normalise(None, policy))


class ScopedSelection(NamedTuple):
    """The joined selection of all scopes, and the receipt of the fallback."""

    selection: Selection
    fallback: dict[str, Any]


def select_in_scopes(
    plan: Sequence[tuple[str | None, str]],
    limit: int,
    choose: Callable[[str | None, int], Selection],
    policy: ScopePolicy,
    barred: str | None = None,
) -> ScopedSelection:
    """Call ``choose(scope, remaining slots)`` scope by scope until the slots are filled.

    ``choose`` decides whether quotas hold in each scope or over all of them. ``barred`` is the reason why fallbacks are
    suppressed, if they are.
    """
    selection = Selection([], [], [])
    consulted: list[str] = []
    used: list[str] = []
    from_primary = 0
    for scope, origin in plan:
        is_barred = origin == "fallback" and policy.fallback_when == "empty" and selection.picked
        if len(selection.picked) >= limit or is_barred:
            break
        count = len(selection.picked)
        selection = joined(selection, choose(scope, max(1, limit - count)), "" if origin == "primary" else f"{scope}:")
        if origin == "primary":
            from_primary = len(selection.picked)
            continue
        consulted.append(str(scope))
        if len(selection.picked) > count:
            used.append(str(scope))
    contributed = max(0, len(selection.picked) - from_primary)
    return ScopedSelection(selection, fallback_receipt(policy, barred, consulted, used, contributed))


def fallback_receipt(
    policy: ScopePolicy,
    barred: str | None = None,
    consulted: Sequence[str] = (),
    used: Sequence[str] = (),
    contributed: int = 0,
) -> dict[str, Any]:
    """Return the receipt of the fallback: which scopes were consulted, and which of them contributed."""
    suppressed = "disabled" if not policy.enabled else barred if policy.fallback_scopes else "no_fallback_scopes"
    return {
        "eligible": suppressed is None,
        "consulted": bool(consulted),
        "consultedScopes": list(consulted),
        "usedScopes": list(used),
        "contributed": contributed,
        "suppressedReason": suppressed,
    }


def joined(selection: Selection, other: Selection, prefix: str) -> Selection:
    """Return a selection extended by that of another scope, whose tiers get a ``prefix``."""
    seen = {pick.candidate.id for pick in selection.picked}
    added: list[Picked] = [pick for pick in other.picked if pick.candidate.id not in seen]
    counts: list[TierCount] = [count._replace(tier=f"{prefix}{count.tier}") for count in other.tier_counts]
    quota: Quota | None = selection.quota
    if other.quota is not None:
        quota = other.quota._replace(wildcard_used=other.quota.wildcard_used + (quota.wildcard_used if quota else 0))
    return Selection(
        selection.picked + added, selection.tier_counts + counts, selection.rejected + other.rejected, quota
    )
