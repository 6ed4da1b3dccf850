"""Cached candidates: the same answers as the live store, whatever is missing, and never from a damaged file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.replay.candidates import Candidates, candidates_paths, read_artefact, read_candidates, served_by
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.retrieval.contract import Filter, Hit, Lanes, Row
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import QueryContext, StoreRetriever
from lab.runs.request import ReplayRequest

LANES = Lanes(
    [Hit(4, 2.5), Hit(1, 1.25), Hit(7, 1.25)], [Hit(1, 0.75, 0.333333), Hit(0, 0.5, 1.0), Hit(9, 0.25, 3.0)], 17
)
HERE, NOBODY, ALL = Filter("a", ("must_remember",)), Filter(None, ()), Filter(None, None)


def filled() -> Candidates:
    candidates = Candidates()
    candidates.keep(0, HERE, 3, LANES)
    candidates.keep(2, NOBODY, 5, Lanes([], []))
    candidates.keep(2, ALL, 2, Lanes(LANES.fts[:2], LANES.vec[:1]))
    return candidates


def test_read_candidates_returns_what_was_saved(tmp_path: Path) -> None:
    filled().save(tmp_path / "a.arrow")
    candidates = read_candidates(tmp_path / "a.arrow")
    assert not candidates.changed
    assert len(candidates) == 3
    assert candidates.get(0, HERE, 3) == LANES._replace(
        vec=[Hit(1, 0.750000, 0.333333), Hit(0, 0.5, 1.0), Hit(9, 0.25, 3)]
    )
    assert candidates.get(0, HERE, 1) == Lanes(LANES.fts[:1], LANES.vec[:1], 17)
    assert candidates.get(2, NOBODY, 5) == Lanes([], [])
    assert [candidates.get(1, HERE, 3), candidates.get(0, ALL, 1), candidates.get(0, HERE, 4)] == [None, None, None]
    saved = (tmp_path / "a.arrow").read_bytes()
    candidates.save(tmp_path / "a.arrow")
    assert (tmp_path / "a.arrow").read_bytes() == saved


def test_keep_replaces_a_shallow_answer_by_a_deeper_one() -> None:
    candidates = filled()
    candidates.keep(0, HERE, 1, Lanes(LANES.fts[:1], LANES.vec[:1]))
    assert candidates.get(0, HERE, 3) == LANES
    candidates.keep(2, ALL, 9, LANES)
    assert candidates.get(2, ALL, 9) == LANES


def test_keep_of_a_known_answer_changes_nothing(tmp_path: Path) -> None:
    kept = filled()
    kept.serve(["a", "b"])
    kept.save(tmp_path / "a.arrow")
    candidates = read_candidates(tmp_path / "a.arrow")
    candidates.keep(0, HERE, 3, LANES)
    candidates.serve(["b"])
    assert not candidates.changed
    candidates.serve(["c"])
    assert candidates.changed


def test_save_does_not_depend_on_the_order_of_answers(tmp_path: Path) -> None:
    keys = [(point, Filter(scope, labels)) for point in (1, 0) for scope in ("b", "", None) for labels in ((), None)]
    saved = set()
    for order in (keys, keys[::-1], sorted(keys, key=str)):
        kept = Candidates()
        for point, where in order:
            kept.keep(point, where, 3, LANES)
        kept.save(tmp_path / "a")
        saved.add((tmp_path / "a").read_bytes())
    assert len(saved) == 1


@pytest.mark.parametrize("metadata", [{b"kind": b"lab.other"}, {b"schema_version": b"0"}])
def test_read_candidates_ignores_another_kind_or_version(tmp_path: Path, metadata: dict[bytes, bytes]) -> None:
    kept = filled()
    kept.serve(["a"])
    kept.save(tmp_path / "a.arrow")
    assert served_by(tmp_path / "a.arrow") == {"a"}
    place = f"{tmp_path.name}/b.arrow".encode()
    table = read_artefact(tmp_path / "a.arrow")
    assert table is not None
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"place": place, **metadata})
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert len(read_candidates(tmp_path / "b.arrow")) == 0
    assert served_by(tmp_path / "b.arrow") == set()


def test_read_candidates_ignores_a_file_in_the_place_of_another(tmp_path: Path) -> None:
    kept = filled()
    kept.serve(["a"])
    kept.save(tmp_path / "one" / "a.arrow")
    (tmp_path / "two").mkdir()
    for path in (tmp_path / "one" / "b.arrow", tmp_path / "two" / "a.arrow"):
        path.write_bytes((tmp_path / "one" / "a.arrow").read_bytes())
        assert (len(read_candidates(path)), served_by(path)) == (0, set())


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_read_candidates_ignores_a_damaged_file(tmp_path: Path, at: float) -> None:
    path = tmp_path / "a.arrow"
    many = Candidates()
    for point in range(200):
        many.keep(point, HERE, 3, LANES)
    many.save(path)
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.write_bytes(bytes(data))
    assert len(read_candidates(path)) == 0
    path.write_bytes(bytes(data[: len(data) // 2]))
    assert len(read_candidates(path)) == 0


def test_read_candidates_with_a_flipped_bit_never_answers_otherwise(tmp_path: Path) -> None:
    """The checksum covers neither names and types of columns nor the metadata."""
    path = tmp_path / "a.arrow"
    kept = filled()
    kept.serve(["somebody"])
    kept.save(path)
    original, expected = path.read_bytes(), read_candidates(path).table()
    for position in range(0, len(original), 5):
        path.write_bytes(
            original[:position] + bytes([original[position] ^ 1 << position % 8]) + original[position + 1 :]
        )
        served_by(path)
        candidates = read_candidates(path)
        assert len(candidates) == 0 or candidates.table() == expected


ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "seed_full")


def replayed(out: Path, arms: tuple[str, ...], path: Path, **more: object) -> dict[str, bytes]:
    run = run_replay(
        ReplayRequest(str(path), "lab", arms, scope="recorded", limit=2, hard_rules=1, embedder="hashing", **more), out
    ).run
    assert json.loads((out / "manifest.json").read_text())["status"] == "complete"
    return {name: run.receipts(name).read_bytes() for name in run.conversations}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the live searches that are made if nothing is cached at first."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    asked: list[str] = []
    plain = StoreRetriever.retrieve

    def retrieve(self: StoreRetriever, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        asked.append(text)
        return plain(self, text, faults)

    monkeypatch.setattr(StoreRetriever, "retrieve", retrieve)
    return asked


def test_replays_from_store_cache_and_partial_cache_agree(tmp_path: Path, operators: Path, watched: list[str]) -> None:
    live = replayed(tmp_path / "live", ARMS, operators, faults=("slow_store=0.000001",))
    recall_points = len(watched)
    assert recall_points > 50
    assert replayed(tmp_path / "first", ARMS[:1], operators)
    assert len(watched) == 2 * recall_points
    # What the old policy never searched is searched live and then cached.
    assert replayed(tmp_path / "part", ARMS, operators) == live
    assert len(watched) == 3 * recall_points
    assert replayed(tmp_path / "kept", ARMS, operators) == live
    assert len(watched) == 3 * recall_points


def test_cache_path_depends_on_everything_that_decides_candidates(operators: Path) -> None:
    def paths(**changes: object) -> set[Path]:
        plan = make_plan(ReplayRequest(str(operators), "lab", ("tier_quota_v1",), limit=1, **changes))
        one = plan.recordings[0]
        return set(candidates_paths(plan, one).values())

    variants = (
        {},
        {"scope": "recorded"},
        {"labels": "sampled"},
        {"labels": "sampled", "seed": 1},
        {"recall_turns": "none"},
        {"embedder": "hashing"},
        {"profile": "upstream"},
    )
    assert len(set.union(*(paths(**variant) for variant in variants))) == len(variants)
    # What only selection reads does not change the path.
    assert paths() == paths(max_items=3) == paths(hard_rules=2)


class Unwalked(dict[str, Row]):
    """Rows by id that may be looked up, but not walked over: a store may have a million."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a recall walks over the whole store")

    keys = values = items = __iter__  # type: ignore[assignment]  # each raises as the first does


def test_no_recall_of_the_engine_walks_over_the_store(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = StoreRetriever.__init__

    def open_unwalked(self: StoreRetriever, *given: Any, **named: Any) -> None:
        opened(self, *given, **named)
        self._by_id = Unwalked()

    monkeypatch.setattr(StoreRetriever, "__init__", open_unwalked)
    arms = ("tier_first_v1", "tier_quota_v1", "seed_full", "recommended")
    asked = ReplayRequest(str(operators), "lab", arms, embedder="hashing", limit=1)
    run = run_replay(asked, tmp_path / "run", use_cache=False).run
    (conversation,) = run.conversations
    rows = run.read_receipts(conversation, ("status", "receipt")).to_pylist()
    assert {row["status"] for row in rows} <= {"ok", "skipped"}
    assert any(json.loads(row["receipt"]).get("notInjected") for row in rows)
