"""The sources of a pack beside the memories of a recording: ledgers, episodes, facts, a graph, documents (PK-10).

A ledger's lane has its search by words and the metadata of each observation. A remote model may reorder the first
candidates of a lane (RR-7); if anything goes wrong, the lane's own order stays.
"""

from __future__ import annotations

import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.errors import LabError, UnusableInput
from lab.base.files import digest, sha256_file
from lab.base.formatting import HIDDEN, counted, without_credentials
from lab.base.regex import regex
from lab.base.sqlite import tables
from lab.embedding.embedder import DOCUMENT, Role
from lab.memory.episodes.search import EpisodesLane
from lab.memory.facts.pack import FactsLane
from lab.memory.graph.search import GraphLane
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import label_of
from lab.memory.ledger.ledger import FTS, Observation, given_scope, moment
from lab.memory.ledger.search import Hit, factors, ids_in, kept_of, references, search
from lab.memory.ledger.writeback import trust_of
from lab.memory.pack.candidate import Candidate, Found, Lane
from lab.memory.pack.order import TRUSTS
from lab.memory.supersession import reachable
from lab.memory.table.lance_table import LanceTable
from lab.memory.tools.context import ToolContext
from lab.memory.tools.redact import redactor
from lab.memory.tools.session import CLOCK_AND_IDS, Session
from lab.retrieval.faults import Faults
from lab.systems.files.folder import SUFFIXES, Entry, Folder, read_documents
from lab.systems.files.index import FileIndex
from lab.systems.files.search import candidates
from lab.systems.files.settings import Reader, read_settings
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import Rerank
from lab.systems.openclaw.config.table import SEED
from lab.systems.openclaw.recall_tool import memory_recall
from lab.systems.openclaw.table.schema import TABLE
from lab.systems.plans import FIELD, due_in, is_plan, read_due
from lab.systems.rerank import rerank

# Why the lane returns less, or nothing.
NO_VECTORS, NO_TABLES, UNREADABLE = "no_vectors_words_only", "no_search_tables_substrings_only", "ledger_unreadable"
UNUSABLE_SCOPE = "scope_unusable"
# Fields of a detail that govern a memory and are no part of its record.
GOVERNING = frozenset(("importance", "lifecycle", "provenance", "trust", "trust_tier", "scope", "classification"))
_redact = redactor(upstream=False)
_ADDRESS = regex(r"https?://\S+")
_NEWER = ("superseded_by", "supersededBy")
# Rows that name a successor, or rows that they supersede. The index would miss details that changed after ingest.
_LINKED = "instr(detail_json, 'supersede') > 0"
# The release of the host whose search by words is used, and the size of a chunk in its tokens.
RELEASE, CHUNK = "2026.9.6", 120
WORDS_ONLY, NO_DOCUMENTS = "no_vectors_words_only", "no_documents"
_BY_WORDS: Faults = frozenset({"embedder_down"})
# What a source is, as a message says what to give.
_A_LEDGER = "the SQLite file of a ledger"
_KINDS = {
    "episodes": _A_LEDGER,
    "facts": "a file of lab memory facts",
    "factsLedger": _A_LEDGER,
    "graph": "a file of lab memory graph export",
}
KEYS = ("ledgers", *_KINDS, "factsRoot", "documents")
_MISSING, _FILE, _FOLDER, _HIDDEN = "missing", "file", "folder", "hidden"


@dataclass(frozen=True, slots=True)
class LedgerLane:
    """The observations of a ledger. ``prefix`` comes before ``obs:ID`` where several ledgers are searched."""

    path: Path
    prefix: str = ""
    upstream: bool = False
    include_archived: bool = False

    @property
    def name(self) -> str:
        """The name of the lane in a trace."""
        return f"ledger {self.prefix.rstrip(':')}".rstrip()

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return observations by their composite score. A ledger that cannot be searched gives a reason, not an error.

        The sidecar's profile also returns observations written after ``now_ms``.
        """
        try:
            given_scope(scope)
        except LabError as error:
            return Found(self.name, (), searched=False, reason=f"{UNUSABLE_SCOPE}: {error}")
        try:
            with ledger.open_ledger(self.path) as connection:
                reason = NO_VECTORS if FTS in tables(connection) else NO_TABLES
                hits = self._hits(connection, query, limit, scope, datetime.fromtimestamp(now_ms / 1000, UTC))
                found = [self._of(hit.row, hit.factors.score if hit.factors else 0.0, ("fts",)) for hit in hits]
                if not self.upstream:
                    found = list(self._with_successors(connection, hits, found, scope))
                    found = [one for one in found if one.ts_ms <= now_ms]
        except LabError as error:
            return Found(self.name, (), searched=False, reason=f"{UNREADABLE}: {error}")
        except OSError as error:
            # A folder that may not be entered, or a name that no file can have.
            return Found(self.name, (), searched=False, reason=f"{UNREADABLE}: {self.path}: {error.strerror}")
        return Found(self.name, tuple(found), reason=reason)

    def _hits(
        self, connection: sqlite3.Connection, query: str, limit: int, scope: str | None, now: datetime
    ) -> Sequence[Hit]:
        options: dict[str, Any] = {"scope": scope, "limit": limit, "include_archived": self.include_archived}
        if not self.upstream:
            return search(connection, query, now=now, keep_superseded=True, **options).hits
        # The sidecar scores only the hits that are left after its cut; its command search scores more.
        hits = search(connection, query, now=now, composite=False, upstream=True, **options).hits
        scored = [hit._replace(factors=factors(hit.row, rank, now)) for rank, hit in enumerate(hits)]
        return sorted(scored, key=lambda hit: -hit.factors.score if hit.factors else 0.0)

    def _of(self, row: Observation, score: float, retrievers: tuple[str, ...]) -> Candidate:
        detail = row.detail
        time = moment(row.ts)
        text = (row.summary_en or row.summary or "").replace("\n", " ").strip()
        return Candidate(
            self._ref(row.id),
            text,
            self.name,
            score,
            row.kind or ("" if self.upstream else "note"),
            detail="\n".join((text, *lines)) if (lines := list(_lines(detail))) else None,
            importance=label_of(detail),
            trust=trust_of(detail) or "unknown",
            scope=detail.get("scope") if isinstance(detail.get("scope"), str) else None,
            ts_ms=int(time.timestamp() * 1000) if time else 0,
            due_ms=due_of_observation(row),
            url=None if self.upstream else _address(detail.get("url")),
            retrievers=retrievers,
            supersedes=tuple(map(self._ref, references(detail, "supersedes"))),
            contradicts=tuple(map(self._ref, references(detail, "contradicts"))),
            sources=(f"obs:{row.id}",),
        )

    def _ref(self, number: int) -> str:
        return f"{self.prefix}obs:{number}"

    def _with_successors(
        self, connection: sqlite3.Connection, hits: Sequence[Hit], found: Sequence[Candidate], scope: str | None
    ) -> Iterator[Candidate]:
        """Yield candidates, each followed by the observations of the scope that supersede it, with its score.

        The successors of a successor follow as well. An observation names its successor, or the ones that it
        supersedes.
        """
        newer = _successors(ledger.observations(connection, where=_LINKED))
        known = {hit.row.id for hit in hits}
        brought = ledger.get(connection, reachable(known, newer) - known)
        rows = {
            row.id: row for row in kept_of(brought, given_scope(scope), self.include_archived, keep_superseded=True)
        }
        older: dict[str, dict[str, None]] = {}
        for number, successors in newer.items():
            for successor in successors:
                older.setdefault(self._ref(successor), {})[self._ref(number)] = None
        for hit, one in zip(hits, found, strict=True):
            yield one._replace(supersedes=tuple(older.get(one.ref, ())))
            waiting = [hit.row.id]
            while waiting:
                for number in newer.get(waiting.pop(), ()):
                    if number in rows and number not in known:
                        known.add(number)
                        waiting.append(number)
                        follower = self._of(rows[number], one.score, ("successor",))
                        yield follower._replace(supersedes=tuple(older[follower.ref]))


def _successors(rows: Iterable[Observation]) -> dict[int, list[int]]:
    """Return, by id, the observations that supersede one, whether it names them or they name it."""
    newer: dict[int, list[int]] = {}
    for row in rows:
        detail = row.detail
        for key in _NEWER:
            if key in detail:
                newer.setdefault(row.id, []).extend(ids_in(detail[key]))
        for number in references(detail, "supersedes"):
            newer.setdefault(number, []).append(row.id)
    return newer


def _address(value: object) -> str | None:
    """Return a web address without its credentials; None for one with another secret, and for other values."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        return None
    address = without_credentials(value)
    rest = address.replace(HIDDEN, "")
    return address if _redact(rest) == rest else None


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts and numbers of a detail, each with its key, without the fields that govern it."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if key not in GOVERNING:
                yield from _lines(nested, key)
    elif isinstance(value, list):
        for nested in value:
            yield from _lines(nested, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{name}: {value}"


def due_of_observation(observation: Observation) -> int | None:
    """Return when an observation of a ledger is due, in milliseconds; None for another kind than ``plan`` (PL-3).

    Its detail may have ``due_at``, an ISO 8601 date or time, or milliseconds; else its summary says it.
    """
    if not is_plan(observation.kind):
        return None
    given = read_due(observation.detail.get(FIELD))
    written = read_due(observation.ts)
    return due_in(observation.summary or "", written or 0) if given is None else given


@dataclass(frozen=True, slots=True)
class MemoriesLane:
    """The memories in a LanceDB folder, found by the words of the query as the agent's tool finds them (seed 001)."""

    path: Path
    prefix: str = ""

    @property
    def name(self) -> str:
        """The name of the lane in a trace."""
        return f"memories {self.prefix.rstrip(':')}".rstrip()

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return memories by their scores. A table that cannot be read gives a reason, not an error."""
        try:
            with LanceTable(self.path, read_only=True) as table:
                config = resolve(None, SEED)
                context = ToolContext(table, config, *CLOCK_AND_IDS, None, table.dimension)
                with Session(table, context, None).memories(query) as memories:
                    hits = memory_recall(query, config, memories, limit=limit, scope=scope).hits
        except LabError as error:
            return Found(self.name, (), searched=False, reason=f"{UNREADABLE}: {error}")
        found = [
            Candidate(
                f"{self.prefix}mem:{row.id}",
                row.text.replace("\n", " ").strip(),
                self.name,
                picked.candidate.score,
                row.category,
                importance=row.importance_label,
                trust=row.trust_tier if row.trust_tier in TRUSTS else "unknown",
                scope=row.scope,
                ts_ms=row.created_at,
                retrievers=("fts",),
                sources=(f"mem:{row.id}",),
            )
            for picked, row in hits
            if row.created_at <= now_ms
        ]
        return Found(self.name, found, reason=NO_VECTORS)


class _NoVectors:
    dimension = 1

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed nothing."""
        return 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return zeros, float32 ``[len(texts), 1]``."""
        return np.zeros((len(texts), 1), np.float32)


class DocumentsLane:
    """The documents below a folder. Links that lead out of it and hidden files are left out.

    The folder is read at the first search, so that all searches of a conversation see the same documents.
    """

    name = "documents"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index: FileIndex | None = None
        self._skipped = 0

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return parts of documents, cited by path and lines. Documents belong to every scope."""
        if self._index is None:
            self._index = self._built()
        left_out = f"; {counted(self._skipped, 'file')} skipped" if self._skipped else ""
        if not self._index.chunks:
            return Found(self.name, (), searched=False, reason=f"{NO_DOCUMENTS}{left_out}")
        hits = candidates(self._index, query, limit, now_ms, _BY_WORDS).candidates[:limit]
        found = [
            Candidate(
                f"doc:{hit.indexed.citation}",
                hit.indexed.snippet,
                self.name,
                hit.score,
                "document",
                detail=hit.indexed.text,
                trust="trusted",
                retrievers=("fts",),
                sources=(hit.indexed.chunk.path,),
            )
            for hit in hits
        ]
        return Found(self.name, found, reason=f"{WORDS_ONLY}{left_out}")

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()

    def _built(self) -> FileIndex:
        texts, self._skipped = read_documents(self._root)
        settings = read_settings({"chunking": {"tokens": CHUNK, "overlap": 0}}, self.name, RELEASE)
        with tempfile.TemporaryDirectory(prefix="recall-lab-") as scratch:
            folder = Folder(Path(scratch))
            for path, text in texts.items():
                folder.append(path, Entry("", "", (path,)), text.removesuffix("\n").split("\n"), 0)
            index = FileIndex(folder, settings, _NoVectors())
            index.sync()
        return index


@dataclass(frozen=True, slots=True)
class RerankedLane:
    """A lane with a reranker."""

    lane: Lane
    settings: Rerank

    @property
    def name(self) -> str:
        """The name of the lane."""
        return self.lane.name

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return the candidates of the lane in the order of the reranker.

        The list of scores stays as it is and is assigned to the candidates in their new order, so that the packer
        compares them as before. How many moved, or why the answer was not used, is added to the lane's reason. An
        answer that cannot be recorded is used all the same.
        """
        found = self.lane.search(query, limit, scope=scope, now_ms=now_ms)
        texts = [one.text for one in found.candidates]
        answer = rerank(query, texts, self.settings, arm=f"pack {self.name}", must_record=False)
        said = answer.reason or (f"{answer.moved} of {answer.sent} moved" if answer.sent else "too few candidates")
        found = found._replace(reason="; ".join([*([found.reason] if found.reason else []), f"rerank: {said}"]))
        if answer.reason is not None:
            return found
        scores = [one.score for one in found.candidates]
        moved = [found.candidates[position] for position in answer.order]
        return found._replace(
            candidates=tuple(one._replace(score=score) for one, score in zip(moved, scores, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Sources:
    """Files and folders that a pack is made from; None and empty: not searched. ``stores`` are LanceDB folders.

    ``facts_ledger`` has the sources of ``facts`` (None: the only ledger of ``ledgers``); their relative paths start
    from ``facts_root``. ``archived``: soft-archived observations are included.
    """

    ledgers: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()
    episodes: Path | None = None
    facts: Path | None = None
    facts_ledger: Path | None = None
    facts_root: Path = Path()
    graph: Path | None = None
    documents: Path | None = None
    archived: bool = False

    def checked(self, names: Mapping[str, str]) -> Sources:
        """Return these sources. Raises :class:`UnusableInput` for one that does not exist.

        One in a folder that may not be entered is left to its lane. ``names`` says how the user gives each of
        :data:`KEYS`, such as ``--facts``; "" for what needs no name.
        """
        for key, path in self.files():
            if (kind := _kind(path)) not in (_FILE, _HIDDEN):
                wrong = "is a folder" if kind == _FOLDER else "no such file"
                raise UnusableInput(f"{names[key]} {path}: {wrong}; give {_KINDS.get(key, _A_LEDGER)}".lstrip())
        for key, folder in (("documents", self.documents), ("factsRoot", self.facts_root)):
            # Without the folder of their sources, the evidence of all facts would seem to be gone.
            if folder is not None and (kind := _kind(folder)) not in (_FOLDER, _HIDDEN):
                wrong = "is a file; give its folder" if kind == _FILE else "no such folder"
                raise UnusableInput(f"{names[key]} {folder}: {wrong}")
        cited = [path.stem for path in (*self.ledgers, *self.stores)]
        if len(set(cited)) < len(cited):
            same = "two ledgers have one name, so that their citations would be the same; rename one"
            raise UnusableInput(f"{names['ledgers']} {same}".lstrip())
        if self.facts and not self.facts_ledger and len(self.ledgers) > 1:
            other = names["factsLedger"].rpartition(" ")[2].rstrip(":")
            raise UnusableInput(
                f"{names['facts']} with several ledgers: name the one that has their sources by {other}"
            )
        return self

    def ledger_lanes(self, *, upstream: bool = False) -> list[LedgerLane]:
        """Return a lane for each ledger; the refs of several have the names of their files."""
        many = len(self.ledgers) > 1
        return [LedgerLane(path, f"{path.stem}:" if many else "", upstream, self.archived) for path in self.ledgers]

    def other_lanes(self, stack: ExitStack) -> list[Lane]:
        """Return the lanes of memories, episodes, facts, a graph and documents, as far as they are given.

        They can be searched until ``stack`` closes.
        """
        many = len(self.stores) > 1
        lanes: list[Lane] = [MemoriesLane(path, f"{path.stem}:" if many else "") for path in self.stores]
        if self.episodes:
            lanes.append(EpisodesLane(self.episodes))
        if self.facts:
            ledger = self.facts_ledger or next(iter(self.ledgers), None)
            lanes.append(FactsLane(self.facts, ledger, self.facts_root))
        if self.graph:
            lanes.append(GraphLane(self.graph))
        if self.documents:
            lanes.append(stack.enter_context(closing(DocumentsLane(self.documents))))
        return lanes

    def digests(self) -> dict[str, str]:
        """Return the sha256 of every file by its key and name, and one of a folder of documents."""
        found = {f"{key}:{path.name}": sha256_file(path) for key, path in self.files()}
        for key, path in self.files():
            # What another program wrote to a ledger may still be in the log beside it.
            log = Path(f"{path}-wal")
            if log.is_file() and log.stat().st_size:
                found[f"{key}:{log.name}"] = sha256_file(log)
        if self.documents:
            found[f"documents:{self.documents.name}"] = digest(read_documents(self.documents)[0])
        return found

    def describe(self) -> dict[str, object]:
        """Return a configuration that :func:`read_sources` reads back as these sources."""
        config: dict[str, object] = {key: str(path) for key, path in self.files() if key != "ledgers"}
        config |= {"ledgers": [str(path) for path in self.ledgers]} if self.ledgers else {}
        config |= {"documents": str(self.documents)} if self.documents else {}
        return config | ({"factsRoot": str(self.facts_root)} if self.facts_root != Path() else {})

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield every file with its key."""
        yield from (("ledgers", path) for path in self.ledgers)
        for key, path in zip(_KINDS, (self.episodes, self.facts, self.facts_ledger, self.graph), strict=True):
            if path is not None:
                yield key, path


def read_sources(config: Mapping[str, Any] | None, where: str) -> Sources:
    """Return the sources of an arm's configuration, with paths relative to the current folder.

    Raises :class:`UnusableInput` for an unknown key, a value of another type, and a source that does not exist or
    cannot be searched.
    """
    part = Reader((config or {}).get("sources", {}), f"{where}: sources", KEYS)

    def path_of(key: str) -> Path | None:
        value = part.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise part.wrong(key, "a path")
        return None if value is None else Path(value)

    sources = Sources(
        tuple(Path(value) for value in part.texts("ledgers", ())),
        (),
        path_of("episodes"),
        path_of("facts"),
        path_of("factsLedger"),
        path_of("factsRoot") or Path(),
        path_of("graph"),
        path_of("documents"),
    ).checked({key: f"{where}: sources: {key}:" for key in KEYS})
    if not sources.facts and (alone := next((key for key in ("factsLedger", "factsRoot") if part.get(key)), None)):
        raise UnusableInput(f"{where}: sources: {alone}: needs facts; give a file of lab memory facts, or leave it out")
    _require_searchable(sources, f"{where}: sources")
    return sources


def _require_searchable(sources: Sources, where: str) -> None:
    """Raise :class:`UnusableInput` for a source that cannot be searched.

    A prompt has to be packed without such a source; a replay without it would measure something else.
    """
    with ExitStack() as stack:
        lanes: list[tuple[str, Lane]] = [("ledgers", lane) for lane in sources.ledger_lanes()]
        lanes += [("factsLedger", LedgerLane(sources.facts_ledger))] if sources.facts_ledger else []
        lanes += [(lane.name, lane) for lane in replace(sources, documents=None).other_lanes(stack)]
        for key, lane in lanes:
            found = lane.search("memory", 1, scope=None, now_ms=0)
            if not found.searched:
                raise UnusableInput(f"{where}: {key}: {(found.reason or '').removeprefix(f'{UNREADABLE}: ')}")
    folder = sources.documents
    if folder and not read_documents(folder)[0]:
        raise UnusableInput(f"{where}: documents: {folder}: no documents ({', '.join(SUFFIXES)}) that can be read")


def is_store(path: Path) -> bool:
    """Return whether a path is a LanceDB folder of memories."""
    return (path / f"{TABLE}.lance").is_dir()


def _kind(path: Path) -> str:
    """Return whether a path is a file or a folder, does not exist, or is in a folder that may not be entered."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return _HIDDEN
    except (OSError, ValueError):
        return _MISSING
    return _FILE if stat.S_ISREG(mode) else _FOLDER if stat.S_ISDIR(mode) else _MISSING
