"""Memories of a haystack are pooled, judged, explained and scored like those of the conversation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lab
from lab.base.errors import UnusableInput
from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import is_added
from lab.golden.pool import read_pool
from lab.replay.plan import make_plan
from lab.replay.pool import Chosen, make_pool, material
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

HOST = "two-desks"


def request(path: Path, number: int, **options: str) -> ReplayRequest:
    arms = ("hybrid", "bm25")
    return ReplayRequest(str(path), "lab", arms, embedder="hashing", conversation=(HOST,), haystack=number, **options)


def test_pool_holds_added_memories_that_its_material_knows(operators: Path, tmp_path: Path) -> None:
    pool = make_pool(request(operators, 200), 6, Chosen(number=8))
    assert (pool.haystack, pool.haystack_from) == (200, ())
    path = tmp_path / "pool.jsonl"
    path.write_bytes(pool.as_bytes())
    again = read_pool(path)
    assert again == pool
    known = material(again)
    # Only the pooled conversations are given their haystack.
    assert list(known) == [HOST]
    keys = {memory.key for memory in known[HOST].memories}
    pooled = {key for turn in pool.turns for key in turn.keys}
    assert pooled <= keys
    assert any(map(is_added, pooled))
    # The same memories as in a replay with a golden set.
    (recording,) = make_plan(request(operators, 200)).recordings
    assert {memory.key for memory in recording.memories} == keys


def test_pool_of_a_changed_set_of_its_haystack_is_refused(operators: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lines = (operators / "orchid-lab.jsonl").read_bytes()
    (other / "orchid-lab.jsonl").write_bytes(lines)
    alone = operators / f"{HOST}.jsonl"
    filled = replace(request(alone, 20), haystack_from=(f"{other}:lab",))
    pool = make_pool(filled, 6, Chosen(number=4))
    assert list(material(pool)) == [HOST]
    (other / "orchid-lab.jsonl").write_bytes(lines.replace(b"orchid", b"orchids"))
    with pytest.raises(UnusableInput, match="has changed since it was pooled"):
        material(pool)


def test_judged_haystack_memory_is_scored_and_explained(operators: Path, tmp_path: Path) -> None:
    """From Python: a memory of the haystack that is injected first misleads once the golden set says so."""
    options: dict[str, Any] = {"arms": ["hybrid"], "embedder": "hashing", "conversation": (HOST,), "haystack": 200}
    plain = lab.replay(operators, out=tmp_path / "plain", **options)
    golden = read_golden(operators.parents[1] / "golden" / operators.name / f"{HOST}.jsonl")
    plan = make_plan(request(operators, 200))
    for probe in golden.probes:
        shown = lab.explain(plain, probe.turn or probe.id)
        injected = [item.id for item in shown.recall.items[: shown.recall.injected]]
        unjudged = [key for key in injected if is_added(key) and key not in probe.irrelevant]
        if probe.relevant and unjudged:
            break
    misleading = unjudged[0]
    forbidden = (*probe.forbidden, replace(probe.relevant[0], memory=misleading, reason="another project's"))
    changed = [replace(one, forbidden=forbidden) if one is probe else one for one in golden.probes]
    path = tmp_path / "golden.jsonl"
    path.write_bytes(golden_bytes(changed))
    judged = lab.replay(operators, out=tmp_path / "judged", golden=str(path), **options)
    assert misleading in read_gold(judged.directory)[probe.id].forbidden
    before, after = (lab.score(run).means["hybrid"]["Judged@6"] for run in (plain, judged))
    assert before is not None
    assert after is not None
    assert after > before
    assert misleading in {memory.key for memory in plan.recordings[0].memories}
