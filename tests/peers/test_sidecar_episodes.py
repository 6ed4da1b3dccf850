"""Episodes beside the public sidecar: equal rows, results, vectors and expiry, but for the differences of EP-10."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.embedding.embedder import HashingEmbedder
from lab.embedding.server import EmbeddingServer
from lab.memory.episodes.ingest import expire, ingest
from lab.memory.episodes.search import Found, embed, model_of
from tests.memory.episodes.ledgers import DAY_MS, NOW, NOW_MS, found, hashing, line, stored, write_spool

WORDS = ("basil", "pot", "choir", "mill", "thursday", "gateway", "backup", "the", "in", "old", "song", "meets", "1,5")
TYPES = ("conversation.user", "conversation.assistant", "tool.call", "tool.result", "ops.decision", "ops.alert")
QUERIES = (
    "choir",
    "choir mill",
    "choir OR basil",
    "when does the choir meet?",
    "pot*",
    "zzz",
    "NOT",
    "old NOT mill",
    "song-pot",
)
MODEL = model_of(HashingEmbedder())


@pytest.fixture
def embeddings() -> Iterator[str]:
    """The address of an endpoint that gives both programs the same vectors."""
    server = EmbeddingServer(hashing(), MODEL)
    yield server.url
    server.close()


@pytest.fixture
def episodes(sidecar: Any) -> Any:
    """The command for episodes of the public sidecar, over a file."""

    def run(path: Path, *words: object) -> Any:
        return sidecar("--db", path, "episodes", *words)

    return run


@pytest.fixture(params=(1, 2, 3))
def both(request: pytest.FixtureRequest, episodes: Any, tmp_path: Path) -> tuple[Path, Path]:
    """The same spool, ingested by the lab and by the sidecar."""
    draw = random.Random(request.param)
    lines = []
    for number in range(200):
        text = " ".join(draw.choices(WORDS, k=draw.randint(1, 30)))
        payload = draw.choice((None, {"text": text}, {"b": [text, 3, True], "a": {"c": "kept"}}, text))
        refs = draw.choice((None, {"path": f"s/{number}.jsonl", "offset": number}))
        lines.append(
            line(
                number,
                text,
                type=draw.choice(TYPES),
                payload=payload,
                refs=refs,
                scope="global" if number % 7 else None,
                session_id=f"s{draw.randint(1, 12)}",
                ts_ms=NOW_MS - draw.randint(0, 120) * DAY_MS - number,
            )
        )
    spool = write_spool(tmp_path / "spool.jsonl", [*lines, lines[0]])
    ours, theirs = tmp_path / "ours.sqlite", tmp_path / "theirs.sqlite"
    ingest(ours, spool, "spool", now=NOW)
    episodes(theirs, "ingest", "--file", spool, "--state", tmp_path / "state.json")
    return ours, theirs


def grouped(result: Found) -> list[Any]:
    return [
        [session.session_id, session.hit_count, session.best_rank, session.latest_ts_ms]
        + [(hit.event.event_id, round(hit.score, 9)) for hit in session.hits]
        for session in result.sessions
    ]


def theirs_grouped(answer: Any) -> list[Any]:
    return [
        [session["session_id"], session["hit_count"], session["best_match_rank"], session["latest_ts_ms"]]
        + [(item["event_id"], round(item["match"]["rrf_score"], 9)) for item in session["matched_items"]]
        for session in answer["result"]["sessions"]
    ]


def test_spool_gives_the_rows_of_the_sidecar(both: tuple[Path, Path]) -> None:
    ours, theirs = (stored(path) for path in both)
    assert len(ours) == 200
    assert ours == theirs


def test_each_program_reads_the_others_schema(both: tuple[Path, Path], episodes: Any) -> None:
    ours, theirs = both
    episodes(ours, "query", "--global")
    with sqlite3.connect(ours) as left, sqlite3.connect(theirs) as right:
        columns = [
            [
                connection.execute(f"SELECT name, type, [notnull], pk FROM pragma_table_info('{table}')").fetchall()
                for table in ("episodic_events", "episodic_event_embeddings", "episodic_events_fts")
            ]
            for connection in (left, right)
        ]
    assert columns[0] == columns[1]


@pytest.mark.parametrize("query", QUERIES)
def test_words_find_what_the_sidecar_finds(both: tuple[Path, Path], episodes: Any, query: str) -> None:
    ours, theirs = both
    for path in both:
        answer = episodes(path, "search", query, "--global")
        result = found(path, query, scope="global", upstream=True)
        if query != "NOT":
            assert grouped(result) == theirs_grouped(answer)
    assert grouped(found(ours, query, upstream=True)) == grouped(found(theirs, query, upstream=True))


def test_vectors_of_either_program_serve_both(both: tuple[Path, Path], episodes: Any, embeddings: str) -> None:
    ours, theirs = both
    assert embed(ours, hashing(), now=NOW).embedded == 200
    options = ("--base-url", embeddings, "--model", MODEL)
    assert episodes(theirs, "embed", "--limit", 500, *options)["embedded"] == 200
    assert embed(theirs, hashing(), now=NOW).unchanged == 200
    assert episodes(ours, "embed", "--limit", 500, *options)["embedded"] == 0
    for query in ("choir mill", "old song"):
        for mode in ("vector", "hybrid"):
            for path in both:
                answer = episodes(path, "search", query, "--global", "--mode", mode, *options)
                result = found(path, query, scope="global", mode=mode, vectors=hashing(), upstream=True)
                assert (answer["vector_status"], result.vector_status) == ("ok", "ok")
                assert grouped(result) == theirs_grouped(answer)


def test_expiry_removes_what_the_sidecar_removes(both: tuple[Path, Path], episodes: Any, tmp_path: Path) -> None:
    ours, theirs = both
    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(theirs, copy)
    receipt = expire(ours, now=NOW, scope="global")
    answer = episodes(theirs, "gc", "--global", "--now-ts-ms", NOW_MS)
    assert receipt["by_type"] == answer["deleted_by_type"]
    assert stored(ours) == stored(theirs)
    assert expire(copy, now=NOW, scope="global")["removed"] == answer["deleted_total"]
