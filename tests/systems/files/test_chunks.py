"""Chunks of growing files: sizes, overlap, Chinese text, and which entries a result shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.systems.files.folder import Chunk, Chunker, Entry, Piece, width

NOBODY = Entry("", "")


def cut(lines: list[str], tokens: int, overlap: int, *, by_entry: bool = False) -> list[Chunk]:
    chunker = Chunker("memory/n.md", "memory", tokens, overlap, by_entry=by_entry)
    chunks = [chunk for number, line in enumerate(lines, 1) for chunk in chunker.add(number, line, NOBODY)]
    rest = chunker.rest()
    return [*chunks, rest] if rest else chunks


def texts(lines: list[str], tokens: int, overlap: int, *, by_entry: bool = False) -> list[tuple[str, tuple[int, int]]]:
    return [(chunk.text, chunk.lines) for chunk in cut(lines, tokens, overlap, by_entry=by_entry)]


def test_width_of_a_chinese_character_is_four() -> None:
    assert [width(text) for text in ("", "abc", "我的", "a我。", "é", "😀")] == [0, 3, 8, 9, 1, 2]


def test_chunks_hold_whole_lines_and_repeat_the_last_ones() -> None:
    # 10 tokens are 40 characters: three lines of 12 and their breaks make 39. 4 tokens of overlap hold one line.
    lines = [f"line {number:02} abcd" for number in range(6)]
    assert texts(lines, 10, 4) == [
        ("\n".join(lines[:3]), (1, 3)),
        ("\n".join(lines[2:5]), (3, 5)),
        ("\n".join(lines[4:]), (5, 6)),
    ]


def test_a_line_longer_than_the_overlap_repeats_its_end() -> None:
    assert texts(["a" * 36, "b" * 30], 10, 2) == [("a" * 36, (1, 1)), ("a" * 7 + "\n" + "b" * 30, (1, 2))]


def test_the_overlap_leaves_room_for_the_next_line() -> None:
    # The next line takes 40 with its break, so nothing is repeated.
    assert texts(["a" * 20, "b" * 39], 10, 5) == [("a" * 20, (1, 1)), ("b" * 39, (2, 2))]


def test_a_long_line_is_cut_into_parts_of_the_limit() -> None:
    assert texts(["x" * 90], 10, 0) == [("x" * 40, (1, 1)), ("x" * 40, (1, 1)), ("x" * 10, (1, 1))]
    assert [text for text, _ in texts(["我" * 25], 10, 0)] == ["我" * 10, "我" * 10, "我" * 5]


def test_list_items_and_headings_begin_chunks_of_their_own() -> None:
    lines = ["# Rules", "- one", "  more of one", "- two", "plain"]
    assert texts(lines, 100, 20, by_entry=True) == [
        ("# Rules", (1, 1)),
        ("- one\n  more of one", (2, 3)),
        ("- two\nplain", (4, 5)),
    ]


@given(st.lists(st.text(alphabet="ab 我é\U0001f600", max_size=120), min_size=1, max_size=30), st.integers(0, 9))
def test_chunks_cover_every_line_within_the_limit(lines: list[str], overlap: int) -> None:
    chunks = cut(lines, 10, overlap)
    assert all(width(chunk.text) <= 40 for chunk in chunks)
    assert {piece.line for chunk in chunks for piece in chunk.pieces} == {*range(1, len(lines) + 1)}
    # Without the overlap, the pieces are the file.
    pieces = [piece for chunk in cut(lines, 10, 0) for piece in chunk.pieces]
    assert ["".join(p.text for p in pieces if p.line == number) for number in range(1, len(lines) + 1)] == lines


def test_a_result_shows_entries_of_which_half_is_visible() -> None:
    def chunk(*sizes: int) -> Chunk:
        pieces = [Piece(number, "x" * size, Entry(f"m{number}", "x" * size)) for number, size in enumerate(sizes, 1)]
        return Chunk("MEMORY.md", "memory", tuple(pieces))

    def shown(*sizes: int) -> list[str]:
        return [entry.id for entry in chunk(*sizes).shown(700)]

    assert shown(300, 300) == ["m1", "m2"]
    # 98 characters are left for the third.
    assert shown(300, 300, 196) == ["m1", "m2", "m3"]
    assert shown(300, 300, 198) == ["m1", "m2"]
    # Of a very long entry half a result is enough.
    assert shown(348, 5000) == ["m1", "m2"]
    assert shown(350, 5000) == ["m1"]
    nobody = Chunk("sessions/1.jsonl", "sessions", (Piece(1, "User: hi", NOBODY),))
    assert nobody.shown(700) == ()
