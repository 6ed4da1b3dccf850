"""Tests that the host's additions to a user's message are removed, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.recordings.cleaning import clean_assistant_text, clean_user_text

RECEIPT = '<!-- openclaw-mem-engine:autoRecall {"v":1} -->'
MEMORIES = "<relevant-memories>\nmemory-policy: x\n1. [fact|unknown] The kiln is blue\n</relevant-memories>"
RECALLED = "[auto-recall]\n- the kiln\n[/auto-recall]"
ACTIVE = "<active_memory_plugin>\nthe kiln\n</active_memory_plugin>"
INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsource: cron\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
STAMP = "[Sat 2026-04-04 01:23 MDT]"


def envelope(heading: str) -> str:
    return f'{heading}:\n```json\n{{\n  "label": "Ada ``` Lovelace",\n  "id": "7"\n}}\n```'


HEADINGS = (
    "Conversation info (untrusted metadata)",
    "Sender (untrusted metadata)",
    "Thread starter (untrusted, for context)",
    "Thread starter",
    "Replied message (untrusted, for context)",
    "Forwarded message context (untrusted metadata)",
    "Forwarded",
    "Chat history since last reply (untrusted, for context)",
)


@pytest.mark.parametrize(
    ("piece", "name"),
    [
        (RECEIPT, "receipt comment"),
        (MEMORIES, "relevant-memories block"),
        (MEMORIES.upper(), "relevant-memories block"),
        (RECALLED, "auto-recall block"),
        (ACTIVE, "active_memory_plugin block"),
        (INTERNAL, "internal context"),
        (STAMP, "time stamp"),
        *((envelope(heading), "metadata block") for heading in HEADINGS),
        ("[[reply_to_current]]", "directive"),
        ("[[ reply_to: 17 ]]", "directive"),
    ],
)
def test_clean_prefix_is_removed_and_counted(piece: str, name: str) -> None:
    assert clean_user_text(f"{piece}\n\nWhen does the kiln open?") == ("When does the kiln open?", {name: 1})


@pytest.mark.parametrize(
    "cut", ["<relevant-memories>\n1. [fact|unknown] cut o", "[auto-recall]\n- cut o", INTERNAL[:60]]
)
def test_clean_unclosed_block_extends_to_the_end(cut: str) -> None:
    assert clean_user_text(f"When?\n{cut}").text == "When?"


def test_clean_all_prefixes_together_leaves_the_text() -> None:
    blocks = [RECEIPT, MEMORIES, ACTIVE, *map(envelope, HEADINGS[:2]), f"{STAMP} When?\n\n  indented [[reply_to:9]]"]
    text, stripped = clean_user_text("\n\n".join(blocks))
    assert text == "When?\n\n  indented"
    assert stripped == {
        "receipt comment": 1,
        "relevant-memories block": 1,
        "active_memory_plugin block": 1,
        "metadata block": 2,
        "time stamp": 1,
        "directive": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "on [Sat 2026-04-04 01:23 MDT] it rained",
        "if [[ -f kiln ]]; then [[1, 2], [3]]",
        'Sender details:\n```json\n{"id": 7}\n```',
        "Conversation info (untrusted metadata):\nno block follows",
        "<!-- openclaw-mem-engine:autoRecall without an end",
        "<!-- another comment -->",
        "a [SCOPE: shop] tag stays",
    ],
)
def test_clean_similar_text_is_kept(text: str) -> None:
    assert clean_user_text(text) == (text, {})


def test_clean_removal_between_words_leaves_a_space() -> None:
    assert clean_user_text(f"one{MEMORIES}two").text == "one two"


@pytest.mark.parametrize("text", ["NO_REPLY", " HEARTBEAT_OK\n", "[[reply_to_current]] NO_REPLY", "**HEARTBEAT_OK**"])
def test_clean_silent_reply_gives_none(text: str) -> None:
    assert clean_assistant_text(text) is None


def test_clean_reply_removes_only_directives() -> None:
    assert clean_assistant_text("[[reply_to_current]] I said NO_REPLY.") == "I said NO_REPLY."


def test_clean_engine_artefacts_matches_public_plugin(vectors: Path) -> None:
    # The plugin replaces each block by a space and keeps unclosed blocks, which here extend to the end of the text.
    compared = 0
    for line in (vectors / "capture_units.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["fn"] != "stripAutoInjectedArtifacts" or "<relevant-memories>" in record["output"]:
            continue
        assert clean_user_text(record["input"]["text"]).text.split() == record["output"].split(), record["id"]
        compared += 1
    assert compared > 25
