"""A temporal fact (TF-1): subject, predicate and object, an interval, its sources, and an id made from all of these.

The predicates are controlled (TF-2): how many values each may have at a time, and of which types.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import refuse_constant
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.memory.ledger.ledger import stamp

LITERAL, ENTITY, JSON = "literal", "entity_ref", "json"
SCHEMA = "openclaw-mem.graph.fact.v0"
INVALIDATION = "recall-lab.facts.invalidation.v0"
ACTIVE, SUPERSEDED, INVALIDATED, RETRACTED = "active", "superseded", "invalidated", "retracted"
STATUSES = (ACTIVE, SUPERSEDED, INVALIDATED, RETRACTED)
# Confidence, from the lowest.
TIERS = ("low", "source_capped", "corroborated", "operator_asserted")
# Levels of lists and objects in an object. A record adds some, and so does what prints it; Python reads about 970.
DEEPEST = 100
KINDS = ("receipt", "doc", "memory", "daily_log", "episodic")
_DATE = regex(r"\d{4}-\d{2}-\d{2}")
# Categories of Unicode: control characters, and the separators of lines and paragraphs.
_CONTROL = ("Cc", "Zl", "Zp")
_NOT_IN_SLUG = regex(r"[^\w.:/-]+")


class Predicate(NamedTuple):
    """A predicate: whether a subject has one value at a time, the types of its objects, and its other names."""

    is_single: bool
    objects: tuple[str, ...]
    aliases: tuple[str, ...]


PREDICATES = {
    "configured_as": Predicate(True, (LITERAL, JSON), ("config", "configuration")),
    "decision": Predicate(False, (LITERAL, JSON), ("decides",)),
    "depends_on": Predicate(False, (ENTITY, LITERAL), ("requires", "depends")),
    "owns": Predicate(False, (ENTITY, LITERAL), ("owner_of",)),
    "replaces": Predicate(False, (ENTITY, LITERAL), ("supersedes",)),
    "retired_by": Predicate(True, (ENTITY, LITERAL), ("deprecated_by",)),
    "source_of_truth": Predicate(True, (LITERAL, ENTITY), ("truth_owner", "canonical_source")),
    "status": Predicate(True, (LITERAL,), ("state",)),
    "uses": Predicate(False, (ENTITY, LITERAL), ("runs_on", "uses_tool")),
}


NAMES = {name: name for name in PREDICATES} | {
    alias: name for name, predicate in PREDICATES.items() for alias in predicate.aliases
}


def predicate_named(text: str) -> str:
    """Return the name of a predicate, given its name or an alias; case, blanks and hyphens do not matter.

    Raises :class:`UnusableInput`, with the known names and the nearest of them, for an unknown one.
    """
    name = "_".join(text.lower().replace("-", " ").split())
    if name in NAMES:
        return NAMES[name]
    near = difflib.get_close_matches(name, NAMES, 1, 0.5)
    hint = f" did you mean {near[0]}?" if near else ""
    raise UnusableInput(f"unknown predicate {text.strip()!r};{hint} known: {', '.join(PREDICATES)}")


class Source(NamedTuple):
    """Evidence: an observation (kind ``receipt``, ref ``obs:N``), an episode (``ep:ID``), or a file."""

    kind: str
    ref: str
    locator: str | None = None

    @property
    def token(self) -> str:
        """The source in one word: ``kind:ref#locator``."""
        return f"{self.kind}:{self.ref}" + (f"#{self.locator}" if self.locator else "")

    @property
    def is_in_ledger(self) -> bool:
        """Whether the source is a row of a ledger or an episode in its file."""
        return self.ref.startswith(("obs:", "ep:"))


class Reference(NamedTuple):
    """The act of asserting: who or what has the record of it."""

    kind: str
    ref: str

    @property
    def token(self) -> str:
        """The reference in one word: ``kind:ref``."""
        return f"{self.kind}:{self.ref}"


class Object(NamedTuple):
    """The value of a fact: a text (``literal``), an entity (``entity_ref``) or any JSON value (``json``)."""

    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as asserted or, in the view, with the facts that superseded it.

    Times are ISO 8601 in UTC with whole seconds, so that texts sort by time. The interval is half-open, and
    ``valid_to`` None means no end. ``digests`` are those of the sources when the fact was asserted, by token.
    """

    id: str
    subject: str
    label: str
    predicate: str
    object: Object
    valid_from: str
    valid_to: str | None
    status: str
    confidence: str
    sources: tuple[Source, ...]
    assertion: Reference
    supersedes: tuple[str, ...]
    superseded_by: tuple[str, ...]
    created_at: str
    asserted_by: str
    digests: Mapping[str, str]

    def covers(self, time: str) -> bool:
        """Return whether a time is in the interval."""
        return self.valid_from <= time and (self.valid_to is None or time < self.valid_to)

    def overlaps(self, other: Fact) -> bool:
        """Return whether two intervals share a second; an empty one shares none."""
        begins = max(self.valid_from, other.valid_from)
        return self.covers(begins) and other.covers(begins)

    @property
    def needs_ledger(self) -> bool:
        """Whether a source is in a ledger."""
        return any(source.is_in_ledger for source in self.sources)

    @property
    def own_id(self) -> str:
        """``fact_`` and 20 hex digits of the sha256 over canonical JSON of the content (TF-1)."""
        content = {
            "schema": SCHEMA,
            "subject_ref": self.subject,
            "predicate": self.predicate,
            "object": self.object._asdict(),
            "valid_from": self.valid_from,
            "valid_to": self.valid_to,
            "source_refs": sorted(source.token for source in self.sources),
            "assertion_ref": self.assertion.token,
        }
        text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return f"fact_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


class Invalidation(NamedTuple):
    """The act of ending a fact (``invalidated``), or of saying that it never held (``retracted``)."""

    fact: str
    status: str
    at: str
    sources: tuple[Source, ...]
    assertion: Reference
    created_at: str
    asserted_by: str


Record = Fact | Invalidation


def entity(text: str) -> str:
    """Return the reference of an entity: a name without a colon becomes ``entity:`` and the name in lower case.

    Letters of any script stay. Raises :class:`UnusableInput` for a blank name, and for a reference with a control
    character.
    """
    text = text.strip()
    if not text:
        raise UnusableInput("the name of an entity is blank")
    if ":" in text:
        return _one_line(text, "the reference of an entity")
    slug = _NOT_IN_SLUG.sub("-", unicodedata.normalize("NFKC", text).lower()).strip("-")
    if not slug:
        raise UnusableInput(f"the name of an entity, {text!r}, has no letter or digit")
    return f"entity:{slug}"


def _one_line(text: str, what: str) -> str:
    """Return the text; raise :class:`UnusableInput` if it has a control character, which could forge a line."""
    if any(unicodedata.category(sign) in _CONTROL for sign in text):
        raise UnusableInput(f"{what}, {text!r}, has a line break or another control character; leave it out")
    return text


def utc(text: str, name: str) -> str:
    """Return a time as facts have it (TF-3); a date alone is its midnight in UTC.

    Raises :class:`UnusableInput`, which calls the time ``name``, for a time of day without a zone and for anything else
    than ISO 8601.
    """
    text = text.strip()
    try:
        time = datetime.fromisoformat(f"{text}T00:00:00+00:00" if _DATE.fullmatch(text) else text)
        if time.tzinfo is None:
            raise UnusableInput(f"{name}: {text!r} names no time zone; end it with Z for UTC, or with +HH:MM")
        return stamp(time.astimezone(UTC))
    except (ValueError, OverflowError):
        raise UnusableInput(f"{name}: {text!r} is no ISO 8601 time; give 2026-11-05 or 2026-11-05T09:30:00Z") from None


def source_of(text: str) -> Source:
    """Return a source from ``obs:N``, ``ep:ID`` or ``KIND:PATH[#PLACE]``; raise :class:`UnusableInput` for others.

    None of them has a control character.
    """
    text = _one_line(text.strip(), "a source")
    if text.startswith("obs:"):
        return Source("receipt", text)
    if text.startswith("ep:"):
        return Source("episodic", text)
    kind, _, rest = text.partition(":")
    path, _, locator = rest.partition("#")
    kind, path, locator = kind.strip().lower(), path.strip(), locator.strip()
    if not kind or not path:
        raise UnusableInput(f"source {text!r}: give obs:N, ep:ID or KIND:PATH with a kind of {', '.join(KINDS[1:])}")
    return Source(kind, path, locator or None)


def reference_of(text: str) -> Reference:
    """Return a reference from ``kind:ref``; raise :class:`UnusableInput` for others, and for a control character."""
    text = _one_line(text.strip(), "the reference of the assertion")
    kind, _, ref = (part.strip() for part in text.partition(":"))
    if not kind or not ref:
        raise UnusableInput(f"assertion {text!r}: give KIND:REF, where it is recorded, such as note:review or obs:7")
    return Reference(kind.lower(), ref)


def object_of(kind: str, value: str) -> Object:
    """Return an object of a type from text.

    Raises :class:`UnusableInput` for a blank text, and for JSON that cannot be read, is nested too deeply or has a
    number out of range.
    """
    if kind == JSON:
        try:
            read = json.loads(value, parse_constant=refuse_constant, parse_float=_finite)
            if not _is_deeper(read, DEEPEST):
                return Object(kind, read)
        except ValueError:
            raise UnusableInput("the object is not JSON; quote texts, or use --type literal") from None
        except RecursionError:
            # Deeper than Python reads.
            pass
        raise UnusableInput(f"the object is nested in more than {DEEPEST} levels; give a flatter one")
    value = value.strip()
    if not value:
        raise UnusableInput("the object is blank")
    return Object(kind, entity(value) if kind == ENTITY else value)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested in more than some levels."""
    if not isinstance(value, list | dict):
        return False
    return not levels or any(
        _is_deeper(one, levels - 1) for one in (value.values() if isinstance(value, dict) else value)
    )


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise UnusableInput(f"the object has a number that is too large, {text}; quote it, or give a finite one")
    return number


def fact_json(fact: Fact, status: str | None = None) -> dict[str, Any]:
    """Return a fact in the form of the schema, with its status as stored and as it is now."""
    return {
        "schema": SCHEMA,
        "id": fact.id,
        "subject": {"ref": fact.subject, "label": fact.label},
        "predicate": fact.predicate,
        "object": fact.object._asdict(),
        "valid_from": fact.valid_from,
        "valid_to": fact.valid_to,
        "status": status or fact.status,
        "stored_status": fact.status,
        "confidence_tier": fact.confidence,
        "source_refs": [source._asdict() for source in fact.sources],
        "assertion_ref": fact.assertion._asdict(),
        "supersedes": list(fact.supersedes),
        "superseded_by": list(fact.superseded_by),
        "created_at": fact.created_at,
        "asserted_by": fact.asserted_by,
    }


def record_json(record: Record) -> dict[str, Any]:
    """Return a record as a line of the file of assertions has it."""
    if isinstance(record, Fact):
        return {**fact_json(record), "source_digests": dict(record.digests)}
    return {
        "schema": INVALIDATION,
        "fact_id": record.fact,
        "status": record.status,
        "at": record.at,
        "source_refs": [source._asdict() for source in record.sources],
        "assertion_ref": record.assertion._asdict(),
        "created_at": record.created_at,
        "asserted_by": record.asserted_by,
    }


def record_of(raw: Any, at: str) -> Record:
    """Return the record in a JSON value; ``at`` is its place for messages.

    Raises :class:`UnusableInput` for a wrong shape, an unknown status and times that cannot be read. Whether the fact
    is sound is left to :mod:`lab.memory.facts.view`.
    """
    raw = expect(raw, dict, at)
    sources = tuple(
        Source(field(one, "kind", str, at), field(one, "ref", str, at), text_or_none(one, "locator", at))
        for one in field(raw, "source_refs", list, at)
    )
    reference = field(raw, "assertion_ref", dict, at)
    assertion = Reference(field(reference, "kind", str, at), field(reference, "ref", str, at))
    created, by = utc(field(raw, "created_at", str, at), f"{at}: created_at"), field(raw, "asserted_by", str, at)
    status = field(raw, "status", str, at)
    if status not in STATUSES:
        raise UnusableInput(f"{at}: status {status!r} is none of {', '.join(STATUSES)}")
    if raw.get("schema") == INVALIDATION:
        time = utc(field(raw, "at", str, at), f"{at}: at")
        return Invalidation(field(raw, "fact_id", str, at), status, time, sources, assertion, created, by)
    if raw.get("schema") != SCHEMA:
        raise UnusableInput(f"{at}: schema {raw.get('schema')!r} is not {SCHEMA}")
    subject, value = field(raw, "subject", dict, at), field(raw, "object", dict, at)
    end = text_or_none(raw, "valid_to", at)
    return Fact(
        field(raw, "id", str, at),
        field(subject, "ref", str, at),
        field(subject, "label", str, at),
        field(raw, "predicate", str, at),
        Object(field(value, "type", str, at), value.get("value")),
        utc(field(raw, "valid_from", str, at), f"{at}: valid_from"),
        None if end is None else utc(end, f"{at}: valid_to"),
        status,
        field(raw, "confidence_tier", str, at),
        sources,
        assertion,
        tuple(expect(one, str, f"{at}: supersedes") for one in field(raw, "supersedes", list, at)),
        (),
        created,
        by,
        field(raw, "source_digests", dict, at),
    )


def text_or_none(raw: dict[str, Any], name: str, at: str) -> str | None:
    """Return a text of an object, None if it is null or not there; raise :class:`UnusableInput` for anything else."""
    value = raw.get(name)
    return None if value is None else str(expect(value, str, f"{at}: field {name!r}"))
