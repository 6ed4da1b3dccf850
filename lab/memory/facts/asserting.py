"""Assert, end and retract facts (TF-5, TF-7): check the input, and append it to the file of assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.memory.facts import store
from lab.memory.facts.model import (
    ACTIVE,
    INVALIDATED,
    INVALIDATION,
    KINDS,
    RETRACTED,
    SCHEMA,
    SUPERSEDED,
    TIERS,
    Fact,
    Invalidation,
    Object,
    Record,
    Source,
    entity,
    fact_id,
    fact_json,
    object_of,
    reference_of,
    source_of,
    utc,
)
from lab.memory.facts.predicates import LITERAL, PREDICATES, predicate_named
from lab.memory.facts.rebuild import require_own_view, write_view
from lab.memory.facts.sources import NO_LEDGER, QUARANTINED, UNSUPPORTED, Resolution, Sources, highest_tier, trouble
from lab.memory.facts.store import Assertions
from lab.memory.facts.view import View, holds, status_of
from lab.memory.ledger.times import stamp

# What to do about a source that does not resolve.
REMEDIES = {NO_LEDGER: "give --ledger", UNSUPPORTED: f"give obs:N, ep:ID, or a kind of {', '.join(KINDS)}"}
ASSERTED = "openclaw-mem.graph.fact.assert.v0"


class Claim(NamedTuple):
    """What somebody asserts, as given: texts that are not checked yet. ``value`` is JSON text for type ``json``.

    ``at`` is the place that messages name, such as a file and a line; blank for none.
    """

    subject: str
    predicate: str
    value: str
    valid_from: str
    sources: Sequence[str]
    assertion: str
    type: str = LITERAL
    valid_to: str | None = None
    confidence: str = TIERS[1]
    supersedes: Sequence[str] = ()
    label: str | None = None
    at: str = ""


class Asserted(NamedTuple):
    """The new facts of some claims, those asserted before, the renewed ones of these, and the resolved sources."""

    facts: list[Fact]
    before: list[str]
    renewed: list[str]
    retracted: list[str]
    resolutions: list[Resolution]
    written: bool

    def receipt(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "kind": ASSERTED,
            "schema": SCHEMA,
            "writes_performed": self.written,
            "asserted_before": self.before,
            "renewed": self.renewed,
            "retracted_before": self.retracted,
            "facts": [fact_json(fact) for fact in self.facts],
            "source_resolutions": [
                {"source": one.source._asdict(), "resolved": one.is_resolved, "reason": one.reason}
                | {"digest": one.digest}
                for one in self.resolutions
            ],
        }


def assert_facts(
    path: Path, claims: Sequence[Claim], sources: Sources, *, now: datetime, by: str = "operator", write: bool = False
) -> Asserted:
    """Check all claims in their order, then append their facts; one with an id that is there is not appended again.

    If its sources have changed since, it is renewed: appended with their digests as they are now. One that is
    retracted stays so. If one claim is refused, no fact is written. After a kill, the same call appends the rest.
    Raises :class:`UnusableInput` for what cannot be asserted, with the place of the claim; if it has none, with its
    number if there are several.
    """
    new: list[Fact] = []
    before: list[str] = []
    renewed: list[Fact] = []
    retracted: list[str] = []

    def check(view: View) -> Sequence[Record]:
        for number, claim in enumerate(claims, 1):
            try:
                fact = fact_of(claim, sources, stamp(now), by)
                if (known := view.get(fact.id)) is None:
                    _check(fact, view, sources)
                    view.add(fact)
                    new.append(fact)
                    continue
                before.append(fact.id)
                if known.status == RETRACTED:
                    retracted.append(fact.id)
                elif trouble(known.digests, sources.resolve(known.sources)):
                    _check_rivals(known, view, sources, renewed=True)
                    known = view.as_asserted(fact.id)
                    renewed.append(replace(known, digests=fact.digests, created_at=fact.created_at, asserted_by=by))
                    view.add(renewed[-1])
            except UnusableInput as error:
                place = claim.at or (f"claim {number}" if len(claims) > 1 else "")
                raise UnusableInput(f"{place}: {error}" if place else str(error)) from None
        return [*new, *renewed]

    # All claims at once, so that the ledger is opened once. What is no source is refused with its claim.
    named: list[Source] = []
    for text in (text for claim in claims for text in claim.sources):
        with suppress(UnusableInput):
            named.append(source_of(text))
    sources.resolve(named)
    _change(path, check, write)
    resolutions = sources.resolve(source for fact in (*new, *renewed) for source in fact.sources)
    return Asserted(new, before, [fact.id for fact in renewed], retracted, resolutions, write and bool(new or renewed))


def _change(path: Path, check: Callable[[View], Sequence[Record]], write: bool) -> None:
    """Let ``check`` make records from the view; with ``write``, append them and update the file of the view.

    The file is locked while its content is checked and extended. Nothing is written if another file has the name of the
    view.
    """
    if not write:
        check(View(_read(path).records))
        return
    with store.locked(path):
        assertions = _read(path)
        if new := check(View(assertions.records)):
            assertions = store.append(path, assertions, new)
        if assertions.records:
            write_view(path, assertions)


def _read(path: Path) -> Assertions:
    assertions = store.read(path, new=True)
    require_own_view(path)
    return assertions


def fact_of(claim: Claim, sources: Sources, now: str, by: str) -> Fact:
    """Return the fact of a claim; raise :class:`UnusableInput` if it or one of its sources is invalid.

    A valid fact has a known predicate, an object of a type that the predicate takes, an interval that does not end
    before it begins, sources that all exist and are not quarantined, and at most the confidence that these allow.
    """
    predicate = predicate_named(claim.predicate)
    if claim.type not in PREDICATES[predicate].objects:
        takes = " or ".join(PREDICATES[predicate].objects)
        raise UnusableInput(f"object_type_mismatch: {predicate} takes an object of type {takes}, not {claim.type}")
    value = object_of(claim.type, claim.value)
    begins = utc(claim.valid_from, "valid_from")
    ends = None if claim.valid_to is None else utc(claim.valid_to, "valid_to")
    if ends is not None and ends < begins:
        raise UnusableInput(f"interval_invalid: valid_to {ends} is before valid_from {begins}")
    if claim.confidence not in TIERS:
        raise UnusableInput(f"confidence {claim.confidence!r}: expected {', '.join(TIERS)}")
    named = tuple(dict.fromkeys(map(source_of, claim.sources)))
    resolutions = _sound(named, sources)
    if TIERS.index(claim.confidence) > TIERS.index(highest := highest_tier(resolutions)):
        raise UnusableInput(
            f"confidence_exceeds_source_cap: {claim.confidence} needs more evidence; these sources allow {highest}"
        )
    subject, assertion = entity(claim.subject), reference_of(claim.assertion)
    return Fact(
        fact_id(subject, predicate, value, begins, ends, named, assertion),
        subject,
        (claim.label or "").strip() or subject,
        predicate,
        Object(*value),
        begins,
        ends,
        ACTIVE,
        claim.confidence,
        named,
        assertion,
        tuple(sorted({identity.strip() for identity in claim.supersedes})),
        (),
        now,
        by,
        {one.source.token: one.digest for one in resolutions if one.digest is not None},
    )


def _sound(named: Sequence[Source], sources: Sources) -> list[Resolution]:
    """Return the resolutions of sources; raise :class:`UnusableInput` if one does not exist or is quarantined."""
    if not named:
        raise UnusableInput("missing_source_refs: a fact needs evidence; give --source obs:N or --source doc:PATH")
    resolutions = sources.resolve(named)
    for one in resolutions:
        if not one.is_resolved:
            remedy = REMEDIES.get(one.reason, "check --ledger and --root")
            raise UnusableInput(f"dangling_source_ref: {one.source.token} does not resolve ({one.reason}); {remedy}")
        if one.reason == QUARANTINED:
            raise UnusableInput(
                f"quarantined_source: {one.source.token} is quarantined and no evidence; review it, or give another"
            )
    return resolutions


def _check(fact: Fact, view: View, sources: Sources) -> None:
    """Raise :class:`UnusableInput` if a fact supersedes one that it may not, or has a rival within its interval."""
    if missing := [identity for identity in fact.supersedes if view.get(identity) is None]:
        raise UnusableInput(f"unresolved_supersedes: there is no fact {missing[0]}; see lab memory facts timeline")
    for old in view.foreign(fact):
        raise UnusableInput(
            f"foreign_supersedes: {old.id} says {old.subject} {old.predicate}, not {fact.subject} {fact.predicate}; "
            "end it with lab memory facts invalidate"
        )
    _check_rivals(fact, view, sources)


def _check_rivals(fact: Fact, view: View, sources: Sources, *, renewed: bool = False) -> None:
    """Raise :class:`UnusableInput` if another value holds within the interval of a fact that is asserted or renewed."""
    if not PREDICATES[fact.predicate].is_single:
        return
    for other in view.of(fact.subject, fact.predicate):
        is_rival = other.id not in (fact.id, *fact.supersedes) and holds(other) and fact.overlaps(other)
        if is_rival and (other.status != ACTIVE or status_of(other, sources) == ACTIVE):
            until = f"until {other.valid_to}" if other.valid_to else "without an end"
            # Supersession is part of a fact, so a fact that is in the file cannot get it later.
            remedy = f"the stale {fact.id} is not renewed; assert a fact with a later --from and" if renewed else "add"
            raise UnusableInput(
                f"single_value_interval_conflict: {fact.subject} has one {fact.predicate} at a time, and {other.id} "
                f"holds from {other.valid_from} {until}; {remedy} --supersedes {other.id}"
                + ("" if renewed else ", or end it with lab memory facts invalidate")
            )


def invalidate(
    path: Path,
    identity: str,
    sources: Sources,
    *,
    given: Sequence[str],
    assertion: str,
    at: str | None = None,
    retract: bool = False,
    now: datetime,
    by: str = "operator",
    write: bool = False,
) -> dict[str, Any]:
    """End a fact ``at`` a time (None: now), or with ``retract`` say that it never held; return the receipt.

    The facts that a retracted one superseded hold again until something else ends them: ``restored`` names those that
    no fact supersedes any more. Raises :class:`UnusableInput` for an unknown fact, one that is retracted or has ended
    by then, a time that is not after its beginning, and invalid sources.
    """
    done: list[Invalidation] = []
    restored: list[str] = []

    def check(view: View) -> Sequence[Record]:
        fact = view.get(identity)
        if fact is None:
            raise UnusableInput(f"there is no fact {identity}; see lab memory facts timeline")
        if fact.status == RETRACTED:
            raise UnusableInput(f"{identity} is retracted already")
        named = tuple(dict.fromkeys(map(source_of, given)))
        _sound(named, sources)
        time = fact.valid_from if retract else _end_of(fact, utc(at, "--at") if at else stamp(now))
        status = RETRACTED if retract else INVALIDATED
        if retract and not fact.superseded_by:
            restored.extend(old.id for old in view.superseded(identity) if _is_ended_by(old, identity))
        done.append(Invalidation(identity, status, time, named, reference_of(assertion), stamp(now), by))
        return done

    _change(path, check, write)
    record = done[0]
    return {
        "kind": INVALIDATION,
        "writes_performed": write,
        "fact_id": record.fact,
        "status": record.status,
        "at": record.at,
        "restored": restored,
        "assertion_ref": record.assertion._asdict(),
        "source_refs": [source._asdict() for source in record.sources],
    }


def _is_ended_by(fact: Fact, identity: str) -> bool:
    """Return whether a fact would still hold if another one did not exist."""
    return fact.status == SUPERSEDED and fact.superseded_by == (identity,)


def _end_of(fact: Fact, time: str) -> str:
    """Return the time at which a fact is to end; raise :class:`UnusableInput` unless that is within its interval."""
    if fact.valid_to is not None and fact.valid_to <= time:
        raise UnusableInput(f"{fact.id} ended at {fact.valid_to} already; nothing changes")
    if time <= fact.valid_from:
        raise UnusableInput(f"{fact.id} begins at {fact.valid_from}; give a later --at, or --retract if it never held")
    return time
