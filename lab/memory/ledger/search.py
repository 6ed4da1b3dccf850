"""Search a ledger by words (LD-6, LD-7): FTS5, trigrams for Chinese, and substrings where these find too little.

The composite score of a hit is its relevance times importance, age, use and state (LD-8).
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.base.sqlite import first_valid, require_segments, tables
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import label_of
from lab.memory.ledger.ledger import FTS, TRIGRAM, Observation, given_scope, language, moment, scope_name, storable
from lab.memory.ledger.writeback import trust_of
from lab.memory.supersession import superseded
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.fusion import K, reciprocal_ranks

ACTIVE, SOFT_ARCHIVED = "active", "soft-archived"
STATES = ("captured", "categorized", ACTIVE, "consolidated", "stale", SOFT_ARCHIVED)
WEIGHTS = {MUST: 1.2, NICE: 1.0, UNKNOWN: 1.0, IGNORE: 0.8}
GATES = {"consolidated": 0.9, "stale": 0.5, SOFT_ARCHIVED: 0.0}
# Days after which a memory of this kind counts half; other kinds count as notes.
HALF_LIFE = {
    "preference": 365,
    "decision": 180,
    "learning": 180,
    "fact": 120,
    "entity": 120,
    "plan": 60,
    "note": 30,
    "tool": 30,
    "event": 14,
}
LARGEST_BOOST = 1.3
# A larger number of uses is a mistake of its writer; floats are exact up to here.
MOST_USES = 2**53
DAY = timedelta(days=1)
RECEIPT = "recall-lab.ledger.search.v1"
# The composite score looks at this many times as many results as are returned.
COMPOSITE_DEPTH = 4
# Profile upstream ranks only so many rows, the oldest that match.
UPSTREAM_CAP, UPSTREAM_CAP_PER_RESULT = 512, 32
# How much deeper each attempt searches, until enough results pass the filters, and the depth at which it ends.
DEEPER, DEEPEST = 8, 50_000
# A best BM25 below this calls for substrings, if there are too few results.
WEAK = 0.25
MOST_TERMS = 16
QUARANTINED = "quarantined"
_HAN = regex("[\u3400-\u9fff]+")
_ASCII = regex("[A-Za-z0-9_]+")
_SIGNS = regex(r"[^\w\s]")
_REFERENCE = regex(r"(?:obs:)?([0-9]{1,18})", re.IGNORECASE)
_OPERATORS = frozenset(("AND", "OR", "NOT"))
Ranked = list[tuple[int, float]]
Lane = Callable[[int], Ranked]


class Factors(NamedTuple):
    """The factors of one result. Their product is its score."""

    relevance: float
    importance: float
    recency: float
    use: float
    state: float

    @property
    def score(self) -> float:
        """The product."""
        return self.relevance * self.importance * self.recency * self.use * self.state


def state_of(detail: Mapping[str, Any]) -> str:
    """Return the state of a memory's life: active unless the detail says otherwise.

    A memory with a time of archival and no state was archived before there were states.
    """
    lifecycle = detail.get("lifecycle")
    if not isinstance(lifecycle, Mapping):
        return ACTIVE
    state = str(lifecycle.get("state") or "").strip().lower()
    if state in STATES:
        return state
    return SOFT_ARCHIVED if str(lifecycle.get("archived_at") or "").strip() else ACTIVE


def used_count(detail: Mapping[str, Any]) -> int:
    """Return how often a memory was used, at most :data:`MOST_USES`; 0 if that is not recorded."""
    lifecycle = detail.get("lifecycle")
    try:
        count = int(lifecycle.get("used_count") or 0) if isinstance(lifecycle, Mapping) else 0
    except (TypeError, ValueError, OverflowError):
        return 0
    return min(max(0, count), MOST_USES)


def factors(row: Observation, rank: int, now: datetime) -> Factors:
    """Return the factors of the result at ``rank`` (from 0).

    Age is measured to the start of the day (UTC) of ``now``, so that a day's searches agree. A time that lies ahead or
    cannot be read is no age.
    """
    detail = row.detail
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    time = moment(row.ts)
    age = max(0.0, (day - time) / DAY) if time else 0.0
    half_life = HALF_LIFE.get((row.kind or "note").strip().lower(), HALF_LIFE["note"])
    return Factors(
        relevance=1 / (K + rank + 1),
        importance=WEIGHTS[label_of(detail)],
        recency=0.5 ** (age / half_life),
        use=min(LARGEST_BOOST, 1 + 0.1 * math.log1p(used_count(detail))),
        state=GATES.get(state_of(detail), 1.0),
    )


class Hit(NamedTuple):
    """A result: the row, its score in its lane (lower is better), the factors of its place, and its lanes."""

    row: Observation
    score: float
    factors: Factors | None
    lanes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a search, best first, and its receipt, which holds no text of the query or of a row.

    ``retried`` is what was searched for instead of a query that is not in FTS5's syntax; "" if it has no word.
    """

    hits: list[Hit]
    receipt: dict[str, Any]
    retried: str | None = None


def search(
    connection: sqlite3.Connection,
    query: str,
    *,
    now: datetime,
    limit: int = 20,
    scope: str | None = None,
    include_archived: bool = False,
    composite: bool = True,
    upstream: bool = False,
    keep_superseded: bool = False,
) -> Found:
    """Search by FTS5's query syntax, or by words if the query is not in that syntax.

    ``composite`` orders by :class:`Factors`; otherwise the order of the lanes stays. ``upstream`` ranks and filters as
    the sidecar does: of many matches it ranks the oldest alone, and filters the rest. ``keep_superseded`` returns
    superseded rows as well. Raises :class:`UnusableInput` for a blank query, and as :func:`given_scope`.
    """
    query = storable(query).strip()
    if not query:
        raise UnusableInput("the query is blank; give a word to search for")
    wanted = limit * COMPOSITE_DEPTH if composite else limit
    scope, depth = given_scope(scope), wanted
    while True:
        lanes, fallback, retried = _lanes(connection, query, depth, wanted, upstream)
        fused = _fused(list(lanes.values()), depth)
        rows = {row.id: row for row in ledger.get(connection, (number for number, _ in fused))}
        found_rows = [rows[number] for number, _ in fused if number in rows]
        kept = kept_of(found_rows, scope, include_archived, keep_superseded, upstream=upstream)
        complete = all(len(found) < depth for found in lanes.values())
        if upstream or complete or len(kept) >= wanted or depth >= DEEPEST:
            break
        depth = min(depth * DEEPER, DEEPEST)
    scores = dict(fused)
    names = {number: tuple(name for name, found in lanes.items() if number in dict(found)) for number in scores}
    hits = [Hit(row, scores[row.id], None, names[row.id]) for row in kept[:wanted]]
    if composite:
        scored = [hit._replace(factors=factors(hit.row, rank, now)) for rank, hit in enumerate(hits)]
        hits = sorted(scored, key=lambda hit: -hit.factors.score if hit.factors else 0.0)
    receipt = _receipt(query, lanes, hits, fallback)
    receipt |= {"result_count": len(hits[:limit]), "scoring_profile": "composite" if composite else "relevance"}
    return Found(hits[:limit], receipt, retried)


def _lanes(
    connection: sqlite3.Connection, query: str, depth: int, wanted: int, upstream: bool
) -> tuple[dict[str, Ranked], bool, str | None]:
    """Return what each lane finds, best first, whether substrings were searched, and :attr:`Found.retried`.

    Substrings are searched if the others find little.
    """

    def full_text(words: str) -> Ranked:
        return _full_text(connection, words, depth, upstream)

    retried: str | None = None
    has_han = _HAN.search(query) is not None
    lanes: dict[str, Ranked] = {}
    if has_han and len(query) < 3:
        return {"cjk_like": _substrings(connection, query, depth, upstream)}, True, None
    if has_han and TRIGRAM in tables(connection):
        lanes["trigram"] = _trigrams(connection, query, depth)
        if re.search("[A-Za-z0-9]", query):
            terms = _words(_terms(_ASCII, query), upstream)
            mixed = f"({_phrase(query)}) OR ({' OR '.join(terms)})" if terms else _phrase(query)
            lanes["fts_original"], _ = first_valid(full_text, [mixed, " OR ".join(terms)])
    elif FTS in tables(connection):
        words = _words(_SIGNS.sub(" ", query).split(), upstream)
        plain = " ".join(words)
        found, used = first_valid(full_text, [query, plain if plain != query else ""])
        retried = None if used == query else used
        if not found and len(words) > 1:
            found, used = first_valid(full_text, [" OR ".join(words)])
            retried = used if retried is not None else None
        lanes["fts_original"] = found
    best = _fused(list(lanes.values()), depth)
    if len(best) < wanted and (not best or abs(best[0][1]) < WEAK):
        return {**lanes, "cjk_like": _substrings(connection, query, depth, upstream)}, True, retried
    return lanes, False, retried


def _full_text(connection: sqlite3.Connection, query: str, depth: int, upstream: bool) -> Ranked:
    require_segments(connection, FTS)
    if upstream:
        cap = max(UPSTREAM_CAP, UPSTREAM_CAP_PER_RESULT * depth)
        rows = connection.execute(f"SELECT rowid, rank FROM {FTS} WHERE {FTS} MATCH ? LIMIT ?", (query, cap))  # noqa: S608 - names of our own tables; values are placeholders
        return sorted(rows, key=lambda row: (row[1], row[0]))[:depth]
    ordered = f"SELECT rowid, rank FROM {FTS} WHERE {FTS} MATCH ? ORDER BY rank, rowid LIMIT ?"  # noqa: S608 - names of our own tables; values are placeholders
    return connection.execute(ordered, (query, depth)).fetchall()


def _trigrams(connection: sqlite3.Connection, query: str, depth: int) -> Ranked:
    """Return rows that contain the query, by BM25, newest first."""
    require_segments(connection, TRIGRAM)
    ordered = f"SELECT rowid, rank FROM {TRIGRAM} WHERE {TRIGRAM} MATCH ? ORDER BY rank, rowid DESC LIMIT ?"  # noqa: S608 - names of our own tables; values are placeholders
    return connection.execute(ordered, (_phrase(query), depth)).fetchall()


def _substrings(connection: sqlite3.Connection, query: str, depth: int, upstream: bool) -> Ranked:
    """Return rows with any Chinese term, or with every ASCII term, by the number of matches, newest first."""
    han, ascii_terms = han_terms(query, single=not upstream), _terms(_ASCII, query)
    if not han and not ascii_terms:
        return []
    score = [("summary LIKE ?", f"%{term}%") for term in han]
    each = "(summary LIKE ? OR coalesce(summary_en, '') LIKE ?)"
    for term in ascii_terms:
        score += [("summary LIKE ?", f"%{term}%"), ("coalesce(summary_en, '') LIKE ?", f"%{term}%")]
    where = [" OR ".join("summary LIKE ?" for _ in han), " AND ".join(each for _ in ascii_terms)]
    values = [f"%{term}%" for term in han] + [f"%{term}%" for term in ascii_terms for _ in range(2)]
    table = "observations"
    if not han and not upstream and TRIGRAM in tables(connection) and min(map(len, ascii_terms)) >= 3:
        # The trigram index finds the few rows that may match, so that SQLite need not read them all.
        require_segments(connection, TRIGRAM)
        longest = f"%{max(ascii_terms, key=len)}%"
        index = f"SELECT rowid FROM {TRIGRAM} WHERE"  # noqa: S608 - names of our own tables; values are placeholders
        table = f"(SELECT * FROM observations WHERE id IN ({index} summary LIKE ? UNION {index} summary_en LIKE ?))"  # noqa: S608 - names of our own tables; values are placeholders
        values = [longest, longest, *values]
    matches = " + ".join(f"({condition})" for condition, _ in score)
    condition = " OR ".join(f"({part})" for part in where if part)
    rows = connection.execute(
        f"SELECT id, -1.0 * ({matches}) AS score FROM {table} WHERE {condition} ORDER BY score, id DESC LIMIT ?",  # noqa: S608 - names of our own tables; values are placeholders
        (*(value for _, value in score), *values, depth),
    )
    return rows.fetchall()


def _fused(lanes: list[Ranked], depth: int) -> Ranked:
    """Return the rows of one lane, or of several by reciprocal rank fusion, each with the score of its first lane."""
    filled = [found for found in lanes if found]
    if len(filled) < 2:
        return filled[0][:depth] if filled else []
    fused = reciprocal_ranks([number for number, _ in found] for found in filled)
    scores = {number: score for found in reversed(filled) for number, score in found}
    order = sorted(fused, key=lambda number: (-fused[number], number))
    return [(number, scores[number]) for number in order[:depth]]


def kept_of(
    rows: list[Observation],
    scope: str | None,
    include_archived: bool,
    keep_superseded: bool,
    *,
    upstream: bool = False,
) -> list[Observation]:
    """Return the rows of a scope, by its compared name, that are neither superseded nor soft-archived."""
    details = {row.id: row.detail for row in rows}
    gone = frozenset() if keep_superseded else _superseded(details, upstream)
    return [
        row
        for row in rows
        if row.id not in gone
        and (scope is None or scope_name(details[row.id].get("scope")) == scope)
        and (include_archived or state_of(details[row.id]) != SOFT_ARCHIVED)
    ]


def _superseded(details: Mapping[int, Mapping[str, Any]], upstream: bool) -> frozenset[int]:
    """Return the rows that another one of them supersedes, and those that say so of themselves.

    A quarantined row supersedes nothing, and rows that supersede each other in a cycle stay, but for ``upstream``.
    """
    named = {number: references(detail, "supersedes") for number, detail in details.items()}
    said = {number for number, detail in details.items() if detail.get("superseded_by") or detail.get("supersededBy")}
    if upstream:
        return frozenset(said).union(*named.values())
    trusted = {number: [] if trust_of(details[number]) == QUARANTINED else olds for number, olds in named.items()}
    return superseded(trusted)[0] | said


def references(detail: Mapping[str, Any], name: str) -> list[int]:
    """Return the ids of the observations that the provenance of a detail names, as under ``supersedes``."""
    provenance = detail.get("provenance")
    return ids_in(provenance.get(name)) if isinstance(provenance, dict) else []


def ids_in(value: Any) -> list[int]:
    """Return the ids in a reference such as ``obs:12`` or 12, or in a list of them."""
    items = value if isinstance(value, list) else [value]
    found = [_REFERENCE.fullmatch(str(item).strip()) for item in items if not isinstance(item, bool)]
    return [int(match[1]) for match in found if match]


def _receipt(query: str, lanes: dict[str, Ranked], hits: list[Hit], fallback: bool) -> dict[str, Any]:
    terms = [term.lower() for term in _terms(_ASCII, query)]
    in_english = [hit for hit in hits if any(term in (hit.row.summary_en or "").lower() for term in terms)]
    in_text = {hit.row.id for hit in hits if any(term in (hit.row.summary or "").lower() for term in terms)}
    counts = {name: sum(name in hit.lanes for hit in hits) for name in ("fts_original", "cjk_like", "trigram")}
    said = language(query)
    return {
        "kind": RECEIPT,
        "query_lang": said,
        "lane_hits": {
            "fts_original": counts["fts_original"],
            "fts_en": sum("fts_original" in hit.lanes for hit in in_english),
            "cjk_like": counts["cjk_like"],
            "trigram": counts["trigram"],
            "vector": 0,
            "vector_en": 0,
        },
        "lanes_used": list(lanes),
        "fallback_triggered": fallback,
        "cross_lang_recovered": sum(hit.row.id not in in_text for hit in in_english) if said != "en" else 0,
    }


def _words(words: list[str], upstream: bool) -> list[str]:
    """Return words as FTS5 searches for them; the sidecar leaves its operators among them, and finds nothing."""
    return words if upstream else [_phrase(word) if word in _OPERATORS else word for word in words]


def _phrase(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _terms(pattern: re.Pattern[str], text: str) -> list[str]:
    terms: dict[str, str] = {}
    for term in pattern.findall(text):
        terms.setdefault(term.lower(), term)
    return list(terms.values())[:MOST_TERMS]


def han_terms(text: str, *, single: bool = True) -> list[str]:
    """Return the runs of at least two Chinese characters, each followed by its pairs.

    With ``single``, a text without such a run has its single characters, many of which are words.
    """
    terms = []
    runs = _HAN.findall(text)
    for run in runs:
        if len(run) > 1:
            terms += [run, *(run[start : start + 2] for start in range(len(run) - 1) if len(run) > 2)]
    if single and not terms:
        terms = runs
    return list(dict.fromkeys(terms))[:MOST_TERMS]
