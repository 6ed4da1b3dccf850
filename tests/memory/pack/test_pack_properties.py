"""What holds for every pack, over generated candidates, settings and queries (PK-1, PK-9)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import (
    EXCLUDE_QUARANTINED,
    OFF,
    RANKS,
    Candidate,
    Found,
    Quotas,
    Settings,
    Tail,
    upstream,
)
from lab.memory.pack.packer import Pack, pack, trace

CASES, QUICK = 10_000, 300
WORDS = (
    "basil",
    "pot",
    "gateway",
    "timeout",
    "never",
    "not",
    "30",
    "90",
    "E1042",
    "<b>",
    "決定",
    "陶盆。",
    "so.",
    "é",
    "\n",
)
KINDS = ("preference", "decision", "fact", "event", "plan", "note", "")
TRUSTS = ("trusted", "unknown", "untrusted", "quarantined")
LABELS = ("must_remember", "nice_to_have", "ignore", "unknown")


def words(draw: random.Random, most: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(0, most)))


def candidate(draw: random.Random, number: int) -> Candidate:
    """Return a candidate whose text names it, so that it can be found in a bundle."""
    refs = [f"obs:{draw.randint(0, 30)}" for _ in range(draw.choice((0, 0, 0, 1, 2)))]
    blank = draw.random() < 0.05
    return Candidate(
        f"obs:{number}",
        " " if blank else f"mark{number}x {words(draw, draw.choice((4, 30, 200)))}",
        "test",
        draw.random(),
        draw.choice(KINDS),
        abstract=draw.choice(("", f"mark{number}x short")),
        detail=draw.choice((None, f"mark{number}x {words(draw, 60)}")),
        importance=draw.choice(LABELS),
        trust=draw.choice(TRUSTS),
        ts_ms=draw.randint(0, 9),
        due_ms=draw.choice((None, 1, 9)),
        retrievers=draw.choice((("fts",), ("vector",), ("fts", "vector"))),
        supersedes=tuple(refs) if draw.random() < 0.5 else (),
        contradicts=tuple(refs) if draw.random() < 0.2 else (),
    )


def case(seed: int) -> tuple[dict[str, Any], list[Candidate], Settings]:
    """Return the arguments, the candidates and the settings of a case."""
    draw = random.Random(seed)
    several = [candidate(draw, number) for number in range(draw.choice((0, 1, 5, 15, 30)))]
    cut = draw.randint(0, len(several))
    founds = [Found("one", several[:cut]), Found("two", several[cut:])]
    values: dict[str, Any] = {
        "limit": draw.choice((1, 2, 5, 12, 100)),
        "budget_tokens": draw.choice((0, 1, 8, 40, 120, 300, 1200)),
        "trust_policy": draw.choice((OFF, EXCLUDE_QUARANTINED)),
        "rank": draw.choice(RANKS),
        "quotas": draw.choice((None, Quotas(), Quotas(3, 0, 0.0))),
        "tail": Tail(draw.choice((0, 2, 4)), draw.choice((0, 10, 200))),
    }
    settings = upstream(**values) if seed % 5 == 0 else Settings(**values, dissent=draw.random() < 0.8)
    turns = [words(draw, 12) for _ in range(draw.choice((0, 0, 3, 6)))]
    return {"query": words(draw, 6), "founds": founds, "tail": turns, "now_ms": 5}, several, settings


def check(done: Pack, several: list[Candidate]) -> None:
    """Check one pack against the candidates that it was made of."""
    settings = done.settings
    if settings.is_upstream:
        assert sum(max(1, -(-len(line.text) // 4)) for line in done.lines) <= settings.budget_tokens
    else:
        assert tokens(done.bundle_text) <= settings.budget_tokens
    assert len(done.lines) <= settings.limit
    traced = trace(done, "now", version="v")
    candidates = {one["id"]: one for one in traced["candidates"]}
    assert {one.ref for one in several} <= candidates.keys()
    assert len(candidates) == len(traced["candidates"])
    assert all(one["decision"]["reason"] for one in candidates.values())
    included = {ref for ref, one in candidates.items() if one["decision"]["included"]}
    assert included == set(done.refs)
    assert len(done.refs) == len(included)
    assert all(candidates[ref]["citations"]["recordRef"] and f"[{ref}" in done.bundle_text for ref in included)
    for one in several:
        if one.ref not in included:
            assert f"mark{one.ref.removeprefix('obs:')}x" not in done.bundle_text
        elif settings.trust_policy != OFF:
            assert one.trust != "quarantined"
    assert "mark" not in str({**traced, "query": ""})


def run(seeds: range) -> None:
    for seed in seeds:
        arguments, several, settings = case(seed)
        done = pack(settings=settings, **arguments)
        check(done, several)
        assert pack(settings=settings, **arguments) == done, seed


def test_packs_keep_budget_reasons_and_citations() -> None:
    run(range(QUICK))


@pytest.mark.slow
def test_ten_thousand_packs_keep_budget_reasons_and_citations() -> None:
    run(range(QUICK, CASES))
