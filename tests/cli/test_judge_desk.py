"""The judging screen, key by key, at 80 by 24 without a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.cli.judge_desk import BEFORE, Desk, conversation_lines, day, folded, judge, listed, shown, width, window
from lab.golden.files import read_golden
from lab.golden.judging import Judging, open_judging, side_file
from lab.golden.pool import Pool, Pooled, PooledTurn
from lab.recordings.model import Memory, Recording, Turn

EVIL = "\x1b[2J\x1b]0;owned\x07 deletes \u202e the screen"
LONG = "這家店在台北賣燈籠，每個星期五下午都會把本週的訂單整理好寄給老闆娘確認，沒有回覆就不出貨。" * 3


def _recording() -> Recording:
    said = ["Hello", "Hi", f"Look: {EVIL}", "I see", "Which port does it use?", "…", "Thanks"]
    turns = tuple(
        Turn(f"c/s/t{at}", at, "s", "assistant" if at % 2 else "user", text, 1_700_000_000_000 + at, "ops")
        for at, text in enumerate(said)
    )
    texts = {"port": "It uses port 8080", "old": "It used port 80", "evil": EVIL, "long": LONG, "home": "Cat food"}
    memories = tuple(
        Memory(
            *(f"c/s/t0#{at}", text, text, 1, 1_700_000_000_000 + at),
            scope="house" if name == "home" else "ops",
            supersedes=("c/s/t0#1",) if name == "port" else (),
        )
        for at, (name, text) in enumerate(texts.items())
    )
    return Recording("c", turns, memories)


RECORDING = _recording()
OLD_TEXT = RECORDING.memories[1].text
PORT, OLD, WICKED, CHINESE, HOME = (memory.key for memory in RECORDING.memories)
POOL = Pool(
    *(6, ("hybrid",), 0, "c.jsonl", "lab", "recorded", None, "none", "abc"),
    (
        PooledTurn("c/s/t4", tuple(Pooled(key, {"hybrid": 1}) for key in (PORT, OLD, WICKED, CHINESE))),
        PooledTurn("c/s/t6", (Pooled(OLD, {"hybrid": 1}),)),
    ),
)


@pytest.fixture
def judging(tmp_path: Path) -> Judging:
    return open_judging(POOL, tmp_path / "gold.jsonl", "ann")


@pytest.fixture
def desk(judging: Judging) -> Desk:
    return Desk(judging, {"c": RECORDING})


def _press(desk: Desk, *keys: str) -> None:
    for key in keys:
        desk.press(key)


def _screen(desk: Desk, columns: int = 80, rows: int = 24) -> list[str]:
    return [text for _, text in desk.lines(columns, rows)]


def test_grade_moves_to_next_and_last_asks_for_type(desk: Desk) -> None:
    _press(desk, "2", "f", "0")
    assert (desk.cursor, desk.mode) == (3, "list")
    _press(desk, "1")
    assert desk.mode == "type"
    assert any("what does this turn test?" in line for line in _screen(desk))
    _press(desk, "f")
    assert desk.sheet.turn == "c/s/t6"
    (probe,) = read_golden(desk.judging.out).probes
    assert (probe.grades, [one.memory for one in probe.forbidden]) == ({PORT: 2, CHINESE: 1}, [OLD])
    assert probe.slices == {"type": "identifier"}


def test_rest_nothing_and_skip(desk: Desk) -> None:
    _press(desk, "2", "r", "escape", "right", "s")
    assert desk.sheet.turn == "c/s/t4"
    assert desk.judging.sheet("c/s/t4").marks == {PORT: "2", OLD: "0", WICKED: "0", CHINESE: "0"}
    assert desk.judging.sheet("c/s/t6").state == "skipped"
    _press(desk, "x")
    assert desk.message.startswith("a memory is graded relevant here")
    assert desk.judging.sheet("c/s/t4").marks[PORT] == "2"
    _press(desk, "up", "up", "up", "0", "escape", "x")
    assert desk.message.startswith("every turn is judged or skipped")
    (probe,) = read_golden(desk.judging.out).probes
    assert (probe.relevant, probe.slices) == ((), {"type": "needs_nothing"})
    # Gold after all: the turn is open until it has a type again.
    _press(desk, "up", "up", "up", "2")
    assert (desk.sheet.state, read_golden(desk.judging.out).probes, desk.mode) == ("open", (), "type")
    _press(desk, "a")
    assert read_golden(desk.judging.out).probes[0].grades == {PORT: 2}


def test_notes_reasons_and_undo(desk: Desk) -> None:
    _press(desk, "n", *"the pork", "backspace", "text:t,\nsaid\ttwice", "\x01", "enter")
    assert desk.sheet.notes == {PORT: "the port, said twice"}
    text = "\n".join(_screen(desk))
    assert ("> ·* It uses port 8080" in text, "note: the port, said twice" in text) == (True, True)
    _press(desk, "N", *"a port", "escape", "N", *"which", "enter", "down", "down", "2")
    assert any("1 of 4 judged   needs: which" in line for line in _screen(desk))
    assert (desk.sheet.reason, desk.sheet.marks) == ("which", {WICKED: "2"})
    _press(desk, "right", "x", "u")
    assert (desk.sheet.turn, desk.sheet.state) == ("c/s/t6", "open")
    _press(desk, "u")
    assert (desk.sheet.turn, desk.sheet.marks, desk.cursor) == ("c/s/t4", {}, 2)
    _press(desk, "u", "u", "u")
    assert (desk.judging.decisions, desk.message) == ([], "nothing to undo")


def test_search_adds_unpooled_memory(desk: Desk) -> None:
    _press(desk, "/")
    assert any("5 of 5 memories visible at the turn" in line for line in _screen(desk))
    _press(desk, *"FOOD cat")
    assert [memory.key for memory in desk.matches] == [HOME]
    assert any("[house] Cat food" in line for line in _screen(desk))
    _press(desk, "enter", "f")
    assert desk.sheet.marks == {HOME: "f"}
    _press(desk, "/", *"zebra", "enter")
    assert (desk.message, desk.mode) == ("no match; nothing was added", "list")
    at = desk.cursor
    _press(desk, "/", "down", "down", "escape")
    assert (len(desk.sheet.items), desk.cursor) == (5, at)


@pytest.mark.parametrize(
    "turn",
    [
        PooledTurn("c/s/t4", (Pooled("c/s/t0#9", {}),)),
        PooledTurn("c/s/t9", (Pooled(PORT, {}),)),
        PooledTurn("d/s/t4", (Pooled(PORT, {}),)),
    ],
)
def test_item_not_in_the_recordings_is_named(tmp_path: Path, turn: PooledTurn) -> None:
    judging = open_judging(replace(POOL, turns=(POOL.turns[0], turn)), tmp_path / "gold.jsonl", "ann")
    with pytest.raises(UnusableInput, match="but not in the recordings"):
        Desk(judging, {"c": RECORDING})


def test_search_for_listed_memory_selects_it(desk: Desk) -> None:
    assert [memory.key for memory in desk.visible] == [CHINESE, WICKED, OLD, PORT, HOME]
    _press(desk, "down", "/", *"8080", "enter")
    assert (desk.judging.decisions, desk.cursor) == ([], 0)


def test_nothing_needed_keeps_forbidden_memories(desk: Desk) -> None:
    _press(desk, "down", "down", "down", "f")
    assert desk.cursor == 0
    _press(desk, "x")
    assert desk.judging.sheet("c/s/t4").marks == {PORT: "0", OLD: "0", WICKED: "0", CHINESE: "f"}


def test_conversation_window_shows_start_of_a_long_turn() -> None:
    many = tuple(replace(RECORDING.turns[0], key=f"c/s/t{at}", seq=at) for at in range(30))
    assert len(conversation_lines(replace(RECORDING, turns=many), many[20], 80)) == 1 + BEFORE + 1
    lines = [("", "before"), *(("bold", f"line {at}") for at in range(6))]
    assert window(lines, 3, 0) == (lines[1:4], 0)
    assert window(lines, 3, 9) == (lines[:3], 1)
    assert window(lines, 3, -9) == (lines[4:], -3)


def test_listed_memory_shows_another_scope(desk: Desk) -> None:
    memory = RECORDING.memories[0]
    for scope, shown_scope in (("ops", False), ("global", False), ("house", True)):
        _, text = listed(replace(memory, scope=scope), desk.sheet, "ops", 80, here=False)
        assert (f"[{scope}]" in text) is shown_scope


def test_ungraded_memory_stays_unjudged(desk: Desk) -> None:
    _press(desk, "2", "enter", "u")
    assert (desk.mode, desk.sheet.marks) == ("list", {})
    _press(desk, "2", "enter", "enter")
    assert desk.message.startswith("press a letter from a to j")
    _press(desk, "b")
    assert desk.judging.progress()["unjudged"] == 3


def test_enter_alone_judges_nothing(desk: Desk) -> None:
    _press(desk, "enter", "enter", "0", "enter")
    assert (desk.mode, desk.sheet.state) == ("list", "open")
    assert desk.message == "3 memories without a grade; r grades them 0, x if nothing is needed"
    _press(desk, "2", "enter")
    assert desk.mode == "type"


def test_changed_grade_is_announced(desk: Desk) -> None:
    _press(desk, "2", "up", "2")
    assert desk.message == ""
    _press(desk, "up", "f")
    assert desk.message == f"needed before, misleading now: {RECORDING.memories[0].text}"


def test_details_show_time_session_and_noted_memory(desk: Desk) -> None:
    assert any("2023-11-14 22:13  this session  fact  ops" in text for _, text in desk.lines(80, 24))
    later = tuple(replace(turn, session="s2") if turn.seq > 2 else turn for turn in RECORDING.turns)
    moved = Desk(desk.judging, {"c": replace(RECORDING, turns=later)})
    assert any("22:13  session s  fact" in text for _, text in moved.lines(80, 24))
    _press(desk, "1", "n")
    assert desk.lines(80, 24)[-2][1] == f"why “{OLD_TEXT}”: _"


def test_space_pages_through_a_long_memory_and_wraps(desk: Desk) -> None:
    def read() -> list[str]:
        screen = [text for _, text in desk.lines(80, 24)]
        (at,) = [place for place, text in enumerate(screen) if ", space: more" in text]
        return screen[at : at + 5]

    longer = tuple(replace(one, text=LONG * 2) if one.key == CHINESE else one for one in RECORDING.memories)
    desk = Desk(desk.judging, {"c": replace(RECORDING, memories=longer)})
    _press(desk, "j", "j", "j")
    first = read()
    assert "lines 1-4 of 7, space: more" in first[0]
    _press(desk, " ")
    second = read()
    assert ("lines 4-7 of 7" in second[0], second[1]) == (True, first[4])
    _press(desk, " ")
    assert read() == first
    _press(desk, " ", "k", "j")
    assert read() == first


def test_folded_keeps_line_breaks() -> None:
    assert folded("if x:\n    y()\n\nelse: z", 80) == ["if x:", "    y()", "else: z"]


def test_desk_starts_at_the_first_open_turn(desk: Desk, judging: Judging) -> None:
    _press(desk, "x")
    assert Desk(judging, {"c": RECORDING}).sheet.turn == "c/s/t6"


@pytest.mark.parametrize("size", [(80, 24), (120, 50), (40, 24), (20, 10), (3, 2)])
@pytest.mark.parametrize("keys", ["", "/", "?", "n", "N", "\n", "2", "jjj"])
def test_screens_fit_and_escape_control_characters(desk: Desk, size: tuple[int, int], keys: str) -> None:
    _press(desk, *("enter" if key == "\n" else key for key in keys))
    lines = _screen(desk, *size)
    assert len(lines) <= size[1]
    assert [line for line in lines if width(line) > size[0] or not line.isprintable()] == []


def test_screen_shows_turn_context_and_full_memory(desk: Desk) -> None:
    text = "\n".join(_screen(desk))
    assert "> user: Which port does it use?" in text
    assert r"user: Look: \x1b[2J\x1b]0;owned\x07 deletes \u202e the screen" in text
    assert "superseded by" not in text
    _press(desk, "down")
    assert f"superseded by {PORT}" in "\n".join(_screen(desk))
    _press(desk, "pageup", "pageup", "pageup")
    assert "user: Hello" in "\n".join(_screen(desk))


def test_folded_fits_cells_and_loses_nothing() -> None:
    for text in (LONG, "one two  three " * 20, "x" * 200, "mixed 燈籠 and words " * 9, ""):
        lines = folded(text, 30)
        assert max(map(width, lines)) <= 30
        assert "".join("".join(lines).split()) == "".join(text.split())
    assert (day(0), day(86_400_000), day(10**15)) == ("–", "1970-01-02", "–")
    assert shown("a\tb\nc\u3000d\x00") == r"a b c d\x00"


def test_terminal_keys_reach_the_desk(desk: Desk) -> None:
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keyboard:
        keyboard.send_text("2\x1b[B0\x1b[200~zzz\x1b[201~n\x1b[200~pasted\nnote\x1b[201~\rq")
        judge(desk, keyboard, DummyOutput())
    assert desk.ended
    assert desk.sheet.marks == {PORT: "2", WICKED: "0"}
    assert list(desk.sheet.notes.values()) == ["pasted note"]


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_ctrl_c_and_ctrl_d_quit(desk: Desk, key: str) -> None:
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keyboard:
        keyboard.send_text(f"2n{key}2")
        judge(desk, keyboard, DummyOutput())
    assert desk.sheet.marks == {PORT: "2"}


def test_failed_save_ends_judging_with_the_reason(desk: Desk) -> None:
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    side_file(desk.judging.out).mkdir()
    with create_pipe_input() as keyboard:
        keyboard.send_text("2")
        with pytest.raises(CannotMeasure, match=r"cannot write .*gold\.judging"):
            judge(desk, keyboard, DummyOutput())
