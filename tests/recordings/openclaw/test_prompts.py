"""Tests of which user messages of a session a person said: by their text, by their answers, and by the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.cli.output import emit_suspects
from lab.recordings.openclaw import gather
from tests.recordings.host_wrappers import WRAPPERS

CHECK = "Check the barrel and the pump, and tell me only what is wrong."
TIME = "Current time: Wednesday, May 6th, 2026 \u2014 0:00 AM (UTC)"


def read(tmp_path: Path, log: Any) -> tuple[list[str], dict[str, int]]:
    """Return the user turns, and what was skipped of the host's messages."""
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    gathered = gather(path)
    (recording,) = gathered.recordings
    asked = [turn.text for turn in recording.turns if turn.role == "user"]
    return asked, {each.what: each.count for each in gathered.inventory.passed if "host" in each.what}


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "NO_REPLY", "**HEARTBEAT_OK**", "NO_REPLY."])
def test_prompt_before_a_bare_token_is_a_machines(tmp_path: Path, new_log: Any, answer: str) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("assistant", "Well.")
    log.says("user", CHECK)
    log.says("assistant", answer)
    token = answer.strip("*.")
    assert read(tmp_path, log) == (
        ["one"],
        {
            f"messages of the host (prompts that were answered with {token} alone), skipped": 1,
            "replies to messages of the host, skipped": 1,
        },
    )


def test_same_prompt_with_another_answer_is_a_machines_too(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", CHECK)
    log.says("assistant", "HEARTBEAT_OK")
    log.says("user", f"[Mon 2026-05-04 11:04 GMT+2] {CHECK}")
    log.says("assistant", "The pump is loud.")
    log.says("user", "go on")
    log.says("assistant", "HEARTBEAT_OK")
    log.says("user", "go on")
    log.says("assistant", "It is loud.")
    assert read(tmp_path, log)[0] == ["go on"]


def test_heartbeat_that_thinks_aloud_is_a_machines(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("user", CHECK)
    log.says("assistant", "Let me look.")
    log.says("assistant", "HEARTBEAT_OK")
    assert read(tmp_path, log)[0] == ["one"]


def test_prompt_whose_answer_was_sent_with_the_message_tool_is_a_persons(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", CHECK)
    log.says("assistant", [{"type": "toolCall", "id": "c", "name": "message", "arguments": {"action": "send"}}])
    log.says("assistant", "NO_REPLY")
    log.says("user", "two")
    log.says("assistant", "Here you are.")
    log.says("assistant", "NO_REPLY")
    assert read(tmp_path, log) == ([CHECK, "two"], {})


def test_message_with_a_sender_stays_though_the_agent_was_silent(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", WRAPPERS["envelope of a group"](CHECK))
    log.says("assistant", "NO_REPLY")
    assert read(tmp_path, log) == ([CHECK], {})


def test_prompts_of_the_host_are_counted_by_kind(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    for _ in range(2):
        log.says("user", "Read HEARTBEAT.md if it exists. Follow it strictly. Else reply HEARTBEAT_OK.")
        log.says("assistant", "The pump is loud.")
    log.says("user", "Pre-compaction memory flush. Store durable memories now.")
    log.says("assistant", "Done.")
    log.says("user", f"[cron:11aa barrel] {CHECK}\n{TIME}")
    log.says("assistant", "Half full.")
    log.says("user", "System: [2026-05-04 11:02:03 GMT+2] Node: shed connected")
    log.says("assistant", "I see.")
    log.says("user", "from afar", provenance={"kind": "inter_session"})
    log.says("assistant", "Good day.")
    assert read(tmp_path, log) == (
        ["one"],
        {
            "messages of the host (events), skipped": 1,
            "messages of the host (heartbeats), skipped": 2,
            "messages of the host (memory flushes), skipped": 1,
            "messages of the host (messages of other sessions), skipped": 1,
            "messages of the host (prompts of jobs), skipped": 1,
            "replies to messages of the host, skipped": 6,
        },
    )


@pytest.mark.parametrize(
    ("text", "kept", "kind"),
    [
        (
            f"[cron:11aa barrel] {CHECK}\n{TIME}\n\nReturn your summary as plain text; it is sent.",
            CHECK,
            "prompts of jobs",
        ),
        (f"[Subagent Context] You are one.\n\n[Subagent Task]: {CHECK}", CHECK, "tasks of subagents"),
        (f"[Subagent Context] You are one.\n\n[Subagent Task]\n{CHECK}", CHECK, "tasks of subagents"),
    ],
)
def test_task_is_a_turn_where_no_person_speaks(tmp_path: Path, new_log: Any, text: str, kept: str, kind: str) -> None:
    log = new_log()
    log.says("user", text)
    log.says("assistant", "Half full.")
    log.says("user", "Continue where you left off. The previous model attempt failed or timed out.")
    log.says("assistant", "All of it.")
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    (recording,) = gather(path).recordings
    assert [turn.text for turn in recording.turns] == [kept, "Half full."]
    assert f"{log.id}: {kind}, replayed as turns because no person speaks in the session: 1" in recording.notes


def test_message_of_another_session_is_a_turn_where_no_person_speaks(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "from afar", provenance={"kind": "inter_session"})
    assert read(tmp_path, log) == (["from afar"], {})


def test_suspects_are_in_the_inventory_and_in_no_note(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "[Raven 9] hello")
    log.says("assistant", "Good day.")
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    gathered = gather(path)
    assert gathered.inventory.suspects == (("a bracket at the beginning", 1, "[Raven 9] hello"),)
    assert not any("Raven" in note for note in (*gathered.notes, *gathered.recordings[0].notes))


def test_repeated_prompt_of_a_job_is_no_suspect(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    for _ in range(9):
        log.says("user", f"[cron:11aa barrel] {CHECK}\n{TIME}")
        log.says("assistant", "Half full.")
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    gathered = gather(path)
    assert (gathered.recordings[0].origin, gathered.inventory.suspects) == ("cron", ())


def test_suspects_are_shown_with_an_example(tmp_path: Path, new_log: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log = new_log()
    log.says("user", "[Raven 9] hello")
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    emit_suspects(gather(path).inventory.suspects)
    assert "[Raven 9] hello" in capsys.readouterr().out
    emit_suspects(())
    assert capsys.readouterr().out == ""
