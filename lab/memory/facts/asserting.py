"""Assert, end and retract facts (TF-5, TF-7): check the input, and append it to the file of assertions.

Claims are read from JSON Lines in the form of the schema. Triples in a text are proposed for review and are never
written (TF-12).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import only_writer, read_json_lines
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.memory.facts import store
from lab.memory.facts.model import (
    ACTIVE,
    ENTITY,
    INVALIDATED,
    INVALIDATION,
    JSON,
    KINDS,
    LITERAL,
    NAMES,
    PREDICATES,
    RETRACTED,
    SCHEMA,
    SUPERSEDED,
    TIERS,
    Fact,
    Invalidation,
    Object,
    Record,
    Reference,
    Source,
    entity,
    fact_json,
    object_of,
    predicate_named,
    reference_of,
    source_of,
    text_or_none,
    utc,
)
from lab.memory.facts.sources import NO_LEDGER, QUARANTINED, UNSUPPORTED, Resolution, Sources, highest_tier, trouble
from lab.memory.facts.store import Assertions, require_own_view, write_view
from lab.memory.facts.view import View, holds, status_of
from lab.memory.ledger.ledger import stamp

# What to do about a source that does not resolve.
REMEDIES = {NO_LEDGER: "give --ledger", UNSUPPORTED: f"give obs:N, ep:ID, or a kind of {', '.join(KINDS)}"}
ASSERTED = "openclaw-mem.graph.fact.assert.v0"
PROPOSED = "openclaw-mem.graph.fact.extraction-proposal.v0"
MEASURED = "openclaw-mem.graph.fact.extraction-measure.v0"
MOST = 20
Triple = tuple[str, str, str]
_NAMES = "|".join(sorted(NAMES, key=len, reverse=True))
_TRIPLE = regex(rf"(?<![\w:])(entity:[\w.:/-]{{1,200}})\s+({_NAMES})\s+(.+)$")


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
    with only_writer(path.parent):
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
    fact = Fact(
        "",
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
    return replace(fact, id=fact.own_id)


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
    for other in view.rivals(fact):
        is_rival = other.id not in (fact.id, *fact.supersedes) and holds(other)
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
            # Those that would still hold if the fact did not exist.
            ended = [old for old in view.superseded(identity) if old.status == SUPERSEDED]
            restored.extend(old.id for old in ended if old.superseded_by == (identity,))
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


def _end_of(fact: Fact, time: str) -> str:
    """Return the time at which a fact is to end; raise :class:`UnusableInput` unless that is within its interval."""
    if fact.valid_to is not None and fact.valid_to <= time:
        raise UnusableInput(f"{fact.id} ended at {fact.valid_to} already; nothing changes")
    if time <= fact.valid_from:
        raise UnusableInput(f"{fact.id} begins at {fact.valid_from}; give a later --at, or --retract if it never held")
    return time


def claims_in(path: Path) -> list[Claim]:
    """Return the claims of a file, one a line: facts without an id, with a start and an assertion.

    Sources and assertion may be texts, ``obs:12``, or objects with ``kind`` and ``ref``. Raises :class:`UnusableInput`
    with file and line for a wrong shape.
    """
    return [_claim(row, f"{path}:{number}") for number, row in read_json_lines(path)]


def _claim(row: dict[str, Any], at: str) -> Claim:
    subject, value = row.get("subject"), row.get("object")
    label = subject.get("label") if isinstance(subject, dict) else None
    kind = field(value, "type", str, f"{at}: object") if isinstance(value, dict) else LITERAL
    given = value.get("value") if isinstance(value, dict) else value
    supersedes = row.get("supersedes")
    return Claim(
        field(subject, "ref", str, f"{at}: subject") if isinstance(subject, dict) else field(row, "subject", str, at),
        field(row, "predicate", str, at),
        _json(given, at) if kind == JSON else expect(given, str, f"{at}: object"),
        field(row, "valid_from", str, at),
        tuple(_source(one, at) for one in field(row, "source_refs", list, at)),
        _reference(row.get("assertion_ref"), at),
        kind,
        text_or_none(row, "valid_to", at),
        text_or_none(row, "confidence_tier", at) or TIERS[1],
        () if supersedes is None else _texts(supersedes, f"{at}: supersedes"),
        None if label is None else expect(label, str, f"{at}: subject: label"),
        at,
    )


def _json(given: Any, at: str) -> str:
    try:
        return json.dumps(given, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise UnusableInput(f"{at}: object: has a number that is too large, or none; give a finite one") from None
    except RecursionError:
        raise UnusableInput(f"{at}: object: is nested too deeply; give a flatter one") from None


def _texts(raw: Any, at: str) -> tuple[str, ...]:
    return tuple(expect(one, str, at) for one in expect(raw, list, at))


def _source(raw: Any, at: str) -> str:
    if isinstance(raw, dict):
        kind, ref = field(raw, "kind", str, at), field(raw, "ref", str, at)
        return ref if ref.startswith(("obs:", "ep:")) else Source(kind, ref, text_or_none(raw, "locator", at)).token
    return str(expect(raw, str, f"{at}: source_refs"))


def _reference(raw: Any, at: str) -> str:
    if isinstance(raw, dict):
        return Reference(field(raw, "kind", str, at), field(raw, "ref", str, at)).token
    if raw is None:
        raise UnusableInput(f"{at}: has no assertion_ref; name the receipt or note that records the review")
    return str(expect(raw, str, f"{at}: assertion_ref"))


def triples(text: str) -> list[Triple]:
    """Return the triples ``entity:X predicate value`` in a text, at most one a line; aliases become predicates."""
    found = []
    for line in text.splitlines():
        if match := _TRIPLE.search(line.strip()):
            subject, predicate, value = match.groups()
            # A full stop ends the sentence.
            if value := value.strip().rstrip(".").strip():
                found.append((subject, predicate_named(predicate), value))
    return found


def propose(text: str, sources: Sequence[str], *, most: int = MOST) -> dict[str, Any]:
    """Return proposals for review from a text, each with its sources. Raises :class:`UnusableInput` without a source.

    They have no interval and no id: a reviewer decides from when a fact holds, and asserts it.
    """
    named = list(map(source_of, sources))
    if not named:
        raise UnusableInput("missing_source_refs: a proposal needs the source of the text; give --source doc:PATH")
    proposals = [_proposal(triple, named) for triple in triples(text)[:most]]
    return {
        "kind": PROPOSED,
        "schema": SCHEMA,
        "writes_performed": False,
        "review_required": True,
        "proposal_count": len(proposals),
        "proposals": proposals,
    }


def _proposal(triple: Triple, sources: Iterable[Source]) -> dict[str, Any]:
    subject, predicate, value = triple
    kind = ENTITY if value.startswith("entity:") else LITERAL
    allowed = PREDICATES[predicate].objects
    return {
        "schema": SCHEMA,
        "subject": {"ref": subject, "label": subject.partition(":")[2]},
        "predicate": predicate,
        "object": {"type": kind if kind in allowed else allowed[0], "value": value},
        "valid_from": None,
        "valid_to": None,
        "status": "proposed",
        "confidence_tier": TIERS[1],
        "source_refs": [source._asdict() for source in sources],
        "writes_performed": False,
    }


def measure(corpus: Path, golden: Path, *, most: int = MOST) -> dict[str, Any]:
    """Compare the triples in a corpus (JSON Lines with ``text``) with a golden set of triples.

    Return the counts, precision and recall; 0 where nothing was proposed or expected. Raises :class:`UnusableInput`
    with file and line for a wrong shape.
    """
    proposed: set[Triple] = set()
    for number, row in read_json_lines(corpus):
        proposed.update(triples(field(row, "text", str, f"{corpus}:{number}"))[:most])
    expected = set()
    for number, row in read_json_lines(golden):
        at = f"{golden}:{number}"
        subject, predicate = (expect(row.get(name), str, f"{at}: {name}") for name in ("subject", "predicate"))
        try:
            expected.add((entity(subject), predicate_named(predicate), str(row.get("object", "")).strip()))
        except UnusableInput as error:
            raise UnusableInput(f"{at}: {error}") from None
    both = len(proposed & expected)
    return {
        "kind": MEASURED,
        "schema": SCHEMA,
        "writes_performed": False,
        "apply_allowed": False,
        "counts": {
            "golden": len(expected),
            "proposed": len(proposed),
            "truePositive": both,
            "falsePositive": len(proposed) - both,
            "falseNegative": len(expected) - both,
        },
        "precision": both / len(proposed) if proposed else 0.0,
        "recall": both / len(expected) if expected else 0.0,
    }
