"""Injected faults: when they happen, what they remove, and that recall continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.retrieval.contract import Filter, Hit, Lanes, Row
from lab.retrieval.exact import ExactStore
from lab.retrieval.faults import KNOWN, SLOW_NS, FaultPlan, FaultyView
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.tokens import ScanWords
from lab.systems.contract import Ask, Recall
from lab.systems.kit import Kit, Workshop
from lab.systems.openclaw.memory import engine_id
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec
from tests.playing import tools_for

ASK = "gateway one more time"
KEYS = [f"c/s1/t{number}" for number in range(2000)]


@pytest.fixture
def retriever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreRetriever]:
    """A store of two memories, one of which shares a word with the query."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    vectors = Vectors(HashingEmbedder())
    rows = [Row(engine_id(text), text, text, text, 1) for text in ("gateway two", "zebra")]
    vectors.prepare([ASK, *(row.text for row in rows)])
    made = StoreRetriever(ExactStore(64), vectors, ScanWords())
    made.add(rows)
    yield made
    made.close()


def ask(retriever: StoreRetriever, *faults: str, config: dict[str, Any] | None = None) -> Recall:
    query = Ask("c/s1/t1", ASK, 10, session="s1", faults=frozenset(faults))
    arm: Any = make_arm(ArmSpec("engine", "engine", config))
    tools = tools_for()
    prepared = arm.prepare(Workshop(tools.embedder, tools.vectors))
    if prepared:
        tools.prepared = {"engine": prepared}
    system = arm.open(Kit(tools, "engine"))
    recall: Recall = system.select(query, retriever.retrieve(ASK, query.faults))
    return recall


# --- when


def test_fault_without_a_time_happens_always() -> None:
    plan = FaultPlan(("embedder_down", "fts_error=0.5"))
    assert all("embedder_down" in plan.at(key) for key in KEYS[:50])
    assert FaultPlan().at("c/s1/t1") == frozenset()


def test_fault_share_is_sampled_by_turn_and_fault_reproducibly() -> None:
    half = {key for key in KEYS if FaultPlan(("fts_error=0.5",)).at(key)}
    assert 900 < len(half) < 1100
    assert half == {
        key for key in reversed(KEYS) if FaultPlan(("vector_error", "fts_error=.5")).at(key) > {"vector_error"}
    }
    # A larger share adds turns; another fault has other turns.
    assert half < {key for key in KEYS if FaultPlan(("fts_error=0.6",)).at(key)}
    assert half != {key for key in KEYS if FaultPlan(("vector_error=0.5",)).at(key)}
    assert all(FaultPlan(("fts_error=1",)).at(key) for key in KEYS)


def test_fault_at_a_named_turn_happens_only_there() -> None:
    plan = FaultPlan(("fts_error=c/s1/t3", "slow_store=c/s1/t3", "docs_missing=c/s1/t4"))
    assert {key: plan.at(key) for key in KEYS[:9] if plan.at(key)} == {
        "c/s1/t3": {"fts_error", "slow_store"},
        "c/s1/t4": {"docs_missing"},
    }


@pytest.mark.parametrize("spec", [*KNOWN, "fts_error=0.01", "fts_error=1", "slow_store=c/s1/t1"])
def test_check_accepts_valid_faults(spec: str) -> None:
    FaultPlan((spec,)).check()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("disk_full", "unknown fault 'disk_full'; known: embedder_down, input_too_long, fts_error"),
        ("", "unknown fault ''"),
        ("fts_error=0", "fault 'fts_error=0': the share must be above 0 and at most 1"),
        ("fts_error=1.5", "fault 'fts_error=1.5': the share must be"),
        ("fts_error=-1", "fault 'fts_error=-1': the share must be"),
        ("fts_error=nan", "fault 'fts_error=nan': the share must be"),
    ],
)
def test_check_refuses_invalid_faults(spec: str, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        FaultPlan(("slow_store", spec)).check()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("when", ["c/s1/t9", ""])
def test_require_refuses_a_fault_at_an_unknown_turn(when: str) -> None:
    keys = {"c/s1/t1", "c/s1/t2"}
    FaultPlan(("fts_error=c/s1/t2", "vector_error=0.5", "slow_store")).require(keys)
    with pytest.raises(UnusableInput, match=f"fault 'fts_error': there is no recall point '{when}'"):
        FaultPlan((f"fts_error={when}",)).require(keys)


# --- what


class View:
    """One hit in each lane."""

    def search(self, where: Filter, limit: int) -> Lanes:
        return Lanes([Hit(0, 1.0)], [Hit(1, 0.5, 1.0)], 7)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ((), Lanes([Hit(0, 1.0)], [Hit(1, 0.5, 1.0)], 7)),
        (("fts_error",), Lanes([], [Hit(1, 0.5, 1.0)], 7)),
        (("vector_error",), Lanes([Hit(0, 1.0)], [], 7)),
        (("fts_error", "vector_error", "slow_store"), Lanes([], [], 7 + SLOW_NS)),
        (("embedder_down", "docs_missing"), Lanes([Hit(0, 1.0)], [Hit(1, 0.5, 1.0)], 7)),
    ],
)
def test_faulty_view_empties_the_failing_lanes(faults: tuple[str, ...], expected: Lanes) -> None:
    assert FaultyView(View(), faults).search(Filter(), 5) == expected


@pytest.mark.parametrize(
    ("faults", "keys", "rejected", "signals"),
    [
        ((), ["gateway two", "zebra"], [], [["fts", "vec"], ["vec"]]),
        (("embedder_down",), ["gateway two"], ["provider_unavailable"], [["fts"]]),
        (("input_too_long",), ["gateway two"], ["embedding_input_too_long"], [["fts"]]),
        (("embedder_down", "input_too_long"), ["gateway two"], ["provider_unavailable"], [["fts"]]),
        (("embedder_down", "fts_error"), [], ["provider_unavailable"], []),
        (("fts_error",), ["gateway two", "zebra"], [], [["vec"], ["vec"]]),
        (("vector_error",), ["gateway two"], [], [["fts"]]),
        (("fts_error", "vector_error"), [], [], []),
    ],
)
def test_recall_with_faults_uses_the_rest_and_reports_why(
    retriever: StoreRetriever, faults: tuple[str, ...], keys: list[str], rejected: list[str], signals: list[list[str]]
) -> None:
    degraded = ask(retriever, *faults)
    assert [item.id for item in degraded.items] == keys
    known = {"provider_unavailable", "embedding_input_too_long"}
    assert [one for one in degraded.receipt["rejected"] if one in known] == rejected
    assert [entry["signals"] for entry in degraded.receipt["whyTheseIds"]] == signals
    assert degraded.status == ("degraded" if faults else "ok")


def test_slow_store_changes_only_the_timings(retriever: StoreRetriever) -> None:
    quick, slow = ask(retriever), ask(retriever, "slow_store")
    assert (slow.items, slow.context, slow.receipt) == (quick.items, quick.context, quick.receipt)
    assert (slow.status, quick.status) == ("ok", "ok")
    assert slow.timings["search"] >= SLOW_NS


def test_missing_documents_are_reported_in_the_receipt(retriever: StoreRetriever, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Gateways\n\nThe gateway listens.\n", encoding="utf-8")
    lane = {"enabled": True, "sourceRoots": [str(tmp_path / "docs")], "scopeMappingStrategy": "none", "minHotItems": 5}
    config = {"docsColdLane": lane}
    # The words of the prompt are in no document, so its vector alone finds one.
    unembedded = ask(retriever, "embedder_down", config=config)
    assert unembedded.receipt["coldLane"]["rawCandidates"] == 0
    complete, degraded = ask(retriever, config=config), ask(retriever, "docs_missing", config=config)
    assert (complete.status, complete.receipt["coldLane"]["returned"]) == ("ok", 1)
    assert (degraded.status, degraded.receipt["coldLane"]["error"]) == ("degraded", "docs_search_failed")
    assert len(degraded.items) == 2
