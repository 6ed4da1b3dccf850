"""Fixtures that build recall receipts as the engine writes them, and log lines that contain them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Final, LaneHit, lifecycle_receipt
from lab.systems.openclaw.select.outcome import Quota, TierCount

LABELS = {"m": "must_remember", "n": "nice_to_have", "u": "unknown"}
TIERS = {"m": "must", "n": "nice", "u": "unknown"}
NO_FALLBACK: dict[str, Any] = {
    "eligible": False,
    "consulted": False,
    "consultedScopes": [],
    "usedScopes": [],
    "contributed": 0,
    "suppressedReason": "no_fallback_scopes",
}


def receipt_of(
    ids: Sequence[str],
    *,
    candidates: tuple[int, int, int] = (3, 3, 3),
    quota: tuple[int, int, int] | None = (2, 2, 1),
    scope: str = "shop",
    homes: dict[str, str] | None = None,
    fallback: dict[str, Any] | None = None,
    dropped: int = 0,
    vectors: int = 3,
) -> dict[str, Any]:
    """Return a sound receipt of a recall that selected these ids; the first letter of an id is its tier.

    The first ``vectors`` of them are hits of the vector lane.
    """
    counts = [
        TierCount(TIERS[letter], (LABELS[letter],), size, sum(identifier[0] == letter for identifier in ids))
        for letter, size in zip("mnu", candidates, strict=True)
    ]
    held = None
    if quota is not None:
        must, nice, unknown = quota
        kept = min(nice, len(ids), candidates[1])
        most = min(must, max(0, len(ids) - kept), candidates[0])
        rest = min(unknown, max(0, len(ids) - kept - most), candidates[2])
        held = Quota(must, nice, unknown, len(ids) - kept - most - rest)
    budget = {
        "enabled": True,
        "maxChars": 1800,
        "minRecentSlots": 1,
        "overflowAction": "truncate_oldest",
        "beforeChars": 900 + 100 * dropped,
        "afterChars": 900,
        "droppedCount": dropped,
        "droppedIds": list(ids[:dropped]),
        "truncatedChars": 0,
        "truncated": dropped > 0,
    }
    made = lifecycle_receipt(
        ReceiptSettings(True, "high", 6),
        scope=scope,
        scope_mode="inferred",
        mode="tier_first_v1" if quota is None else "tier_quota_v1",
        rejected=["budget_cap"],
        quota=held,
        tier_counts=counts,
        fts=[LaneHit(identifier, 1.0, 0.0) for identifier in ids[:2]],
        vec=[LaneHit(identifier, 0.5, 1.0) for identifier in ids[:vectors]],
        final=[Final(identifier, LABELS[identifier[0]], (homes or {}).get(identifier, scope)) for identifier in ids],
        injected=len(ids) - dropped,
        parts={"fallback": fallback or NO_FALLBACK, "budget": budget},
    )
    # A deep copy, as a parser would return it.
    return copy.deepcopy(made)


@pytest.fixture(scope="session")
def receipt() -> Callable[..., dict[str, Any]]:
    """Return :func:`receipt_of`."""
    return receipt_of


@pytest.fixture(scope="session")
def skip() -> dict[str, Any]:
    """The receipt of a trivial prompt."""
    return lifecycle_receipt(
        ReceiptSettings(True, "high", 6),
        scope="global",
        scope_mode="global",
        skip_reason="trivial_prompt",
        rejected=["trivial_prompt"],
    )


@pytest.fixture(scope="session")
def line() -> Callable[..., str]:
    """Return a log line: a time and other text, then the marker and its JSON."""

    def write(value: Any, marker: str = "autoRecall.receipt", at: int | None = None, session: str | None = None) -> str:
        head = "" if at is None else f"2026-03-01T09:{at // 60:02}:{at % 60:02}.000Z "
        session_part = "" if session is None else f"session={session} "
        return f"{head}[plugins] {session_part}openclaw-mem-engine:{marker} {json.dumps(value, separators=(',', ':'))}"

    return write
