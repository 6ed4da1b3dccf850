"""Compare the searches that real gateways recorded with the lab's, by id, score and order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.canary.agree.agreement import Agreement, agreement
from lab.runs.request import ReplayRequest

Shared = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def agree(shared: Shared, version: str, source: str, embedder: str, **options: str) -> Agreement:
    request = ReplayRequest(
        str(shared("live", f"sessions-{version}")),
        "openclaw-archived",
        (),
        config=str(shared("live", "config", f"openclaw-{version}.json")),
        scope="tags",
        embedder=embedder,
        **({"profile": "upstream"} | options),  # type: ignore[arg-type]  # all of these are strings
    )
    return agreement(request, source)


def test_agree_over_the_gateways_own_store_reproduces_every_search(shared: Shared, provider: str) -> None:
    store = str(shared("live", "lancedb", "engine-2026.9.6"))
    model = f"openai:text-embedding-3-small@{provider}"
    result = agree(shared, "2026.9.6", "given", model, memories_from=store, vectors="stored")
    assert [(each.recorded_count, each.is_equal, each.tau) for each in result.compared] == [(3, True, 1.0)] * 3
    assert max(each.score_gap or 0.0 for each in result.compared) == 0.0
    assert (result.calls, result.history.user_turns, len(result.history.searching)) == (3, 27, 3)
    assert [each.brought for each in result.compared] == [3, 3, 2]
    assert not any(each.other_embedder for each in result.compared)


@pytest.mark.parametrize(("version", "searches"), [("2026.9.6", 3), ("2026.6.11", 2)])
def test_agree_over_what_transcripts_show_reproduces_every_search(
    shared: Shared, provider: str, version: str, searches: int
) -> None:
    model = f"openai:text-embedding-3-small@{provider}"
    assert [each.is_equal for each in agree(shared, version, "seen", model).compared] == [True] * searches
    # The engine captured a memory that the agent did not store.
    assert agree(shared, version, "tools", model).causes == {"absent": searches}


def test_agree_with_another_embedder_names_it_first(shared: Shared) -> None:
    result = agree(shared, "2026.9.6", "seen", "hashing")
    assert all(each.other_embedder for each in result.compared)
    assert result.models == ("text-embedding-3-small",)
    assert set(result.causes) <= {"embedder"}


def test_agree_with_profile_seed_names_the_profile(shared: Shared, provider: str) -> None:
    store = str(shared("live", "lancedb", "engine-2026.9.6"))
    options = {"memories_from": store, "vectors": "stored", "profile": "seed"}
    result = agree(shared, "2026.9.6", "given", f"openai:text-embedding-3-small@{provider}", **options)
    assert result.causes == {"profile": 3}


def test_agree_with_the_store_of_another_gateway_matches_by_text(shared: Shared, provider: str) -> None:
    store = str(shared("live", "lancedb", "engine-2026.9.6"))
    options = {"memories_from": store, "vectors": "stored"}
    result = agree(shared, "2026.6.11", "given", f"openai:text-embedding-3-small@{provider}", **options)
    assert [each.by_text for each in result.compared] == [3, 3]
    assert result.causes == {"store": 1, "tie": 1}
