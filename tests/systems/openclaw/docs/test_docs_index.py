"""The document index: what an ingest changes, what an aborted one leaves, and what a search returns."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs import index as ingesting
from lab.systems.openclaw.docs.globs import IngestPlan, plan_ingest, read_tool_input
from lab.systems.openclaw.docs.index import DocsIndex, matrix_of, nearest
from lab.systems.openclaw.docs.lane import open_docs

Write = Callable[[Mapping[str, str]], Path]
Opened = Callable[..., DocsIndex]
COUNTERS = ("chunks_inserted", "chunks_updated", "chunks_unchanged", "chunks_deleted", "chunks_total", "embedded")


def counted(index: DocsIndex) -> tuple[int, ...]:
    return tuple(index.last_ingest[name] for name in COUNTERS)


def bytes_of(index: DocsIndex) -> bytes:
    return index.path.read_bytes()


# Ingest


def test_first_ingest_stores_and_reports_everything(handbook: Path, opened: Opened, counting: Any) -> None:
    assert opened(handbook, counting()).last_ingest == {
        "skipped": False,
        "skipReason": None,
        "filesMatched": 4,
        "filesTruncated": False,
        "missingRoots": [],
        "invalidRoots": [],
        "files_ingested": 4,
        "files_unreadable": 0,
        "files_not_utf8": 0,
        "chunks_excluded": 0,
        "folders_unreadable": 0,
        "files_shadowed": 0,
        "chunks_total": 7,
        "chunks_inserted": 7,
        "chunks_updated": 0,
        "chunks_unchanged": 0,
        "chunks_deleted": 0,
        "embedded": 7,
        "batches": 1,
    }


def test_ingest_neither_writes_nor_embeds_unchanged_content(handbook: Path, opened: Opened, counting: Any) -> None:
    embed = counting()
    before = bytes_of(opened(handbook, embed))
    embedded_count = len(embed.texts)
    again = opened(handbook, embed)
    assert counted(again) == (0, 0, 7, 0, 7, 0)
    assert (len(embed.texts), bytes_of(again)) == (embedded_count, before)


def test_ingest_writes_and_embeds_only_changes(handbook: Path, opened: Opened, counting: Any) -> None:
    embed = counting()
    opened(handbook, embed)
    (handbook / "gateway/runbook.md").write_text("# Runbook\n\nDrain, then restart.\n", encoding="utf-8")
    (handbook / "mobile/specs/login.md").unlink()
    (handbook / "new.md").write_text("Fresh.", encoding="utf-8")
    embed.texts.clear()
    assert counted(opened(handbook, embed)) == (1, 1, 4, 2, 6, 2)
    assert sorted(embed.texts) == ["Runbook\nRunbook\nDrain, then restart.", "new\nFresh."]


def test_ingest_does_not_embed_a_moved_file_again(handbook: Path, opened: Opened, counting: Any) -> None:
    embed = counting()
    opened(handbook, embed)
    (handbook / "gateway/runbook.md").rename(handbook / "runbook.md")
    assert counted(opened(handbook, embed)) == (1, 0, 6, 1, 7, 0)


def test_search_ranks_equal_chunks_as_they_came(written: Write, opened: Opened, counting: Any, refs: Any) -> None:
    folder = written({".git/HEAD": "", "b.md": "# B\n\nport one\n", "c.md": "# X\n\nport one\n"})
    opened(folder, counting(), "grown")
    written({"a.md": "# A\n\nport one\n", "b.md": "# Z\n\nport one\n\n# B\n\nport one\n"})
    grown, fresh = (opened(folder, counting(), name).search("port", limit=9) for name in ("grown", "fresh"))
    assert refs(fresh) == ["a.md#a:001", "b.md#z:001", "b.md#b:001", "c.md#x:001"]
    assert refs(grown) == ["b.md#b:001", "c.md#x:001", "a.md#a:001", "b.md#z:001"]


def test_file_replaces_an_earlier_one_of_its_name_outside_a_repository(
    written: Write, opened: Opened, counting: Any
) -> None:
    page = "# A\n\nport {0}\n\n# {0}\n\nport restart {0}\n"
    pages = written({f"{name}/page.md": page.format(name) for name in ("one", "two")})
    index = opened(pages, counting(), by_path=False)
    assert (counted(index), index.last_ingest["files_shadowed"]) == ((3, 1, 0, 1, 4, 4), 1)
    found = [row.text for row in index.search("port", limit=9).rows]
    assert found == ["port two", "port restart two"]
    # What was replaced keeps its vector and takes its rank.
    near = index.search("zzz restart", limit=9, vec_k=2)
    assert [row.text for row in near.rows] == ["port restart two"]


def test_ingest_of_a_part_deletes_nothing_else(handbook: Path, opened: Opened, refs: Any) -> None:
    index = opened(handbook)
    (handbook / "gateway/runbook.md").write_text("# Runbook\n\nNew.\n", encoding="utf-8")
    (handbook / "notes/部署.md").unlink()
    tool_input = read_tool_input({"sourceRoots": [str(handbook / "gateway")]})
    index.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),)), tool_input))
    assert counted(index)[:5] == (0, 1, 2, 0, 3)
    assert refs(index.search("備份", limit=5)) == ["notes/部署.md#root~2:001"]


def test_ingest_stores_a_changed_date_of_unchanged_text(written: Write, opened: Opened) -> None:
    front = "---\ndate: 2026-03-0{}\n---\n# A\n\ntext\n"
    folder = written({"a.md": front.format(1)})
    opened(folder)
    written({"a.md": front.format(2)})
    index = opened(folder)
    assert counted(index)[:3] == (0, 1, 1)
    hints = index._db.execute("SELECT ts_hint FROM chunks").fetchall()
    assert hints == [("2026-03-02",)] * 2


def test_ingest_counts_unusable_files_and_stores_the_others(handbook: Path, opened: Opened, refs: Any) -> None:
    (handbook / "big5.md").write_bytes("# 標題\n\n內文".encode("big5"))
    (handbook / "crlf.md").write_bytes(b"# Mark\r\n\r\nwith carriage\r\n")
    settings = DocsSettings(source_roots=(str(handbook),))
    plan = plan_ingest(settings)
    (handbook / "gateway/runbook.md").unlink()
    index = opened(handbook)
    index.ingest(plan)
    receipt = index.last_ingest
    assert (receipt["files_ingested"], receipt["files_unreadable"], receipt["files_not_utf8"]) == (4, 1, 1)
    assert receipt["error"] == (
        "handbook:big5.md: not UTF-8; handbook:gateway/runbook.md: cannot be read: No such file or directory"
    )
    assert refs(index.search("carriage", limit=5)) == ["crlf.md#mark:001"]
    assert refs(index.search("restart", limit=5)) == []


def test_ingest_of_an_empty_folder_empties_the_index_no_roots_keep_it(
    handbook: Path, opened: Opened, refs: Any
) -> None:
    index = opened(handbook)
    index.ingest(plan_ingest(DocsSettings()))
    assert (index.last_ingest["skipReason"], refs(index.search("passkey", limit=1))) == (
        "no_source_roots",
        ["mobile/specs/login.md#login:001"],
    )
    index.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),), source_globs=("*.none.md",))))
    assert (index.last_ingest["skipReason"], index.last_ingest["chunks_deleted"]) == ("no_matching_markdown", 7)


@pytest.mark.parametrize("tag", ["[SECRET]", "password: hunter2"])
def test_ingest_writes_no_private_text_into_the_file(written: Write, opened: Opened, tag: str) -> None:
    folder = written({"a.md": f"# Open\n\nText.\n\n# Closed\n\n{tag} marzipan\n"})
    index = opened(folder)
    assert index.last_ingest["chunks_excluded"] == 1
    assert b"marzipan" not in bytes_of(index)


def test_ingest_deletes_text_that_became_private(written: Write, opened: Opened, counting: Any, refs: Any) -> None:
    folder = written({"a.md": "# Open\n\nmarzipan\n"})
    opened(folder, counting())
    written({"a.md": "# Open\n\n[SECRET] marzipan\n"})
    index = opened(folder, counting())
    assert (counted(index)[:5], refs(index.search("marzipan", limit=5))) == ((0, 0, 0, 1, 0), [])


# Aborted ingests


def test_ingest_that_fails_midway_leaves_the_old_state(
    handbook: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch, counting: Any
) -> None:
    index = opened(handbook, counting())
    before = index.search("port", limit=9)
    (handbook / "a.md").write_text("# A\n\nport port port\n", encoding="utf-8")
    (handbook / "notes/部署.md").unlink()
    plan = plan_ingest(DocsSettings(source_roots=(str(handbook),)))

    # Fails after the chunks were written and before any was deleted.
    monkeypatch.setattr(IngestPlan, "complete", property(lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        index.ingest(plan)
    assert index.search("port", limit=9) == before
    monkeypatch.undo()
    index.ingest(plan)
    assert counted(index) == (1, 0, 5, 2, 6, 1)


def test_ingest_with_an_interrupted_embedder_leaves_the_old_state(
    handbook: Path, opened: Opened, counting: Any
) -> None:
    before = opened(handbook, counting()).search("port", limit=9)
    (handbook / "a.md").write_text("# A\n\nport port port\n", encoding="utf-8")

    def interrupted(texts: Sequence[str]) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(handbook, interrupted)
    with DocsIndex(handbook.parent / "index" / "docs.sqlite", counting()) as index:
        assert index.search("port", limit=9) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from lab.systems.openclaw.docs.globs import plan_ingest
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.config.settings import DocsSettings

index, steps = DocsIndex(Path(sys.argv[1])), int(sys.argv[3])
def tick():
    global steps
    steps -= 1
    if not steps:
        os.kill(os.getpid(), signal.SIGKILL)
index._db.set_progress_handler(tick, 1)
# A cache of one page makes SQLite write to the file long before the end.
index._db.execute("PRAGMA cache_size = 1")
index.ingest(plan_ingest(DocsSettings(source_roots=(sys.argv[2],))))
"""


@pytest.mark.process
@pytest.mark.parametrize("steps", [200, 6000, 13000])
def test_killed_ingest_leaves_the_old_state(written: Write, opened: Opened, steps: int) -> None:
    folder = written({f"{number}.md": f"# Old {number}\n\nport {number}\n" for number in range(40)})
    index = opened(folder)
    before = index.search("port", limit=99, fts_k=99)
    path = index.path
    index.close()
    for number in range(40):
        written({f"{number}.md": f"# New {number}\n\nport {number} {'words ' * 200}\n"})
    ended = subprocess.run([sys.executable, "-c", KILLED, path, folder, str(steps)], check=False, capture_output=True)
    assert ended.returncode == -9, ended.stderr
    with DocsIndex(path) as left:
        assert left.search("port", limit=99, fts_k=99) == before
    assert counted(opened(folder))[:4] == (40, 0, 0, 40)


# Vectors


def test_ingest_with_a_failing_embedder_lacks_only_vectors(
    handbook: Path, opened: Opened, counting: Any, refs: Any
) -> None:
    def fails(texts: Sequence[str]) -> np.ndarray:
        raise OSError("no such host")

    index = opened(handbook, fails)
    assert (counted(index), index.last_ingest["error"]) == ((7, 0, 0, 0, 7, 0), "embedding failed: OSError")
    answer = index.search("passkey", limit=3)
    assert (refs(answer), answer.vector_status) == (["mobile/specs/login.md#login:001"], "embedding_failed")
    assert counted(opened(handbook, counting())) == (0, 0, 7, 0, 7, 7)


@pytest.mark.parametrize(
    "answer", [np.zeros((1, 3), np.float32), np.zeros(7, np.float32), np.full((7, 3), np.nan), "nonsense"]
)
def test_ingest_treats_invalid_vectors_as_a_failed_embedder(handbook: Path, opened: Opened, answer: object) -> None:
    assert opened(handbook, lambda texts: answer).last_ingest["error"] == "embedding failed: ValueError"


def test_search_without_an_embedder_has_no_vector_lane(handbook: Path, opened: Opened) -> None:
    answer = opened(handbook).search("passkey", limit=3)
    assert (answer.vector_status, answer.rows[0].match) == ("missing_api_key", ("fts",))


def test_ingest_can_skip_vectors(handbook: Path, opened: Opened, counting: Any) -> None:
    embed = counting()
    index = opened(handbook, embed, embed_on_ingest=False)
    assert (counted(index)[-1], embed.texts) == (0, [])
    assert index.search("passkey", limit=1).vector_status == "no_embeddings"


def test_search_ignores_vectors_of_another_model_or_size(handbook: Path, tmp_path: Path, counting: Any) -> None:
    settings = DocsSettings(source_roots=(str(handbook),))
    with open_docs(settings, tmp_path, counting(), model="one") as index:
        assert index.search("passkey", limit=1).vector_status == "ok"
    with DocsIndex(index.path, counting(), "two") as other:
        assert other.search("passkey", limit=1).vector_status == "no_embeddings"
    with DocsIndex(index.path, lambda texts: np.ones((len(texts), 3)), "one") as other:
        assert other.search("passkey", limit=1).vector_status == "no_embeddings"


def test_vector_lane_ranks_by_cosine_and_ties_by_position(handbook: Path, opened: Opened) -> None:
    def embed(texts: Sequence[str]) -> np.ndarray:
        # Vector length must not count.
        angles = [0.5 if "Restart" in text else 1e-3 * ("passkey" in text) for text in texts]
        return np.array([[7 * np.cos(angle), 7 * np.sin(angle)] for angle in angles], np.float32)

    answer = opened(handbook, embed).search("?", limit=9).rows
    assert [row.record_ref.removeprefix("doc:handbook:") for row in answer] == [
        "gateway/decisions/2026-03-02-port.md#port:001",
        "gateway/decisions/2026-03-02-port.md#port-why:001",
        "mobile/specs/login.md#login-port:001",
        "notes/部署.md#root:001",
        "notes/部署.md#root~2:001",
        "mobile/specs/login.md#login:001",
        "gateway/runbook.md#runbook:001",
    ]


def test_nearest_leaves_out_vectors_of_zeros() -> None:
    rows = [(at, "", np.array(one, "<f4").tobytes()) for at, one in enumerate(([0, 0], [7, 0], [0, 7]))]
    matrix = matrix_of(rows, 2)
    assert nearest(matrix, np.zeros(2, np.float32), (), 9) == []
    assert nearest(matrix, np.array([2, 0], np.float32), (), 9) == [(1, 1.0), (2, 0.0)]


def test_nearest_adds_one_product_after_another() -> None:
    draw = np.random.default_rng(5)
    vectors, query = draw.normal(size=(40, 300)).astype("<f4"), draw.normal(size=300).astype("<f4")

    def dot(one: Any, other: Any) -> float:
        total = 0.0
        for x, y in zip(one.tolist(), other.tolist(), strict=True):
            total += x * y
        return total

    expected = [dot(query, one) / (math.sqrt(dot(query, query)) * math.sqrt(dot(one, one))) for one in vectors]
    matrix = matrix_of([(at, "", one.tobytes()) for at, one in enumerate(vectors)], 300)
    assert dict(nearest(matrix, query, (), 40)) == dict(enumerate(expected))


# The file


def test_open_refuses_another_database_and_leaves_it_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(UnusableInput, match=r"other\.sqlite: contains another database"):
        DocsIndex(path)
    assert path.read_bytes() == before


def test_open_refuses_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "docs.sqlite"
    path.write_text("hello " * 50, encoding="utf-8")
    with pytest.raises(UnusableInput, match="cannot be used as a document index"):
        DocsIndex(path)
    with pytest.raises(UnusableInput, match="cannot be opened as a document index"):
        DocsIndex(tmp_path)


def test_ingest_counts_batches(written: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch, counting: Any) -> None:
    monkeypatch.setattr(ingesting, "BATCH", 2)
    folder = written({f"{name}.md": f"# {name}\n\nsame words\n" for name in "abcde"} | {"z.md": "# a\n\nsame words\n"})
    embed = counting()
    receipt = opened(folder, embed).last_ingest
    # A text that occurs twice is embedded once, even in two batches.
    assert (receipt["batches"], receipt["chunks_inserted"], receipt["embedded"], len(embed.texts)) == (3, 6, 5, 5)
