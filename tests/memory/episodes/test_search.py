"""Search, grouping, statuses, vectors and the lane (EP-5, EP-8, EP-9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.memory.episodes import search as embedding
from lab.memory.episodes.events import RETENTION, open_episodes
from lab.memory.episodes.ingest import expire
from lab.memory.episodes.search import MODES, EpisodesLane, embed, replay
from tests.memory.episodes.ledgers import NOW, NOW_MS, filled, found, hashing, line, stored
from tests.memory.ledger.ledgers import filled as filled_observations

LINES = [
    line(1, "the choir meets in the old mill"),
    line(2, "the choir sings three songs", session_id="s2"),
    line(3, "basil in clay pots", scope="Garden", session_id="s3"),
    line(4, "the mill is old", type="conversation.assistant", session_id="s2"),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return filled(tmp_path / "l.sqlite", LINES)


def ids(path: Path, query: str, **options: Any) -> list[str]:
    return [hit.event.event_id for hit in found(path, query, **options).hits]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("basil", ["e3"]),
        ("choir NOT mill", ["e2"]),
        ("choir (mill", ["e1"]),
        ("where are the pots?", ["e3"]),
        ("basil AND", ["e3"]),
        ("zzz", []),
        ('"', []),
    ],
)
def test_query_is_an_expression_or_any_of_its_words(ledger: Path, query: str, expected: list[str]) -> None:
    assert ids(ledger, query)[:1] == expected


@pytest.mark.parametrize("upstream", [False, True])
def test_expression_of_more_than_64_words_is_searched_by_words(ledger: Path, upstream: bool) -> None:
    longest = "choir choir" + " NOT mill" * 31
    assert ids(ledger, longest, upstream=upstream) == ["e2"]
    assert set(ids(ledger, f"choir {longest}", upstream=upstream)) == {"e1", "e2", "e4"}


def test_chinese_query_is_searched_for_its_characters(tmp_path: Path) -> None:
    lines = [
        line(1, "閘道器的逾時是九十秒"),
        line(2, "逾時了"),
        line(3, "羅勒用陶盆"),
        line(4, "閘道器逾時 gateway", scope="x"),
    ]
    ledger = filled(tmp_path / "l.sqlite", lines)
    assert ids(ledger, "閘道器的逾時是多少？", scope="global") == ["e1", "e2"]
    assert ids(ledger, "gateway 閘道器", scope="x") == ["e4"]
    assert ids(ledger, "閘", scope="global") == ["e1"]
    assert ids(ledger, "貓") == []
    assert ids(ledger, "閘道器的逾時", upstream=True) == []


def test_equal_ranks_of_two_lanes_are_ordered_by_number(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "厨房有燃气"), line(2, "basil in clay pots")])
    result = found(path, "basil 厨房")
    assert [(hit.event.event_id, hit.lanes) for hit in result.hits] == [("e1", ("cjk",)), ("e2", ("fts",))]


def test_summary_of_a_session_has_at_most_280_characters(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(number, f"choir {number} " + "la " * 60) for number in range(3)])
    (session,) = found(path, "choir").sessions
    assert 270 < len(session.summary) <= 280


def test_words_are_compared_by_their_stems(ledger: Path) -> None:
    assert ids(ledger, "When is the choir meeting?")[0] == "e1"
    assert ids(ledger, "meeting", upstream=True) == []
    assert ids(ledger, "the choir meets zzz", upstream=True)[0] == "e1"


def test_words_are_not_searched_in_the_names_of_sessions(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [line(1, "two pens", session_id="choir-tour"), line(2, "a choir of 33")])
    assert ids(ledger, "choir") == ["e2"]
    assert set(ids(ledger, "choir", upstream=True)) == {"e1", "e2"}
    assert ids(ledger, "session_id:choir") == ["e1"]


def test_ledger_of_the_sidecar_is_searched_without_stems(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.executescript("DROP TABLE lab_episodes_fts")
    assert ids(ledger, "meets") == ["e1"]
    assert ids(ledger, "meeting") == []


def test_filters_apply_before_the_cut(ledger: Path) -> None:
    assert ids(ledger, "choir OR mill OR basil", scope="garden", depth=1) == ["e3"]
    assert ids(ledger, "choir", now_ms=LINES[0]["ts_ms"], depth=1) == ["e1"]


@pytest.mark.parametrize("mode", MODES)
def test_search_of_a_scope_finds_no_event_of_another(ledger: Path, mode: str) -> None:
    embed(ledger, hashing(), now=NOW)
    assert ids(ledger, "choir OR mill OR basil", mode=mode, vectors=hashing(), scope="garden") == ["e3"]


def test_equal_scores_are_ordered_by_time(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(2, "choir"), line(3, "choir"), line(1, "choir")])
    assert ids(path, "choir") == ["e3", "e2", "e1"]


@pytest.mark.parametrize("query", ["", "  \n ", "\u3000"])
def test_blank_query_is_refused_in_one_line(ledger: Path, query: str) -> None:
    with pytest.raises(UnusableInput, match="the query is blank"):
        found(ledger, query)


def test_query_of_a_megabyte_is_searched(ledger: Path) -> None:
    query = " ".join(f"choir w{number}" for number in range(80_000))
    assert ids(ledger, query, mode="hybrid", vectors=hashing())[0] in ("e1", "e2")
    assert ids(ledger, "choir" * 200_000) == []


def test_unknown_mode_is_refused(ledger: Path) -> None:
    with pytest.raises(UnusableInput, match="expected lexical, hybrid, vector"):
        found(ledger, "choir", mode="fast")


def test_sessions_are_ordered_by_hits_rank_time_and_id(ledger: Path) -> None:
    sessions = found(ledger, "choir OR mill").sessions
    assert [(session.session_id, session.hit_count) for session in sessions] == [("s2", 2), ("s1", 1)]
    assert sessions[0].type_counts == {"conversation.assistant": 1, "conversation.user": 1}
    (session,) = found(ledger, "choir OR mill", limit=1, per_session=1).sessions
    assert (session.hit_count, len(session.hits), session.summary) == (2, 1, session.hits[0].event.summary)


def test_replay_returns_events_in_order_of_time(ledger: Path) -> None:
    with open_episodes(ledger) as connection:
        assert [event.event_id for event in replay(connection, "s2")] == ["e2", "e4"]
        assert [event.event_id for event in replay(connection, "s2", limit=1)] == ["e2"]
        assert replay(connection, "none") == []


def test_hybrid_fuses_both_lanes_by_reciprocal_rank(ledger: Path) -> None:
    embed(ledger, hashing(), now=NOW)
    result = found(ledger, "choir sings", mode="hybrid", vectors=hashing())
    assert (result.vector_status, result.hits[0].event.event_id) == ("ok", "e2")
    assert result.hits[0].lanes == ("fts", "vector")
    assert result.hits[0].score == pytest.approx(2 / 61)
    trace = result.trace()
    assert [entry["event_id"] for entry in trace["fts_top_k"]] == ["e2", "e1"]
    assert len(trace["vec_top_k"]) == 4
    assert "choir" not in str(trace)


def test_english_query_is_a_third_lane(ledger: Path) -> None:
    embed(ledger, hashing(), now=NOW)
    result = found(ledger, "陶盆", mode="vector", vectors=hashing(), query_en="clay pots")
    assert [hit.event.event_id for hit in result.hits if hit.id == result.lanes["vector_en"][0][0]] == ["e3"]
    assert set(result.lanes) == {"vector", "vector_en"}


class Broken(HashingEmbedder):
    def encode(self, texts: Sequence[str], role: Any = None) -> np.ndarray:
        raise CannotMeasure("the endpoint does not answer")

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "version": "broken"}


class Wide(HashingEmbedder):
    dimension = 128


@pytest.mark.parametrize(
    ("vectors", "status"),
    [
        (lambda: None, "missing_embedder"),
        (lambda: Vectors(Broken()), "the endpoint does not answer"),
        (lambda: Vectors(Wide()), "other_dimension"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_search_without_vectors_uses_words(ledger: Path, mode: str, vectors: Any, status: str) -> None:
    embed(ledger, hashing(), now=NOW)
    result = found(ledger, "basil", mode=mode, vectors=vectors())
    assert (result.vector_status, [hit.event.event_id for hit in result.hits]) == (status, ["e3"])


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_vectors_of_another_model_are_not_compared(ledger: Path, mode: str) -> None:
    assert found(ledger, "basil", mode=mode, vectors=hashing()).vector_status == "missing_embeddings"
    embed(ledger, hashing(), now=NOW)
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE episodic_event_embeddings SET model = 'other'")
    result = found(ledger, "basil", mode=mode, vectors=hashing())
    assert (result.vector_status, [hit.event.event_id for hit in result.hits]) == ("other_model", ["e3"])


@pytest.mark.parametrize("mode", MODES)
def test_search_without_an_index_gives_a_reason(ledger: Path, mode: str) -> None:
    embed(ledger, hashing(), now=NOW)
    with sqlite3.connect(ledger) as connection:
        connection.executescript("DROP TABLE episodic_events_fts; DROP TABLE lab_episodes_fts")
    result = found(ledger, "basil", mode=mode, vectors=hashing())
    assert result.lexical_status == ("ok" if mode == "vector" else "missing_index")
    assert bool(result.hits) == (mode != "lexical")


def test_lane_without_an_index_searches_chinese_text(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [line(1, "閘道器的逾時是九十秒")])
    with sqlite3.connect(ledger) as connection:
        connection.executescript("DROP TABLE episodic_events_fts; DROP TABLE lab_episodes_fts")
    lane = EpisodesLane(ledger).search("閘道器", 5, scope=None, now_ms=NOW_MS)
    assert (lane.searched, len(lane.candidates), lane.reason) == (True, 1, "lexical: missing_index")
    lane = EpisodesLane(ledger).search("gateway", 5, scope=None, now_ms=NOW_MS)
    assert (lane.searched, len(lane.candidates)) == (False, 0)


@pytest.mark.parametrize("damage", ["DELETE FROM {}", "UPDATE {} SET block = zeroblob(12) WHERE id = 10"])
def test_search_with_a_damaged_index_gives_a_reason(ledger: Path, damage: str) -> None:
    embed(ledger, hashing(), now=NOW)
    with sqlite3.connect(ledger) as connection:
        connection.execute(damage.format("lab_episodes_fts_data"))
    result = found(ledger, "basil", mode="hybrid", vectors=hashing())
    assert (result.lexical_status, result.vector_status, len(result.hits)) == ("damaged_index", "ok", 4)
    lane = EpisodesLane(ledger).search("basil", 5, scope=None, now_ms=NOW_MS)
    assert (lane.searched, lane.reason) == (False, "lexical: damaged_index")


def test_search_without_a_table_of_vectors_uses_words(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("DROP TABLE episodic_event_embeddings")
    assert found(ledger, "basil", mode="hybrid", vectors=hashing()).vector_status == "missing_embeddings"


def test_embed_skips_unchanged_texts(ledger: Path) -> None:
    assert embed(ledger, hashing(), now=NOW, write=False).receipt()["embedded"] == 4
    assert embed(ledger, hashing(), now=NOW).embedded == 4
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE episodic_events SET search_text = 'new' WHERE event_id = 'e2'")
    done = embed(ledger, hashing(), now=NOW)
    assert (done.embedded, done.unchanged) == (1, 3)
    assert embed(ledger, hashing(), now=NOW, scope="garden").unchanged == 1


def test_embed_leaves_out_a_text_that_changed_meanwhile(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Vectors.prepare

    def changes(given: Vectors, texts: Sequence[str]) -> int:
        with sqlite3.connect(ledger) as connection:
            connection.execute("UPDATE episodic_events SET search_text = 'new' WHERE event_id = 'e2'")
        return prepare(given, texts)

    monkeypatch.setattr(Vectors, "prepare", changes)
    embed(ledger, hashing(), now=NOW)
    with sqlite3.connect(ledger) as connection:
        (count,) = connection.execute("SELECT count(*) FROM episodic_event_embeddings").fetchone()
    assert count == 3
    monkeypatch.undo()
    assert embed(ledger, hashing(), now=NOW).embedded == 1


def test_embed_continues_where_it_was_killed(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "BATCH", 2)
    calls: list[int] = []

    def stop(count: int) -> None:
        calls.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(ledger, hashing(), now=NOW, announce=stop)
    done = embed(ledger, hashing(), now=NOW)
    assert (calls, done.embedded, done.unchanged) == ([2], 2, 2)


@pytest.mark.parametrize("scope", ["專案", "", "!!!"])
def test_scope_without_a_name_is_not_every_scope(tmp_path: Path, scope: str) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "choir", ts_ms=1, scope="garden"), line(2, "choir", scope=scope)])
    before = stored(path)
    for run in (
        lambda: expire(path, scope=scope, now=NOW),
        lambda: embed(path, hashing(), now=NOW, scope=scope),
        lambda: found(path, "choir", scope=scope),
    ):
        with pytest.raises(UnusableInput, match="has no ASCII letter or digit"):
            run()
    assert stored(path) == before
    lane = EpisodesLane(path).search("choir", 5, scope=scope, now_ms=NOW_MS)
    assert (lane.searched, len(lane.candidates)) == (False, 0)
    assert "has no ASCII letter or digit" in (lane.reason or "")


def test_scope_that_would_be_another_one_removes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "choir", ts_ms=1, scope="team")])
    with pytest.raises(UnusableInput, match="so this is scope 'team'; give that name if you mean it"):
        expire(path, scope="team/β", now=NOW, write=True)
    assert len(stored(path)) == 1


def test_lane_returns_candidates_with_their_evidence(ledger: Path) -> None:
    result = EpisodesLane(ledger).search("choir", 1, scope=None, now_ms=NOW_MS)
    (candidate,) = result.candidates
    assert (candidate.ref, candidate.lane, candidate.kind, candidate.retrievers) == (
        "ep:e2",
        "episodes",
        "event",
        ("fts",),
    )
    assert (candidate.text, candidate.detail, result.reason) == ("the choir sings three songs",) * 2 + (None,)


@pytest.mark.parametrize("kind", RETENTION)
def test_lane_trusts_no_result_of_a_tool(tmp_path: Path, kind: str) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "choir", type=kind)])
    (candidate,) = EpisodesLane(path).search("choir", 1, scope=None, now_ms=NOW_MS).candidates
    assert candidate.trust == ("untrusted" if kind == "tool.result" else "unknown")


@pytest.mark.parametrize(
    "change",
    [
        "ts_ms = 'abc'",
        "ts_ms = 1e300",
        "ts_ms = 9e999",
        "ts_ms = x'ff'",
        "summary = x'ff00', redacted = 'abc'",
        "session_id = x'6162', agent_id = x'ff'",
        "search_text = CAST(search_text AS BLOB)",
        "payload_json = x'ff', refs_json = 'abc'",
    ],
)
def test_values_of_any_type_are_read(ledger: Path, change: str) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute(f"UPDATE episodic_events SET {change} WHERE event_id = 'e3'")
    assert embed(ledger, hashing(), now=NOW).embedded == 4
    assert embed(ledger, hashing(), now=NOW).unchanged == 4
    result = found(ledger, "basil", mode="hybrid", vectors=hashing())
    assert result.hits[0].event.event_id == "e3"
    assert [type(value) for value in result.hits[0].event[:3]] == [str, int, str]
    with open_episodes(ledger) as connection:
        assert replay(connection, result.hits[0].event.session_id) is not None
    assert expire(ledger, days={"conversation.user": 1}, now=NOW + timedelta(days=9))["removed"] >= 2


def test_lane_returns_what_another_program_stored_oddly(ledger: Path) -> None:
    nested = '{"a":' * 100_000 + "1" + "}" * 100_000
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE episodic_events SET summary = CAST(summary AS BLOB), refs_json = ?", (b"{}",))
        connection.execute("UPDATE episodic_events SET payload_json = ?", (nested,))
    result = EpisodesLane(ledger).search("basil", 5, scope=None, now_ms=NOW_MS)
    assert [(one.text, one.detail, one.sources) for one in result.candidates] == [("basil in clay pots", None, ())]
    with open_episodes(ledger) as connection:
        assert [event.summary for event in replay(connection, "s3")] == ["basil in clay pots"]


def test_lane_returns_nothing_from_the_future(ledger: Path) -> None:
    assert EpisodesLane(ledger).search("choir", 9, scope=None, now_ms=LINES[0]["ts_ms"] - 1).candidates == []


def test_lane_never_raises(ledger: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no database")
    empty = filled_observations(tmp_path / "o.sqlite", [{"summary": "x"}])
    for lane, reason in (
        (EpisodesLane(text), "is not an SQLite file"),
        (EpisodesLane(tmp_path / "none"), "no such file"),
        (EpisodesLane(empty), "has no episodes"),
        (EpisodesLane(tmp_path / ("a" * 300)), "cannot be read: File name too long"),
    ):
        result = lane.search("choir", 5, scope=None, now_ms=NOW_MS)
        assert (result.searched, len(result.candidates)) == (False, 0)
        assert reason in (result.reason or "")
    blank = EpisodesLane(ledger).search(" ", 5, scope=None, now_ms=NOW_MS)
    assert (blank.searched, "blank" in (blank.reason or "")) == (False, True)
