"""Whole turns of the public plugin, replayed: the flow of profile ``upstream`` over the recorded corpus.

Searches that were recorded are injected in place of our own; others are answered by the exact store, whose scan lane is
the plugin's, over the plugin's test embedding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.conformance.embedding import DIMENSION, embed
from lab.retrieval.contract import Filter, Hit, Lanes, Query, View
from lab.retrieval.exact import ExactStore
from lab.retrieval.row import Row
from lab.retrieval.tokens import ScanWords, TextSettings
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.flow import recall
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.utf16 import WHITESPACE

Record = Mapping[str, Any]
Searches = Mapping[tuple[str, str, str, int], Record]
CLOSE = 2e-5
FAILURES = {"toolong": "embedding_input_too_long"}


class Table:
    """The plugin's table: rows in the order of storing, searched by recorded lanes or by our own."""

    def __init__(self, rows: Sequence[Row], searches: Searches) -> None:
        self.store = ExactStore(DIMENSION, TextSettings(stop_words="none", lane="scan"))
        self.listing = Listing()
        self.by_id: dict[str, Row] = {}
        self.written: list[Row] = []
        self._searches = searches
        self.gone: set[int] = set()
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows."""
        import numpy as np

        texts = [row.index_text for row in rows]
        vectors = np.asarray([embed(text) for text in texts], np.float32).reshape(len(rows), DIMENSION)
        self.store.add(rows, vectors, ScanWords().of(texts))
        self.listing.add(rows)
        self.by_id.update((row.id, row) for row in rows)

    def write(self, row: Row) -> None:
        """Store a row in the place of the one with its id, as the plugin does with its Working Set."""
        if row.id in self.by_id:
            dead = self.by_id[row.id]
            self.store.remove(row.id)
            self.gone.add(next(at for at, one in enumerate(self.store.rows) if one is dead))
            self.listing.remove(self.by_id[row.id])
        self.written.append(row)
        self.add([row])

    def memories(self, prompt: str, pid: str | None, *, no_vector: str | None, writes: bool) -> Memories:
        """What the flow may ask for one prompt. After a row was written, recorded searches speak of another table."""
        text = prompt.strip(WHITESPACE)
        vector = None if no_vector else embed(text)
        view: View = self.store.view(Query(text, ScanWords().of([text])[0], vector))
        if pid is not None and not writes:
            view = Recorded(view, self._searches, pid, self.store.rows, dark=no_vector is not None)
        return Memories(
            view,
            self.store.rows,
            self.by_id,
            self.listing,
            no_vector=no_vector,
            write=self.write if writes else None,
        )


class Recorded:
    """Searches as the plugin got them, where they were recorded."""

    def __init__(self, own: View, searches: Searches, pid: str, rows: Sequence[Row], *, dark: bool) -> None:
        self._own, self._searches, self._pid, self._dark = own, searches, pid, dark
        self._numbers = {row.id: number for number, row in enumerate(rows)}

    def search(self, where: Filter, limit: int) -> Lanes:
        """The recorded lanes; our own where there is no record."""
        label = (where.labels or ("",))[0]
        found = self._searches.get((self._pid, where.scope or "", str(label), limit))
        if found is None or (found["vec"] is None and not self._dark):
            return self._own.search(where, limit)
        fts = [] if found["fts"] == "error" else found["fts"]
        near = [] if self._dark else [(self._numbers[identity], distance) for identity, distance in found["vec"]]
        # Records are rounded to six decimals; where our own distance agrees, it has all of them.
        own = {hit.row: hit.distance for hit in self._own.search(where, len(self._numbers)).vec} if near else {}
        exact = {
            number: own[number] if abs(own.get(number, math.inf) - distance) < CLOSE else distance
            for number, distance in near
        }
        return Lanes(
            [Hit(self._numbers[identity], score) for identity, score in fts],
            [Hit(number, 1.0 / (1.0 + exact[number]), exact[number]) for number, _ in near],
        )


def corpus_rows(records: Iterable[Record]) -> list[Row]:
    """The rows of ``setup/e2e_corpus.jsonl``."""
    rows = []
    for record in records:
        details = record["output"]["details"]
        text = record["params"]["text"]
        rows.append(
            Row(
                details["id"],
                details["id"],
                text,
                text,
                details["createdAt"],
                details["category"],
                details["importance_label"],
                details["scope"],
                "user",
                details.get("importance"),
            )
        )
    return rows


def searches_of(records: Iterable[Record]) -> Searches:
    """``e2e_searches.jsonl`` by prompt, scope, label and limit."""
    return {(one["pid"], one["scope"], one["labels"][0], one["limit"]): one for one in records}


def run_turn(table: Table, config: EngineConfig, given: Record, *, embeddings: bool) -> Turn:
    """One turn of the plugin's hook."""
    failure = given.get("embeddingFailure")
    reason = FAILURES.get(str(failure), "provider_unavailable") if failure or not embeddings else None
    writes = config.working_set.enabled and config.working_set.persist
    memories = table.memories(given["prompt"], given.get("pid"), no_vector=reason, writes=writes)
    return recall(Prompt(given["prompt"], given["nowMs"]), config, memories, RecallState())


def answer(turn: Turn) -> dict[str, Any]:
    """What the plugin's record shows of a turn."""
    return {
        "prependContext": turn.context if turn.packed else None,
        "returned": "object" if turn.packed else "undefined",
        "receipt": turn.receipt,
        "receiptsLogged": int(turn.receipt is not None),
        "otherLogs": [list(line) for line in turn.log],
        "searched": searched(turn.tiers),
    }


def searched(tiers: Tiers) -> list[str]:
    """``scope|label|limit`` of every search."""
    return [f"{where.scope}|{(where.labels or ('',))[0]}|{tiers.limit}" for where in tiers.filters]


def plugin_config(raw: Mapping[str, Any]) -> EngineConfig:
    """A recorded plugin configuration under profile ``upstream``."""
    return resolve(dict(raw), "upstream")
