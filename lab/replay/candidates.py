"""The cache of search candidates: what a store returned at every recall point of a conversation.

A recall searches the memories that exist at its recall point. So candidates are a function of the memories (searched
text, time of creation, scope, label and row order), of the recall points (query and scope), of tokenisation and
embedding, and of the code that searches. Policies, quotas, penalties and budgets do not change them: hundreds of
configurations can select from one retrieval.

The artefact of a conversation is one Arrow file, named by the hash of all this. It is written atomically, carries a
checksum of its content, and contains only row numbers and scores: no text, no ids. A lane is stored to the deepest
limit requested and serves every smaller one, because its hits have a total order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.code import code_key
from lab.base.columns import booleans, checksum, lists, lists_of, numbers, numbers_of, strings
from lab.base.errors import LabError
from lab.base.files import atomic_file, digest
from lab.base.utf16 import utf8_pieces
from lab.embedding.cache import cache_folder
from lab.embedding.embedder import embedder_key
from lab.recordings.model import Memory, Recording
from lab.replay.loop import ask_of
from lab.replay.plan import Plan
from lab.retrieval.contract import Filter, Hit, Lanes, Row, View, scan_score, vector_score
from lab.retrieval.faults import NO_FAULTS, FaultPlan, Faults
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.systems.contract import Searches
from lab.systems.kit import Rows, Search
from lab.systems.registry import modules_of

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.candidates", "2"
# Does what Hit._make does at half the cost.
_hit = partial(tuple.__new__, Hit)


class Answer(NamedTuple):
    """Both lanes under one filter, and the limit that they were searched with."""

    limit: int
    lanes: Lanes


class Candidates:
    """Search results by recall point (its index in the conversation) and filter."""

    def __init__(self) -> None:
        self.changed = False
        # Whoever was answered in full from this cache: all of its candidates are here.
        self.served: set[str] = set()
        self._answers: dict[tuple[int, Filter], Answer] = {}
        self._read: dict[tuple[int, Filter], tuple[int, ...]] = {}
        self._columns: list[list[Any]] = []

    def __len__(self) -> int:
        return len(self._answers.keys() | self._read.keys())

    def get(self, point: int, where: Filter, limit: int) -> Lanes | None:
        """Return the first ``limit`` hits of each lane; None if they are not cached."""
        answer = self._answer(point, where)
        if answer is None or limit > answer.limit:
            return None
        if limit == answer.limit:
            return answer.lanes
        fts, vec, nanoseconds = answer.lanes
        return Lanes(fts[:limit], vec[:limit], nanoseconds)

    def keep(self, point: int, where: Filter, limit: int, lanes: Lanes) -> None:
        """Store an answer unless a deeper one is stored already."""
        before = self._answer(point, where)
        if before is None or before.limit < limit:
            self._answers[point, where] = Answer(limit, lanes)
            self.changed = True

    def serve(self, names: Iterable[str]) -> None:
        """Record who was answered in full."""
        self.changed |= not self.served.issuperset(names)
        self.served.update(names)

    def _answer(self, point: int, where: Filter) -> Answer | None:
        answer = self._answers.get((point, where))
        if answer is None:
            span = self._read.get((point, where))
            if span is None:
                return None
            limit, nanoseconds, fts, fts_end, vec, vec_end = span
            rows, scores, near, similar, distances = self._columns
            answer = self._answers[point, where] = Answer(
                limit,
                Lanes(
                    list(map(_hit, zip(rows[fts:fts_end], scores[fts:fts_end], repeat(0.0), strict=False))),
                    list(map(_hit, zip(near[vec:vec_end], similar[vec:vec_end], distances[vec:vec_end], strict=True))),
                    nanoseconds,
                ),
            )
        return answer

    def table(self) -> pa.Table:
        """Return the cache as a table with one row per answer.

        Columns: ``moment, scope, any_label, labels, limit, ns``, and lists of row numbers, scores and distances.
        """
        import pyarrow as pa

        keys = sorted(self._answers.keys() | self._read.keys(), key=_sort_key)
        answers = [answer for point, where in keys if (answer := self._answer(point, where)) is not None]

        def column(lane: Sequence[Sequence[Hit]], field: int, kind: str) -> pa.Array:
            return lists([len(hits) for hits in lane], numbers([hit[field] for hits in lane for hit in hits], kind))

        fts, vec = [answer.lanes.fts for answer in answers], [answer.lanes.vec for answer in answers]
        labels = [where.labels for _, where in keys]
        return pa.table(
            {
                "moment": numbers([point for point, _ in keys], "int32"),
                "scope": strings([where.scope for _, where in keys]),
                # No label filter (None) and an empty one differ.
                "any_label": booleans([names is None for names in labels]),
                "labels": lists(
                    [len(names or ()) for names in labels],
                    strings([label for names in labels for label in names or ()]),
                ),
                "limit": numbers([answer.limit for answer in answers], "int32"),
                "ns": numbers([answer.lanes.nanoseconds for answer in answers], "int64"),
                "fts": column(fts, 0, "int32"),
                "fts_score": column(fts, 1, "float32"),
                "vec": column(vec, 0, "int32"),
                "distance": column(vec, 2, "float64"),
            }
        )

    def save(self, path: Path) -> None:
        """Write the artefact atomically."""
        import pyarrow as pa

        table = self.table()
        metadata = {"kind": KIND, "schema_version": VERSION, "served": " ".join(sorted(self.served))}
        # A file in the place of another is that of another search.
        metadata["place"] = _place(path)
        table = table.replace_schema_metadata({**metadata, "sha256": checksum(table)})
        with (
            atomic_file(path, private=True) as part,
            pa.OSFile(str(part), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        self.changed = False


def _sort_key(key: tuple[int, Filter]) -> tuple[int, bool, str, bool, tuple[str, ...]]:
    """Return a key that sorts answers in a total order; None differs from an empty scope and from no labels."""
    point, (scope, labels) = key
    return point, scope is not None, scope or "", labels is not None, labels or ()


def read_candidates(path: Path, score: Callable[[Any], Any] = vector_score) -> Candidates:
    """Read the artefact at a path; return an empty cache if it is missing or damaged.

    ``score`` computes the vector lane's scores from its distances, as the store did.
    """
    candidates = Candidates()
    table = read_artefact(path)
    if table is None:
        return candidates

    candidates.served.update(_metadata(table.schema).get("served", "").split())
    (rows, fts), (near, vec) = lists_of(table["fts"]), lists_of(table["vec"])
    scores, distances = (lists_of(table[name])[0] for name in ("fts_score", "distance"))
    exact = numbers_of(distances)
    columns = (numbers_of(rows), numbers_of(scores), numbers_of(near), score(exact), exact)
    fts, vec = fts.tolist(), vec.tolist()
    candidates._columns = [column.tolist() for column in columns]
    filters: dict[tuple[str | None, tuple[str, ...] | None], Filter] = {}
    names = ("moment", "scope", "any_label", "labels", "limit", "ns")
    metadata = zip(*(table[name].to_pylist() for name in names), strict=True)
    for index, (point, scope, any_label, labels, limit, nanoseconds) in enumerate(metadata):
        key = (scope, None if any_label else tuple(labels))
        where = filters.setdefault(key, Filter(*key))
        candidates._read[point, where] = (limit, nanoseconds, fts[index], fts[index + 1], vec[index], vec[index + 1])
    return candidates


def read_artefact(path: Path) -> pa.Table | None:
    """Read the table of an artefact; None if the file is missing, is something else or fails its checksum."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        # The checksum covers the columns' content only, so their names and types are compared separately.
        if not table.schema.equals(_schema()):
            return None
        table.validate()
        metadata = _metadata(table.schema)
        return table if _is_ours(metadata, path) and metadata.get("sha256") == checksum(table) else None
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None


def served_by(path: Path) -> frozenset[str]:
    """Return who was answered in full from the artefact at a path, by its metadata; empty if there is none."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped:
            metadata = _metadata(pa.ipc.open_file(mapped).schema)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return frozenset()
    return frozenset(metadata.get("served", "").split()) if _is_ours(metadata, path) else frozenset()


@cache
def _schema() -> pa.Schema:
    """Return the columns of an artefact."""
    return Candidates().table().schema


def _is_ours(metadata: dict[str, str], path: Path) -> bool:
    stated = tuple(map(metadata.get, ("kind", "schema_version", "place")))
    return stated == (KIND, VERSION, _place(path))


def _place(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _metadata(schema: pa.Schema) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}


class CachedRetriever:
    """A retriever that answers from cached candidates and searches a live store for what they lack.

    The live store is created when it is first needed, with all rows added so far; its answers are cached.
    """

    def __init__(self, candidates: Candidates, make_live: Callable[[], StoreRetriever]) -> None:
        self.candidates = candidates
        self._make_live = make_live
        self._live: StoreRetriever | None = None
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._texts: Sequence[str] = ()
        self._point = -1
        self._removed_ids: frozenset[str] = frozenset()
        self._removed_rows: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Add new rows."""
        self._rows.extend(rows)
        self._by_id.update((row.id, row) for row in rows)
        if self._live is not None:
            self._live.add(rows)

    def remove(self, rows: Sequence[Row]) -> None:
        """Exclude forgotten rows from all further answers."""
        self._removed_ids |= {row.id for row in rows}
        self._removed_rows.extend(rows)
        if self._live is not None:
            self._live.remove(rows)

    def expect(self, texts: Sequence[str]) -> None:
        """Record the coming queries, in case a live store is needed."""
        self._texts = texts

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        """Return a view for the next recall point. Call it once per recall point, in order."""
        self._point += 1
        return QueryContext(
            CachedView(self, self._point, text, faults), self._rows, self._by_id, gone=self._removed_ids
        )

    def live(self) -> StoreRetriever:
        """Return the live retriever, with every row that was added and not forgotten."""
        if self._live is None:
            self._live = self._make_live()
            self._live.expect(self._texts)
            self._live.add(self._rows)
            if self._removed_rows:
                self._live.remove(self._removed_rows)
        return self._live

    def close(self) -> None:
        """Close the live retriever, if there is one."""
        if self._live is not None:
            self._live.close()


class CachedView:
    """A view of the store at one recall point."""

    def __init__(self, retriever: CachedRetriever, point: int, text: str, faults: Faults) -> None:
        self._retriever, self._point, self._text, self._faults = retriever, point, text, faults
        self._view: View | None = None

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return the cached lanes, or search the live store and cache its answer."""
        cache = self._retriever.candidates
        lanes = cache.get(self._point, where, limit)
        if lanes is None:
            if self._view is None:
                self._view = self._retriever.live().retrieve(self._text, self._faults).view
            lanes = self._view.search(where, limit)
            cache.keep(self._point, where, limit, lanes)
        return lanes


# Packages whose version may change candidates: LanceDB tokenises, numpy computes distances.
PACKAGES = ("lancedb", "numpy")
# The modules that search and embed for all arms. An arm chooses what is searched, which is part of every entry's key.
ROOTS = ("lab.replay.candidates", "lab.replay.sources")


def is_cacheable(plan: Plan) -> bool:
    """Return whether candidates may be cached: not for the live store, which is timed, nor with injected faults."""
    return plan.request.store == "exact" and not plan.request.faults


def candidates_paths(plan: Plan, recording: Recording) -> dict[Retrieval, Path]:
    """Return the cache paths of the candidates of one conversation, existing or not, by the retrieval of the arms.

    The plan keeps them, because naming them reads every memory.
    """
    known = plan.places.get(recording.conversation)
    if known is None:
        retrievals = [arm.retrieval for arm in plan.arms if isinstance(arm, Searches) and arm.shares]
        known = plan.places[recording.conversation] = _paths(plan, recording, retrievals)
    return known


def _paths(plan: Plan, recording: Recording, retrievals: Iterable[Retrieval]) -> dict[Retrieval, Path]:
    no_faults = FaultPlan()
    searched = _sha256(
        [
            part
            for memory, row in zip(recording.memories, rows_of(plan, recording), strict=True)
            for part in (
                row.id,
                row.index_text,
                row.scope,
                row.importance_label,
                _span(memory),
                str(row.position),
                str(row.embedded),
            )
        ]
    )
    asked = _sha256(
        [
            part
            for point in plan.recall_points_of(recording)
            for part in (point.text, str(point.seq), ask_of(point, plan.scoping, no_faults).scope or "")
        ]
    )
    vectors = {"vectors": plan.vectors.sha256} if plan.vectors else {}
    paths = {}
    for retrieval in retrievals:
        name = digest(
            {
                "text": [asdict(retrieval.text), retrieval.text.identity()],
                "clamp": asdict(retrieval.clamp),
                "embedder": embedder_key(plan.embedder),
                "searched": searched,
                "asked": asked,
                **vectors,
            }
        )
        paths[retrieval] = cache_folder() / "candidates" / search_key() / f"{name[:32]}.arrow"
    return paths


def _span(memory: Memory) -> str:
    """Return when a memory is visible, as ``FROM`` or ``FROM-UNTIL``."""
    return str(memory.visible_from) if memory.visible_until is None else f"{memory.visible_from}-{memory.visible_until}"


Cached = dict[Retrieval, Candidates]


def is_cached(plan: Plan, recording: Recording) -> bool:
    """Return whether the cache has candidates for all arms, so that a conversation's texts need no vectors."""
    if not is_cacheable(plan) or not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    paths = candidates_paths(plan, recording)
    return all(served_by(paths[retrieval]).issuperset(names) for retrieval, names in signatures(plan).items())


def rows_of(plan: Plan, recording: Recording) -> list[Row]:
    """Return the memories of one conversation as rows of the search."""
    return Rows().of(plan.memories_of(recording))


def signatures(plan: Plan) -> dict[Retrieval, set[str]]:
    """Return hashes of the arms that share a search, by retrieval; equal arms of equal code send equal queries."""
    hashes: dict[Retrieval, set[str]] = {}
    for arm, spec, info in zip(plan.arms, plan.specs, plan.infos, strict=True):
        if isinstance(arm, Searches) and arm.shares:
            code = code_key(*modules_of(arm, spec.system))
            hashes.setdefault(arm.retrieval, set()).add(digest([asdict(info), code])[:16])
    return hashes


def read_cached(plan: Plan, recording: Recording) -> Cached:
    """Return the cached candidates of a conversation by retrieval; empty candidates where none are cached."""
    if not is_cacheable(plan):
        return {}
    return {
        retrieval: read_candidates(path, scan_score if retrieval.text.lane == "scan" else vector_score)
        for retrieval, path in candidates_paths(plan, recording).items()
    }


def answers_all_arms(plan: Plan, cached: Cached) -> bool:
    """Return whether candidates suffice for all arms."""
    if not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    return all(
        retrieval in cached and cached[retrieval].served.issuperset(names)
        for retrieval, names in signatures(plan).items()
    )


def from_cached(cached: Cached, make_live: Callable[[Retrieval], StoreRetriever]) -> Callable[[Retrieval], Search]:
    """Return a factory of searches that answer from the cache, and from a live search where it lacks an answer."""

    def make(retrieval: Retrieval) -> Search:
        if retrieval not in cached:
            return make_live(retrieval)
        return CachedRetriever(cached[retrieval], lambda: make_live(retrieval))

    return make


def save_cached(plan: Plan, recording: Recording, cached: Cached) -> None:
    """Write changed candidates to the cache."""
    for retrieval, candidates in cached.items():
        if candidates.changed:
            # The cache only saves time, so a read-only folder is not an error.
            with suppress(LabError):
                candidates.save(candidates_paths(plan, recording)[retrieval])


def _sha256(parts: Sequence[str]) -> str:
    """Return the hash of a list of texts; their lengths make the concatenation unambiguous."""
    result = hashlib.sha256(",".join(str(len(part)) for part in parts).encode())
    for part in parts:
        for piece in utf8_pieces(part):
            result.update(piece)
    return result.hexdigest()


@cache
def search_key() -> str:
    """Return a short hash of the code and the packages that candidates depend on, whatever the arms."""
    return digest([KIND, VERSION, code_key(*ROOTS), {name: version(name) for name in PACKAGES}])[:16]
