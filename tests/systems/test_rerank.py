"""The reranker: a better order from a server on this machine, and the order of the search whatever that does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.embedding.cache import cache_folder
from lab.recordings.model import Memory
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.systems.contract import Ask, Detail, Recall
from lab.systems.openclaw.config.settings import Rerank
from lab.systems.registry import make_arm
from lab.systems.rerank import Reranked, order_in, rerank
from lab.systems.spec import LIVE, RECORDED, ArmSpec
from tests.playing import OPERATORS, kit_for
from tests.systems.rerank_server import FAULTS, Server, serving

QUERY = "which bread does the bakery sell"
TEXTS = ["a harbour at dawn", "the bakery", "the bakery does sell bread", "bread", "which bread does the bakery sell"]
BEST = (4, 2, 1, 3, 0)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A reranker, and an empty cache."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    with serving() as server:
        yield server


def settings(server: Server, **fields: Any) -> Rerank:
    return Rerank(server.url, timeout_ms=200, **fields)


def arm_of(server: Server, system: str = "bm25", answers: str = LIVE, **keys: Any) -> Any:
    config = {"lab": {"rerank": {"url": server.url, "timeoutMs": 200, **keys}}}
    return make_arm(ArmSpec(system, system, config, max_items=3, answers=answers))


def recalled(arm: Any, texts: list[str] = TEXTS) -> Recall:
    kit = kit_for(arm, QUERY, *texts)
    system = arm.open(kit)
    retriever = system.open_retriever()
    retriever.observe([Memory(f"k{number}", text, text, 0, number) for number, text in enumerate(texts)])
    recall = system.select(Ask("turn", QUERY, 100), retriever.retrieve(Ask("turn", QUERY, 100)))
    assert isinstance(recall, Recall)
    return recall


def test_rerank_good_answer_returns_its_order(server: Server) -> None:
    ranked = rerank(QUERY, TEXTS, settings(server, model="tiny"))
    assert (ranked.order, ranked.sent, ranked.reason) == (BEST, 5, None)
    assert ranked.nanoseconds > 0
    assert server.asked == [{"model": "tiny", "query": QUERY, "documents": TEXTS, "top_n": 5}]
    assert ranked.receipt() == {"candidates": 5, "moved": 4}


def test_rerank_more_texts_than_the_bound_keeps_the_rest(server: Server) -> None:
    ranked = rerank(QUERY, TEXTS, settings(server, candidates=3))
    assert (ranked.order, ranked.sent) == ((2, 1, 0, 3, 4), 3)
    assert server.asked[0]["documents"] == TEXTS[:3]


@pytest.mark.parametrize("texts", [[], ["one"]])
def test_rerank_fewer_than_two_texts_sends_nothing(server: Server, texts: list[str]) -> None:
    assert rerank(QUERY, texts, settings(server)) == Reranked(tuple(range(len(texts))))
    assert not server.asked


def test_rerank_without_an_address_sends_nothing() -> None:
    assert rerank(QUERY, TEXTS, Rerank()) == Reranked((0, 1, 2, 3, 4))


def test_rerank_equal_scores_keep_the_order_of_the_search() -> None:
    results = [{"index": index, "relevance_score": index // 2} for index in (3, 0, 2, 1)]
    assert order_in(json.dumps({"results": results}).encode(), 4) == [2, 3, 0, 1]


def test_rerank_score_beyond_a_double_is_a_number() -> None:
    results = [{"index": 0, "relevance_score": 1.5}, {"index": 1, "relevance_score": 10**400}]
    assert order_in(json.dumps({"results": results}).encode(), 2) == [1, 0]


@pytest.mark.parametrize("name", FAULTS)
def test_rerank_fault_keeps_the_order_and_says_why(server: Server, name: str) -> None:
    server.fault, reason = FAULTS[name]
    ranked = rerank(QUERY, TEXTS, settings(server))
    assert (ranked.order, ranked.reason) == ((0, 1, 2, 3, 4), reason)
    assert ranked.receipt() == {"candidates": 5, "reason": reason}


def test_rerank_answer_that_comes_late_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # A server that answers between the last look at the clock and the end of the request.
    times = iter((0, 200_000_001))
    monkeypatch.setattr("lab.systems.rerank.time.perf_counter_ns", lambda: next(times, 200_000_001))
    ranked = rerank(QUERY, TEXTS, settings(server))
    assert (ranked.order, ranked.reason) == ((0, 1, 2, 3, 4), "timed_out")


def test_rerank_server_gone_keeps_the_order(server: Server) -> None:
    gone = replace(settings(server), url="http://127.0.0.1:9/rerank")
    assert rerank(QUERY, TEXTS, gone).reason == "no_answer"


@pytest.mark.parametrize("text", ["", "\ud800", "z" * 1_000_000, "\x00"])
def test_rerank_strange_text_is_answered(server: Server, text: str) -> None:
    assert sorted(rerank(text, [text, *TEXTS], replace(settings(server), timeout_ms=5000)).order) == [*range(6)]
    assert len(server.asked[0]["query"]) <= 6000


def test_rerank_recorded_answer_is_used_instead_of_the_server(server: Server) -> None:
    live = rerank(QUERY, TEXTS, settings(server))
    assert rerank(QUERY, TEXTS, settings(server)) == live
    assert rerank(QUERY, TEXTS, settings(server), answers=RECORDED) == live
    assert len(server.asked) == 1


def test_rerank_recorded_failure_repeats_and_is_retried_live(server: Server) -> None:
    server.fault, reason = FAULTS["500"]
    failed = rerank(QUERY, TEXTS, settings(server))
    assert rerank(QUERY, TEXTS, settings(server), answers=RECORDED) == failed
    server.fault = None
    assert rerank(QUERY, TEXTS, settings(server)).reason is None
    assert (failed.reason, len(server.asked)) == (reason, 2)


def test_rerank_recorded_alone_without_a_record_is_refused(server: Server) -> None:
    with pytest.raises(CannotMeasure, match="no recorded answer of the reranker"):
        rerank(QUERY, TEXTS, settings(server), answers=RECORDED)
    assert not server.asked


def test_rerank_damaged_record_is_replaced_live_alone(server: Server) -> None:
    live = rerank(QUERY, TEXTS, settings(server))
    (record,) = cache_folder().rglob("*.jsonl")
    record.write_bytes(record.read_bytes()[:-9])
    with pytest.raises(CannotMeasure, match="is damaged"):
        rerank(QUERY, TEXTS, settings(server), answers=RECORDED)
    assert rerank(QUERY, TEXTS, settings(server)).order == live.order
    assert rerank(QUERY, TEXTS, settings(server), answers=RECORDED).order == live.order
    assert len(server.asked) == 2


def test_rerank_answer_that_cannot_be_recorded_fails_an_arm(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(CannotMeasure, match="cannot write"):
        recalled(arm_of(server))


def test_recorded_answers_hold_no_text_and_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", "sk-secret")
    rerank(QUERY, TEXTS, settings(server, key_env="RERANK_KEY"))
    assert server.keys == ["Bearer sk-secret"]
    files = [path for path in cache_folder().rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        assert not any(word in path.read_text() for word in ("bakery", "secret", "RERANK_KEY"))
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("system", ["bm25", "vector", "hybrid"])
def test_arm_with_a_reranker_recalls_in_its_order(server: Server, system: str) -> None:
    recall = recalled(arm_of(server, system))
    plain = recalled(make_arm(ArmSpec(system, system, max_items=3)))
    assert [item.id for item in recall.items][:2] == ["k4", "k2"]
    assert {item.id for item in recall.items} == {item.id for item in plain.items}
    assert (recall.status, recall.injected) == ("ok", 3)
    assert recall.receipt["rerank"]["candidates"] == len(recall.items)
    assert recall.timings["rerank"] > 0


def test_arm_with_a_failing_reranker_is_degraded_with_the_order(server: Server) -> None:
    server.fault = FAULTS["late"][0]
    recall, plain = recalled(arm_of(server)), recalled(make_arm(ArmSpec("bm25", "bm25", max_items=3)))
    assert (recall.items, recall.context) == (plain.items, plain.context)
    assert recall.status == "degraded"
    assert recall.receipt == {**plain.receipt, "rerank": {"candidates": len(plain.items), "reason": "timed_out"}}


def test_arm_repeated_from_records_gives_the_same_recall(server: Server) -> None:
    first = recalled(arm_of(server))
    server.fault = FAULTS["500"][0]
    again = recalled(arm_of(server, answers=RECORDED))
    assert (again.items, again.receipt, again.timings["rerank"]) == (
        first.items,
        first.receipt,
        first.timings["rerank"],
    )


@pytest.mark.slow
def test_replay_from_records_gives_the_same_receipts(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "reranked.json"
    config.write_text(json.dumps({"lab": {"arm": "hybrid", "rerank": {"url": server.url}}}))
    request = ReplayRequest(
        str(OPERATORS), "lab", (f"reranked={config}",), embedder="hashing", conversation=("harbor-release",)
    )
    first = run_replay(request, tmp_path / "first").run
    asked, server.fault = len(server.asked), FAULTS["500"][0]
    again = run_replay(replace(request, answers=RECORDED), tmp_path / "again").run
    assert asked == len(server.asked) > 0
    name = "receipts/harbor-release.parquet"
    assert (first.path / name).read_bytes() == (again.path / name).read_bytes()


def test_arm_explains_what_the_reranker_did(server: Server) -> None:
    arm = arm_of(server)
    recall = recalled(arm)
    explained = arm.open(kit_for(arm)).explain(Ask("turn", QUERY, 100), None, recall, ["k0"], Detail())
    assert explained.head == (f"rerank: {recall.receipt['rerank']['moved']} of the first 4 have another rank",)
    server.fault = FAULTS["500"][0]
    recall = recalled(arm, [*TEXTS, "more bread"])
    explained = arm.open(kit_for(arm)).explain(Ask("turn", QUERY, 100), None, recall, ["k0"], Detail())
    assert explained.head == ("rerank: the order is that of the search (http_500)",)


def test_verbatim_with_a_reranker_is_made_with_its_answers(server: Server) -> None:
    arm = arm_of(server, "verbatim", answers=RECORDED)
    assert (arm.answers, arm.roles, arm.config.rerank.url) == (RECORDED, ("user", "assistant"), server.url)


def test_manifest_makes_the_same_arm_again_and_names_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", "sk-secret")
    arm = arm_of(server, "hybrid", keyEnv="RERANK_KEY", model="tiny", candidates=7)
    described = arm.describe().config
    assert "sk-secret" not in json.dumps(described)
    again = make_arm(ArmSpec("hybrid", "hybrid", described, answers=RECORDED))
    assert again.config == arm.config


def test_description_without_a_reranker_has_no_such_key() -> None:
    assert "rerank" not in make_arm(ArmSpec("bm25", "bm25")).describe().config["lab"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"url": "ftp://127.0.0.1/rerank"}, "expected http://HOST"),
        ({"url": "http://user:pass@127.0.0.1/rerank"}, "holds a password or a key"),
        ({"url": "https://rerank.example/v1"}, "is another machine"),
        ({"url": "http://rerank.example/v1", "allowRemote": True, "keyEnv": "PATH"}, "unencrypted"),
        ({"keyEnv": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"keyEnv": "sk-not-a-name"}, "expected the name of an environment variable"),
        ({"candidate": 5}, "unknown key"),
    ],
)
def test_arm_with_unusable_settings_is_refused(server: Server, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        arm_of(server, **keys)


@pytest.mark.parametrize("system", ["recency", "oracle", "tier_quota_v1", "engine"])
def test_arm_that_does_not_search_refuses_a_reranker(server: Server, system: str) -> None:
    with pytest.raises(UnusableInput, match=f"{system} does not rerank"):
        arm_of(server, system)
