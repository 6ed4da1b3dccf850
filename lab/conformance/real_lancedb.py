"""The second run: the recorded searches, asked of the LanceDB that is installed here.

The public plugin builds no index, so neither does this run. What it counts is information: another version of LanceDB
than the one that was recorded may order and split words in other ways.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from lab.conformance.embedding import DIMENSION, embed
from lab.conformance.records import Folder, Record
from lab.conformance.turns import SEARCHES, corpus_of
from lab.errors import UnusableInput
from lab.retrieval.lance import quoted
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.row import Row
from lab.retrieval.tokens import storable
from lab.utf16 import WHITESPACE


class Agreement(NamedTuple):
    """How many recorded searches LanceDB answers with the same ids in the same order, lane by lane."""

    version: str
    searches: int
    fts_orders_agree: int
    fts_sets_agree: int
    vector_searches: int
    vector_orders_agree: int


def agreement(folder: Folder) -> Agreement | None:
    """Ask LanceDB for every recorded search; None where none was recorded or the table is not at hand."""
    recorded = folder.beside(SEARCHES)
    try:
        rows = corpus_of(folder)
    except UnusableInput:
        return None
    searches = [one for one in recorded.records if one.value.get("pid") in folder.prompts] if recorded else []
    if not searches:
        return None
    with quiet_lance(), tempfile.TemporaryDirectory(prefix="recall-lab-") as place:
        return _count(_table(place, rows), folder, searches)


def _table(place: str, rows: Sequence[Row]) -> Any:
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
    return import_lancedb().connect(place).create_table("memories", pa.table(columns))


def _count(table: Any, folder: Folder, searches: Sequence[Record]) -> Agreement:
    orders = sets = vectors = near = 0
    for record in searches:
        value = record.value
        text = folder.prompts[value["pid"]].strip(WHITESPACE)
        labels = ", ".join(map(quoted, value["labels"]))
        where = f"scope = {quoted(value['scope'])} AND importance_label IN ({labels})"

        ask = partial(_ask, where, value["limit"])
        fts = _words(table, text, ask)
        wanted = [] if value["fts"] == "error" else [identity for identity, _ in value["fts"]]
        orders += fts == wanted
        sets += sorted(fts) == sorted(wanted)
        if value["vec"] is not None:
            vectors += 1
            found = ask("_distance", table.search(embed(text)).distance_type("l2"))
            near += found == [identity for identity, _ in value["vec"]]
    return Agreement(version("lancedb"), len(searches), orders, sets, vectors, near)


def _ask(where: str, limit: int, column: str, search: Any) -> list[str]:
    found = search.where(where, prefilter=True).select(["id", column]).limit(limit).to_arrow()
    return list(found["id"].to_pylist())


def _words(table: Any, text: str, ask: Callable[[str, Any], list[str]]) -> list[str]:
    """The text lane, where an error is an empty answer, as it is for the plugin."""
    try:
        return ask("_score", table.search(storable(text), query_type="fts", fts_columns="text"))
    except Exception:
        return []
