"""Run the recorded searches on the installed LanceDB.

The public plugin builds no index, so this run does not build one either. Its counts are informational: another LanceDB
version than the recorded one may tokenize and order differently.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.utf16 import WHITESPACE
from lab.retrieval.contract import Row
from lab.retrieval.lance import quoted
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.tokens import storable
from tests.conformance.embedding import DIMENSION, embed
from tests.conformance.record_files import Folder, Record
from tests.conformance.turns import SEARCHES, corpus_of


class Agreement(NamedTuple):
    """The number of recorded searches for which LanceDB returns the same ids (in the same order), by lane."""

    version: str
    searches: int
    fts_orders_agree: int
    fts_sets_agree: int
    vector_searches: int
    vector_orders_agree: int


def agreement(folder: Folder) -> Agreement | None:
    """Run every recorded search on LanceDB; return None without recorded searches or without their table."""
    recorded = folder.beside(SEARCHES)
    try:
        rows = corpus_of(folder)
    except UnusableInput:
        return None
    searches = [record for record in recorded.records if record.value.get("pid") in folder.prompts] if recorded else []
    if not searches:
        return None
    with quiet_lance(), tempfile.TemporaryDirectory(prefix="recall-lab-") as folder_path:
        return _count(_table(folder_path, rows), folder, searches)


def _table(path: str, rows: Sequence[Row]) -> Any:
    import numpy as np
    import pyarrow as pa

    vectors = np.stack([embed(row.index_text) for row in rows])
    columns = {
        "id": [row.id for row in rows],
        "text": [storable(row.text) for row in rows],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), DIMENSION),
        "importance_label": [row.importance_label for row in rows],
        "scope": [row.scope for row in rows],
    }
    return import_lancedb().connect(path).create_table("memories", pa.table(columns))


def _count(table: Any, folder: Folder, searches: Sequence[Record]) -> Agreement:
    orders = sets = vectors = near = 0
    for record in searches:
        value = record.value
        text = folder.prompts[value["pid"]].strip(WHITESPACE)
        labels = ", ".join(map(quoted, value["labels"]))
        where = f"scope = {quoted(value['scope'])} AND importance_label IN ({labels})"

        query = partial(_query, where, value["limit"])
        fts = _words(table, text, query)
        expected = [] if value["fts"] == "error" else [identity for identity, _ in value["fts"]]
        orders += fts == expected
        sets += sorted(fts) == sorted(expected)
        if value["vec"] is not None:
            vectors += 1
            near_ids = query("_distance", table.search(embed(text)).distance_type("l2"))
            near += near_ids == [identity for identity, _ in value["vec"]]
    return Agreement(version("lancedb"), len(searches), orders, sets, vectors, near)


def _query(where: str, limit: int, column: str, search: Any) -> list[str]:
    result = search.where(where, prefilter=True).select(["id", column]).limit(limit).to_arrow()
    return list(result["id"].to_pylist())


def _words(table: Any, text: str, query: Callable[[str, Any], list[str]]) -> list[str]:
    """Query the text lane; as in the plugin, an error gives an empty result."""
    try:
        return query("_score", table.search(storable(text), query_type="fts", fts_columns="text"))
    except Exception:
        return []
