"""The index over a growing folder: the same chunks as from scratch, removal, Chinese text, and odd input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.recordings.model import MUST, Memory, Turn
from lab.systems.files.folder import Entry, Folder, draft_of, note_of, transcript_of
from lab.systems.files.index import FileIndex, keywords
from lab.systems.files.settings import Settings

SMALL = Settings("2026.9.6", tokens=10, overlap=3)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def index_in(folder: Path, settings: Settings = SMALL) -> FileIndex:
    return FileIndex(Folder(folder), settings, Vectors(HashingEmbedder()))


def note(index: FileIndex, key: str, text: str, path: str = "memory/2026-01-01.md") -> None:
    index.folder.append(path, Entry(key, text), [f"- {line}" for line in text.split("\n")], 0)


def content(index: FileIndex) -> list[tuple[str, tuple[int, int], str]]:
    """The chunks, as SQLite has them too."""
    index.sync()
    chunks = sorted((one.chunk.path, one.chunk.lines, one.text) for one in index.chunks.values())
    rows = index._db.execute("SELECT path, first_line, last_line, text FROM chunks").fetchall()
    assert sorted((path, (first, last), text) for path, first, last, text in rows) == chunks
    (count,) = index._db.execute("SELECT count(*) FROM chunks_fts").fetchone()
    assert count == len(chunks)
    return chunks


STEPS = st.lists(
    st.tuples(st.sampled_from(["a.md", "MEMORY.md"]), st.text("xyz ", min_size=1, max_size=60), st.booleans()),
    min_size=1,
    max_size=14,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, gone=st.integers(0, 13))
def test_an_index_that_grew_equals_one_made_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bool]], gone: int
) -> None:
    grown, whole = (index_in(tmp_path_factory.mktemp("root")) for _ in range(2))
    for number, (path, text, synced) in enumerate(steps):
        note(grown, f"m{number}", text, path)
        if synced:
            grown.sync()
        if number != gone:
            note(whole, f"m{number}", text, path)
    grown.folder.remove(f"m{gone}")
    grown.folder.remove("unknown")
    assert content(grown) == content(whole)
    near = [[(one.chunks[row].text, score) for row, score in one.by_meaning("x yz", 50)] for one in (grown, whole)]
    assert sorted(near[0]) == sorted(near[1])
    words = [[(one.chunks[row].text, score) for row, score in one.by_words('"x"', (), 50)] for one in (grown, whole)]
    assert sorted(words[0]) == sorted(words[1])


def test_lines_of_chunks_are_the_lines_of_the_files(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    for number in range(9):
        note(index, f"m{number}", f"note {number} of nine\nwith a second line {number}")
    index.folder.remove("m3")
    index.sync()
    lines = (tmp_path / "memory" / "2026-01-01.md").read_text("utf-8").splitlines()
    assert len(lines) == 16
    for one in index.chunks.values():
        first, last = one.chunk.lines
        assert "\n".join(lines[first - 1 : last]).endswith(one.text)
    assert not any("note 3" in line for line in lines)


@pytest.fixture
def chinese(tmp_path: Path) -> Iterator[dict[str, FileIndex]]:
    """Two notes under both tokenizers."""
    made = {}
    for tokenizer in ("unicode61", "trigram"):
        made[tokenizer] = index_in(tmp_path / tokenizer, Settings("2026.9.6", tokenizer=tokenizer, tokens=40))
        note(made[tokenizer], "m1", "我喜欢在早上喝绿茶,不加糖", "memory/2026-01-01.md")
        note(made[tokenizer], "m2", "报告 用 繁体中文", "memory/2026-01-02.md")
        made[tokenizer].sync()
    yield made
    for index in made.values():
        index.close()


def test_unicode61_takes_a_chinese_phrase_for_one_word(chinese: dict[str, FileIndex]) -> None:
    def found(tokenizer: str, query: str) -> list[str]:
        index = chinese[tokenizer]
        return [index.chunks[row].chunk.pieces[0].entry.id for row, _ in index.by_words(query, (), 9)]

    assert found("unicode61", '"绿茶"') == []
    assert found("unicode61", '"我喜欢在早上喝绿茶"') == ["m1"]
    assert found("unicode61", '"繁体中文"') == ["m2"]
    # Three characters or more are found anywhere, two need the substring search.
    assert found("trigram", '"喝绿茶"') == ["m1"]
    assert found("trigram", '"绿茶"') == []
    assert [row for row, _ in chinese["trigram"].by_words("", ["绿茶"], 9)] == [1]


def test_keywords_of_chinese_text_are_characters_pairs_or_phrases() -> None:
    assert keywords("绿茶怎么喝?", "unicode61") == ["绿", "茶", "怎", "么", "喝", "绿茶"]
    assert keywords("绿茶怎么喝?", "trigram") == ["绿茶怎么喝"]
    assert keywords("Which tea did we order in 2024, and is it ok?", "unicode61") == ["tea", "order"]
    assert keywords("tea", "unicode61") == []


def test_queries_that_fts5_cannot_parse_find_nothing(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    assert index.by_meaning("anything", 5) == []
    note(index, "m1", "half a pair: \ud83d, and a null: \0.")
    index.sync()
    assert index.by_words(" AND ".join(f'"w{number}"' for number in range(20_000)), (), 5) == []
    assert len(index.by_words('"null"', (), 5)) == 1
    assert len(index.by_meaning("half \ud83d", 5)) == 1


def test_memories_and_turns_are_written_where_the_rules_say() -> None:
    day = 1_767_603_600_000
    plain = Memory("k1", "first\nsecond", "", 0, day)
    durable = Memory("k2", "", "", 0, day, label=MUST)
    rule = Memory("k3", "never", "", 0, day, hard_rule=True)
    assert [note_of(memory)[0] for memory in (plain, durable, rule)] == [
        "memory/2026-01-05.md",
        "MEMORY.md",
        "MEMORY.md",
    ]
    assert note_of(plain)[1][1] == ("- first", "  second")
    assert note_of(durable)[1][1] == ("- ",)
    tool = Turn("c/s/3", 3, "s", "tool", "line 1\n\nline 2", day)
    path, [(entry, lines)] = draft_of(tool)
    assert (path, entry.id, lines) == ("memory/drafts/2026-01-05.md", "c/s/3#0", ("line 1", "", "line 2", ""))
    assert draft_of(Turn("c/s/4", 4, "s", "tool", " \n", day))[1] == []
    said = Turn("c/s/5", 5, "s", "user", "", day)
    path, written = transcript_of(said, 2, "one  two\n" + "word " * 200 + "x" * 900)
    assert path == "sessions/2.jsonl"
    assert [len(line) for _, (line,) in written] == [803, 215, 806, 106]
    assert [entry.id for entry, _ in written] == [f"c/s/5#{number}" for number in range(4)]
    assert written[0][1][0].startswith("User: one two word")
    assert [transcript_of(said, 1, silent)[1] for silent in ("", " ", "HEARTBEAT_OK", "NO_REPLY\n")] == [[]] * 4
