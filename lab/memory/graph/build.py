"""Build a graph from the rows of a ledger and from facts by rules (GR-2 to GR-4); read and write it as JSON (GR-7).

No model is used, and persons are never named. The graph is one of typed entities and edges (seed 003, GR-1).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.memory.facts import store
from lab.memory.facts.model import ENTITY, Fact
from lab.memory.facts.pack import value_text
from lab.memory.facts.sources import Sources
from lab.memory.facts.view import EXCLUDED, View, current
from lab.memory.ledger import ledger
from lab.memory.ledger.ledger import moment, scope_name, stamp
from lab.memory.ledger.search import SOFT_ARCHIVED, state_of
from lab.memory.ledger.writeback import trust_of
from lab.memory.tools.redact import redactor
from lab.recordings.model import GLOBAL
from lab.retrieval.sentence_words import one_line, words
from lab.retrieval.tokens import ENGLISH

PROJECT, REPO, DECISION, CONCEPT, TOOL, PERSON = "project", "repo", "decision", "concept", "tool", "person"
TYPES = (PROJECT, REPO, DECISION, CONCEPT, TOOL, PERSON)
# In the order in which a traversal follows them: the most informative first.
USES, BLOCKED_BY, DECIDES, EVALUATES, RELATES_TO, MENTIONS = EDGES = (
    "USES",
    "BLOCKED_BY",
    "DECIDES",
    "EVALUATES",
    "RELATES_TO",
    "MENTIONS",
)
# References that an edge keeps; the others are counted.
MOST_EVIDENCE = 8
# All repetitions are bounded, so that the time to search a text grows with its length only.
# A version such as redis@7.2.1 and the account in Git's addresses are not persons.
_NO_PERSON = r"git@|[\w.+-]{1,64}@\d{1,9}(?:\.\d{1,9}){1,2}(?![\w-]|\.\w)"
# The sign @, also as Chinese texts write it, and an address of any script with it.
_AT = "[@\uff20\ufe6b]"
_ADDRESS = rf"(?<![\w.+-])[\w.+-]{{1,64}}{_AT}[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}}"
_PERSON = rf"(?:(?!{_NO_PERSON}){_ADDRESS}|(?<![\w/]){_AT}\w[\w-]*)"
# An address is one name: its first part alone would name a person, also where no dot makes it an address of e-mail.
_NO_ACCOUNT = rf"(?![\w./+-]{{1,264}}{_AT}(?!\d))"
_NAME = rf"(?:{_PERSON}|(?<!{_AT}){_NO_ACCOUNT}[^\W_](?:[\w./+-]{{0,200}}\w)?)"
_FLAGS = re.IGNORECASE
# The forms that mark an entity, in the order in which they are tried at a place.
_MARKED = regex(
    rf"\b(?P<typed>{'|'.join(TYPES)}|entity):(?P<name>{_NAME})"
    r"|\b(?:github|gitlab)\.com[/:](?P<repo>[\w.-]+/[\w-]+(?:\.[\w-]+)*)"
    rf"|(?P<person>{_PERSON})"
    r"|\[\[(?P<page>[^\]\[|#\n]{1,60})[^\]\[\n]*\]\]"
    rf"|(?<![\w&/])#{_NO_ACCOUNT}(?P<tag>[^\W\d]\w{{1,40}})"
    r"|`(?P<code>[^\W\d][\w.-]{1,40})`"
    rf"|\b(?P<word>project|repo|repository|tool)\s+(?!https?:)(?P<called>{_NAME})",
    _FLAGS,
)
# A verb between two names, the earlier one possibly missing.
_SUBJECT = rf"(?:(?P<subject>{_NAME})\s+)?"
_OBJECT = rf"(?:(?:the|a|an|project|repo|repository|tool)\s+)?(?!https?:)(?P<object>{_NAME}(?::{_NAME})?)"
_VERBS = {
    BLOCKED_BY: r"(?:is|are|was|still)?\s*(?:blocked by|blocked on|waiting for|waits for)",
    DECIDES: r"(?:have |has |we )?(?:decided on|decided to use|chose|chosen|picked|adopted)",
    EVALUATES: r"(?:is |are |was )?(?:evaluat(?:es|ed|ing|e)|benchmark(?:s|ed|ing)?|compar(?:es|ed|ing|e)|tried)",
    USES: r"(?:now |is |are )?(?:uses|used|using|runs on|run on|depends on|requires)",
}
_RELATIONS = {kind: regex(rf"(?<!\w){_SUBJECT}{verb}\s+{_OBJECT}", _FLAGS) for kind, verb in _VERBS.items()}
# Texts that a sentence with such a verb must contain, so that most sentences need no search.
_HINTS = {
    BLOCKED_BY: regex("block|wait", _FLAGS),
    DECIDES: regex("decided|chose|pick|adopt", _FLAGS),
    EVALUATES: regex("evaluat|benchmark|compar|tried", _FLAGS),
    USES: regex("us[ei]|runs? on|depends|requires", _FLAGS),
}
_NO_NAMES = frozenset(ENGLISH) | frozenset(
    ("we", "it", "they", "she", "he", "you", "one", "project", "repo", "repository", "tool", "still", "now", "which")
)
_IS_PERSON = regex(_PERSON, _FLAGS)
_IS_ADDRESS = regex(rf"\w{_AT}(?![\d\s]|$)")
_SENTENCE = regex(r"(?<=[.!?])\s+|[。！？;\n]+")
# Edges of facts by predicate; the others relate their entities.
OF_PREDICATE = {"uses": USES, "depends_on": USES, "decision": DECIDES}
# If several types claim a name, the first gets it.
PRECEDENCE = (PROJECT, REPO, TOOL, CONCEPT)
MOST_WORDS = 4
# A longer value is a sentence, not the name of an entity.
LONGEST_NAME = 60
_redact = redactor(upstream=False)
SCHEMA = "recall-lab.graph.v0"


class Edge(NamedTuple):
    """A relation of two entities: the first references that support it, their full number, and the first time.

    ``first_ms`` is in UTC milliseconds.
    """

    source: str
    type: str
    target: str
    evidence: tuple[str, ...]
    times: int
    first_ms: int

    def other(self, entity: str) -> str:
        """Return the entity at the other end."""
        return self.target if entity == self.source else self.source

    def __str__(self) -> str:
        """Return the edge with its evidence on one line."""
        more = f" and {self.times - len(self.evidence)} more" if self.times > len(self.evidence) else ""
        return f"{self.source} {self.type} {self.target} ({', '.join(self.evidence)}{more})"


class Graph:
    """Entities, ``type:name``, and their edges. The order of neighbours does not depend on that of insertion."""

    def __init__(self, edges: Iterable[Edge], entities: Iterable[str] = ()) -> None:
        # By source, type and target.
        self.edges = sorted(edges, key=lambda edge: edge[:3])
        self._of: dict[str, list[Edge]] = {entity: [] for entity in entities}
        for edge in self.edges:
            self._of.setdefault(edge.source, []).append(edge)
            self._of.setdefault(edge.target, []).append(edge)
        self._ordered: dict[str, list[Edge]] = {}
        self._words: dict[str, list[str]] = defaultdict(list)
        self._length: dict[str, int] = {}
        for entity in sorted(self._of):
            names = frozenset(words(name_of(entity))) if type_of(entity) not in (DECISION, PERSON) else frozenset()
            self._length[entity] = len(names)
            for word in names:
                self._words[word].append(entity)

    def __contains__(self, entity: object) -> bool:
        return entity in self._of

    def __iter__(self) -> Iterator[str]:
        """Yield the entities in their order."""
        return iter(sorted(self._of))

    def of(self, entity: str) -> list[Edge]:
        """Return the edges of an entity, those to rare entities first; empty for an unknown one.

        An entity with few edges is more informative than one that has many.
        """
        if entity not in self._ordered:
            self._ordered[entity] = sorted(self._of.get(entity, ()), key=lambda edge: self._rank(edge, entity))
        return self._ordered[entity]

    def _rank(self, edge: Edge, entity: str) -> tuple[int, int, str, Edge]:
        other = edge.other(entity)
        return EDGES.index(edge.type), len(self._of[other]), other, edge

    def named(self, text: str) -> list[str]:
        """Return the entities with all words of their name in a text: the longest name first, then the rarest.

        Decisions and persons have no name to find.
        """
        found: dict[str, int] = defaultdict(int)
        for word in dict.fromkeys(words(text)):
            for entity in self._words.get(word, ()):
                found[entity] += 1
        complete = [entity for entity, count in found.items() if count == self._length[entity]]
        return sorted(complete, key=lambda entity: (-self._length[entity], len(self._of[entity]), entity))


def type_of(entity: str) -> str:
    """Return the type of an entity's reference."""
    return entity.partition(":")[0]


def name_of(entity: str) -> str:
    """Return the name in an entity's reference."""
    return entity.partition(":")[2]


class Relation(NamedTuple):
    """A relation in a sentence between names that have no type yet; ``subject`` None: of the text as a whole."""

    subject: str | None
    type: str
    object: str


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text that are not blank."""
    return [part for part in _SENTENCE.split(text) if part.strip()]


def marked(text: str) -> Iterator[str]:
    """Yield the entities that a text names by their form, in their order (GR-2). ``entity:X`` has no type yet."""
    for match in _MARKED.finditer(text):
        kind = str(match.lastgroup)
        if not is_name(match[kind]):
            continue
        if match["typed"]:
            yield reference(match["typed"].lower(), match["name"])
        elif kind == "repo":
            yield reference(REPO, match["repo"].removesuffix(".git"))
        elif kind == "person":
            yield reference(PERSON, match["person"])
        elif kind in ("page", "tag"):
            yield reference(CONCEPT, match[kind])
        elif kind == "code":
            yield reference(TOOL, match["code"])
        elif plain(match["called"]) not in _NO_NAMES:
            yield reference({"project": PROJECT, "tool": TOOL}.get(match["word"].lower(), REPO), match["called"])


def relations(sentence: str) -> Iterator[Relation]:
    """Yield the relations that a sentence states by a verb between names, such as "the gateway uses lancedb" (GR-3)."""
    # Marks around a name are no part of it.
    text = one_line(re.sub(r"[`\[\]#]", "", sentence))
    for kind, pattern in _RELATIONS.items():
        if not _HINTS[kind].search(text):
            continue
        for match in pattern.finditer(text):
            subject, target = match["subject"], match["object"]
            if plain(target) in _NO_NAMES or not is_name(target) or not is_name(subject or ""):
                continue
            if not subject or plain(subject) in _NO_NAMES:
                # "Project kilnlab, our oldest, is blocked by …": what was named before is the subject.
                before = marked(text[: match.start()])
                subject = next((name_of(one) for one in before if type_of(one) in (PROJECT, REPO, TOOL)), None)
            yield Relation(subject, kind, target)


def is_name(text: str) -> bool:
    """Return whether a text may be the name of an entity.

    The replacement of a secret may not, and neither may an account at a machine, ``ann@host``.
    """
    if "redacted" in text.lower():
        return False
    return _IS_ADDRESS.search(text) is None or _IS_PERSON.search(plain(text)) is not None


def reference(kind: str, name: str) -> str:
    """Return the reference of an entity: its type and its name in lower case; a person's name becomes a digest.

    A name with an e-mail address or an @name is a person, whatever ``kind`` says.
    """
    name = plain(name)
    person = _IS_PERSON.search(name) if "@" in name else None
    if person is None and kind != PERSON:
        return f"{kind}:{name}"
    # A reference that is redacted already stays.
    if re.fullmatch("[0-9a-f]{12}", name):
        return f"{PERSON}:{name}"
    name = person[0] if person else name
    return f"{PERSON}:{hashlib.sha256(name.lstrip('@').encode('utf-8', 'replace')).hexdigest()[:12]}"


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: NFKC, lower case, without blanks and signs around it."""
    return " ".join(unicodedata.normalize("NFKC", name).lower().split()).strip(" .-/")


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


class Made(NamedTuple):
    """A graph, how many facts were left out by reason (TF-9), and whether sources in a ledger were not looked up."""

    graph: Graph
    left_out: Counter[str]
    unchecked: bool


def graph_of(ledger: Path | None, facts: Path | None, now: datetime, root: Path = Path()) -> Made:
    """Return the graph of a ledger and of the facts that hold ``now``; either may be missing (None).

    A fact whose sources changed, are missing or quarantined is left out. ``root`` is the folder that relative paths of
    sources start from.
    """
    texts = ledger_texts(ledger) if ledger is not None else ()
    known = list(View(store.read(facts).records)) if facts is not None else []
    judged = current(known, stamp(now), Sources(ledger, root))
    holding = [fact for fact, _ in judged.facts]
    left_out = Counter(one.reason for one in judged.excluded if one.reason in EXCLUDED.values())
    return Made(build(texts, holding), left_out, ledger is None and any(fact.needs_ledger for fact in holding))


def graph_bytes(graph: Graph) -> bytes:
    """Return a graph as JSON: equal graphs give equal bytes."""
    entities = [{"ref": entity, "type": type_of(entity), "edges": len(graph.of(entity))} for entity in graph]
    return dump_json({"schema": SCHEMA, "entities": entities, "edges": [edge_json(edge) for edge in graph.edges]})


def require_replaceable(path: Path) -> None:
    """Raise :class:`UnusableInput` for a file that an export must not replace: any but an empty one or a graph."""
    if path.exists() and path.stat().st_size:
        try:
            read_graph(path)
        except UnusableInput:
            raise UnusableInput(f"{path}: is no graph, so it is not replaced; give the export another name") from None


def edge_json(edge: Edge) -> dict[str, Any]:
    """Return an edge as JSON."""
    return {**edge._asdict(), "evidence": list(edge.evidence)}


def read_graph(path: Path) -> Graph:
    """Return the graph in a file. Raises :class:`UnusableInput` with the place of what is wrong."""
    raw = expect(read_json(path), dict, str(path))
    if raw.get("schema") != SCHEMA:
        raise UnusableInput(f"{path}: is no graph of schema {SCHEMA}; make one with lab memory graph export")
    entities = [field(one, "ref", str, f"{path}: entities") for one in field(raw, "entities", list, str(path))]
    rows = enumerate(field(raw, "edges", list, str(path)))
    return Graph([_edge(row, f"{path}: edges[{number}]") for number, row in rows], entities)


def _edge(raw: Any, at: str) -> Edge:
    evidence = tuple(expect(one, str, f"{at}: evidence") for one in field(raw, "evidence", list, at))
    source, kind, target = (field(raw, name, str, at) for name in ("source", "type", "target"))
    edge = Edge(source, kind, target, evidence, field(raw, "times", int, at), field(raw, "first_ms", int, at))
    if edge.type not in EDGES or not evidence:
        raise UnusableInput(f"{at}: an edge has a type of {', '.join(EDGES)} and evidence; export the graph again")
    return edge
