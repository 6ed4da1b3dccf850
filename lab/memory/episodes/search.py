"""Search episodes by words, by vectors, or by both, and group the hits by session (EP-9).

Here are also the vectors of their search texts, which are made again only for a text that changed (EP-5), and the lane
of a pack that offers episodes as candidates (EP-8).
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lab.base.errors import LabError, UnusableInput, describe_unexpected
from lab.base.formatting import shortened
from lab.base.regex import regex
from lab.base.sqlite import first_valid, is_damaged_index, require_segments, tables, transaction
from lab.embedding.embedder import QUERY, Embedder
from lab.embedding.vectors import Vectors
from lab.memory.episodes.events import EVENTS, FTS, RESULT, STEMS, VECTORS, Event, as_text, open_episodes
from lab.memory.ledger.ledger import given_scope, stamp, storable
from lab.memory.ledger.search import Ranked, han_terms
from lab.memory.pack.candidate import Candidate
from lab.memory.pack.candidate import Found as LaneFound
from lab.recordings.model import SEARCHED
from lab.retrieval.fusion import reciprocal_ranks
from lab.retrieval.tokens import ENGLISH
from lab.systems.openclaw.docs.index import embedded, matrix_of, nearest

BATCH = 256
LEXICAL, HYBRID, VECTOR = MODES = ("lexical", "hybrid", "vector")
# Words, Chinese characters, vectors, and vectors of the query in English.
LANES = ("fts", "cjk", "vector", "vector_en")
SESSIONS, PER_SESSION, DEPTH = 5, 3, 40
SESSION_SUMMARY = 280
# Distinct words of a query that are searched; characters of one that are embedded, more than a model reads.
MOST_WORDS, EMBEDDED = 256, 20_000
# A query with more characters or words is no expression in the syntax of FTS5, whose time grows with the square of its
# words, also if they are equal.
LONGEST_EXPRESSION, EXPRESSION_WORDS = 2000, 64
OK = "ok"
_WORD = regex(r"\w+")
_OPERATOR = regex(r"""["*^:()]|\b(?:AND|OR|NOT|NEAR)\b""")
_STOP_WORDS = frozenset(ENGLISH)
_FIELDS = ", ".join(f"e.{name}" for name in Event._fields)
# The events that a search may return, oldest last; the order decides ties.
_WHERE = "(:scope IS NULL OR e.scope = :scope) AND (:now IS NULL OR e.ts_ms <= :now)"
_NEWEST = "e.ts_ms DESC, e.id DESC"
# A filter of FTS5: the index also has types, sessions and agents.
_TEXTS = "{summary search_text} : "


@dataclass(slots=True)
class Embedded:
    """The counts of a run: events that got a vector, and events that had one of this model and text already."""

    written: bool
    model: str
    embedded: int = 0
    unchanged: int = 0

    def receipt(self) -> dict[str, Any]:
        """Return the counts."""
        return {"kind": "recall-lab.episodes.embed.v1", **asdict(self)}


def model_of(embedder: Embedder) -> str:
    """Return the name of a model as the sidecar stores it beside a vector."""
    return str(embedder.identity()["model"])


def embed(
    path: Path,
    vectors: Vectors,
    *,
    now: datetime,
    scope: str | None = None,
    write: bool = True,
    announce: Callable[[int], None] | None = None,
) -> Embedded:
    """Give every event a vector of its search text, in transactions of :data:`BATCH`; a killed run goes on there.

    A vector of another model, or of a text that changed, is replaced. Without ``write`` events are only counted.
    ``scope`` None: all. ``now`` is the time of the run. ``announce`` gets the number of events so far. Raises as
    :func:`open_episodes` and :func:`given_scope`, :class:`lab.base.errors.CannotMeasure` if the embedder fails, and
    ValueError if it returns what is no vector.
    """
    done = Embedded(write, model_of(vectors.embedder))
    name, at = given_scope(scope), stamp(now)
    with open_episodes(path, write=write) as connection:
        after = -1
        while batch := _page(connection, after, name, done.model):
            after = batch[-1][0]
            due = [(id_, text) for id_, text, digest in batch if digest != digest_of(text)]
            done.unchanged += len(batch) - len(due)
            done.embedded += len(due)
            if write and due:
                _write(connection, due, vectors, done.model, at)
            if announce:
                announce(done.embedded + done.unchanged)
    return done


def digest_of(text: str) -> str:
    """Return the SHA-256 by which a vector names its search text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _page(
    connection: sqlite3.Connection, after: int, scope: str | None, model: str
) -> list[tuple[int, str, str | None]]:
    """Return the next events with a search text: id, text, and the digest of their vector of this model, if any."""
    digest = f"(SELECT search_text_hash FROM {VECTORS} WHERE event_row_id = id AND model = :model)"  # noqa: S608 - names of our own tables
    rows = connection.execute(
        f"SELECT id, search_text, {digest if VECTORS in tables(connection) else 'NULL'} FROM {EVENTS} "  # noqa: S608 - names of our own tables
        "WHERE id > :after AND search_text <> '' AND (:scope IS NULL OR scope = :scope) ORDER BY id LIMIT :batch",
        {"model": model, "after": after, "scope": scope, "batch": BATCH},
    )
    return [(id_, as_text(text), digest) for id_, text, digest in rows]


def _write(connection: sqlite3.Connection, due: list[tuple[int, str]], vectors: Vectors, model: str, at: str) -> None:
    """Embed the texts, and write each vector unless its text has changed since."""
    texts = [text for _, text in due]
    vectors.prepare(texts)
    matrix = embedded(vectors.of, texts)
    with transaction(connection):
        for (id_, text), vector in zip(due, matrix, strict=True):
            stored = connection.execute(f"SELECT search_text FROM {EVENTS} WHERE id = ?", (id_,)).fetchone()  # noqa: S608 - names of our own tables
            if stored is None or as_text(stored[0]) != text:
                continue
            norm = math.sqrt(float((vector.astype("<f8") ** 2).sum()))
            connection.execute(
                f"INSERT OR REPLACE INTO {VECTORS} VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - names of our own tables
                (id_, model, len(vector), vector.tobytes(), norm, digest_of(text), at),
            )


class Hit(NamedTuple):
    """An event that was found: its number, its fused score, and its lanes with their scores.

    ``lanes`` are some of ``fts``, ``vector`` and ``vector_en``, the search for the English query.
    """

    id: int
    event: Event
    score: float
    lanes: tuple[str, ...]
    fts_score: float | None
    vector_score: float | None


class Session(NamedTuple):
    """The hits of a session: their number, the best rank among all hits, the first of them, and their summaries."""

    session_id: str
    hit_count: int
    best_rank: int
    latest_ts_ms: int
    type_counts: dict[str, int]
    summary: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: the hits, best first, and grouped. A status is ``ok``, or why a lane was not searched.

    ``vector_status`` is None if vectors were not to be searched. ``lanes`` are the ranked ids of each lane.
    """

    mode: str
    hits: list[Hit]
    sessions: list[Session]
    lexical_status: str
    vector_status: str | None
    lanes: dict[str, Ranked] = field(default_factory=dict)

    def receipt(self) -> dict[str, Any]:
        """Return the counts and statuses; no text of the query or of an event is in it."""
        return {
            "kind": "recall-lab.episodes.search.v1",
            "mode": self.mode,
            "sessions": len(self.sessions),
            "hits": len(self.hits),
            "lexical_status": self.lexical_status,
            "vector_status": self.vector_status,
        }

    def trace(self) -> dict[str, Any]:
        """Return the ranking of each lane and the fused one, by id and without texts."""
        names = {hit.id: {"event_id": hit.event.event_id, "session_id": hit.event.session_id} for hit in self.hits}

        def ranking(lane: str) -> list[dict[str, Any]]:
            return [{"id": id_, **names.get(id_, {}), "score": score} for id_, score in self.lanes.get(lane, ())]

        return {
            "fts_top_k": ranking("fts"),
            "cjk_top_k": ranking("cjk"),
            "vec_top_k": ranking("vector"),
            "vec_query_en_top_k": ranking("vector_en"),
            "fused_ranking": [
                {"id": hit.id, **names[hit.id], "rrf_score": hit.score, "lanes": list(hit.lanes)} for hit in self.hits
            ],
        }


def search(
    connection: sqlite3.Connection,
    query: str,
    *,
    mode: str = LEXICAL,
    vectors: Vectors | None = None,
    query_en: str | None = None,
    limit: int = SESSIONS,
    per_session: int = PER_SESSION,
    depth: int = DEPTH,
    scope: str | None = None,
    now_ms: int | None = None,
    upstream: bool = False,
) -> Found:
    """Search the episodes of a scope (None: all) that happened up to ``now_ms`` (None: all).

    Each lane returns ``depth`` events, which are fused by reciprocal rank. ``vectors`` embeds the query, and
    ``query_en`` in English beside it, in the modes ``hybrid`` and ``vector``. ``limit`` is a number of sessions.
    ``upstream`` searches for words as the sidecar does. Raises :class:`UnusableInput` for a blank query, an unknown
    mode, and as :func:`given_scope`.
    """
    query = storable(query[:SEARCHED].strip())
    if not query:
        raise UnusableInput("the query is blank; give a word to search for")
    if mode not in MODES:
        raise UnusableInput(f"mode {mode!r}: expected {', '.join(MODES)}")
    limits = {"scope": given_scope(scope), "now": now_ms, "depth": depth}
    lanes: dict[str, Ranked] = {}
    vector_status: str | None = None
    if mode != LEXICAL:
        queries = {"vector": query} | ({"vector_en": query_en} if query_en and query_en.strip() else {})
        by_vector, vector_status = _by_vectors(connection, queries, vectors, limits)
        lanes |= by_vector
    lexical_status = OK
    if mode != VECTOR or vector_status != OK:
        lanes["fts"], lexical_status = _by_words(connection, query, limits, upstream)
        if not upstream and (terms := han_terms(query)):
            lanes["cjk"] = _by_characters(connection, terms, limits)
    hits = _fused(connection, lanes, depth)
    return Found(mode, hits, grouped(hits, limit, per_session), lexical_status, vector_status, lanes)


def grouped(hits: Sequence[Hit], limit: int, per_session: int) -> list[Session]:
    """Group hits by session; order sessions by most hits, best rank, latest event, then id."""
    by_session: dict[str, list[tuple[int, Hit]]] = {}
    for rank, hit in enumerate(hits, 1):
        by_session.setdefault(hit.event.session_id, []).append((rank, hit))
    sessions = [
        Session(
            name,
            len(ranked),
            ranked[0][0],
            max(hit.event.ts_ms for _, hit in ranked),
            dict(sorted(Counter(hit.event.type for _, hit in ranked).items())),
            shortened(" | ".join(dict.fromkeys(hit.event.summary for _, hit in ranked[:per_session])), SESSION_SUMMARY),
            tuple(hit for _, hit in ranked[:per_session]),
        )
        for name, ranked in by_session.items()
    ]
    sessions.sort(key=lambda found: (-found.hit_count, found.best_rank, -found.latest_ts_ms, found.session_id))
    return sessions[:limit]


def replay(connection: sqlite3.Connection, session_id: str, *, limit: int = -1) -> list[Event]:
    """Return the events of a session in order of time, at most ``limit`` (-1: all)."""
    ordered = f"SELECT {_FIELDS} FROM {EVENTS} e WHERE session_id = ? ORDER BY ts_ms, id LIMIT ?"  # noqa: S608 - names of our own tables
    return [Event.of(row) for row in connection.execute(ordered, (session_id, limit))]


def _by_words(connection: sqlite3.Connection, query: str, limits: dict[str, Any], upstream: bool) -> tuple[Ranked, str]:
    """Search for a query with FTS5 operators as an expression, otherwise or without a hit for any of its words.

    Stop words are left out, and words are compared by their stems. With ``upstream``, every query is first an
    expression, then all of its words are searched for, then any of them, as they are.
    """
    table = next((name for name in ((FTS,) if upstream else (STEMS, FTS)) if name in tables(connection)), None)
    if table is None:
        return [], "missing_index"

    def full_text(expression: str) -> Ranked:
        require_segments(connection, table)
        return connection.execute(
            f"SELECT e.id, f.rank FROM {table} f JOIN {EVENTS} e ON e.id = f.rowid WHERE {table} MATCH :words "  # noqa: S608 - names of our own tables
            f"AND {_WHERE} ORDER BY f.rank, {_NEWEST} LIMIT :depth",
            {**limits, "words": expression},
        ).fetchall()

    occurring = _WORD.findall(query)
    words = list(dict.fromkeys(occurring))
    if not upstream:
        words = [word for word in words if word.lower() not in _STOP_WORDS] or words
    quoted = [f'"{word}"' for word in words[:MOST_WORDS]]
    is_short = len(query) <= LONGEST_EXPRESSION and len(occurring) <= EXPRESSION_WORDS
    is_expression = is_short and (upstream or _OPERATOR.search(query))
    try:
        found, _ = first_valid(full_text, [query if is_expression else "", " ".join(quoted) if upstream else ""])
        if not found:
            # The name of a session is not searched: "choir" would find all of choir-tour.
            columns = "" if upstream else _TEXTS
            found, _ = first_valid(full_text, [f"{columns}({' OR '.join(quoted)})" if quoted else ""])
    except sqlite3.DatabaseError as error:
        if not is_damaged_index(error):
            raise
        return [], "damaged_index"
    return found, OK


def _by_characters(connection: sqlite3.Connection, terms: list[str], limits: dict[str, Any]) -> Ranked:
    """Return the events that have the most of some Chinese terms, which the index does not split into words."""
    matches = " + ".join(f"(e.search_text LIKE :term{number})" for number in range(len(terms)))
    ordered = (
        f"SELECT e.id, -1.0 * ({matches}) AS score FROM {EVENTS} e WHERE score < 0 AND {_WHERE} "  # noqa: S608 - names of our own tables; values are placeholders
        f"ORDER BY score, {_NEWEST} LIMIT :depth"
    )
    values = {f"term{number}": f"%{term}%" for number, term in enumerate(terms)}
    return connection.execute(ordered, {**limits, **values}).fetchall()


def _by_vectors(
    connection: sqlite3.Connection, queries: dict[str, str], vectors: Vectors | None, limits: dict[str, Any]
) -> tuple[dict[str, Ranked], str]:
    if vectors is None:
        return {}, "missing_embedder"
    if VECTORS not in tables(connection):
        return {}, "missing_embeddings"
    try:
        model = model_of(vectors.embedder)
        rows = connection.execute(
            f"SELECT e.id, v.dim, v.vector FROM {VECTORS} v JOIN {EVENTS} e ON e.id = v.event_row_id "  # noqa: S608 - names of our own tables
            f"WHERE v.model = :model AND {_WHERE} ORDER BY {_NEWEST}",
            {**limits, "model": model},
        ).fetchall()
        if not rows:
            others = connection.execute(f"SELECT 1 FROM {VECTORS} WHERE model <> ? LIMIT 1", (model,)).fetchone()  # noqa: S608 - names of our own tables
            return {}, "other_model" if others else "missing_embeddings"
        texts = [text[:EMBEDDED] for text in queries.values()]
        vectors.prepare(texts, role=QUERY)
        asked = embedded(lambda given: vectors.of(given, QUERY), texts)
        dimension = asked.shape[1]
        fitting = [(id_, "", vector) for id_, dim, vector in rows if dim == dimension and len(vector) == 4 * dimension]
        if not fitting:
            return {}, "other_dimension"
        matrix = matrix_of(fitting, dimension)
        return {
            lane: nearest(matrix, vector, (), limits["depth"]) for lane, vector in zip(queries, asked, strict=True)
        }, OK
    except sqlite3.Error:
        raise
    except LabError as error:
        return {}, str(error)
    except Exception as error:
        # Whatever an embedder raises, words can still be searched.
        return {}, describe_unexpected(error)


def _fused(connection: sqlite3.Connection, lanes: dict[str, Ranked], depth: int) -> list[Hit]:
    scores = reciprocal_ranks([id_ for id_, _ in ranked] for ranked in lanes.values())
    by_lane = {lane: dict(ranked) for lane, ranked in lanes.items()}
    rows = connection.execute(
        f"SELECT e.id, {_FIELDS} FROM {EVENTS} e WHERE e.id IN (SELECT value FROM json_each(?))",  # noqa: S608 - names of our own tables
        (json.dumps(list(scores)),),
    )
    hits = [
        Hit(
            id_,
            Event.of(values),
            scores[id_],
            tuple(lane for lane in LANES if id_ in by_lane.get(lane, ())),
            by_lane.get("fts", {}).get(id_),
            by_lane.get("vector", {}).get(id_),
        )
        for id_, *values in rows
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:depth]


@dataclass(frozen=True, slots=True)
class EpisodesLane:
    """A lane that searches the episodes of a ledger. A pack cites its candidates as evidence and never changes them."""

    name: ClassVar[str] = "episodes"
    path: Path

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> LaneFound:
        """Return the best events of a scope (None: all) up to ``now_ms``; a lane that failed gives a reason (EP-9)."""
        try:
            with open_episodes(self.path) as connection:
                found = search(connection, query, depth=max(DEPTH, limit), scope=scope, now_ms=now_ms)
        except LabError as error:
            return LaneFound(self.name, searched=False, reason=str(error))
        except OSError as error:
            # A folder that may not be entered, or a name that no file can have.
            return LaneFound(self.name, searched=False, reason=f"{self.path}: cannot be read: {error.strerror}")
        reason = None if found.lexical_status == OK else f"lexical: {found.lexical_status}"
        candidates = [self._candidate(hit) for hit in found.hits[:limit]]
        return LaneFound(self.name, candidates, reason is None or "cjk" in found.lanes, reason)

    def _candidate(self, hit: Hit) -> Candidate:
        """Return a hit as a candidate. The result of a tool may come from anywhere, so it is untrusted."""
        event = hit.event
        return Candidate(
            f"ep:{event.event_id}",
            event.summary,
            self.name,
            score=hit.score,
            kind="event",
            detail=text_of(event),
            trust="untrusted" if event.type == RESULT else "unknown",
            scope=event.scope,
            ts_ms=event.ts_ms,
            retrievers=hit.lanes,
            sources=sources_of(event),
        )


def text_of(event: Event) -> str | None:
    """Return the text in the payload of an event; None if it was dropped, or is not a text."""
    value = _object(event.payload_json).get("text")
    return value if isinstance(value, str) else None


def sources_of(event: Event) -> tuple[str, ...]:
    """Return the key of the turn or tool use of a recording; nothing for events of the sidecar."""
    key = _object(event.refs_json).get("key")
    return (key,) if isinstance(key, str) else ()


def _object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
