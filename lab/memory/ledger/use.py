"""Move observations between the states of a memory's life (RT-1, RT-2), record uses, and archive what is unused.

Uses are recorded (RT-3), and memories that were not used for long are archived softly (RT-4, RT-5).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import label_of
from lab.memory.ledger.ledger import moment, stamp
from lab.memory.ledger.search import ACTIVE, SOFT_ARCHIVED, STATES, state_of, used_count
from lab.memory.ledger.writeback import TRUSTS, trust_of
from lab.recordings.model import LABELS, MUST
from lab.systems.sidecar import DURABLE, PRIORITIES

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
USED, DECAY = "openclaw-mem.pack.lifecycle-write.v1", "recall-lab.ledger.decay.v1"
# References that one pack may refresh.
MOST_REFS = 64
DAYS = {"P1": 90, "P2": 30}
REASON = "use_decay"
ACTOR = "lab memory ledger decay"
BATCH = 2000
DAY = timedelta(days=1)


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


def use(
    path: Path,
    refs: Sequence[str],
    *,
    included: bool = True,
    write: bool = False,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Record that observations were part of a final context, or with ``included`` False that a search found them.

    ``refs`` are ``obs:ID``; only the first 64 different ones count, and others than observations are skipped. All rows
    change in one transaction. Return the receipt of the sidecar; its status is updated, dry_run or
    no_observation_refs.
    """
    at = stamp(now or datetime.now(UTC))
    kept = list(dict.fromkeys(ref.strip() for ref in refs if ref.strip()))[:MOST_REFS]
    ids = {ref: int(ref[4:]) for ref in kept if ref.startswith("obs:") and ref[4:].isdecimal() and int(ref[4:]) > 0}
    before: dict[str, int] = {}
    missing: list[str] = []
    status = "updated" if write else "dry_run"
    if not ids:
        status = "no_observation_refs"
    else:
        with ledger.open_ledger(path, write=write) as connection:
            rows = {row.id: row for row in ledger.get(connection, ids.values())}
            missing = [ref for ref, identity in ids.items() if identity not in rows]
            changes = {}
            for ref, identity in ids.items():
                row = rows.get(identity)
                detail = ledger.parse_detail(row.detail_json) if row else None
                if row is not None and detail is not None:
                    before[ref] = used_count(detail)
                    changes[ref] = ledger.Change(row.id, row.detail_json, _used(detail, at, included))
            if write:
                written = set(ledger.change_details(connection, changes.values()))
                before = {ref: count for ref, count in before.items() if ids[ref] in written}
    canonical = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return {
        "kind": USED,
        "mode": "selected_pack_records_only" if included else "retrieved_records",
        "status": status,
        "ts": at,
        "selection": {
            "pack_selected_refs": kept,
            "refreshed_record_refs": list(before),
            "skipped_record_refs": [ref for ref in kept if ref not in ids],
            "missing_record_refs": missing,
            "selection_signature": hashlib.sha256(canonical.encode()).hexdigest(),
        },
        "mutation": {
            "memory_mutation": "detail_json.lifecycle_refresh" if before and write else "none",
            "writes_observations": len(before) if write else 0,
            "auto_archive_applied": 0,
            "hard_delete_applied": 0,
        },
        "lifecycle": {
            "last_used_at" if included else "last_retrieved_at": at,
            "used_count_before": before,
            "used_count_after": {ref: count + included for ref, count in before.items()},
            "archived_at_preserved": True,
        },
        "storage": {"field": "observations.detail_json.lifecycle", "error_code": None},
    }


def _used(detail: Mapping[str, Any], at: str, included: bool) -> dict[str, Any]:
    """Return a detail after a use; state, trust and a later time stay (seed 003: use does not promote trust)."""
    lifecycle = lifecycle_of(detail)
    name = "last_used_at" if included else "last_retrieved_at"
    before = moment(str(lifecycle.get(name) or ""))
    if before is None or stamp(before) < at:
        lifecycle[name] = at
    if included:
        lifecycle["used_count"] = used_count(detail) + 1
    return {**detail, "lifecycle": lifecycle}


def priority_of(kind: str | None, detail: Mapping[str, Any], *, upstream: bool = False) -> str:
    """Return P0, P1 or P2 (RT-4): the one that the lifecycle names; else P0 for must_remember, P1 for durable kinds.

    In profile ``upstream`` only a name makes a memory P0.
    """
    named = str(lifecycle_of(detail).get("priority") or "").strip().upper()
    if named in PRIORITIES:
        return named
    if not upstream and label_of(detail) == MUST:
        return "P0"
    return "P1" if (kind or "note").strip().lower() in DURABLE else "P2"


class Unused(NamedTuple):
    """An observation that was not used for longer than its priority permits; ``days`` are whole days."""

    row: ledger.Observation
    detail: dict[str, Any]
    priority: str
    days: int
    last_used_at: str | None


@dataclass(slots=True)
class Decayed:
    """What a decay found, and in a run that writes, archived."""

    days: Mapping[str, int]
    at: str
    write: bool
    upstream: bool
    protected: int = 0
    without_time: int = 0
    unreadable: int = 0
    changed_meanwhile: int = 0
    unused: list[Unused] = field(default_factory=list)

    def receipt(self) -> dict[str, Any]:
        """Return the aggregate summary (seed 003): counts by priority, trust, importance and reason. No text."""
        by = {
            "priority": (PRIORITIES[1:], Counter(one.priority for one in self.unused)),
            "trust": ((*TRUSTS, "unknown"), Counter(trust_of(one.detail) or "unknown" for one in self.unused)),
            "importance": (LABELS, Counter(label_of(one.detail) for one in self.unused)),
        }
        return {
            "kind": DECAY,
            "profile": "upstream" if self.upstream else "seed",
            "written": self.write,
            "at": self.at,
            "thresholds": dict(self.days),
            "protected_p0": self.protected,
            "count": len(self.unused),
            **{f"by_{name}": {key: counts[key] for key in keys} for name, (keys, counts) in by.items()},
            "by_reason": {REASON: len(self.unused)},
            "without_time": self.without_time,
            "unreadable": self.unreadable,
            "changed_meanwhile": self.changed_meanwhile,
        }


def decay(
    path: Path,
    *,
    days: Mapping[str, int] | None = None,
    limit: int | None = None,
    scope: str | None = None,
    upstream: bool = False,
    write: bool = False,
    now: datetime | None = None,
    announce: Callable[[int], None] | None = None,
) -> Decayed:
    """Find observations that were not used for long, and with ``write`` soft-archive them in batches (RT-5).

    ``days`` are the limits of P1 and P2, ``limit`` the number of newest observations to look at (None: all). Nothing is
    deleted. A run that was killed is finished by the same command. Raises :class:`UnusableInput` for ``write`` in
    profile ``upstream``, which only recommends.
    """
    if write and upstream:
        raise UnusableInput("the sidecar only recommends what to archive; use profile seed to archive it")
    reference = (now or datetime.now(UTC)).astimezone(UTC)
    done = Decayed({**DAYS, **(days or {})}, stamp(reference), write, upstream)
    if bad := [f"{name} {value}" for name, value in done.days.items() if value < 1]:
        raise UnusableInput(f"days {', '.join(bad)}: a memory must be kept for at least 1 day")
    seen = 0
    with ledger.open_ledger(path, write=write) as connection:
        after = 0
        if limit is not None:
            newest = ledger.newest(connection, limit)
            after = newest[-1].id - 1 if newest else 0
        observations = ledger.observations(connection, after=after)
        while rows := list(islice(observations, BATCH)):
            found = [one for row in rows if (one := _unused(row, reference, scope, done))]
            if write and found:
                written = set(ledger.change_details(connection, [_archived(one, done.at) for one in found]))
                done.changed_meanwhile += len(found) - len(written)
                found = [one for one in found if one.row.id in written]
            done.unused += found
            seen += len(rows)
            if announce:
                announce(seen)
    done.unused.sort(key=lambda one: (-one.days, one.row.id))
    return done


def _unused(row: ledger.Observation, now: datetime, scope: str | None, done: Decayed) -> Unused | None:
    detail = ledger.parse_detail(row.detail_json)
    if detail is None:
        done.unreadable += 1
        return None
    if scope is not None and str(detail.get("scope") or "").strip() != scope:
        return None
    if state_of(detail) not in (ACTIVE, CONSOLIDATED, STALE):
        return None
    priority = priority_of(row.kind, detail, upstream=done.upstream)
    if priority == "P0":
        done.protected += 1
        return None
    lifecycle = lifecycle_of(detail)
    used = moment(str(lifecycle.get("last_used_at") or ""))
    reference = used or moment(row.ts)
    revived = None if done.upstream else moment(str(lifecycle.get("revived_at") or ""))
    if revived is not None:
        reference = max(reference, revived) if reference else revived
    if reference is None:
        done.without_time += 1
        return None
    days = max(0, (now - reference) // DAY)
    if days < done.days[priority]:
        return None
    return Unused(row, detail, priority, days, stamp(used) if used else None)


def _archived(one: Unused, at: str) -> ledger.Change:
    """Return the change that soft-archives a memory, through the state stale."""
    detail: dict[str, Any] = one.detail
    for state in (STALE, SOFT_ARCHIVED):
        if state_of(detail) != state:
            detail = moved(detail, Step(state, REASON, ACTOR, at))
    return ledger.Change(one.row.id, one.row.detail_json, detail)
