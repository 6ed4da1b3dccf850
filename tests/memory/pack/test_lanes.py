"""The lanes of ledgers and documents, and the system over the memories of a recording."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import Settings, describe, read_settings
from lab.memory.pack.sources import DocumentsLane, LedgerLane
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import Answered
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec
from tests.memory.ledger.ledgers import NOW, filled
from tests.playing import keys_of, played

NOW_MS = int(NOW.timestamp() * 1000)


def memory(number: int, text: str, **fields: object) -> Memory:
    return Memory(f"c/s/{number}#0", text, text, number + 1, number, **fields)  # type: ignore[arg-type]  # any field


def answers(memories: list[Memory], prompt: str, **config: object) -> list[Answered]:
    """Return the answers at the last turn of a conversation in which each turn makes one memory."""
    turns = [Turn(f"c/s/{n}", n, "c/s", "user", one.text, n) for n, one in enumerate(memories)]
    turns.append(Turn(f"c/s/{len(turns)}", len(turns), "c/s", "user", prompt, len(turns)))
    arm = make_arm(ArmSpec("pack", "pack", config))
    return played(Recording("c", tuple(turns), tuple(memories)), [arm])


def test_superseded_row_brings_its_successor(tmp_path: Path) -> None:
    rows = [
        {"summary": "The fair opens at noon.", "detail": {"superseded_by": "obs:2"}},
        {"summary": "It starts at nine.", "detail": {"url": "https://x.y", "trust": "trusted"}},
    ]
    found = LedgerLane(filled(tmp_path / "l.sqlite", rows)).search("fair", 5, scope=None, now_ms=NOW_MS)
    assert [(one.ref, one.supersedes, one.retrievers) for one in found.candidates] == [
        ("obs:1", (), ("fts",)),
        ("obs:2", ("obs:1",), ("successor",)),
    ]
    assert (found.candidates[1].url, found.candidates[1].trust) == ("https://x.y", "trusted")


def test_supersession_that_was_written_later_counts(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [{"summary": "The fair opens at noon."}, {"summary": "It starts at nine."}])
    with sqlite3.connect(path) as connection:
        detail = json.dumps({"provenance": {"supersedes": ["obs:01", "9" * 5000]}})
        connection.execute("UPDATE observations SET detail_json = ? WHERE id = 2", (detail,))
    found = LedgerLane(path).search("fair", 5, scope=None, now_ms=NOW_MS)
    assert [(one.ref, one.supersedes) for one in found.candidates] == [("obs:1", ()), ("obs:2", ("obs:1",))]


def test_successors_are_followed_in_both_directions_and_through_cycles(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"summary": "The fair opens at noon.", "detail": {"superseded_by": "obs:2"}},
        {"summary": "It starts at nine."},
        {"summary": "Make that ten.", "detail": {"provenance": {"supersedes": ["obs:2"]}, "superseded_by": "obs:4"}},
        {"summary": "Or eleven.", "detail": {"superseded_by": "obs:3"}},
    ]
    found = LedgerLane(filled(tmp_path / "l.sqlite", rows)).search("fair", 5, scope=None, now_ms=NOW_MS)
    assert [(one.ref, one.supersedes) for one in found.candidates] == [
        ("obs:1", ()),
        ("obs:2", ("obs:1",)),
        ("obs:3", ("obs:2", "obs:4")),
        ("obs:4", ("obs:3",)),
    ]


def test_successor_of_another_scope_or_archive_is_not_brought(tmp_path: Path) -> None:
    rows = [
        {"summary": "The fair opens at noon.", "detail": {"scope": "ops", "superseded_by": ["obs:2", "obs:3"]}},
        {"summary": "It starts at nine.", "detail": {"scope": "sales"}},
        {"summary": "It starts at ten.", "detail": {"scope": "ops", "lifecycle": {"state": "soft-archived"}}},
    ]
    lane = LedgerLane(filled(tmp_path / "l.sqlite", rows))
    assert [one.ref for one in lane.search("fair", 5, scope="ops", now_ms=NOW_MS).candidates] == ["obs:1"]
    assert [one.ref for one in lane.search("fair", 5, scope=None, now_ms=NOW_MS).candidates] == ["obs:1", "obs:2"]


def test_ledger_lane_of_a_scope_without_a_name_finds_nothing(tmp_path: Path) -> None:
    lane = LedgerLane(filled(tmp_path / "l.sqlite", [{"summary": "The fair opens.", "detail": {"scope": "ops"}}]))
    found = lane.search("fair", 5, scope="專案", now_ms=NOW_MS)
    assert (found.candidates, found.searched) == ((), False)
    assert (found.reason or "").startswith("scope_unusable: --scope '專案': has no ASCII letter or digit")


def test_ledger_lane_of_a_name_that_no_file_can_have_gives_a_reason(tmp_path: Path) -> None:
    found = LedgerLane(tmp_path / ("a" * 300)).search("fair", 5, scope=None, now_ms=NOW_MS)
    assert (found.candidates, found.searched) == ((), False)
    assert "File name too long" in (found.reason or "")


def test_ledger_lane_returns_nothing_that_was_written_later(tmp_path: Path) -> None:
    rows = [
        {"ts": "2026-11-23T11:59:59Z", "summary": "The fair opens at noon.", "detail": {"superseded_by": "obs:2"}},
        {"ts": "2026-11-23T12:00:01Z", "summary": "It starts at nine."},
        {"ts": "2026-11-23T21:00:00+08:00", "summary": "The fair is over."},
        {"ts": "2026-11-23T19:00:00+08:00", "summary": "The fair is near."},
    ]
    found = LedgerLane(filled(tmp_path / "l.sqlite", rows)).search("fair", 5, scope=None, now_ms=NOW_MS)
    assert sorted(one.ref for one in found.candidates) == ["obs:1", "obs:4"]


def test_documents_are_cited_by_path_and_lines_and_hidden_ones_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("# Fair\n\nThe fair opens at nine.\n")
    (tmp_path / ".hidden.md").write_text("The fair is hidden.")
    (tmp_path / "bytes.txt").write_bytes(b"fair \xff")
    (tmp_path / "code.py").write_text("fair = 1")
    found = DocumentsLane(tmp_path).search("when is the fair", 5, scope="any", now_ms=0)
    assert [(one.ref, one.trust, one.kind) for one in found.candidates] == [
        ("doc:sub/a.md#L1-L3", "trusted", "document")
    ]
    assert found.reason == "no_vectors_words_only; 1 file skipped"


def test_document_with_an_unusable_name_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The fair opens at nine.\n")
    (tmp_path / os.fsdecode(b"b\xff.md")).write_text("The fair opens at ten.\n")
    (tmp_path / "loop.md").symlink_to("loop.md")
    found = DocumentsLane(tmp_path).search("fair", 5, scope=None, now_ms=0)
    assert [one.ref for one in found.candidates] == ["doc:a.md#L1"]
    assert found.reason == "no_vectors_words_only; 2 files skipped"


def test_link_out_of_the_folder_of_documents_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out.md"
    inside.mkdir()
    outside.write_text("The fair is private.\n")
    (inside / "a.md").write_text("The fair opens at nine.\n")
    (inside / "link.md").symlink_to(outside)
    (inside / "own.md").symlink_to(inside / "a.md")
    found = DocumentsLane(inside).search("fair", 5, scope=None, now_ms=0)
    assert sorted(one.ref for one in found.candidates) == ["doc:a.md#L1", "doc:own.md#L1"]


def test_document_is_cited_by_the_lines_that_an_editor_counts(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("Fair\x0cat\u2028nine.\r\nSecond.\nThird.\n".encode())
    (found,) = DocumentsLane(tmp_path).search("fair", 5, scope=None, now_ms=0).candidates
    assert found.ref == "doc:a.md#L1-L3"


@pytest.mark.parametrize(
    ("given", "cited"),
    [
        ("https://me:pw@x.y/a?token=abc", "https://***@x.y/a?token=***"),
        ("https://x.y/a#access_token=abc", "https://x.y/a#access_token=***"),
        ("https://x.y/a#hours", "https://x.y/a#hours"),
        (f"https://x.y/ghp_{'aB3' * 12}", None),
        ("The gateway is in the mill.", None),
        ("https://x.y/a\nThe gateway is in the mill.", None),
        ("javascript:alert(1)", None),
        (5, None),
    ],
)
def test_only_a_web_address_is_cited_without_its_credentials(tmp_path: Path, given: object, cited: str | None) -> None:
    path = filled(tmp_path / "l.sqlite", [{"summary": "The fair.", "detail": {"url": given}}])
    (found,) = LedgerLane(path).search("fair", 5, scope=None, now_ms=NOW_MS).candidates
    assert found.url == cited


def test_folder_without_documents_is_not_searched(tmp_path: Path) -> None:
    found = DocumentsLane(tmp_path).search("fair", 5, scope=None, now_ms=0)
    assert (found.searched, found.reason) == (False, "no_documents")
    (tmp_path / "broken.md").write_bytes(b"the fair\xff")
    found = DocumentsLane(tmp_path).search("fair", 5, scope=None, now_ms=0)
    assert (found.searched, found.reason) == (False, "no_documents; 1 file skipped")


def test_arm_packs_memories_with_numbers_as_citations() -> None:
    last = answers([memory(0, "The fair opens at nine."), memory(1, "The choir sings.")], "When is the fair?")[-1]
    assert last.recall.context.splitlines()[0] == "- [mem:1] The fair opens at nine."
    assert keys_of(last)[0] == "c/s/0#0"
    assert last.recall.receipt["included"][0] == "mem:1"


def test_arm_drops_what_is_superseded_and_adds_its_successor() -> None:
    old = memory(0, "The fair opens at nine.")
    new = memory(1, "Make that ten.", supersedes=(old.key,))
    others = [memory(number, f"The fair of day {number} opens late.") for number in range(2, 70)]
    last = answers([old, new, *others], "When does the fair open at nine?", limit=70)[-1]
    injected = [item.id for item in last.recall.items[: last.recall.injected]]
    assert (old.key in injected, new.key in injected) == (False, True)


def test_arm_protects_the_last_turns_if_configured() -> None:
    spoken = [memory(0, "The fair opens at nine."), memory(1, "Bring chairs.")]
    last = answers(spoken, "When?", tail={"items": 1, "tokens": 40}, budgetTokens=60)[-1]
    assert last.recall.context.splitlines()[-1] == "- [tail:1] user: Bring chairs."
    assert tokens(last.recall.context) <= 60


def test_arm_protects_the_last_turns_of_the_scope_alone() -> None:
    spec = make_arm(ArmSpec("pack", "pack", {"tail": {"items": 2, "tokens": 90}}))
    spoken = [("alpha", "a1"), ("alpha", "a2"), ("beta", "b1"), ("alpha", "a3"), ("alpha", "a4")]
    turns = [Turn(f"c/s/{n}", n, "c/s", "user", text, n, scope=scope) for n, (scope, text) in enumerate(spoken)]
    turns += [Turn(f"c/s/{len(turns)}", len(turns), "c/s", "user", "When?", len(turns), scope="beta")]
    last = played(Recording("c", tuple(turns), ()), [spec], scoping="given")[-1]
    assert last.recall.context == "- [tail:1] user: b1"


def test_arm_lists_no_turn_of_the_tail_as_a_memory() -> None:
    spoken = [memory(0, "The fair opens at nine. " * 9), memory(1, "Bring chairs.")]
    last = answers(spoken, "When?", tail={"items": 2, "tokens": 20})[-1]
    assert last.recall.receipt["reasons"]["tail_budget_tokens_exceeded"] == 1
    assert set(keys_of(last)) == {"c/s/0#0", "c/s/1#0"}


def test_settings_are_read_back_from_their_description() -> None:
    settings = Settings(limit=3, budget_tokens=90, rank="policy", quotas=None, dissent=False)
    assert read_settings(describe(settings), "here") == settings
    assert read_settings({"quotas": {"decisionMin": 2}}, "here").quotas == Settings().quotas.__class__(1, 2, 0.4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"limits": 3}, "here: unknown key 'limits'"),
        ({"limit": 0}, "here: limit: expected a whole number from 1 to 200, found 0"),
        ({"trustPolicy": "all"}, "here: trustPolicy: expected one of"),
        ({"quotas": {"eventMaxRatio": 2}}, "here: quotas: eventMaxRatio: expected a number from 0 to 1"),
        ({"quotas": 3}, "here: quotas: expected an object, found a number"),
    ],
)
def test_wrong_setting_is_named(config: dict[str, object], message: str) -> None:
    with pytest.raises(UnusableInput) as raised:
        read_settings(config, "here")
    assert str(raised.value).startswith(message)
