"""Ranking, touch, tiers over time and the block of rsclaw, over a private store."""

from __future__ import annotations

from typing import Any

import pytest

from lab.base.token_estimate import tokens
from lab.recordings.model import Memory
from lab.retrieval.contract import Filter, Hit, Lanes, Row
from lab.systems.contract import Ask, Recall
from lab.systems.registry import make_arm
from lab.systems.rsclaw.config import CODE, Settings
from lab.systems.rsclaw.document import (
    CORE,
    DAY_SECONDS,
    PERIPHERAL,
    WORKING,
    Defaults,
    Document,
    abstract,
    document_id,
    overview,
)
from lab.systems.rsclaw.search import bundle, cut, lanes_of, quality_of, ranking, touched
from lab.systems.rsclaw.store import Draft
from lab.systems.rsclaw.system import Rsclaw, RsclawArm
from lab.systems.spec import ArmSpec
from tests.playing import kit_for

DAY_MS = DAY_SECONDS * 1000


def memory(number: int, text: str, *, days: float = 0, scope: str = "shop", category: str = "fact") -> Memory:
    return Memory(f"c/s/t{number}#0", text, text, 0, round(days * DAY_MS), category, scope)


def opened(*memories: Memory, profile: str = "seed", query: str = "", **config: Any) -> Rsclaw:
    lab = {"profile": profile} | config.pop("lab", {})
    arm = make_arm(ArmSpec("rsclaw", "rsclaw", config | {"lab": lab}))
    assert isinstance(arm, RsclawArm)
    kit = kit_for(arm, *(each.text for each in memories), query)
    kit._tools.vectors.prepare([query])
    system = arm.open(kit)
    system.remember(memories)
    return system


def ask(text: str, days: float = 0, *, probe: bool = False, scope: str | None = None, **more: Any) -> Ask:
    return Ask(f"q{days}", text, round(days * DAY_MS), scope, "s", probe, **more)


def shown(recall: Recall) -> list[str]:
    return [item.id for item in recall.items[: recall.injected]]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))


PEARS = [memory(number, f"pears ripen in week {number}") for number in range(12)]


def test_recall_fuses_both_lanes_and_keeps_five() -> None:
    system = opened(*PEARS, memory(50, "boats"), query="when do pears ripen")
    recall = system.recall(ask("when do pears ripen"))
    assert recall.status == "ok"
    assert recall.injected == 5
    assert len(recall.items) == 13
    first = recall.items[0]
    # Reciprocal ranks of both lanes, times the relevance of a new fact.
    ranks = (first.signals.fts_rank, first.signals.vec_rank)
    assert None not in ranks
    rrf = sum(1 / (60 + rank) for rank in ranks if rank)
    assert first.score == pytest.approx(rrf * (0.4 + 0.3 * 0.65))
    assert recall.context.splitlines() == [f"- {item.text}" for item in recall.items[:5]]
    assert recall.receipt["doc_ids"] == [item.signals.id for item in recall.items[:5]]
    assert recall.receipt["mode"] == "hybrid"
    assert recall.receipt["tokens"] == tokens(recall.context)


def rows_of(count: int, *, own: int = 0) -> list[Row]:
    """Return rows of which those from ``own`` on have the scope ``shop``, the others ``farm``."""
    scopes = ["farm"] * own + ["shop"] * (count - own)
    return [Row(f"d{row}", f"k{row}", "x", "x", 0, scope=scope) for row, scope in enumerate(scopes)]


@pytest.mark.parametrize(
    ("profile", "k", "own", "words", "vectors", "searched"),
    [
        ("seed", 5, 0, 20, 15, [("shop", 20)]),
        ("seed", 2, 0, 8, 6, [("shop", 8)]),
        ("code", 5, 0, 20, 15, [("shop", 20), (None, 25)]),
        ("code", 2, 0, 16, 6, [("shop", 16), (None, 16)]),
        # Of the sixteen nearest, the last one alone is of the scope.
        ("code", 2, 15, 16, 1, [("shop", 16), (None, 16)]),
        ("code", 2, 16, 16, 0, [("shop", 16), (None, 16)]),
    ],
)
def test_lanes_have_the_depths_of_the_profile(
    profile: str, k: int, own: int, words: int, vectors: int, searched: list[tuple[str | None, int]]
) -> None:
    calls: list[tuple[str | None, int]] = []
    rows = rows_of(60, own=own)

    def search(view: Any, wanted: Filter, depth: int) -> Lanes:
        calls.append((wanted.scope, depth))
        hits = [Hit(row, 0.0) for row in range(depth + 9)]
        return Lanes(hits, hits)

    view: Any = None
    settings = Settings(profile, **(CODE if profile == "code" else {}))
    lanes = lanes_of(view, rows, "shop", k, settings, search)
    assert (len(lanes.fts), len(lanes.vec)) == (words, vectors)
    assert calls == searched


def ranked_ids(lanes: Lanes, settings: Settings, turn: str = "t") -> list[str]:
    rows = rows_of(3)
    documents = {row.id: document(row.id) for row in rows}
    return [item.document.text for item in ranking(lanes, rows, documents, settings, 0, turn)]


def test_ties_go_by_id_in_seed_and_by_query_in_code() -> None:
    tied = Lanes([Hit(1, 0.0), Hit(0, 0.0)], [Hit(0, 0.0), Hit(1, 0.0)])
    turns = [f"t{number}" for number in range(20)]
    seed = [ranked_ids(tied, Settings(), turn) for turn in turns]
    by_id = sorted(("d0", "d1"), key=lambda text: document_id("s", "fact", text))
    assert seed == [by_id] * 20
    code = [ranked_ids(tied, Settings(ties="hash"), turn) for turn in turns]
    assert {tuple(order) for order in code} == {("d0", "d1"), ("d1", "d0")}
    assert code == [ranked_ids(tied, Settings(ties="hash"), turn) for turn in turns]


@pytest.mark.parametrize(
    ("touch", "expected"),
    [("hits", {"d0", "d1", "d2"}), ("vector", {"d1", "d2"}), ("shown", {"d0"}), ("none", set())],
)
def test_touch_reaches_hits_vector_hits_or_shown_ones(touch: str, expected: set[str]) -> None:
    rows = rows_of(3)
    documents = {row.id: document(row.id) for row in rows}
    lanes = Lanes([Hit(0, 0.0), Hit(1, 0.0)], [Hit(1, 0.0), Hit(2, 0.0)])
    ranked = ranking(lanes, rows, documents, Settings(), 0, "t")
    chosen = touched(ranked, [documents["d0"]], Settings(touch=touch))
    assert {one.text for one in chosen} == expected


@pytest.mark.parametrize(("touch", "expected"), [("shown", 5), ("hits", 12), ("none", 0)])
def test_recall_counts_an_access_of_what_it_touches(touch: str, expected: int) -> None:
    system = opened(*PEARS, query="pears ripen", lab={"touch": touch})
    assert system.recall(ask("pears ripen")).receipt["touched"] == expected
    assert sum(one.access_count for one in system.documents.by_id.values()) == expected


def test_probe_leaves_no_trace() -> None:
    system = opened(*PEARS, query="pears ripen")
    before = [(one.access_count, one.accessed_at, one.tier) for one in system.documents.by_id.values()]
    recall = system.recall(ask("pears ripen", 99, probe=True))
    assert recall.injected == 5
    assert [(one.access_count, one.accessed_at, one.tier) for one in system.documents.by_id.values()] == before


def test_touch_after_sixty_days_demotes_what_is_found() -> None:
    """What is old is demoted when it is found, and not before. At the third touch, relevance is .39."""
    system = opened(memory(0, "pears ripen"), query="pears ripen")
    tiers = []
    for days in (61, 62, 63, 64, 65):
        recall = system.recall(ask("pears ripen", days))
        tiers.append(recall.items[0].tier)
    assert tiers == [WORKING, PERIPHERAL, PERIPHERAL, PERIPHERAL, WORKING]


def test_recall_promotes_what_is_found_fifteen_times() -> None:
    system = opened(memory(0, "pears ripen"), query="pears ripen")
    tiers = [system.recall(ask("pears ripen", day)).items[0].tier for day in range(16)]
    assert tiers == [WORKING] * 15 + [CORE]


def test_decay_lets_a_new_memory_pass_an_old_one() -> None:
    memories = [memory(0, "pears pears ripen"), memory(1, "pears ripen soon", days=200)]
    order = {}
    for decay in (True, False):
        system = opened(*memories, query="pears pears ripen", lab={"decay": decay})
        order[decay] = shown(system.recall(ask("pears pears ripen", 200)))
    assert order[False] == ["c/s/t0#0", "c/s/t1#0"]
    assert order[True] == ["c/s/t1#0", "c/s/t0#0"]


@pytest.mark.parametrize(
    ("tier", "pinned", "importance", "expected"),
    [
        (CORE, True, 0.9, 1.25 * 1.15 * 1.2),
        (WORKING, False, 0.5, 1.0),
        (PERIPHERAL, False, 0.0, 0.8 * 0.755),
        (CORE, False, 1.0, 1.15 * 1.25),
    ],
)
def test_quality_multiplier(tier: str, pinned: bool, importance: float, expected: float) -> None:
    found = document("x", tier=tier, pinned=pinned, importance=importance)
    assert quality_of(found) == pytest.approx(expected)
    assert quality_of(found, f32=True) == pytest.approx(expected, abs=1e-6)


def test_scope_filter_after_the_search_starves_a_small_scope() -> None:
    crowd = [memory(number, f"pears ripen {number}", scope="farm") for number in range(40)]
    own = memory(99, "a boat", scope="shop")
    query = "pears ripen"
    for profile, expected in (("seed", ["c/s/t99#0"]), ("code", [])):
        system = opened(*crowd, own, profile=profile, query=query)
        assert shown(system.recall(ask(query, scope="shop"))) == expected


def test_recall_without_scope_finds_all_and_with_scope_its_own() -> None:
    memories = [memory(0, "pears ripen", scope="shop"), memory(1, "pears rot", scope="global")]
    system = opened(*memories, query="pears")
    assert set(shown(system.recall(ask("pears")))) == {"c/s/t0#0", "c/s/t1#0"}
    assert shown(system.recall(ask("pears", scope="shop"))) == ["c/s/t0#0"]


@pytest.mark.parametrize(
    ("text", "session", "config", "reason"),
    [
        ("  ", "s", {}, "blank"),
        ("pears", "agent:main:cron:backup", {}, "channel_cron"),
        ("pears", "agent:main:heartbeat", {}, "channel_heartbeat"),
        ("pears", "s", {"auto_recall": False}, "auto_recall_off"),
        ("/recall pears", "s", {}, "command"),
    ],
)
def test_recall_skips(text: str, session: str, config: dict[str, Any], reason: str) -> None:
    system = opened(*PEARS, query=text, **config)
    recall = system.recall(Ask("q", text, 0, None, session))
    assert (recall.status, recall.injected, recall.receipt["skipped"]) == ("skipped", 0, reason)
    assert all(one.access_count == 0 for one in system.documents.by_id.values())


def test_recall_under_faults_is_degraded_and_says_so() -> None:
    system = opened(*PEARS, query="pears ripen")
    recall = system.recall(ask("pears ripen", faults=frozenset({"embedder_down"})))
    assert (recall.status, recall.receipt["mode"]) == ("degraded", "bm25")
    assert recall.receipt["rejected"] == ["provider_unavailable"]
    assert recall.injected == 5


def test_given_memories_are_searched_by_their_index_text() -> None:
    found = Memory("c/s/t1#0", "ripe", "quinces of the orchard", 0, 0, "fact", "shop")
    arm = make_arm(ArmSpec("rsclaw", "rsclaw"))
    system = arm.open(kit_for(arm, found.text, found.index_text, "quinces"))
    system.remember([found])
    (item,) = system.recall(ask("quinces")).items
    assert (item.text, item.signals.fts_rank) == ("ripe", 1)


def test_equal_texts_are_one_document_until_both_are_forgotten() -> None:
    twice = [memory(0, "Pears  ripen"), memory(1, "pears ripen", days=3), memory(2, "pears ripen", scope="farm")]
    system = opened(*twice, query="pears")
    assert len(system.documents.by_id) == 2
    system.forget(["c/s/t0#0"])
    assert set(shown(system.recall(ask("pears")))) == {"c/s/t1#0", "c/s/t2#0"}
    system.forget(["c/s/t1#0"])
    assert shown(system.recall(ask("pears"))) == ["c/s/t2#0"]
    system.remember([memory(5, "pears ripen", days=9)])
    assert set(shown(system.recall(ask("pears")))) == {"c/s/t5#0", "c/s/t2#0"}


TEA = (
    "I prefer green tea over black coffee in the morning, at noon, in the afternoon and late at night with some honey."
)


@pytest.mark.parametrize(
    ("changed", "similar", "is_new"),
    [
        ({}, False, False),
        ({"text": TEA.upper()}, False, False),
        ({"text": TEA.replace("green", "the green")}, True, False),
        ({"text": TEA.replace("green", "the green")}, False, True),
        ({"text": TEA.replace("green", "the green"), "kind": "fact"}, True, True),
        ({"text": TEA.replace("green", "the green"), "scope": "farm"}, True, True),
        # A cosine of .905, below .92.
        ({"text": TEA.replace("green", "white").replace("honey", "milk").replace("noon", "dusk")}, True, True),
    ],
)
def test_put_refreshes_equal_or_similar_text_of_a_scope_and_kind(
    changed: dict[str, str], similar: bool, is_new: bool
) -> None:
    documents = opened(query="tea").documents
    draft = Draft("preference", TEA, Defaults(0.5), "first", "shop", "shop")
    first, created = documents.put(draft, 10, similar=similar)
    assert created
    for importance, expected in ((0.7, 0.7), (0.2, 0.7)):
        again = draft._replace(**changed)._replace(key="second", defaults=Defaults(importance))
        document, created = documents.put(again, 20, similar=similar)
        if is_new:
            assert created
            assert document is not first
            break
        assert (document, created) == (first, False)
        # The text and the creation stay; the importance is the larger one.
        assert (first.text, first.created_at, first.importance) == (TEA, 10, expected)


def test_restart_loses_touches_that_are_not_persisted() -> None:
    for persist, expected in ((True, 2), (False, 1)):
        lab = {"restart": "session", "persist_touch": persist}
        system = opened(memory(0, "pears ripen"), query="pears", lab=lab)
        system.recall(Ask("a", "pears", 0, None, "first"))
        system.recall(Ask("b", "pears", 0, None, "second"))
        assert [one.access_count for one in system.documents.by_id.values()] == [expected]


def document(text: str, **changes: Any) -> Document:
    values: dict[str, Any] = {
        "kind": "fact",
        "importance": 0.5,
        "tier": WORKING,
        "pinned": False,
        "keys": [text],
        "overview_text": overview(text),
    } | changes
    return Document(
        document_id("s", values["kind"], text), "s", text=text, created_at=0, accessed_at=0, home="s", **values
    )


def test_bundle_skips_notes_and_stops_at_the_budget() -> None:
    long = "word " * 60
    found = [document("a"), document("b", kind="note"), document(long + "x."), document(long + "y."), document("z")]
    block = bundle(found, Settings(max_tokens=100, lines="text"))
    assert [one.text for one in block.shown] == ["a", long + "x."]
    assert block.truncated
    assert tokens(block.context) <= 100
    # It stops: the short one behind would fit.
    assert "z" not in block.context.split()


@pytest.mark.parametrize("text", ["word " * 2000, "记忆" * 2000], ids=["english", "chinese"])
def test_bundle_cuts_a_first_line_to_the_budget_in_seed(text: str) -> None:
    found = [document(text, overview_text="")]
    seed = bundle(found, Settings(max_tokens=128))
    assert tokens(seed.context) in (127, 128)
    code = bundle(found, Settings(max_tokens=128, clip="chars"))
    assert len(code.context) == 512
    assert (seed.truncated, code.truncated) == (True, True)
    # Four characters a token are too many for Chinese: the block exceeds its own budget.
    assert (tokens(code.context) > 129) is (text[0] == "记")


def test_cut_keeps_sixty_four_characters() -> None:
    assert len(cut("x" * 500, Settings(max_tokens=1, clip="chars"))) == 64


def test_lines_show_the_overview_or_the_text() -> None:
    text = "One. Two. Three. Four."
    found = [document(text)]
    assert bundle(found, Settings()).context == "- One. Two. Three."
    assert bundle(found, Settings()).shortened == 1
    assert bundle(found, Settings(lines="text")).context == f"- {text}"


def test_summaries() -> None:
    assert abstract("One. Two.") == "One."
    assert abstract("一。二。") == "一。"
    assert abstract("x" * 400) == "x" * 150
    assert overview("x" * 400) == "x" * 200
    assert overview("v1.2 is out. Two") == "v1.2 is out. Two"
    # The source counts a full stop before a space alone, so a text of two sentences loses its second.
    assert overview("v1.2 is out. Two.", last=False) == "v1.2 is out."
    assert overview("一。二。三。四。") == "一。二。三。"
