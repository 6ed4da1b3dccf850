"""The check of ``engine_vectors.json``: a second pack, whose lanes are scripted row by row (spec, Appendix A)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.conformance.e2e import plugin_config
from lab.conformance.functions_inject import budget
from lab.conformance.functions_other import shown_clamp
from lab.conformance.functions_select import tier_quota
from lab.conformance.records import FAILED, FileResult, Outcome, Record, Skip, judge, said, tally
from lab.conformance.values import difference
from lab.engine.clamp import is_too_long
from lab.engine.collation import id_order
from lab.engine.config_plugin import resolve_embedding_clamp
from lab.engine.docs.globs import glob_matches
from lab.engine.docs.scope import matches_scope, pushdown_repos
from lab.engine.memory import Row
from lab.engine.recall.flow import recall
from lab.engine.recall.hook import HookDedupe
from lab.engine.recall.turn import Memories, Prompt, RecallState, Turn
from lab.engine.store.contract import Filter, Hit, Lanes
from lab.engine.store.listing import Listing

Value = dict[str, Any]
NAME = "engine_vectors"
NO_VECTOR = {"fail": "provider_unavailable", "long": "embedding_input_too_long"}
# A row that a case wrote has no words and lies far off, unless the case says otherwise.
WRITTEN = (0.0, 2.0)
# The pack leaves its scope map out; these entries are the ones that its answers name.
SCOPE_MAP = {"proj-a": ["RepoA", "docs/a"], "proj-a/x": ["repox"]}


class Scripted:
    """A table whose rows say themselves how well they match. It is its own view."""

    def __init__(self, rows: Sequence[Value], *, words: bool, vectors: bool, written: tuple[float, float]) -> None:
        self.rows: list[Row] = []
        self.by_id: dict[str, Row] = {}
        self.listing = Listing()
        self._words, self._vectors, self._written = words, vectors, written
        self._scripts: dict[str, tuple[float, float]] = {}
        for one in rows:
            self._scripts[one["id"]] = (one["scripted_fts_score"], one["scripted_distance"])
            self._add(row_of(one))

    def write(self, row: Row) -> None:
        """Keep a row that the engine wrote, in place of the one with its id."""
        if row.id in self.by_id:
            self.listing.remove(self.by_id[row.id])
        self._scripts[row.id] = self._written
        self._add(row)

    def left(self) -> list[Row]:
        """The rows that are there, in the order of storing."""
        return [row for row in self.rows if self.by_id[row.id] is row]

    def search(self, where: Filter, limit: int) -> Lanes:
        """Scripted scores, then ids."""
        passing = [
            (number, row)
            for number, row in enumerate(self.rows)
            if self.by_id[row.id] is row
            and row.scope == where.scope
            and (where.labels is None or row.importance_label in where.labels)
        ]
        fts = [Hit(number, self._scripts[row.id][0]) for number, row in passing if self._scripts[row.id][0] > 0]
        near = [(number, self._scripts[row.id][1]) for number, row in passing]
        vec = [Hit(number, 1 / (1 + distance), distance) for number, distance in near]

        def ranked(hits: Sequence[Hit]) -> list[Hit]:
            return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))[:limit]

        return Lanes(ranked(fts) if self._words else [], ranked(vec) if self._vectors else [])

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self.by_id[row.id] = row
        self.listing.add([row])


def row_of(raw: Value) -> Row:
    """A row of the pack. A blank scope is the global one, a blank label none of the four."""
    text = raw["text"]
    return Row(
        raw["id"],
        raw["id"],
        text,
        text,
        raw["createdAt"],
        raw["category"],
        raw["importance_label"],
        raw.get("scope") or "global",
        raw.get("trust_tier", "user"),
        raw.get("importance"),
    )


def check_pack(path: Path) -> FileResult:
    """Run everything in the pack; what is not compared here is skipped by name."""
    try:
        pack = json.loads(path.read_text("utf-8"))
        if not isinstance(pack, dict):
            raise TypeError("not an object")  # noqa: TRY301 - one way for every file that is no pack
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return tally(NAME, [Outcome("", 0, FAILED, f"{path}: not a pack of vectors: {error}")])
    return tally(NAME, _outcomes(pack))


def _outcomes(pack: Value) -> Iterator[Outcome]:
    for key, value in pack.items():
        if key == "note":
            continue
        try:
            for name, run in PARTS.get(key, _later)(value):
                yield judge(Record(0, f"{key}/{name}", {}), run)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            yield Outcome(key, 0, FAILED, said(error))


Runs = Iterator[tuple[str, Callable[[], Any]]]


def _later(value: Any) -> Runs:
    def skip() -> None:
        raise Skip("capture, the tools and Wei Ji are not compared yet")

    for number in range(len(value)):
        yield str(number), skip


def _cases(cases: Sequence[Value]) -> Runs:
    for case in cases:
        if "kind" in case or case["plugin"] != "upstream_head":
            yield from ((case["name"], run) for _, run in (_seed_era(1) if "kind" not in case else _later("1")))
            continue
        config = plugin_config(case["config"])
        dark = NO_VECTOR.get(case["embedding"])
        table = Scripted(case["rows"], words=case["fts"] == "ok", vectors=dark is None, written=WRITTEN)
        for number, turn in enumerate(case["turns"]):
            yield f"{case['name']}/{number}", lambda turn=turn, table=table, config=config, dark=dark: _turn(
                table, config, turn, dark
            )
        if "rowsAfter" in case:
            yield f"{case['name']}/rowsAfter", lambda case=case, table=table: _rows_after(table, case["rowsAfter"])


def _turn(table: Scripted, config: Any, turn: Value, dark: str | None) -> Any:
    memories = Memories(
        table, table.rows, table.by_id, table.listing, no_vector=dark, write=table.write if _writes(config) else None
    )
    found = recall(Prompt(turn["prompt"], turn["now"]), config, memories, RecallState())
    return difference(_wanted(turn), _shown(found))


def _writes(config: Any) -> bool:
    return bool(config.working_set.enabled and config.working_set.persist)


def _wanted(turn: Value) -> Value:
    receipts = [log["json"] for log in turn["logs"] if log["marker"] == "autoRecall.receipt"]
    others = [[log["marker"], log["json"]] for log in turn["logs"] if log["marker"] != "autoRecall.receipt"]
    return {"prependContext": turn["prependContext"], "receipts": receipts, "otherLogs": others}


def _shown(turn: Turn) -> Value:
    others = []
    for _, line in turn.log:
        marker, _, value = line.partition(" ")
        others.append([marker.partition(":")[2], json.loads(value)])
    return {
        "prependContext": turn.context if turn.packed else None,
        "receipts": [turn.receipt] if turn.receipt is not None else [],
        "otherLogs": others,
    }


def _rows_after(table: Scripted, wanted: Sequence[Value]) -> Any:
    names = ("id", "text", "createdAt", "category", "importance", "importance_label", "scope", "trust_tier")
    found = [
        dict(
            zip(
                names,
                (
                    *(row.id, row.text, row.created_at, row.category),
                    *(row.importance, row.importance_label, row.scope, row.trust_tier),
                ),
                strict=True,
            )
        )
        for row in table.left()
    ]
    return difference(list(wanted), found, path="rowsAfter")
