"""Stored vectors: equal answers, and refusal of vectors from another embedder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.embedding.embedder import HashingEmbedder, Role
from lab.embedding.vectors import Vectors, stored_vectors
from lab.replay.explain import explain
from lab.replay.memories_from import NOT_EMBEDDED, read_stored
from lab.replay.plan import make_plan, plan_of
from lab.report.explanation import explanation_text
from lab.retrieval.clamp import Clamp
from lab.retrieval.contract import Row
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.retrievers import embedded_text, query_text, row_vectors
from lab.view.recorded import Recorded
from tests.replay.conftest import Desk

TEXTS = [f"host {number} listens on port {9000 + number}" for number in range(8)]
ARMS = ("hybrid", "tier_first_v1")


def _rows(texts: Sequence[str] = TEXTS) -> list[dict[str, Any]]:
    """Return rows as the plugin writes them, with vectors of the hashing embedder."""
    return [
        {
            "id": f"0b0e9a3c-1111-4000-8000-{number:012}",
            "text": text,
            "category": "fact",
            "importance": 0.9,
            "importance_label": "nice_to_have",
            "scope": "global",
            "trust_tier": "user",
            "createdAt": 1000.0 * number,
            "vector": vector.tolist(),
        }
        for number, (text, vector) in enumerate(zip(texts, HashingEmbedder().encode(texts), strict=True))
    ]


def _table(folder: Path, rows: list[dict[str, Any]]) -> str:
    import pyarrow as pa

    width = len(rows[0]["vector"] or range(64))
    plain = pa.Table.from_pylist([{name: value for name, value in row.items() if name != "vector"} for row in rows])
    vectors = pa.array([row["vector"] for row in rows], pa.list_(pa.float32(), width))
    with quiet_lance():
        import_lancedb().connect(str(folder)).create_table(
            "memories", plain.append_column("vector", vectors), on_bad_vectors="null"
        )
    return str(folder)


@pytest.fixture
def vector_desk(desk: Desk) -> Desk:
    """A conversation that repeats two rows of the table."""
    desk.say("c", ("global", [("user", TEXTS[3]), ("user", TEXTS[5])]))
    return desk


def test_stored_vectors_equal_to_embedded_ones_give_equal_receipts(vector_desk: Desk) -> None:
    table = _table(vector_desk.home / "db", _rows())
    embedded = vector_desk.run(*ARMS, out="embedded", memories_from=table)
    stored = vector_desk.run(*ARMS, out="stored", memories_from=table, vectors="stored")
    assert vector_desk.rows(stored) == vector_desk.rows(embedded)
    resolved = stored.run.manifest.resolved
    assert resolved.vectors == read_stored(Path(table), vectors=True).vectors.sha256
    assert embedded.run.manifest.resolved.vectors is None
    assert plan_of(stored.run).run_key() == stored.run.manifest.run_key


def test_stored_vectors_avoid_embedding_stored_texts(vector_desk: Desk) -> None:
    rows = _rows()
    # Only the first five by key are compared; here two later ones have swapped vectors.
    rows[5]["vector"], rows[7]["vector"] = rows[7]["vector"], rows[5]["vector"]
    table = _table(vector_desk.home / "db", rows)
    outcome = vector_desk.run("vector", memories_from=table, vectors="stored")
    assert outcome.embedded == 1, "a prompt; the other is among the five texts that were compared before"
    last = vector_desk.rows(outcome)[-1]
    assert last["item_key"][0] == rows[7]["id"]
    several = vector_desk.run("vector", out="jobs", jobs=2, memories_from=table, vectors="stored")
    assert vector_desk.rows(several) == vector_desk.rows(outcome)
    cached = Vectors(HashingEmbedder())
    assert cached.prepare(TEXTS) == 2


def test_stored_vectors_view_and_cli_explain_alike(vector_desk: Desk) -> None:
    rows = _rows()
    rows[5]["vector"], rows[7]["vector"] = rows[7]["vector"], rows[5]["vector"]
    outcome = vector_desk.run("vector", memories_from=_table(vector_desk.home / "db", rows), vectors="stored")
    key = vector_desk.rows(outcome)[-1]["turn"]
    printed = explanation_text(explain(outcome.run, key, "vector"), with_text=True)
    assert Recorded(outcome.run).explanation("c", key, "vector", with_text=True, full=False) == printed
    complete = explanation_text(explain(outcome.run, key, "vector"), with_text=True, full=True)
    assert complete.index(rows[7]["id"]) < complete.index(rows[5]["id"])


def test_stored_vectors_rows_with_equal_text_keep_their_vectors(vector_desk: Desk) -> None:
    rows = _rows([*TEXTS[:6], "same", "same"])
    rows[7]["vector"] = rows[3]["vector"]
    outcome = vector_desk.run("vector", memories_from=_table(vector_desk.home / "db", rows), vectors="stored")
    assert set(vector_desk.rows(outcome)[0]["item_key"][:2]) == {rows[3]["id"], rows[7]["id"]}


def test_stored_vectors_zero_row_is_counted_not_compared(vector_desk: Desk) -> None:
    rows = _rows()
    rows[0]["vector"] = [0.0] * 64
    table = _table(vector_desk.home / "db", rows)
    result = read_stored(Path(table), vectors=True)
    assert result.notes[-2] == f"{table}: {NOT_EMBEDDED}: 1"
    assert vector_desk.run("vector", memories_from=table, vectors="stored").failures == ()


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_stored_vectors_text_stored_twice_may_lack_one_of_its_vectors(vector_desk: Desk, profile: str) -> None:
    rows = _rows([*TEXTS[:7], TEXTS[2]])
    rows[7]["vector"] = [0.0] * 64
    table = _table(vector_desk.home / "db", rows)
    outcome = vector_desk.run(*ARMS, memories_from=table, vectors="stored", profile=profile)
    assert outcome.failures == ()


def test_upstream_alone_searches_rows_that_are_no_memories(vector_desk: Desk) -> None:
    rows = _rows([*TEXTS, f"constraints:\n- {TEXTS[3]}", " \n"])
    rows[8] |= {"id": "working_set:global", "importance_label": "must_remember"}
    rows[9] |= {"importance_label": "must_remember"}
    table = _table(vector_desk.home / "db", rows)
    arm = vector_desk.home / "engine.json"
    arm.write_text(json.dumps({"autoRecall": {"maxItems": 3}}), "utf-8")

    def receipts(profile: str) -> list[dict[str, Any]]:
        outcome = vector_desk.run(f"engine={arm}", out=profile, memories_from=table, profile=profile)
        assert outcome.failures == ()
        return [json.loads(row["receipt"]) | {"block": row["block"]} for row in vector_desk.rows(outcome)]

    first = receipts("upstream")[0]
    must = next(tier for tier in first["tierCounts"] if tier["tier"] == "must")
    # The plugin injects a blank line for a blank text, and leaves the slot of a stored Working Set empty.
    assert (must["candidates"], must["selected"], first["injectedCount"]) == (2, 2, 2)
    assert rows[9]["id"] in first["fusedTop"]
    assert "working_set:global" not in first["fusedTop"]
    assert all(tier["candidates"] == 0 for tier in receipts("seed")[0]["tierCounts"] if tier["tier"] == "must")


def test_white_space_around_a_prompt_is_not_embedded(desk: Desk) -> None:
    desk.say("c", ("global", [("user", TEXTS[0]), ("user", f"\n  {TEXTS[1]} \u3000\n")]))
    assert desk.run(*ARMS).failures == ()
    cached = Vectors(HashingEmbedder())
    assert (cached.prepare([TEXTS[1]]), cached.prepare([f"\n  {TEXTS[1]} \u3000\n"])) == (0, 1)


@pytest.mark.parametrize("limits", [Clamp(), Clamp(60, 20), Clamp(60, 0), Clamp(60, 20, 40), Clamp(1, 0)])
@pytest.mark.parametrize("length", [0, 1, 59, 60, 61, 119, 120, 121, 700])
def test_long_prompt_is_clamped_as_if_it_were_trimmed_whole(limits: Clamp, length: int) -> None:
    text = ("🔥 kiln 茶 " * 100)[:length]
    assert query_text(f" \n{text}\u3000\t", limits) == embedded_text(text.strip(), limits)


def test_row_written_since_the_store_was_read_has_no_stored_vector() -> None:
    stored, _ = stored_vectors(Path("db"), {"w": ([1.0, 0.0], "row 1"), "x": ([0.0, 1.0], "row 2")})
    read, written = (Row("w", "w", "one", "one", 1, position=at) for at in (1, None))
    down = replace(written, embedded=False)

    class Computed:
        dimension = 2

        def of(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
            return np.full((len(texts), 2), 0.5, np.float32)

    def vectors(*rows: Row, as_stored: bool = True) -> list[list[float]]:
        found: list[list[float]] = row_vectors(rows, Clamp(), Computed(), stored, as_stored=as_stored).tolist()
        return found

    assert vectors(read, written, down) == [[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]
    assert vectors(down, as_stored=False) == [[0.5, 0.5]]


class _Other(HashingEmbedder):
    """An embedder with other vectors, or another dimension."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def identity(self) -> dict[str, Any]:
        return {"kind": "other", "model": "another", "dimension": self.dimension}

    def encode(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        return super().encode([text[::-1] for text in texts], role)


@pytest.mark.parametrize(
    ("dimension", "said"),
    [
        (64, "5 of 5 stored vectors differ from those of another (lowest cosine"),
        (
            65,
            "its vectors have 64 numbers, but those of another have 65; name the embedder that made them",
        ),
    ],
)
def test_stored_vectors_of_another_embedder_are_refused(
    vector_desk: Desk, monkeypatch: pytest.MonkeyPatch, dimension: int, said: str
) -> None:
    monkeypatch.setattr("lab.replay.plan.embedder_named", lambda _: _Other(dimension))
    table = _table(vector_desk.home / "db", _rows())
    with pytest.raises(UnusableInput) as caught:
        vector_desk.run("vector", memories_from=table, vectors="stored")
    assert str(caught.value).startswith(f"{table}: ")
    assert said in str(caught.value)
    assert "or replay without --vectors stored" in str(caught.value)


def test_stored_vectors_all_zero_are_refused(vector_desk: Desk) -> None:
    rows = [row | {"vector": [0.0] * 64} for row in _rows()]
    with pytest.raises(UnusableInput, match="every vector is all zeros; replay without --vectors stored"):
        vector_desk.run("vector", memories_from=_table(vector_desk.home / "db", rows), vectors="stored")


def test_make_plan_stored_vectors_need_a_store(vector_desk: Desk) -> None:
    with pytest.raises(UnusableInput, match="vectors stored: needs a store; name one with --mem"):
        make_plan(vector_desk.request("vector", vectors="stored"))
    with pytest.raises(UnusableInput, match="unknown vectors 'kept'; known: embed, stored"):
        make_plan(vector_desk.request("vector", vectors="kept"))


def _export(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "export.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_stored_vectors_of_export_and_table_are_equal(vector_desk: Desk) -> None:
    path, table = _export(vector_desk.home, _rows()), _table(vector_desk.home / "db", _rows())
    one, other = read_stored(path, vectors=True).vectors, read_stored(Path(table), vectors=True).vectors
    assert one.sha256 == other.sha256
    assert one.of(list(one.rows)).tobytes() == HashingEmbedder().encode(TEXTS).tobytes()


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vector": [1.0, float("inf")]}, "field 'vector': expected a list of finite numbers"),
        ({"vector": [float("nan")] * 64}, "field 'vector': expected a list of finite numbers"),
        ({"vector": "zeros"}, "field 'vector': expected a list of finite numbers"),
        ({"vector": [[1.0]]}, "field 'vector': expected a list of finite numbers"),
        ({"vector": [0.6, 0.8]}, "field 'vector': has another number of numbers than most rows"),
        ({"vector": [3.0] + [0.0] * 63}, "field 'vector': its length is not 1"),
    ],
)
def test_stored_vectors_bad_vector_is_left_out(tmp_path: Path, changes: dict[str, Any], said: str, place: int) -> None:
    rows = _rows()
    sound = [row for number, row in enumerate(rows) if number != place]
    path = _export(tmp_path, [row | changes if number == place else row for number, row in enumerate(rows)])
    stored = read_stored(path, vectors=True)
    (tmp_path / "sound").mkdir()
    alone = read_stored(_export(tmp_path / "sound", sound), vectors=True)
    assert [memory.key for memory in stored.memories] == [memory.key for memory in alone.memories]
    assert stored.vectors.sha256 == alone.vectors.sha256
    assert sum(f"rows left out, because {said}" in note and note.endswith(": 1") for note in stored.notes) == 1
    assert read_stored(path).vectors is None


@pytest.mark.parametrize("scale", [3.0, 0.99])
def test_stored_vectors_not_of_unit_length_are_refused(vector_desk: Desk, scale: float) -> None:
    rows = _rows()
    for row in rows:
        row["vector"] = [scale * value for value in row["vector"]]
    table = _table(vector_desk.home / "db", rows)
    with pytest.raises(UnusableInput) as caught:
        vector_desk.run("vector", memories_from=table, vectors="stored")
    assert "field 'vector': its length is not 1" in str(caught.value)
    assert str(caught.value).endswith("or replay without --vectors stored")
    assert vector_desk.run("vector", memories_from=table).failures == ()


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("nulls", [[2], range(8)], ids=["one", "all"])
def test_stored_vectors_null_is_equal_in_table_and_export(tmp_path: Path, nulls: Sequence[int], vectors: bool) -> None:
    rows = [row | ({"vector": None} if number in nulls else {}) for number, row in enumerate(_rows())]
    paths = [_export(tmp_path, rows), Path(_table(tmp_path / "db", rows))]
    if vectors and len(nulls) == 8:
        for path in paths:
            with pytest.raises(UnusableInput, match="its rows have no field 'vector'"):
                read_stored(path, vectors=True)
        return
    one, other = (read_stored(path, vectors=vectors) for path in paths)
    assert one.memories == other.memories
    lacking = [] if len(nulls) == 8 else [rows[2]["id"]]
    assert [memory.key for memory in one.memories if not memory.embedded] == lacking
    assert [note.partition(": ")[2] for note in one.notes] == [note.partition(": ")[2] for note in other.notes]
    assert [note for note in one.notes if NOT_EMBEDDED in note] == [f"{paths[0]}: {NOT_EMBEDDED}: 1"] * len(lacking)


def test_stored_vectors_export_without_vectors_is_refused(tmp_path: Path) -> None:
    path = _export(tmp_path, [{name: row[name] for name in row if name != "vector"} for row in _rows()])
    with pytest.raises(UnusableInput, match="its rows have no field 'vector'; --vectors stored needs a LanceDB folder"):
        read_stored(path, vectors=True)


def test_stored_vectors_digest_depends_on_bits_and_keys() -> None:
    rows = {"a": (np.array([1.0, 0.0]), "1"), "b": (np.array([0.0, 1.0]), "2")}
    first = stored_vectors(Path("x"), rows)[0].sha256
    assert stored_vectors(Path("elsewhere"), dict(rows))[0].sha256 == first
    assert stored_vectors(Path("x"), rows | {"b": (np.array([1e-7, 1.0]), "2")})[0].sha256 != first
    assert stored_vectors(Path("x"), {"a": rows["a"], "c": rows["b"]})[0].sha256 != first
