"""Which scope a prompt belongs to (E-30, E-31): found in a tag, checked, and widened by fallbacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.recordings.model import GLOBAL
from lab.utf16 import WHITESPACE, js_slice

# Lines of a text that are searched for a tag, and list decorations stripped from the front of one.
MAX_LINES, MAX_DECORATIONS = 200, 6
_SPACE = f"[{WHITESPACE}]"
_DECORATION = re.compile(
    rf"{_SPACE}*(?:>+|[-+*•‣▪◦·–—−・]|\[[ xX✓✔]?\]|\([0-9]{{1,3}}\)|[0-9]{{1,3}}[.)-]|[A-Za-z][.)-]){_SPACE}*"
)
_TAG = re.compile(rf"\[(ISO|SCOPE){_SPACE}*:{_SPACE}*([^\]]*)\]", re.IGNORECASE | re.ASCII)
_NO_SCOPE = re.compile("[^a-z0-9._:/-]")
_STRICT = re.compile(r"[a-z0-9][a-z0-9._:/-]*")


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """The plugin's ``scopePolicy``."""

    enabled: bool = True
    default_scope: str = GLOBAL
    fallback_scopes: tuple[str, ...] = ()
    validation_mode: str = "strict"
    max_length: int = 64
    fallback_marker: bool = True
    skip_fallback_on_invalid: bool = True


class Normalised(NamedTuple):
    """A scope after validation: what it became, whether it was refused, and whether it changed."""

    scope: str
    invalid: bool
    normalized: bool


def find_tag(text: str) -> str | None:
    """The value of the first ``[ISO: …]``, else of the first ``[SCOPE: …]``, at the start of a line; None without one.

    Lines in code fences and in an injected block are passed over, as are tags in the middle of a sentence.
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
    """A line without the quote marks, bullets, boxes and numbers at its start, up to six of them."""
    bare = line.strip(WHITESPACE)
    for _ in range(MAX_DECORATIONS):
        found = _DECORATION.match(bare)
        if not found:
            break
        bare = bare[found.end() :]
    return bare


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
    """A scope made of any text by replacing what it may not hold (E-31); None for what is blank or no text.

    What is left may be nothing at all: "---" gives the empty text.
    """
    text = raw.strip(WHITESPACE) if isinstance(raw, str) else ""
    if not text:
        return None
    hyphenated = _NO_SCOPE.sub("-", re.sub(f"{_SPACE}+", "-", text.lower()))
    return re.sub("-+", "-", hyphenated).strip("-./_:")


def scope_plan(primary: str, policy: ScopePolicy, *, allow_fallback: bool = True) -> Sequence[tuple[str, str]]:
    """The scopes to search in order, each with its origin: the primary one, then fallbacks that are allowed."""
    plan = [(primary, "primary")]
    for scope in policy.fallback_scopes if policy.enabled and allow_fallback else ():
        if scope.strip(WHITESPACE) and all(scope != known for known, _ in plan):
            plan.append((scope, "fallback"))
    return plan


def barred(policy: ScopePolicy, *, invalid: bool) -> str | None:
    """Why fallbacks are not allowed: an ``invalid`` scope was asked for, and the policy does not let it fall back."""
    return "invalid_scope" if invalid and policy.skip_fallback_on_invalid else None


def resolve_scope(explicit: str | None, text: str, policy: ScopePolicy) -> tuple[str, Normalised]:
    """The scope of a call (E-30): given explicitly, else tagged in the text, else the default.

    The mode is ``explicit``, ``inferred`` or ``global``; the last says that the default was used, whatever its name.
    """
    if explicit is not None and explicit.strip(WHITESPACE):
        return "explicit", normalise(explicit, policy)
    tag = find_tag(text)
    return ("inferred", normalise(tag, policy)) if tag else (GLOBAL, normalise(None, policy))
