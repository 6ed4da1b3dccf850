"""Conversations run through the recall flow over small real stores, strategies for such stores, and vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from lab.embedding.embedder import HashingEmbedder
from lab.retrieval.contract import Query, Row
from lab.retrieval.exact import ExactStore
from lab.systems.openclaw.arms import recall
from lab.systems.openclaw.config.settings import EngineConfig, Phases
from lab.systems.openclaw.memory import Listing, engine_id
from lab.systems.openclaw.near_duplicate import words_of
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn

NOW = 1_772_000_000_000
DAY = 86_400_000
MUST, NICE, UNKNOWN, IGNORE = LABELS = ("must_remember", "nice_to_have", "unknown", "ignore")
CATEGORIES = ("preference", "fact", "decision", "entity", "todo", "other")
# Alone, no piece forms a path, a name or a long number, and two of them are rarely duplicates.
ENGLISH = (
    *("deploy the gateway", "never on a friday", "must be signed", "keep tabs", "the queue is slow"),
    *("ask Mira first", "backups run at dawn", "rotate the token", "avoid raw loops", "staging is shared"),
    *("the cache warms up", "invoices go monthly", "prefers short answers", "only with a ticket", "the rota changed"),
)
CHINESE = (
    *("週五不要部署", "資料庫要先備份", "客戶要收到通知", "必須兩人審核", "偏好簡短回答"),
    *("退款流程改了", "測試環境共用", "禁止直接推送", "下週二開會", "憑證快要到期"),
)
PIECES = (*ENGLISH, *CHINESE)


def row(key: str, text: str, label: str = NICE, *, days: float = 1.0, category: str = "fact", **fields: Any) -> Row:
    """A memory that is some days old; ``fields`` are those of :class:`Row`."""
    given = {"scope": "global", "trust_tier": "user", "hard_rule": False} | fields
    return Row(engine_id(key), key, text, text, int(NOW - days * DAY), category, label, **given)


def changed(config: EngineConfig, **changes: Any) -> EngineConfig:
    """Return a configuration with other values.

    ``recall``, ``scopes``, ``phases``, ``working_set``, ``budget``, ``receipts`` and ``docs`` take fields of those
    sections, or a whole section.
    """
    sections = {"recall": "auto_recall", "scopes": "scope_policy"}
    values: dict[str, Any] = {}
    for name, value in changes.items():
        section = sections.get(name, name)
        if isinstance(value, Mapping):
            old = getattr(config, section)
            value = old._replace(**value) if isinstance(old, tuple) else replace(old, **value)
        values[section] = value
    return replace(config, **values)


def flow(**changes: Any) -> EngineConfig:
    """Return a configuration of profile seed under the new policy, with the changes of :func:`changed`."""
    return changed(changed(EngineConfig(), recall={"selection_mode": "tier_quota_v1"}), **changes)


class Talk:
    """One conversation of one arm, over an exact store that contains all rows from the start."""

    def __init__(self, rows: Iterable[Row], config: EngineConfig, **memories: Any) -> None:
        self.rows = list(rows)
        self.config = config
        self.state = RecallState()
        self.listing = Listing()
        self.listing.add(self.rows)
        self._embed, self._more = HashingEmbedder(), memories
        self._by_id = {row.id: row for row in self.rows}
        self._store = ExactStore(self._embed.dimension)
        if self.rows:
            texts = [row.index_text for row in self.rows]
            self._store.add(self.rows, self._embed.encode([self._words(text) for text in texts]), [*map(words, texts)])

    def say(self, text: str, *, config: EngineConfig | None = None, at: int = NOW, **prompt: Any) -> Turn:
        """Recall for a prompt in scope ``global`` and session ``s1``, unless :class:`Prompt` fields say otherwise."""
        vector = None if self._more.get("no_vector") else self._embed.encode([self._words(text)])[0]
        view = self._store.view(Query(text, words(text), vector))
        memories = Memories(view, self._store.rows, self._by_id, listing=self.listing, **self._more)
        given = {"session": "s1", "scope": "global", "scoping": "given"} | prompt
        return recall(Prompt(text, at, **given), config or self.config, memories, self.state)

    def keys(self, turn: Turn) -> list[str]:
        """Keys of the memories injected as items, in order."""
        return [self._by_id[slot.id].key for slot in turn.kept if slot.id in self._by_id]

    def hot(self, turn: Turn) -> list[str]:
        """Keys of the selected memories, without hard rules and the Working Set."""
        return [self._by_id[pick.candidate.id].key for pick in turn.hits]

    @staticmethod
    def _words(text: str) -> str:
        return " ".join(words(text))


def words(text: str) -> list[str]:
    """Return the words of a text as the stores of these tests see them; Chinese gives pairs of characters."""
    return sorted(words_of(text))


def texts(least: int = 1, most: int = 5) -> st.SearchStrategy[str]:
    """Texts of a few pieces in one or both languages."""
    return st.lists(st.sampled_from(PIECES), min_size=least, max_size=most, unique=True).map("; ".join)


def pool(count: int, label: str, start: int = 0, **fields: Any) -> list[Row]:
    """Rows of one label with distinct texts that share a word with every prompt about the gateway."""
    made = []
    for number in range(start, start + count):
        one, other = PIECES[number % len(PIECES)], PIECES[number * 7 % 23]
        text = f"gateway {one} {other} case{chr(97 + number % 26)}{number // 26}"
        made.append(row(f"{label}{number}", text, label, days=1 + number * 3 % 40, **fields))
    return made


@st.composite
def stores(
    draw: st.DrawFn,
    most: int = 24,
    scopes: Sequence[str] = ("global", "work"),
    body: st.SearchStrategy[str] | None = None,
    hard: int = 2,
    least: int = 0,
) -> list[Row]:
    """Rows of all labels, categories, trust tiers and ages, with at most ``hard`` hard rules."""
    body = texts() if body is None else body
    shapes = draw(
        st.lists(
            st.tuples(
                body,
                st.sampled_from(LABELS),
                st.sampled_from(CATEGORIES),
                st.sampled_from(scopes),
                st.sampled_from(("user", "import", "untrusted", "quarantined")),
                st.sampled_from((0.5, 3.0, 3.0, 20.0, 400.0)),
                st.booleans(),
            ),
            min_size=least,
            max_size=most,
        )
    )
    made: list[Row] = []
    for number, (text, label, category, scope, trust, days, rule) in enumerate(shapes):
        rule = rule and sum(earlier.hard_rule for earlier in made) < hard
        fields = {"category": category, "scope": scope, "trust_tier": trust, "hard_rule": rule}
        made.append(row(f"k{number}", text, label, days=days, **fields))
    return made


@st.composite
def knobs(draw: st.DrawFn) -> EngineConfig:
    """A configuration of profile seed under the new policy, with every key of the seeds' phases drawn."""
    factors = ("relevance", "scope_match", "recency", "importance_prior", "novelty")
    phases = Phases(
        repeat=draw(st.booleans()),
        repeat_decay=draw(st.sampled_from(("compounding", "linear", "once", "literal"))),
        repeat_history=draw(st.sampled_from(("conversation", "session"))),
        repeat_counts=draw(st.sampled_from(("recall_turns", "all_user_turns"))),
        relevance=draw(st.sampled_from(("rank", "rrf", "reciprocal", "similarity"))),
        score=tuple(name for name in factors if draw(st.booleans())),
        exact_hit=draw(st.sampled_from(("names", "numbers"))),
        exact_boost=draw(st.sampled_from((1.0, 2.0))),
        trust=draw(st.sampled_from(("prefer", "soft", "off"))),
        min_relevance=draw(st.sampled_from((0.0, 0.3))),
        replaced=draw(st.sampled_from((0.0, 0.2))),
        ended=draw(st.booleans()),
        recency_window_days=draw(st.sampled_from((0, 10))),
        recent_days=draw(st.sampled_from((0, 7))),
        hard_rules=draw(st.booleans()),
        pinned_counts=draw(st.sampled_from(("inside", "extra"))),
        tier_mode=draw(st.sampled_from(("fallback", "live", "loop_v0"))),
    )
    recall_ = {
        "repeat_window_turns": draw(st.integers(0, 6)),
        "repeat_penalty": draw(st.sampled_from((0.0, 0.35, 1.0))),
        "dedupe_backbone": draw(st.booleans()),
        "strict_caps": draw(st.booleans()),
        "quotas_per": draw(st.sampled_from(("turn", "scope"))),
        "max_items": draw(st.integers(1, 6)),
    }
    return flow(
        recall=recall_,
        phases=phases,
        working_set={"enabled": draw(st.booleans()), "max_chars": draw(st.sampled_from((240, 1200)))},
        receipts={"verbosity": draw(st.sampled_from(("low", "high")))},
        budget={
            "max_chars": draw(st.sampled_from((300, 900, 1800))),
            "min_recent_slots": draw(st.integers(0, 5)),
            "overflow_action": draw(st.sampled_from(("truncate_oldest", "truncate_tail"))),
        },
        scopes={"fallback_scopes": draw(st.sampled_from(((), ("work",), ("work", "home"))))},
    )


class Kit:
    """The helpers of the recall tests."""

    NOW, DAY = NOW, DAY
    MUST, NICE, UNKNOWN, IGNORE = LABELS
    row: Callable[..., Row] = staticmethod(row)
    flow: Callable[..., EngineConfig] = staticmethod(flow)
    changed: Callable[..., EngineConfig] = staticmethod(changed)
    pool: Callable[..., list[Row]] = staticmethod(pool)
    texts: Callable[..., st.SearchStrategy[str]] = staticmethod(texts)
    stores: Callable[..., st.SearchStrategy[list[Row]]] = staticmethod(stores)
    knobs: Callable[..., st.SearchStrategy[EngineConfig]] = staticmethod(knobs)
    Talk = Talk


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    """Return rows, configurations, conversations and strategies."""
    return Kit


@pytest.fixture(scope="session")
def observed(shared: Callable[..., Path]) -> Callable[[str], list[dict[str, Any]]]:
    """Return the records of one file of vectors; skip the test if the file is missing."""

    def read(name: str) -> list[dict[str, Any]]:
        lines = shared("parity", "visible", name).read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]

    return read
