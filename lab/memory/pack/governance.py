"""The candidates that a pack excludes at any budget: quarantined, past and superseded ones, with reasons (PK-3)."""

from __future__ import annotations

from collections.abc import Sequence

from lab.memory.pack.candidate import Candidate
from lab.memory.pack.settings import OFF, Settings
from lab.systems import supersession
from lab.systems.plans import is_past, is_plan

TRUSTED, UNKNOWN, UNTRUSTED, QUARANTINED = TRUSTS = ("trusted", "unknown", "untrusted", "quarantined")
# Reasons, as a trace names them. Those of trust are the sidecar's.
NO_TEXT, PAST = "missing_summary", "plan_past"
IS_SUPERSEDED, CYCLE = "superseded", "supersession_cycle_fail_open"
TRUST_REASONS = {
    QUARANTINED: "trust_quarantined_excluded",
    UNKNOWN: "trust_unknown_fail_open",
}
TRUST_ALLOWED = "trust_allowed"


def trust_reason(candidate: Candidate, settings: Settings) -> str | None:
    """Return the reason that the trust policy gives for a candidate; None if the policy is off."""
    if settings.trust_policy == OFF:
        return None
    return TRUST_REASONS.get(candidate.trust, TRUST_ALLOWED)


def exclusions(candidates: Sequence[Candidate], settings: Settings, now_ms: int) -> dict[str, str]:
    """Return, by ref, why candidates are excluded at any budget.

    A candidate that is excluded for its trust supersedes nothing. A past plan does, because the plan that it replaced
    is no longer planned. The sidecar's profile ignores plans and supersession here, because its search has already
    removed superseded records.
    """
    reasons: dict[str, str] = {}
    for one in candidates:
        if settings.trust_policy != OFF and one.trust == QUARANTINED:
            reasons[one.ref] = TRUST_REASONS[QUARANTINED]
        elif not one.text.strip():
            reasons[one.ref] = NO_TEXT
        elif not settings.is_upstream and is_plan(one.kind) and is_past(one.due_ms, now_ms):
            reasons[one.ref] = PAST
    if not settings.is_upstream:
        kept = [one for one in candidates if reasons.get(one.ref) in (None, PAST)]
        reasons = dict.fromkeys(superseded(kept)[0], IS_SUPERSEDED) | reasons
    return reasons


def superseded(candidates: Sequence[Candidate]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the refs that other candidates supersede, and those in a cycle, which stay."""
    return supersession.superseded({one.ref: one.supersedes for one in candidates})
