"""Tests of transcripts without gold: aider's chat histories, and the logs of a Hermes agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.cleaning import language_of
from lab.recordings.convert import take
from lab.recordings.model import Turn
from lab.recordings.readers import read_library

Sample = Callable[[str, Path], Path]
AUGUST_6 = 1722934800000  # 2024-08-06T09:00:00Z


def test_aider_consecutive_user_lines_are_one_turn(sample: Sample, tmp_path: Path) -> None:
    library = read_library(sample("aider", tmp_path), "aider")
    (recording,) = library.recordings
    session = "2024-08-06T09:00:00"
    answer = "Certainly! I will rename it:\n\n```python\ndef bake(): ...\n```"
    lines = [
        (session, "user", "rename `fire`\n\nto `bake`, everywhere"),
        (session, "assistant", answer),
        (session, "user", "/undo"),
        (f"{session}-2", "user", "and now add a test"),
    ]
    assert [(turn.session, turn.role, turn.text) for turn in recording.turns] == lines
    assert [turn.time_ms - AUGUST_6 for turn in recording.turns] == [0, 1, 2, 3]
    assert [(memory.key, memory.visible_from) for memory in recording.memories] == [
        (f"history/{session}/0#0", 1),
        (f"history/{session}-2/0#0", 4),
    ]
    assert library.golden.probes == ()
    assert recording.notes == (
        "history: 3 chats started, 1 dropped because they have no user turn",
        "history: 1 command to aider not kept as memories",
    )


def test_aider_lines_read_as_aider_parses_them(tmp_path: Path) -> None:
    lines = ["#### fix it", "####", "#####  not the user", ">>>>>>> REPLACE", "> printed by aider", ">", "####neither"]
    text = "\n".join(["# aider chat started at 2024-08-05 19:33:02", *lines])
    (tmp_path / "history.md").write_text(text, "utf-8")
    (recording,) = read_library(tmp_path, "aider").recordings
    assert [(turn.role, turn.text) for turn in recording.turns] == [
        ("user", "fix it"),
        ("assistant", "#####  not the user\n>>>>>>> REPLACE\n####neither"),
    ]


def test_aider_headings_of_a_reply_and_blank_lines_are_no_memories(tmp_path: Path) -> None:
    said = [
        "#### Write a page.  ",
        "",
        "Here is a plan.",
        "",
        "#### Requirements",
        "",
        "You need a pump.",
        "",
        "#### <blank>  ",
        "> Tokens: 1k sent  ",
        "#### Add pump.py to the chat? (Y)es/(N)o/(A)ll/(S)kip all [Yes]: yes  ",
        "",
        "Added.",
        "#### Use pin 7  ",
        "####   ",
        "#### and keep pin 4.  ",
    ]
    text = "\n".join(["# aider chat started at 2026-05-04 09:00:00", *said])
    (tmp_path / "history.md").write_text(text, "utf-8")
    (recording,) = read_library(tmp_path, "aider").recordings
    assert [(turn.role, turn.text) for turn in recording.turns] == [
        ("user", "Write a page."),
        ("assistant", "Here is a plan.\n\n#### Requirements\n\nYou need a pump."),
        ("user", "<blank>"),
        ("assistant", "Added."),
        ("user", "Use pin 7\n\nand keep pin 4."),
    ]
    assert [memory.text for memory in recording.memories] == ["Write a page.", "Use pin 7\n\nand keep pin 4."]
    assert recording.notes[1:] == (
        "history: 1 empty line of the user (<blank>) not kept as memories",
        "history: 1 answer of aider to its own questions skipped",
    )


def test_aider_history_without_blanks_at_line_ends_is_read_with_a_note(tmp_path: Path) -> None:
    text = "# aider chat started at 2026-05-04 09:00:00\n\n#### Write a page.\n\n#### Plan\n\nDone.\n"
    (tmp_path / "history.md").write_text(text, "utf-8")
    (recording,) = read_library(tmp_path, "aider").recordings
    assert [turn.text for turn in recording.turns] == ["Write a page.", "Plan", "Done."]
    assert "the blanks at the ends of lines were trimmed" in recording.notes[1]


def test_aider_readme_beside_a_history_is_ignored(sample: Sample, tmp_path: Path) -> None:
    (sample("aider", tmp_path) / "README.md").write_text("# a card\n", "utf-8")
    assert [path.name for path in read_library(tmp_path, "aider").files] == ["history.md"]


def test_aider_hidden_history_is_read_and_imported(sample: Sample, tmp_path: Path) -> None:
    (folder := tmp_path / "mine").mkdir()
    text = (sample("aider", tmp_path) / "history.md").read_bytes()
    (folder / ".aider.chat.history.md").write_bytes(text)
    (folder / ".other.md").write_bytes(text)
    taken = take(folder, "aider", tmp_path / "out")
    assert [file.name for file in taken.files] == [".aider.chat.history.md"]
    assert [recording.conversation for recording in read_library(tmp_path / "out", "aider").recordings] == [
        "aider.chat.history"
    ]
    (tmp_path / "README.md").write_bytes(text)
    with pytest.raises(UnusableInput, match=r"README.md: this name is reserved for the card"):
        take(tmp_path / "README.md", "aider", tmp_path / "other")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#### hello\n", ": has no line like '# aider chat started at 2024-08-05 19:33:02'"),
        ("x\n# aider chat started at 2024-13-05 19:33:02\n#### hi\n", ":2: 2024-13-05 19:33:02 is not a valid time"),
    ],
)
def test_aider_file_without_a_chat_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(text, "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "aider")
    assert str(caught.value) == f"{path}{problem}"


def test_aider_history_without_user_turns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text("# aider chat started at 2024-08-05 19:33:02\n\n> Aider\n", "utf-8")
    with pytest.raises(UnusableInput, match="has no turns, so it cannot be replayed"):
        read_library(path, "aider")


def test_aider_prompts_of_its_own_are_no_turns(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    said = (
        "/help hi",
        "# Question: hi\n\n# Relevant docs:\n\n<doc>",
        "# Fix any errors below, if possible.\n\n## Running: x",
    )
    lines = [line for text in (*said, "# Question: who said so?") for line in [*text.split("\n"), None]]
    body = "".join("\nYes.\n\n" if line is None else f"#### {line}  \n" for line in lines)
    path.write_text(f"# aider chat started at 2024-08-05 19:33:02\n\n{body}", "utf-8")
    (recording,) = read_library(path, "aider").recordings
    assert [turn.text for turn in recording.turns if turn.role == "user"] == ["/help hi", "# Question: who said so?"]
    assert "history: 2 prompts that aider wrote itself skipped" in recording.notes


def test_aider_public_history_has_expected_sizes(shared: Callable[..., Path]) -> None:
    library = read_library(shared("data", "transcripts"), "aider")
    (recording,) = library.recordings
    assert (recording.language, len(recording.sessions)) == ("en", 390)
    asked = [turn.text for turn in recording.turns if turn.role == "user"]
    # Seven lines that begin alike are headings of replies and lines of quoted files.
    assert (len(asked), len(recording.memories)) == (1132, 554)
    assert not any("Relevant docs:" in text or text.startswith("# Fix any errors") for text in asked)
    assert recording.notes == (
        "aider-chat-history: 660 chats started, 270 dropped because they have no user turn",
        "aider-chat-history: 568 commands to aider not kept as memories",
        "aider-chat-history: 10 empty lines of the user (<blank>) not kept as memories",
        "aider-chat-history: 31 prompts that aider wrote itself skipped",
    )


def test_hermes_repeated_exchanges_are_read_once(sample: Sample, tmp_path: Path) -> None:
    (recording,) = read_library(sample("hermes", tmp_path), "hermes").recordings
    start = 1778839302315  # 2026-05-15T10:01:42.314671Z
    assert recording.turns[0] == Turn("hermes_session/c001/0", 0, "c001", "user", "窯爐多少度", start, speaker="user")
    assert [(turn.session, turn.role, turn.text) for turn in recording.turns] == [
        ("c001", "user", "窯爐多少度"),
        ("c001", "assistant", "九百度"),
        ("c001", "user", "改成一千一百度"),
        ("c001", "assistant", "好的"),
        ("c002", "assistant", "已重啟"),
    ]
    assert [(memory.text, memory.visible_from) for memory in recording.memories] == [
        ("窯爐多少度", 1),
        ("改成一千一百度", 3),
    ]
    assert recording.language == "zh"
    assert recording.notes == (
        "hermes_session: 3 logged conversations with 8 messages, 5 of them distinct",
        "hermes_session: host notes removed from user messages: 2",
    )


def test_hermes_only_leading_host_note_is_removed(tmp_path: Path) -> None:
    lines = {"role": "user", "content": "User: [System note: back] [System note: mine]", "timestamp": "2026-01-01"}
    (tmp_path / "hermes.jsonl").write_text(
        json.dumps([[lines, lines | {"content": "User: a [System note: b]"}]]), "utf-8"
    )
    (recording,) = read_library(tmp_path, "hermes").recordings
    assert [turn.text for turn in recording.turns] == ["[System note: mine]", "a [System note: b]"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"role": "user"}, ":1: expected a list, found an object"),
        ([{"role": "user"}], ":1: [0]: expected a list, found an object"),
        ([[{"role": "user"}]], ":1: [0][0]: has no field 'content'"),
        (
            [[{"role": "user", "content": "x", "timestamp": "noon"}]],
            ":1: timestamp 'noon' is not ISO 8601",
        ),
    ],
)
def test_hermes_wrong_shape_names_position(tmp_path: Path, line: object, problem: str) -> None:
    path = tmp_path / "hermes.jsonl"
    path.write_text(json.dumps(line) + "\n", "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "hermes")
    assert str(caught.value) == f"{path}{problem}"


def test_hermes_public_log_has_20_conversations(shared: Callable[..., Path]) -> None:
    (recording,) = read_library(shared("data", "transcripts"), "hermes").recordings
    assert (recording.language, len(recording.sessions), len(recording.turns)) == ("zh", 4, 39)
    assert recording.notes[0] == "hermes-zh: 20 logged conversations with 216 messages, 39 of them distinct"
    assert all(turn.text.startswith(("User:", "[System")) is False for turn in recording.turns)


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["plain words"], "en"),
        (["我要 deploy 到 production"], "zh"),
        ([], "en"),
        (["a" * 99 + "中"], "en"),
        (["a" * 9 + "中"], "zh"),
    ],
)
def test_language_of_counts_chinese_letters(texts: list[str], language: str) -> None:
    assert language_of(texts) == language
