"""The states of a memory's life in a ledger, and the transitions between them (RT-1, RT-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.memory.ledger import ledger
from lab.memory.ledger.score import ACTIVE, SOFT_ARCHIVED, STATES, state_of
from lab.memory.ledger.times import stamp

CAPTURED, CATEGORIZED, _, CONSOLIDATED, STALE, _ = STATES
LEGAL = {
    CAPTURED: (CATEGORIZED,),
    CATEGORIZED: (ACTIVE,),
    ACTIVE: (CONSOLIDATED, STALE),
    CONSOLIDATED: (ACTIVE, STALE),
    STALE: (ACTIVE, SOFT_ARCHIVED),
    SOFT_ARCHIVED: (ACTIVE,),
}
KIND = "openclaw-mem.lifecycle.transition.v1"
# Entries of the history that are kept.
HISTORY = 20


class Step(NamedTuple):
    """A transition: the new state, why, by whom, and when (ISO 8601)."""

    to: str
    reason: str
    actor: str
    at: str


class Moved(NamedTuple):
    """What became of some observations: a receipt for each, and the ids that another program changed meanwhile."""

    receipts: list[dict[str, Any]]
    changed_meanwhile: list[int]


def lifecycle_of(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the lifecycle in a detail; empty if there is none."""
    found = detail.get("lifecycle")
    return dict(found) if isinstance(found, Mapping) else {}


def moved(detail: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Return a detail after a transition (RT-2). Its other fields, trust among them, stay.

    A transition to the state that a memory has is recorded, and changes nothing else. Raises :class:`UnusableInput` for
    one that is not allowed.
    """
    before = state_of(detail)
    changed = before != step.to
    if changed and step.to not in LEGAL[before]:
        allowed = ", ".join(LEGAL[before])
        raise UnusableInput(f"a memory that is {before} cannot become {step.to}; allowed: {allowed}")
    lifecycle = lifecycle_of(detail)
    kept = lifecycle.get("history")
    history = [entry for entry in kept if isinstance(entry, Mapping)] if isinstance(kept, list) else []
    entry = {"from": before, "to": step.to, "reason_code": step.reason, "actor": step.actor, "at": step.at}
    lifecycle |= {"state": step.to, "updated_at": step.at, "last_reason": step.reason}
    lifecycle["history"] = [*history, {**entry, "changed": changed}][-HISTORY:]
    if changed and step.to == SOFT_ARCHIVED:
        lifecycle |= {"archived_at": step.at, "archive_reason_code": step.reason}
    if changed and before == SOFT_ARCHIVED:
        # Without a new time of reference the next decay would archive the memory again.
        lifecycle["revived_at"] = step.at
        for name in ("archived_at", "archive_reason_code"):
            lifecycle.pop(name, None)
    return {**detail, "lifecycle": lifecycle}


def receipt_of(identity: int, before: str, step: Step) -> dict[str, Any]:
    """Return the receipt of a transition, as the sidecar writes it."""
    ref = f"obs:{identity}"
    return {
        "kind": KIND,
        "recordRef": ref,
        "observation_id": identity,
        "from": before,
        "to": step.to,
        "reason_code": step.reason,
        "actor": step.actor,
        "at": step.at,
        "changed": before != step.to,
        "evidence_refs": [ref],
    }


def move(
    path: Path,
    ids: Sequence[int],
    to: str,
    *,
    reason: str,
    actor: str,
    write: bool = False,
    now: datetime | None = None,
) -> Moved:
    """Change the state of observations, all in one transaction; without ``write``, return what would be done.

    Raises :class:`UnusableInput` if the ledger lacks one, if the detail of one is no JSON object, or if one may not
    become ``to``: then nothing is written.
    """
    if to not in STATES:
        raise UnusableInput(f"unknown state {to!r}; the states are {', '.join(STATES)}")
    for name, value in (("reason", reason), ("actor", actor)):
        if not value.strip():
            raise UnusableInput(f"a transition needs a {name}")
    step = Step(to, reason.strip(), actor.strip(), stamp(now or datetime.now(UTC)))
    with ledger.open_ledger(path, write=write) as connection:
        rows = ledger.get(connection, ids)
        if missing := sorted(set(ids) - {row.id for row in rows}):
            raise UnusableInput(f"{path}: has no observation {', '.join(map(str, missing[:5]))}")
        changes, receipts = [], []
        for row in rows:
            detail = ledger.parse_detail(row.detail_json)
            if detail is None:
                raise UnusableInput(f"{path}: the detail of observation {row.id} is no JSON object; mend it first")
            try:
                changes.append(ledger.Change(row.id, row.detail_json, moved(detail, step)))
            except UnusableInput as error:
                raise UnusableInput(f"{path}: observation {row.id}: {error}; nothing was written") from None
            receipts.append(receipt_of(row.id, state_of(detail), step))
        written = set(ledger.change_details(connection, changes)) if write else set(ids)
    return Moved(
        [one for one in receipts if one["observation_id"] in written],
        [row.id for row in rows if row.id not in written],
    )
