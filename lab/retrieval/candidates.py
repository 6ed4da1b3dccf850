"""Candidates of one conversation, kept: what a store answered at every moment, so that it need not be asked again.

The artefact is one Arrow file, named by the hash of everything that the answers depend on. It is whole or absent, its
content carries a checksum, and it holds row numbers and scores alone: no text, no id.

A lane is kept to the deepest limit that was asked for, and serves every smaller one: its hits stand in one total order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.columns import booleans, checksum, lists, lists_of, numbers, numbers_of, strings
from lab.files import atomic_file
from lab.retrieval.contract import Filter, Hit, Lanes, View, vector_score
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.query_context import Found
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.row import Row

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.candidates", "1"
# What Hit._make does, at half its cost.
_hit = partial(tuple.__new__, Hit)


class Answer(NamedTuple):
    """Both lanes under one filter, and the limit to which they were asked for."""

    limit: int
    lanes: Lanes


class Candidates:
    """What was asked at each moment (by its place in the conversation), and the answers."""

    def __init__(self) -> None:
        self.changed = False
        # Who has been answered in full from these: its candidates are all here.
        self.served: set[str] = set()
        self._answers: dict[tuple[int, Filter], Answer] = {}
        self._read: dict[tuple[int, Filter], tuple[int, ...]] = {}
        self._columns: list[list[Any]] = []

    def __len__(self) -> int:
        return len(self._answers.keys() | self._read.keys())

    def get(self, point: int, where: Filter, limit: int) -> Lanes | None:
        """The first ``limit`` hits of each lane; None where that is not known."""
        answer = self._answer(point, where)
        if answer is None or limit > answer.limit:
            return None
        if limit == answer.limit:
            return answer.lanes
        fts, vec, nanoseconds = answer.lanes
        return Lanes(fts[:limit], vec[:limit], nanoseconds)

    def keep(self, point: int, where: Filter, limit: int, lanes: Lanes) -> None:
        """Note an answer; a deeper one stays."""
        before = self._answer(point, where)
        if before is None or before.limit < limit:
            self._answers[point, where] = Answer(limit, lanes)
            self.changed = True

    def serve(self, who: Iterable[str]) -> None:
        """Note who has been answered in full."""
        self.changed |= not self.served.issuperset(who)
        self.served.update(who)

    def _answer(self, point: int, where: Filter) -> Answer | None:
        found = self._answers.get((point, where))
        if found is None:
            place = self._read.get((point, where))
            if place is None:
                return None
            limit, nanoseconds, fts, fts_end, vec, vec_end = place
            rows, scores, near, similar, distances = self._columns
            found = self._answers[point, where] = Answer(
                limit,
                Lanes(
                    list(map(_hit, zip(rows[fts:fts_end], scores[fts:fts_end], repeat(0.0), strict=False))),
                    list(map(_hit, zip(near[vec:vec_end], similar[vec:vec_end], distances[vec:vec_end], strict=True))),
                    nanoseconds,
                ),
            )
        return found

    def table(self) -> pa.Table:
        """A row an answer.

        ``moment, scope, any_label, labels, limit, ns``, and lists of row numbers, scores and distances.
        """
        import pyarrow as pa

        keys = sorted(self._answers.keys() | self._read.keys(), key=_in_order)
        answers = [found for point, where in keys if (found := self._answer(point, where)) is not None]

        def listed(lane: Sequence[Sequence[Hit]], field: int, kind: str) -> pa.Array:
            return lists([len(hits) for hits in lane], numbers([hit[field] for hits in lane for hit in hits], kind))

        fts, vec = [one.lanes.fts for one in answers], [one.lanes.vec for one in answers]
        labels = [where.labels for _, where in keys]
        return pa.table(
            {
                "moment": numbers([point for point, _ in keys], "int32"),
                "scope": strings([where.scope for _, where in keys]),
                # No labels at all and labels that nothing has are two things.
                "any_label": booleans([one is None for one in labels]),
                "labels": lists(
                    [len(one or ()) for one in labels], strings([label for one in labels for label in one or ()])
                ),
                "limit": numbers([one.limit for one in answers], "int32"),
                "ns": numbers([one.lanes.nanoseconds for one in answers], "int64"),
                "fts": listed(fts, 0, "int32"),
                "fts_score": listed(fts, 1, "float32"),
                "vec": listed(vec, 0, "int32"),
                "distance": listed(vec, 2, "float64"),
            }
        )

    def save(self, path: Path) -> None:
        """Write the artefact, whole or not at all."""
        import pyarrow as pa

        table = self.table()
        told = {"kind": KIND, "schema_version": VERSION, "served": " ".join(sorted(self.served))}
        table = table.replace_schema_metadata({**told, "sha256": checksum(table)})
        with (
            atomic_file(path, private=True) as part,
            pa.OSFile(str(part), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        self.changed = False


def _in_order(key: tuple[int, Filter]) -> tuple[int, bool, str, bool, tuple[str, ...]]:
    """A total order: a set has none of its own, and None is neither the empty scope nor no labels."""
    point, (scope, labels) = key
    return point, scope is not None, scope or "", labels is not None, labels or ()


def read_candidates(path: Path, score: Callable[[Any], Any] = vector_score) -> Candidates:
    """The artefact at a path; an empty one where there is none, or none that can be trusted: it is then made anew.

    ``score`` makes the vector lane's scores from its distances, as the store did.
    """
    found = Candidates()
    table = read_artefact(path)
    if table is None:
        return found

    found.served.update(_told(table.schema).get("served", "").split())
    (rows, fts), (near, vec) = lists_of(table["fts"]), lists_of(table["vec"])
    scores, distances = (lists_of(table[name])[0] for name in ("fts_score", "distance"))
    exact = numbers_of(distances)
    columns = (numbers_of(rows), numbers_of(scores), numbers_of(near), score(exact), exact)
    fts, vec = fts.tolist(), vec.tolist()
    found._columns = [one.tolist() for one in columns]
    made: dict[tuple[str | None, tuple[str, ...] | None], Filter] = {}
    names = ("moment", "scope", "any_label", "labels", "limit", "ns")
    told = zip(*(table[name].to_pylist() for name in names), strict=True)
    for at, (point, scope, any_label, labels, limit, nanoseconds) in enumerate(told):
        key = (scope, None if any_label else tuple(labels))
        where = made.setdefault(key, Filter(*key))
        found._read[point, where] = (limit, nanoseconds, fts[at], fts[at + 1], vec[at], vec[at + 1])
    return found


def read_artefact(path: Path) -> pa.Table | None:
    """The table of an artefact whose checksum holds; None for any other file, and where there is none."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        # The checksum is of what the columns hold: their names, kinds and lengths stand elsewhere in the file.
        if not table.schema.equals(_schema()):
            return None
        table.validate()
        told = _told(table.schema)
        return table if _is_ours(told) and told.get("sha256") == checksum(table) else None
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None


def served_by(path: Path) -> frozenset[str]:
    """Who has been answered in full from the artefact at a path, as it says itself; nobody where there is none."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped:
            told = _told(pa.ipc.open_file(mapped).schema)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return frozenset()
    return frozenset(told.get("served", "").split()) if _is_ours(told) else frozenset()


@cache
def _schema() -> pa.Schema:
    """The columns of an artefact."""
    return Candidates().table().schema


def _is_ours(told: dict[str, str]) -> bool:
    return told.get("kind") == KIND and told.get("schema_version") == VERSION


def _told(schema: pa.Schema) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}


class KeptRetriever:
    """A retriever that answers from kept candidates, and asks a live one for what they lack.

    The live one is made where it is first needed, and caught up with; its answers are kept.
    """

    def __init__(self, candidates: Candidates, make_live: Callable[[], StoreRetriever]) -> None:
        self.candidates = candidates
        self._make_live = make_live
        self._live: StoreRetriever | None = None
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._texts: Sequence[str] = ()
        self._moment = -1
        self._gone: frozenset[str] = frozenset()
        self._forgotten: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows that are new."""
        self._rows.extend(rows)
        self._by_id.update((row.id, row) for row in rows)
        if self._live is not None:
            self._live.add(rows)

    def remove(self, rows: Sequence[Row]) -> None:
        """Leave out rows that were forgotten."""
        self._gone |= {row.id for row in rows}
        self._forgotten.extend(rows)
        if self._live is not None:
            self._live.remove(rows)

    def expect(self, texts: Sequence[str]) -> None:
        """Note what will be asked, in case a live store has to be."""
        self._texts = texts

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> Found:
        """A view for the next moment; moments are asked for one by one, in their order."""
        self._moment += 1
        return Found(KeptView(self, self._moment, text, faults), self._rows, self._by_id, gone=self._gone)

    def live(self) -> StoreRetriever:
        """The live retriever, with every row that was added and not forgotten."""
        if self._live is None:
            self._live = self._make_live()
            self._live.expect(self._texts)
            self._live.add(self._rows)
            if self._forgotten:
                self._live.remove(self._forgotten)
        return self._live

    def close(self) -> None:
        """Close the live retriever, if there is one."""
        if self._live is not None:
            self._live.close()


class KeptView:
    """A view of one moment."""

    def __init__(self, retriever: KeptRetriever, point: int, text: str, faults: Faults) -> None:
        self._retriever, self._moment, self._text, self._faults = retriever, point, text, faults
        self._view: View | None = None

    def search(self, where: Filter, limit: int) -> Lanes:
        """As kept, or as the live store answers now."""
        kept = self._retriever.candidates
        found = kept.get(self._moment, where, limit)
        if found is None:
            if self._view is None:
                self._view = self._retriever.live().retrieve(self._text, self._faults).view
            found = self._view.search(where, limit)
            kept.keep(self._moment, where, limit, found)
        return found
