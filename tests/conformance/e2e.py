"""Replay complete turns of the public plugin: the flow of profile ``upstream`` over the recorded corpus.

Recorded searches replace the store's results. Other searches are answered by the exact store, with the plugin's scan
lane and its test embedding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.base.utf16 import WHITESPACE
from lab.retrieval.contract import Filter, Hit, Lanes, Query, Row, View
from lab.retrieval.exact import ExactStore
from lab.retrieval.tokens import ScanWords, TextSettings
from lab.systems.openclaw.arms import recall
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import Listing
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from tests.conformance.embedding import DIMENSION, embed

Record = Mapping[str, Any]
Searches = Mapping[tuple[str, str, str, int], Record]
CLOSE = 2e-5
FAILURES = {"toolong": "embedding_input_too_long"}


class Table:
    """The plugin's table: rows in storage order, searched through recorded lanes or the exact store."""

    def __init__(self, rows: Sequence[Row], searches: Searches) -> None:
        self.store = ExactStore(DIMENSION, TextSettings(stop_words="none", lane="scan"))
        self.listing = Listing()
        self.by_id: dict[str, Row] = {}
        self.written: list[Row] = []
        self._searches = searches
        self.removed: set[int] = set()
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        import numpy as np

        texts = [row.index_text for row in rows]
        vectors = np.asarray([embed(text) for text in texts], np.float32).reshape(len(rows), DIMENSION)
        self.store.add(rows, vectors, ScanWords().of(texts))
        self.listing.add(rows)
        self.by_id.update((row.id, row) for row in rows)

    def write(self, row: Row) -> None:
        """Replace the row with the same id, as the plugin does with its Working Set."""
        if row.id in self.by_id:
            dead = self.by_id[row.id]
            self.store.remove(row.id)
            self.removed.add(next(at for at, stored in enumerate(self.store.rows) if stored is dead))
            self.listing.remove(self.by_id[row.id])
        self.written.append(row)
        self.add([row])

    def memories(self, prompt: str, pid: str | None, *, no_vector: str | None, writes: bool) -> Memories:
        """Return the memories as the flow queries them for one prompt.

        With ``writes``, recorded searches are not used, because they were recorded over a table without these writes.
        """
        text = prompt.strip(WHITESPACE)
        vector = None if no_vector else embed(text)
        view: View = self.store.view(Query(text, ScanWords().of([text])[0], vector))
        if pid is not None and not writes:
            view = Recorded(view, self._searches, pid, self.store.rows, dark=no_vector is not None)
        return Memories(
            view,
            self.store.rows,
            self.by_id,
            listing=self.listing,
            no_vector=no_vector,
            write=self.write if writes else None,
        )


class Recorded:
    """A view that returns recorded searches where they exist."""

    def __init__(self, exact_view: View, searches: Searches, pid: str, rows: Sequence[Row], *, dark: bool) -> None:
        self._exact_view, self._searches, self._pid, self._dark = exact_view, searches, pid, dark
        self._numbers = {row.id: number for number, row in enumerate(rows)}

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return the recorded lanes, or those of the exact store if there is no record."""
        label = (where.labels or ("",))[0]
        recorded = self._searches.get((self._pid, where.scope or "", str(label), limit))
        if recorded is None or (recorded["vec"] is None and not self._dark):
            return self._exact_view.search(where, limit)
        fts = [] if recorded["fts"] == "error" else recorded["fts"]
        near = [] if self._dark else [(self._numbers[identity], distance) for identity, distance in recorded["vec"]]
        # Recorded distances are rounded to six decimals; a computed distance that agrees is more precise.
        computed = (
            {hit.row: hit.distance for hit in self._exact_view.search(where, len(self._numbers)).vec} if near else {}
        )
        exact = {
            number: computed[number] if abs(computed.get(number, math.inf) - distance) < CLOSE else distance
            for number, distance in near
        }
        return Lanes(
            [Hit(self._numbers[identity], score) for identity, score in fts],
            [Hit(number, 1.0 / (1.0 + exact[number]), exact[number]) for number, _ in near],
        )


def corpus_rows(records: Iterable[Record]) -> list[Row]:
    """Return the rows of ``setup/e2e_corpus.jsonl``."""
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
    """Return the records of ``e2e_searches.jsonl`` by prompt id, scope, label and limit."""
    return {(record["pid"], record["scope"], record["labels"][0], record["limit"]): record for record in records}


def run_turn(table: Table, config: EngineConfig, given: Record, *, embeddings: bool) -> Turn:
    """Run one turn of the plugin's hook."""
    failure = given.get("embeddingFailure")
    reason = FAILURES.get(str(failure), "provider_unavailable") if failure or not embeddings else None
    writes = config.working_set.enabled and config.working_set.persist
    memories = table.memories(given["prompt"], given.get("pid"), no_vector=reason, writes=writes)
    return recall(Prompt(given["prompt"], given["nowMs"]), config, memories, RecallState())


def answer(turn: Turn) -> dict[str, Any]:
    """Return a turn in the form of the plugin's record."""
    return {
        "prependContext": turn.context if turn.packed else None,
        "returned": "object" if turn.packed else "undefined",
        "receipt": turn.receipt,
        "receiptsLogged": int(turn.receipt is not None),
        "otherLogs": [list(line) for line in turn.log],
        "searched": searched(turn.tiers),
    }


def searched(tiers: Tiers) -> list[str]:
    """Return ``scope|label|limit`` of every search."""
    return [f"{where.scope}|{(where.labels or ('',))[0]}|{tiers.limit}" for where in tiers.filters]


def plugin_config(raw: Mapping[str, Any]) -> EngineConfig:
    """Return a recorded plugin configuration, resolved under profile ``upstream``."""
    return resolve(dict(raw), "upstream")
