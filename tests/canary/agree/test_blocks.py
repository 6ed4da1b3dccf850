"""Put the lab's own blocks into real transcripts, as a host that writes the whole prompt would: all must agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.canary.agree.agreement import agreement
from lab.replay.loop import replay
from lab.replay.plan import make_plan
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.runs.request import ReplayRequest

QUOTAS = {"selectionMode": "tier_quota_v1", "maxItems": 5}
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "quotas": {"autoRecall": QUOTAS},
    "working set": {"autoRecall": QUOTAS, "workingSet": {"enabled": True}},
    "verbose": {"receipts": {"verbosity": "high"}, "budget": {"maxChars": 4000}},
    "cut": {"autoRecall": QUOTAS, "budget": {"maxChars": 300, "minRecentSlots": 5}},
    "dropped": {"autoRecall": QUOTAS, "receipts": {"verbosity": "high"}, "budget": {"maxChars": 1800}},
}


def with_blocks(request: ReplayRequest, out: Path) -> tuple[ReplayRequest, int]:
    """Write the transcripts with the lab's blocks, and return their number."""
    plan = make_plan(replace(request, arms=("engine",)), judged=False)
    sources = prepared_sources(plan)
    blocks = {}
    for recording in plan.recordings:
        for answered in replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms):
            blocks[answered.point.key.rpartition("/")[2]] = answered.recall.context
    out.mkdir()
    count = 0
    for file in sorted(Path(request.path).glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for line in lines:
            if line.get("message", {}).get("role") == "user" and blocks.get(line["id"]):
                message = line["message"]
                text = message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
                message["content"] = f"{blocks[line['id']]}\n\n{text}"
                count += 1
        (out / file.name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return replace(request, path=str(out)), count


@pytest.mark.parametrize("profile", ["upstream", "seed"])
@pytest.mark.parametrize("name", CONFIGS)
def test_blocks_of_the_lab_agree_with_the_lab(
    shared: Callable[..., Path], tmp_path: Path, name: str, profile: str
) -> None:
    config = tmp_path / "engine.json"
    config.write_text(json.dumps(CONFIGS[name]), "utf-8")
    request = ReplayRequest(
        str(shared("live", "sessions-2026.9.6", "as-jsonl")),
        "openclaw",
        (),
        config=str(config),
        memories_from=str(shared("live", "lancedb", "engine-2026.9.6")),
        profile=profile,
        scope="tags",
        embedder="hashing",
    )
    request, count = with_blocks(request, tmp_path / "sessions")
    result = agreement(request)
    injected = result.of("injected")
    assert len(injected) == count > 10
    assert [(each.recorded.turn, each.first) for each in injected if not each.is_equal] == []
    assert sum(each.recorded_count for each in injected) > 0
    # Another configuration recalls something else.
    config.write_text(json.dumps({"autoRecall": {"maxItems": 1}}), "utf-8")
    other = agreement(request)
    assert not other.agrees(None)
    assert set(other.causes) <= {"embedder", "tier", "slot", "depth", "budget", "profile"}
