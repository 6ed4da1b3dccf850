"""Tests of the pipeline of capture in both profiles: what is stored, where, when, and what receipts count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lab.systems.openclaw.capture.pipeline import Captured, Message, capture, captures
from lab.systems.openclaw.capturing import RULES
from lab.systems.openclaw.config.resolve import resolve
from tests.conformance.capture import Captures, stored_rows
from tests.conformance.embedding import embed

HOUR = 3_600_000
TODOS = {"autoCapture": {"captureTodo": True, "maxItemsPerTurn": 3}}


def run(
    *texts: str,
    profile: str = "seed",
    config: Any = None,
    table: Captures | None = None,
    now_ms: int = HOUR,
    fails: bool = False,
) -> Captured:
    """Capture the messages of one conversation and store the result."""
    store = table or Captures()
    messages = [Message((text,), f"t{number}") for number, text in enumerate(texts)]
    vector = (lambda _: None) if fails else embed
    settings = resolve(config or {}, profile)
    found = capture(messages, settings, RULES[profile], store, now_ms=now_ms, embed=vector)
    stored_rows(found, now_ms, store)
    return found


def texts_of(found: Captured) -> list[str]:
    return [item.text for item in found.stored]


def test_capture_of_chinese_works_in_seed_and_is_dead_in_upstream() -> None:
    said = "我喜歡深色模式和等寬字體。我們決定採用 SQLite 當資料庫。今天天氣很好喔。"
    assert texts_of(run(said)) == ["我喜歡深色模式和等寬字體。", "我們決定採用 SQLite 當資料庫。"]
    assert texts_of(run(said, profile="upstream")) == []


def test_upstream_does_not_see_recent_todos_after_the_first_256_of_a_scope() -> None:
    """The plugin reads four times as many rows as it compares with, in the order in which they were stored."""
    again, config = "remember to order the last sack of flour", {"autoCapture": {"captureTodo": True}}
    for profile, stored in (("seed", 0), ("upstream", 1)):
        table = Captures()
        for number in range(257):
            said = again if number == 256 else f"remember to {number} " + " ".join(f"w{number}x{at}" for at in range(6))
            assert len(run(said, profile=profile, config=config, table=table, now_ms=HOUR + number).stored) == 1
        found = run(again, profile=profile, config=config, table=table, now_ms=2 * HOUR)
        assert len(found.stored) == stored


def test_capture_stores_category_importance_and_scope_without_the_tag_in_seed() -> None:
    said = "[SCOPE: Team-A] We decided to bake rye bread"
    (item,) = run(said).stored
    assert (item.text, item.category, item.importance, item.scope, item.source) == (
        *("We decided to bake rye bread", "decision", 0.88, "team-a"),
        "t0",
    )
    (item,) = run(said, profile="upstream").stored
    assert (item.text, item.scope) == (said, "team-a")


def test_capture_with_an_invalid_scope_warns_and_uses_the_default() -> None:
    found = run("[SCOPE: Bad Scope!] I prefer rye bread")
    assert [item.scope for item in found.stored] == ["global"]
    assert found.log == (
        ("warn", "openclaw-mem-engine:scopeValidation write=autoCapture invalid scope; fallback=global"),
    )


def test_capture_takes_the_newest_message_first_in_seed_only() -> None:
    said = ["I like tea number one\nI like milk number two", "I like rye bread the most"]
    assert texts_of(run(*said)) == ["I like rye bread the most", "I like tea number one"]
    assert texts_of(run(*said, profile="upstream")) == ["I like tea number one", "I like milk number two"]


def test_capture_of_the_same_history_stores_nothing_twice() -> None:
    table = Captures()
    said = ["I prefer rye bread to wheat", "I PREFER rye bread, to wheat!"]
    assert texts_of(run(*said, table=table)) == ["I PREFER rye bread, to wheat!"]
    again = run(*said, table=table)
    assert texts_of(again) == []
    assert again.receipt is not None
    assert again.receipt["filteredOut"]["duplicate"] == 2


def test_capture_of_todos_has_a_rate_limit_a_window_and_a_marker() -> None:
    table = Captures()
    found = run("TODO: order rye flour\nTODO: clean the oven", config=TODOS, table=table, now_ms=HOUR)
    assert texts_of(found) == ["TODO: order rye flour"]
    (level, line) = found.log[0]
    assert (level, line.split(" ")[0]) == ("info", "openclaw-mem-engine:todoGuardrail")
    assert json.loads(line.split(" ", 1)[1])["dropped"] == {"todo_rate_limit": 1, "todo_dedupe_window": 0}
    within = run("TODO: order rye flour", config=TODOS, table=table, now_ms=24 * HOUR)
    assert within.receipt is not None
    assert within.receipt["filteredOut"]["todo_dedupe_window"] == 1
    assert texts_of(run("TODO: order rye flour", config=TODOS, table=table, now_ms=26 * HOUR)) == [
        "TODO: order rye flour"
    ]
    assert texts_of(run("[SCOPE: b]\nTODO: order rye flour", config=TODOS, table=table, now_ms=24 * HOUR)) != []


def test_capture_without_embeddings_stores_nothing_and_seed_counts_it() -> None:
    found = run("I prefer rye bread", fails=True)
    assert found.stored == ()
    assert found.receipt is not None
    assert found.receipt["dropped"]["embedding_failed"] == 1


def test_capture_is_off_when_disabled_read_only_or_without_categories() -> None:
    said = "I prefer rye bread"
    for config in (
        {"autoCapture": False},
        {"readOnly": True},
        {"autoCapture": {"capturePreference": False, "captureDecision": False}},
    ):
        assert run(said, config=config) == Captured()
    assert captures(resolve({}, "seed"))
    assert run(said, config={"receipts": False}).receipt is None
    assert run("<relevant-memories>x</relevant-memories>").receipt is None


def test_capture_of_a_secret_in_a_scope_tag_stores_nothing() -> None:
    found = run("[SCOPE: sk-proj-abcdefghijklmnop0123]\nI prefer rye bread")
    assert found.stored == ()
    assert found.receipt is not None
    assert found.receipt["filteredOut"]["secrets_like"] == 1


SENTENCES = st.sampled_from(
    [
        *(
            "I prefer rye bread number {}",
            "We decided to bake {} loaves",
            "TODO: order {} bags",
            "我們決定採用{}號麵粉。我喜歡{}。",
        ),
        *(
            "password: {}secret",
            "exit code {}",
            "/todo number {} please",
            "short {}",
            "nothing to see here, {}",
            "x" * 300,
        ),
        "[SCOPE: s{}]",
    ]
)


@given(st.lists(st.lists(st.tuples(SENTENCES, st.integers(0, 30)), min_size=1, max_size=6), min_size=1, max_size=5))
def test_capture_receipt_of_seed_accounts_for_every_candidate(messages: list[list[tuple[str, int]]]) -> None:
    said = ["\n".join(text.replace("{}", str(number)) for text, number in lines) for lines in messages]
    found = run(*said, config=TODOS)
    receipt = found.receipt
    assert receipt is not None
    filtered = [count for name, count in receipt["filteredOut"].items() if name not in NOT_CANDIDATES]
    assert (
        receipt["candidateExtractionCount"] == sum(filtered) + sum(receipt["dropped"].values()) + receipt["storedCount"]
    )
    assert receipt["storedCount"] == len(found.stored) <= 3
    assert "dropped" not in (run(*said, config=TODOS, profile="upstream").receipt or {})
    shown = json.dumps([receipt, found.log])
    assert not any(item.text in shown for item in found.stored)


NOT_CANDIDATES: Sequence[str] = ("older_user_messages", "input_chars_truncated")
