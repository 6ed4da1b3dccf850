"""Build a graph from the rows of a ledger and facts (GR-2 to GR-4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lab.memory.facts.model import Fact
from lab.memory.facts.pack import value_text
from lab.memory.facts.predicates import ENTITY
from lab.memory.graph.extract import Relation, is_name, marked, reference, relations, sentences
from lab.memory.graph.model import (
    BLOCKED_BY,
    CONCEPT,
    DECIDES,
    DECISION,
    MENTIONS,
    MOST_EVIDENCE,
    PERSON,
    PROJECT,
    RELATES_TO,
    REPO,
    TOOL,
    TYPES,
    USES,
    Edge,
    Graph,
    name_of,
    type_of,
)
from lab.memory.ledger import ledger
from lab.memory.ledger.rows import scope_name
from lab.memory.ledger.score import SOFT_ARCHIVED, state_of
from lab.memory.ledger.times import moment
from lab.memory.ledger.writeback_fields import trust_of
from lab.memory.tools.redact import redactor
from lab.recordings.model import GLOBAL
from lab.retrieval.plain_words import words

# Edges of facts by predicate; the others relate their entities.
OF_PREDICATE = {"uses": USES, "depends_on": USES, "decision": DECIDES}
# If several types claim a name, the first gets it.
PRECEDENCE = (PROJECT, REPO, TOOL, CONCEPT)
MOST_WORDS = 4
# A longer value is a sentence, not the name of an entity.
LONGEST_NAME = 60
_redact = redactor(upstream=False)


class Text(NamedTuple):
    """A text with its reference: a row of a ledger. ``ts_ms`` is in UTC milliseconds, 0: unknown."""

    ref: str
    text: str
    kind: str | None = None
    scope: str | None = None
    tool: str | None = None
    ts_ms: int = 0


def ledger_texts(path: Path) -> Iterator[Text]:
    """Yield the observations of a ledger without secrets, except quarantined and soft-archived ones."""
    with ledger.open_ledger(path) as connection:
        for row in ledger.observations(connection):
            detail = row.detail
            if trust_of(detail) != "quarantined" and state_of(detail) != SOFT_ARCHIVED:
                time = moment(row.ts)
                ts_ms = int(time.timestamp() * 1000) if time else 0
                text = _redact("\n".join(filter(None, (row.summary, row.summary_en))))
                scope, tool = _project(detail.get("scope")), _public(row.tool_name)
                yield Text(f"obs:{row.id}", text, row.kind, scope, tool, ts_ms)


@lru_cache(4096)
def _public(name: str | None) -> str | None:
    """Return the name; None if it has a secret, or if there is none."""
    return name if name and is_name(_redact(name)) else None


def _project(scope: object) -> str | None:
    """Return the name of the project that a scope stands for; None for the scope of everything."""
    name = _public(None if scope is None else str(scope))
    # Compared names have no @, which marks a person.
    if name is None or type_of(reference(PROJECT, name)) == PERSON:
        return name
    compared = scope_name(name)
    return None if compared == GLOBAL else compared


def build(texts: Iterable[Text], facts: Iterable[Fact] = ()) -> Graph:
    """Return the graph of texts and of facts that hold. The order of the texts has no effect.

    First all entities that texts mark are collected. Then a plain name in a relation, or anywhere in a text, stands for
    the entity with this name.
    """
    parsed = [_parsed(text) for text in sorted(texts, key=lambda text: (text.ts_ms, text.ref))]
    facts = [fact for fact in facts if _public(fact.subject)]
    names, edges = _Names(), _Edges()
    for one in parsed:
        names.add(one.anchors)
        names.add(entity for entities in one.marks for entity in entities)
    for fact in facts:
        names.add([names.resolve(fact.subject)])
    for one in parsed:
        names.add(target for stated in one.stated for relation in stated if (target := names.target(relation)))
    for one in parsed:
        _add_text(one, names, edges)
    for fact in facts:
        _add_fact(fact, names, edges)
    return Graph(edges.made(), {*names.entities(), *(anchor for one in parsed for anchor in one.anchors)})


class _Parsed(NamedTuple):
    """A text with the entities that it belongs to, and by sentence: its words, what it marks, and what it states."""

    text: Text
    anchors: list[str]
    sentences: list[str]
    marks: list[list[str]]
    stated: list[list[Relation]]


def _parsed(text: Text) -> _Parsed:
    parts = sentences(text.text)
    anchors = [f"{DECISION}:{text.ref}"] if text.kind == "decision" else []
    anchors += [reference(PROJECT, text.scope)] if text.scope else []
    anchors += [reference(TOOL, text.tool)] if text.tool else []
    return _Parsed(
        text, anchors, parts, [list(marked(part)) for part in parts], [list(relations(part)) for part in parts]
    )


class _Names:
    """The entities by name, to find them in texts where nothing marks them."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, ...], str] = {}

    def add(self, entities: Iterable[str]) -> None:
        for entity in entities:
            kind = type_of(entity)
            key = tuple(words(name_of(entity)))
            if kind not in PRECEDENCE or not 0 < len(key) <= MOST_WORDS:
                continue
            before = self._of.get(key)
            if before is None or (PRECEDENCE.index(kind), entity) < (PRECEDENCE.index(type_of(before)), before):
                self._of[key] = entity

    def entities(self) -> Iterable[str]:
        """Return the entities that have names."""
        return self._of.values()

    def of(self, name: str) -> str | None:
        """Return the entity with a name."""
        return self._of.get(tuple(words(name)))

    def resolve(self, name: str, otherwise: str = CONCEPT) -> str:
        """Return the entity of a name or reference; an unknown name is one of type ``otherwise``."""
        kind, colon, rest = name.partition(":")
        if colon and kind.lower() in TYPES:
            return reference(kind.lower(), rest)
        bare = rest if colon and kind.lower() == "entity" else name
        return self.of(bare) or reference(otherwise, bare)

    def source(self, relation: Relation) -> str | None:
        """Return the subject of a relation; None for an unknown capitalized name, which may be a person's."""
        name = relation.subject
        if name is None:
            return None
        return self.of(name) or (reference(CONCEPT, name) if name == name.lower() else None)

    def target(self, relation: Relation) -> str | None:
        """Return the object of a relation. For BLOCKED_BY, the rule of subjects holds."""
        name = relation.object
        if relation.type == BLOCKED_BY and name != name.lower() and not self.of(name):
            return None
        return self.resolve(name, TOOL if relation.type in (USES, DECIDES) else CONCEPT)

    def within(self, text: str) -> Iterator[str]:
        """Yield the entities whose names are words of a text, in their order; of two at a place, the longer one."""
        found, at = words(text), 0
        while at < len(found):
            for length in range(MOST_WORDS, 0, -1):
                if entity := self._of.get(tuple(found[at : at + length])):
                    yield entity
                    at += length - 1
                    break
            at += 1


class _Edges:
    """Edges as they are collected, with the times of their evidence."""

    def __init__(self) -> None:
        self._evidence: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)

    def add(self, source: str, kind: str, target: str, text: Text) -> None:
        if source != target:
            self._evidence[source, kind, target][text.ref] = text.ts_ms

    def made(self) -> Iterator[Edge]:
        for key, times in self._evidence.items():
            refs = sorted(times, key=times.__getitem__)
            yield Edge(*key, tuple(refs[:MOST_EVIDENCE]), len(refs), times[refs[0]])


def _add_text(one: _Parsed, names: _Names, edges: _Edges) -> None:
    """Add the edges of a text: relations that it states, then those between entities mentioned together (GR-3)."""
    text, owner = one.text, next((anchor for anchor in one.anchors if type_of(anchor) in (DECISION, PROJECT)), None)
    for anchor in one.anchors if owner is not None else ():
        if type_of(anchor) == PROJECT:
            edges.add(anchor, DECIDES, str(owner), text)
        elif type_of(anchor) == TOOL:
            edges.add(str(owner), MENTIONS, anchor, text)
    for sentence, marks, relations_ in zip(one.sentences, one.marks, one.stated, strict=True):
        stated: set[str] = set()
        for relation in relations_:
            source, target = names.source(relation) or owner, names.target(relation)
            if source is not None and target is not None:
                edges.add(source, relation.type, target, text)
                stated |= {source, target}
        persons = [entity for entity in marks if type_of(entity) == PERSON]
        mentioned = list(dict.fromkeys([*names.within(sentence), *persons]))
        for before, after in pairwise(mentioned):
            if not {before, after} <= stated:
                edges.add(min(before, after), RELATES_TO, max(before, after), text)
        if owner is not None:
            for entity in mentioned:
                if entity not in stated:
                    edges.add(owner, MENTIONS, entity, text)


def _add_fact(fact: Fact, names: _Names, edges: _Edges) -> None:
    """Add the edge of a fact: of its entity object, of a tool that it uses, or of a decision (GR-4)."""
    at = moment(fact.valid_from)
    text = Text(fact.id, "", ts_ms=int(at.timestamp() * 1000) if at else 0)
    subject, value = names.resolve(fact.subject), _redact(value_text(fact))
    kind = OF_PREDICATE.get(fact.predicate, RELATES_TO)
    if kind == DECIDES:
        edges.add(subject, kind, f"{DECISION}:{fact.id}", text)
        for entity in names.within(value):
            edges.add(f"{DECISION}:{fact.id}", MENTIONS, entity, text)
    elif is_name(value) and (fact.object.type == ENTITY or (kind == USES and len(value) <= LONGEST_NAME)):
        edges.add(subject, kind, names.resolve(value, TOOL if kind == USES else CONCEPT), text)
