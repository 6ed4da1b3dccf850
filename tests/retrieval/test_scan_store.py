"""The exact store's lane ``scan`` ranks vectors as a LanceDB table without an index: ties by row order, bit for bit.

The text lane follows the older LanceDB of the plugin; tests/peers covers it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lab.recordings.model import LABELS
from lab.retrieval.contract import Filter, Query, Row, TablePositions, scan_distances
from lab.retrieval.exact import ExactStore
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.tokens import ScanWords, TextSettings
from lab.systems.openclaw.memory import Listing

pytestmark = pytest.mark.slow

SCAN = TextSettings(stop_words="none", lane="scan")
_WORDS = "kiln harbour ledger violin orchard tariff lantern ferry clinic pepper"
WORDS = _WORDS.split()
SCOPES = ("oak", "elm")
FILTERS = [Filter(), Filter("oak"), Filter(None, ("unknown",)), Filter("elm", ("must_remember", "ignore"))]


def table_of(folder: Path, rows: Sequence[Row], vectors: np.ndarray, fragments: Sequence[int]) -> Any:
    """A table without an index, its rows ordered by position and split into fragments of these sizes."""
    order = sorted(range(len(rows)), key=lambda at: rows[at].position or 0)
    records = [
        {
            "id": rows[at].id,
            "text": rows[at].text,
            "vector": vectors[at].tolist(),
            "label": rows[at].importance_label,
            "scope": rows[at].scope,
        }
        for at in order
    ]
    kinds = {"id": pa.string(), "text": pa.string(), "vector": pa.list_(pa.float32(), vectors.shape[1])}
    schema = pa.schema([*kinds.items(), ("label", pa.string()), ("scope", pa.string())])
    with quiet_lance():
        table = import_lancedb().connect(folder).create_table("memories", schema=schema)
        start = 0
        for size in fragments:
            table.add(records[start : start + size])
            start += size
    assert start == len(records)
    return table


def lancedb_hits(table: Any, search: Any, where: Filter, limit: int, column: str) -> list[tuple[str, float]]:
    clauses = [f"scope = '{where.scope}'"] if where.scope else []
    if where.labels:
        clauses.append(f"label IN ({', '.join(repr(label) for label in where.labels)})")
    if clauses:
        search = search.where(" AND ".join(clauses), prefilter=True)
    found = search.select(["id", column]).limit(limit).to_arrow()
    return list(zip(found["id"].to_pylist(), found[column].to_pylist(), strict=True))


@pytest.mark.parametrize("fragments", [[90], [1] * 90, [20, 1, 1, 30, 7, 31]])
def test_scan_store_ranks_vectors_as_lancedb_without_an_index(tmp_path: Path, fragments: list[int]) -> None:
    choose = random.Random(5)
    vectors = np.random.default_rng(5).normal(size=(15, 48))
    some = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    some[3] = 0.0
    positions = choose.sample(range(90), 90)
    texts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 9))) for _ in range(90)]
    rows = [
        Row(f"{choose.random()}", "", text, text, 0, "fact", choose.choice(LABELS), choose.choice(SCOPES), position=at)
        for text, at in zip(texts, positions, strict=True)
    ]
    stored = some[[choose.randrange(15) for _ in rows]]
    table, store = table_of(tmp_path, rows, stored, fragments), ExactStore(48, SCAN)
    for start in range(0, 90, 25):  # rows become visible in another order than that of the table
        part = slice(start, start + 25)
        store.add(rows[part], stored[part], ScanWords().of(texts[part]))
    compared = 0
    for _ in range(4):
        text, near = " ".join(choose.choices(WORDS, k=6)), some[choose.randrange(15)] + np.float32(0.01)
        view = store.view(Query(text, ScanWords().of([text])[0], near))
        for where in FILTERS:
            for limit in (1, 3, 10, 60):
                fts, vec, _ = view.search(where, limit)
                assert [hit.row for hit in fts] == sorted((hit.row for hit in fts), key=lambda at: positions[at])
                expected = lancedb_hits(table, table.search(near).distance_type("l2"), where, limit, "_distance")
                assert [(store.rows[hit.row].id, hit.distance) for hit in vec] == expected
                compared += len(vec)
    assert compared > 700


@pytest.mark.parametrize("dimension", [24, 64, 100, 384])
def test_scan_distances_have_the_bits_of_lancedb(tmp_path: Path, dimension: int) -> None:
    random_ = np.random.default_rng(dimension)
    vectors = random_.normal(size=(300, dimension)).astype(np.float32)
    rows = [Row(str(at), "", "-", "-", 0, position=at) for at in range(300)]
    table = table_of(tmp_path, rows, vectors, [300])
    query = random_.normal(size=dimension).astype(np.float32)
    found = dict(lancedb_hits(table, table.search(query).distance_type("l2"), Filter(), 300, "_distance"))
    assert scan_distances(vectors, query).tolist() == [found[row.id] for row in rows]


def test_scan_store_ties_at_the_limit_go_to_the_earlier_row() -> None:
    store, vector = ExactStore(4, SCAN), np.asarray([[1, 0, 0, 0]], np.float32)
    for identity, position in (("a", 4), ("b", 2), ("e", 0), ("c", 3), ("d", 1)):
        store.add([Row(identity, "", "kiln", "kiln", 0, position=position)], vector, [["kiln"]])
    fts, vec, _ = store.view(Query("kiln", ["kiln"], vector[0])).search(Filter(), 3)
    assert [store.rows[hit.row].id for hit in vec] == [store.rows[hit.row].id for hit in fts] == ["e", "d", "b"]


def test_scan_store_ranks_a_zero_vector_between_near_and_far_rows() -> None:
    store = ExactStore(2, SCAN)
    vectors = np.asarray([[0, 1], [0, 0], [1, 0], [-1, 0]], np.float32)
    rows = [Row(identity, "", "-", "-", 0) for identity in ("across", "zero", "same", "opposite")]
    store.add(rows, vectors, [[]] * 4)
    hits = store.view(Query("-", [], np.asarray([1, 0], np.float32))).search(Filter(), 4).vec
    results = [(rows[hit.row].id, hit.distance, hit.score) for hit in hits]
    assert results == [("same", 0.0, 1.0), ("zero", 1.0, 0.5), ("across", 2.0, 1 / 3), ("opposite", 4.0, 0.2)]


def test_index_store_orders_ties_by_id_regardless_of_positions() -> None:
    store, vector = ExactStore(4), np.asarray([[1, 0, 0, 0]], np.float32)
    for identity, position in (("b", 0), ("c", 1), ("a", 2)):
        store.add([Row(identity, "", "kiln", "kiln", 0, position=position)], vector, [["kiln"]])
    fts, vec, _ = store.view(Query("kiln", ["kiln"], vector[0])).search(Filter(), 2)
    assert [store.rows[hit.row].id for hit in vec] == [store.rows[hit.row].id for hit in fts] == ["a", "b"]


def test_table_positions_put_a_row_without_one_behind_all_so_far() -> None:
    positions = TablePositions()
    rows = [Row(str(at), "", "-", "-", 0, position=position) for at, position in enumerate((None, 5, 2, None, 7, None))]
    assert [positions.next(row) for row in rows] == [0, 5, 2, 5, 7, 7]


def test_listing_reads_the_first_rows_of_the_table() -> None:
    listing, rows = Listing(), [Row(f"r{at}", "", "-", "-", at, "decision", position=9 - at) for at in range(10)]
    listing.add(rows[:5])
    listing.add(rows[5:])
    # The first four rows of the table, of which the newest are returned.
    assert [row.id for row in listing.recent_of_first(None, ["decision"], 1)] == ["r9"]
    assert [row.id for row in listing.recent(None, ["decision"], 2)] == ["r9", "r8"]
    other = Listing()
    other.add([Row(f"r{at}", "", "-", "-", at, "decision", position=at) for at in range(10)])
    assert [row.id for row in other.recent_of_first(None, ["decision"], 1)] == ["r3"]
