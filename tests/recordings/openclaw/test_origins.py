"""Tests of what started a session: by its key, by the host's index, and by its transcript (OR-1 to OR-3)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.recordings.openclaw.origins import origin_of
from lab.recordings.readers import Library, read_library

MakeDatabase = Callable[..., Path]
FIRST, SECOND = "3b0d5a52-0000-4000-8000-000000000001", "3b0d5a52-0000-4000-8000-000000000002"
HOOK = (
    "Job ID: 5f-3 | Received: Monday, 5:00 AM\n\nSECURITY NOTICE: The following content is from an EXTERNAL, UNTRUSTED "
    'source\n<<<EXTERNAL_UNTRUSTED_CONTENT id="1">>>\nSource: Webhook\n---\nThe mill is open\n'
)
GROUP = 'Conversation info (untrusted metadata):\n```json\n{\n  "is_group_chat": true\n}\n```\n\nWho brings the rake?'
DIRECT = 'Conversation info (untrusted metadata):\n```json\n{\n  "message_id": "7"\n}\n```\n\nWho brings the rake?'
CRON = "[cron:77-1 mill-watch] Say how high the water stands."


def origins(library: Library) -> dict[str, str]:
    return {recording.conversation[-1]: recording.origin for recording in library.recordings}


@pytest.mark.parametrize(
    ("key", "facts", "expected"),
    [
        ("agent:main:main", {}, "person"),
        ("global", {}, "person"),
        ("agent:main:telegram:direct:55", {}, "person"),
        ("agent:main:whatsapp:work:direct:+31", {"chatType": "direct"}, "person"),
        ("agent:main:dashboard:1f", {"createdVia": "operator"}, "person"),
        ("agent:main:telegram:direct:55:thread:9", {}, "person"),
        ("agent:main:garden", {"createdVia": "run", "createdActor": {"type": "human"}}, "person"),
        # The newest message into the main session may come from a group, and its index then says so.
        ("agent:main:main", {"chatType": "group"}, "person"),
        ("agent:main:telegram:group:-100", {}, "group"),
        ("agent:main:telegram:group:-100:topic:3", {}, "group"),
        ("agent:main:discord:channel:77:thread:78", {}, "group"),
        ("agent:ops:room", {"chatType": "channel"}, "group"),
        ("agent:ops:room", {"origin": {"chatType": "group"}}, "group"),
        ("agent:main:cron:9f", {}, "cron"),
        ("agent:main:cron:9f:run:4e", {}, "cron"),
        ("AGENT:Main:CRON:9f", {}, "cron"),
        ("cron:9f", {}, "cron"),
        ("agent:main:mill", {"createdVia": "cron"}, "cron"),
        ("agent:main:hook:gmail:1", {}, "hook"),
        ("agent:main:cron:9f", {"hookExternalContentSource": "webhook"}, "hook"),
        ("agent:main:subagent:4e", {}, "subagent"),
        ("agent:main:subagent:4e:subagent:5f", {}, "subagent"),
        ("agent:ops:4e", {"spawnedBy": "agent:main:main"}, "subagent"),
        ("agent:main:acp:4e", {"spawnedBy": "agent:main:main"}, "acp"),
        ("agent:main:main:heartbeat", {}, "heartbeat"),
        ("agent:main:pulse", {"heartbeatIsolatedBaseSessionKey": "agent:main:main"}, "heartbeat"),
        ("agent:main:boot", {}, "system"),
        ("agent:main:dreaming-narrative-rem-1", {}, "system"),
        ("agent:main:main:active-memory:0123456789ab", {}, "system"),
        ("agent:main:probe", {"createdActor": {"type": "system"}}, "system"),
        ("unknown", {}, "unknown"),
        ("", {}, "unknown"),
    ],
)
def test_key_and_index_name_the_origin(key: str, facts: dict[str, Any], expected: str) -> None:
    assert origin_of(key, facts) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([CRON], "cron"),
        ([f"[Mon 2026-09-07 05:00 UTC] {CRON}"], "cron"),
        # A person may go on with the session that a job began.
        ([CRON, "And yesterday?"], "cron"),
        (["Good morning", CRON], "unknown"),
        (["Why does [cron:77-1 mill-watch] fail?"], "unknown"),
        ([HOOK], "hook"),
        ([HOOK.replace("Job ID", "Task: mill | Job ID")], "hook"),
        (["Job ID: 55 failed again, why?\nTell me"], "unknown"),
        (["[Subagent Context] You are running as a subagent (depth 1/1).\n\n[Subagent Task]\nCount rakes"], "subagent"),
        (["[Inter-session message] sourceSession=agent:main:main isUser=false\nCount the rakes"], "subagent"),
        (["Read HEARTBEAT.md if it exists (workspace context).", "[OpenClaw heartbeat poll]"], "heartbeat"),
        (["[OpenClaw heartbeat poll]", "Good morning"], "unknown"),
        ([GROUP, "And the hose?"], "group"),
        ([DIRECT], "person"),
        (["Who brings the rake?"], "unknown"),
    ],
)
def test_transcript_that_no_index_names_says_its_origin(
    tmp_path: Path, new_log: Any, said: list[str], expected: str
) -> None:
    log = new_log(FIRST)
    for text in said:
        log.says("user", text)
        log.says("assistant", "Noted.")
    (tmp_path / "a.jsonl").write_text(log.text(), "utf-8")
    assert origins(read_library(tmp_path, "openclaw")) == {"1": expected}


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        ({"kind": "inter_session", "sourceTool": "sessions_send"}, "subagent"),
        ({"kind": "external_user", "jobId": "77-1"}, "cron"),
        ({"kind": "external_user", "sourcePromptPrefix": "[cron:77-1 mill-watch]"}, "cron"),
        ({"kind": "external_user"}, "person"),
        ({"kind": "nothing known"}, "unknown"),
    ],
)
def test_provenance_of_messages_says_the_origin(
    tmp_path: Path, new_log: Any, provenance: dict[str, str], expected: str
) -> None:
    log = new_log(FIRST)
    log.says("user", "Count the rakes", provenance=provenance)
    log.says("assistant", "Three.")
    (tmp_path / "a.jsonl").write_text(log.text(), "utf-8")
    assert origins(read_library(tmp_path, "openclaw")) == {"1": expected}


def test_record_of_the_host_names_the_session(tmp_path: Path, new_log: Any) -> None:
    log = new_log(FIRST)
    log.add("custom", customType="openclaw:bootstrap-context:full", data={"runId": "dreaming-narrative-rem-4"})
    log.says("user", "Write about the mill")
    other = new_log(SECOND)
    other.add("custom", customType="anything", data={"sessionKey": "agent:main:cron:9f:run:4e"})
    other.says("user", "Write about the mill")
    for each in (log, other):
        (tmp_path / f"{each.id}.jsonl").write_text(each.text(), "utf-8")
    assert origins(read_library(tmp_path, "openclaw")) == {"1": "system", "2": "cron"}


def test_index_decides_unless_every_prompt_is_a_machine_s(tmp_path: Path, new_log: Any) -> None:
    job, talk = new_log(FIRST), new_log(SECOND)
    job.says("user", CRON)
    job.says("user", CRON)
    talk.says("user", CRON)
    talk.says("user", "And yesterday?")
    for each in (job, talk):
        (tmp_path / f"{each.id}.jsonl").write_text(each.text(), "utf-8")
    index = {f"agent:main:mill-{number}": {"sessionId": each.id} for number, each in enumerate((job, talk))}
    (tmp_path / "sessions.json").write_text(json.dumps(index), "utf-8")
    # The second one is a session of the index that belongs to a person, in which a job spoke as well.
    assert origins(read_library(tmp_path, "openclaw")) == {"1": "cron", "2": "person"}


def test_index_names_a_topic_by_its_file_and_a_session_by_several_keys(tmp_path: Path, new_log: Any) -> None:
    topic, job = new_log(FIRST), new_log(SECOND)
    topic.says("user", "Who brings the rake?")
    job.says("user", "Count the rakes")
    (tmp_path / f"{FIRST}-topic-3.jsonl").write_text(topic.text(), "utf-8")
    (tmp_path / f"{SECOND}.jsonl").write_text(job.text(), "utf-8")
    index = {
        "agent:main:telegram:group:-1:topic:3": {"sessionId": FIRST, "sessionFile": f"/h/{FIRST}-topic-3.jsonl"},
        "agent:main:main": {"sessionId": SECOND},
        "agent:main:cron:9f": {"sessionId": SECOND},
        "agent:main:odd": {"sessionId": [7], "sessionFile": None},
        "agent:main:broken": "text",
    }
    (tmp_path / "sessions.json").write_text(json.dumps(index), "utf-8")
    assert origins(read_library(tmp_path, "openclaw")) == {"3": "group", "2": "cron"}


def test_database_names_origins_by_entries_columns_and_keys_of_archives(
    tmp_path: Path, new_log: Any, make_database: MakeDatabase
) -> None:
    logs = [new_log(f"3b0d5a52-0000-4000-8000-00000000000{number}") for number in range(1, 6)]
    for log in logs[:4]:
        log.says("user", "Count the rakes")
    logs[4].says("user", "Count the rakes of the job")
    path = make_database(tmp_path / "openclaw-agent.sqlite", *logs[:4])
    connection = sqlite3.connect(path)
    with connection:
        for column in ("chat_type", "hook_external_content_source", "spawned_by"):
            connection.execute(f"ALTER TABLE session_windows ADD COLUMN {column} TEXT")
        say = "UPDATE session_nodes SET entry_json = ? WHERE session_key = ?"
        connection.execute(say, ('{"spawnedBy": "agent:main:main"}', f"agent:main:{logs[0].id}"))
        connection.execute(say, ("not JSON", f"agent:main:{logs[3].id}"))
        for column, value, log in (
            ("chat_type", "group", logs[1]),
            ("hook_external_content_source", "gmail", logs[2]),
        ):
            connection.execute(f"UPDATE session_windows SET {column} = ? WHERE session_id = ?", (value, log.id))
        packed = pa.compress(logs[4].text().encode(), codec="zstd", asbytes=True)
        row = (
            logs[4].id,
            "g",
            "agent:main:cron:9f:run:4e",
            "deleted",
            "zstd",
            packed,
            "",
            f"{logs[4].id}.jsonl.deleted.1",
        )
        connection.execute(
            "INSERT INTO session_transcript_archives (session_id, generation, session_key, reason, encoding, "
            "archive_blob, archive_sha256, archive_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    connection.close()
    library = read_library(path, "openclaw-archived")
    assert origins(library) == {"1": "subagent", "2": "group", "3": "hook", "4": "person", "5": "cron"}


def test_index_names_a_session_whose_file_has_another_name_and_its_copies(tmp_path: Path, new_log: Any) -> None:
    log = new_log(FIRST)
    log.says("user", "Who brings the rake?")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "renamed.jsonl").write_text(log.text(), "utf-8")
    log.says("user", "And the hose?")
    (tmp_path / "sessions" / "longer.jsonl").write_text(log.text(), "utf-8")
    index = {"agent:main:telegram:group:-1": {"sessionId": FIRST}}
    (tmp_path / "sessions" / "sessions.json").write_text(json.dumps(index), "utf-8")
    library = read_library(tmp_path, "openclaw")
    assert [(recording.origin, len(recording.turns)) for recording in library.recordings] == [("group", 2)]
