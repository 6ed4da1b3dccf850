"""Conversations over one store share its rows and its index; results are those of a conversation by itself."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from lab.replay.executors import Replayed, run_task, task_of
from lab.replay.plan import make_plan
from lab.replay.sources import prepared_sources
from lab.retrieval.bm25 import Postings

DAY = 86_400_000
FIRST = int(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp() * 1000)
WORDS = ("pears", "plums", "quinces", "crates", "ferries", "kilns")


def stored(desk: Any) -> str:
    """Write a store that grows and shrinks during four conversations, and these conversations; return its path."""
    lines = []
    for at in range(40):
        times = {"createdAt": FIRST + (at - 28) * DAY // 4}
        if at % 9 == 5:
            times["deletedAt"] = max(FIRST, times["createdAt"]) + (at % 4) * DAY + 1
        text = f"{WORDS[at % 6]} and {WORDS[at % 5]} number {at % 11}" + (" [HARD]" if at % 13 == 1 else "")
        labels = {"importance_label": ("must_remember", "nice_to_have", "unknown")[at % 3], "importance": 0.6}
        identity = f"0b0e9a3c-1111-4000-8000-{at:012}" if at % 8 else f"working_set:{at}"
        lines.append({"id": identity, "text": text, "scope": "global", "category": "fact", **labels, **times})
    path = desk.home / "store.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    said = [("user", f"where are the {WORDS[at]} and {WORDS[at - 1]}?") for at in range(6)]
    # The sessions of a conversation are days apart; the last one begins first.
    for name, days in (("a", (0, 1, 2)), ("b", (1, 3)), ("c", (2, 4)), ("d", (0,))):
        desk.say(name, *((("global", said if day in days else [("assistant", "-")])) for day in range(5)))
    return str(path)


@pytest.mark.parametrize("labels", ["recorded", "sampled"])
@pytest.mark.parametrize(
    ("profile", "arms"), [("seed", ("tier_quota_v1", "seed_full", "bm25")), ("upstream", ("engine",))]
)
def test_conversations_over_a_store_replay_together_as_alone(
    desk: Any, profile: str, arms: Sequence[str], labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(desk)
    plan = make_plan(desk.request(*arms, profile=profile, memories_from=path, labels=labels))
    sources = prepared_sources(plan)
    indexed = list[int]()
    add = Postings.add

    def counted(self: Postings, documents: Sequence[list[str]]) -> None:
        indexed.append(len(documents))
        add(self, documents)

    monkeypatch.setattr(Postings, "add", counted)
    together = [run_task(task_of(plan, recording, sources, is_here=True)) for recording in plan.recordings]
    shared = sum(indexed)
    indexed.clear()
    # A task for another process carries its own sources.
    alone = [run_task(pickle.loads(pickle.dumps(task_of(plan, recording, sources)))) for recording in plan.recordings]
    for one, other in zip(together, alone, strict=True):
        assert isinstance(one, Replayed), one
        assert isinstance(other, Replayed), other
        assert one.receipts == other.receipts
    assert shared < sum(indexed) / 2
