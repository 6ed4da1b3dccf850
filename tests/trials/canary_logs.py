"""Logs for the trial of policy stage-b: pools of sessions from real replays, damaged by fault switches or by edits.

A pool is a list of sessions, a session a list of recalls, a recall the lines that the engine logs for it. Damage that
the lab has a switch for is replayed; other damage edits receipts so that they stay consistent: what a broken engine
would truthfully write.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lab.base.set_registry import shipped
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.openclaw.js import js_json

Recall = list[str]
Pool = list[list[Recall]]
Edit = Callable[[dict[str, Any]], dict[str, Any]]
RECEIPT = "openclaw-mem-engine:autoRecall.receipt "
POLICIES = ("tier_first_v1", "tier_quota_v1")
# Replays: simulated faults, and the configuration of the engine besides the selection mode.
REPLAYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sound": ((), {}),
    "dead text lane": (("fts_error",), {}),
    "dead vector lane": (("vector_error",), {}),
    "provider fails always": (("embedder_down",), {}),
    "provider fails in 10 %": (("embedder_down=0.1",), {}),
    "prompts too long in 10 %": (("input_too_long=0.1",), {}),
    "cut blocks": ((), {"receipts": {"verbosity": "high", "maxItems": 8}, "budget": {"maxChars": 1800}}),
}


def replayed(
    folder: Path, name: str, embedder: str = "all-MiniLM-L6-v2", conversations: int | None = None
) -> dict[str, Pool]:
    """Return the pools of both policies of one of :data:`REPLAYS`, over the first shipped operators.

    The run is kept in ``folder``, and the same call again makes no other.
    """
    faults, config = REPLAYS[name]
    place = folder / name.replace(" ", "-").replace("%", "percent")
    place.mkdir(parents=True, exist_ok=True)
    arms = []
    for policy in POLICIES:
        path = place / f"{policy}.json"
        recall = {"selectionMode": policy, "maxItems": 4}
        path.write_text(json.dumps({"lab": {"arm": "engine"}, "autoRecall": recall, **config}), "utf-8")
        arms.append(f"{policy.removesuffix('_v1')}={path}")
    asked = ReplayRequest(
        *(str(shipped("datasets", "operators")), "lab", tuple(arms)),
        profile="upstream",
        scope="recorded",
        limit=conversations,
        embedder=embedder,
        faults=faults,
        haystack=0,
    )
    return pools_of(run_replay(asked, place / "run").run)


def pools_of(run: RunDirectory) -> dict[str, Pool]:
    """Return the pool of each arm of a run, by the name of its selection policy."""
    pools: dict[str, dict[str, list[Recall]]] = {arm: {} for arm in run.arms}
    for conversation in run.conversations:
        for row in read_table(run.receipts(conversation), ("arm", "turn", "log", "receipt")).to_pylist():
            session = row["turn"].rpartition("/")[0]
            marks = [str(line) for line in row["log"] or ()]
            # The budget's marker follows the receipt (E-22).
            behind = [line for line in marks if ":contextBudget" in line]
            lines = [line for line in marks if line not in behind] + [RECEIPT + row["receipt"], *behind]
            pools[row["arm"]].setdefault(session, []).append(lines)
    return {f"{arm}_v1": list(sessions.values()) for arm, sessions in pools.items()}


def edited(pool: Pool, edit: Edit) -> Pool:
    """Return a pool with edited receipts, except the receipts of skipped turns."""

    def line(text: str) -> str:
        if not text.startswith(RECEIPT):
            return text
        receipt = json.loads(text.removeprefix(RECEIPT))
        return text if receipt["skipped"] else RECEIPT + js_json(edit(receipt))

    return [[[line(text) for text in recall] for recall in session] for session in pool]


def over_budget(receipt: dict[str, Any]) -> dict[str, Any]:
    """Violate the budget: every third block is longer than its budget."""
    budget = receipt.get("budget")
    if budget and len(receipt["fusedTop"][0]) % 3 == int(receipt["fusedTop"][0][-1], 36) % 3:
        budget |= {"beforeChars": 2400, "afterChars": 2400, "droppedCount": 0, "droppedIds": []}
        budget |= {"truncatedChars": 0, "truncated": False}
    return receipt


def no_limit(receipt: dict[str, Any]) -> dict[str, Any]:
    """Violate ``maxItems``: select all hits of a searched tier."""
    more = 0
    for count in receipt["tierCounts"]:
        extra = count["candidates"] - count["selected"]
        count["selected"] += extra
        receipt["whySummary"]["byTier"][count["tier"]] += extra
        more += extra
    receipt["whySummary"]["fromPrimaryScope"] += more
    receipt["finalCount"] += more
    receipt["injectedCount"] += more
    if more and receipt.get("quota"):
        quota, total = receipt["quota"], sum(count["selected"] for count in receipt["tierCounts"])
        sizes = {count["tier"]: count["candidates"] for count in receipt["tierCounts"]}
        nice = min(quota["niceMin"], sizes["nice"])
        must, unknown = min(quota["mustMax"], sizes["must"]), min(quota["unknownMax"], sizes["unknown"])
        quota["wildcardUsed"] = total - must - nice - unknown
    return receipt


def no_quota(receipt: dict[str, Any]) -> dict[str, Any]:
    """Violate ``mustMax``: must takes the slots of nice while it has candidates."""
    if not receipt.get("quota") or receipt["finalCount"] <= len(receipt["fusedTop"]):
        return receipt
    tiers = {count["tier"]: count for count in receipt["tierCounts"]}
    must, nice = tiers["must"], tiers["nice"]
    taken = min(nice["selected"], must["candidates"] - must["selected"])
    nice["selected"] -= taken
    must["selected"] += taken
    receipt["whySummary"]["byTier"]["must"] += taken
    receipt["whySummary"]["byTier"]["nice"] -= taken
    return receipt


def other_scope(receipt: dict[str, Any]) -> dict[str, Any]:
    """Add an item of another scope although no fallback was searched."""
    if receipt["whyTheseIds"]:
        receipt["whyTheseIds"][-1] |= {"scope": "elsewhere", "origin": "fallback"}
        receipt["whySummary"]["fromPrimaryScope"] -= 1
        receipt["whySummary"]["fromFallbackScope"] += 1
    return receipt


def frozen(pool: Pool) -> Pool:
    """Simulate a cache keyed by scope instead of the prompt: repeat the first result with hits."""
    first: dict[str, dict[str, Any]] = {}

    def edit(receipt: dict[str, Any]) -> dict[str, Any]:
        return first.setdefault(receipt["scope"], receipt) if receipt["finalCount"] else receipt

    return edited(pool, edit)


def sampled(pool: Pool, recalls: int, draw: random.Random) -> Pool:
    """Draw sessions of the pool with replacement until they have at least so many recalls.

    A session that is drawn again stands for another one like it, and not for the same words a second time: its scores
    differ in the fifth digit.
    """
    found: Pool = []
    times = [0] * len(pool)
    while sum(map(len, found)) < recalls:
        number = draw.randrange(len(pool))
        found += edited([pool[number]], _less(times[number])) if times[number] else [pool[number]]
        times[number] += 1
    return found


def _less(times: int) -> Edit:
    def edit(receipt: dict[str, Any]) -> dict[str, Any]:
        for hit in (*receipt["ftsTop"], *receipt["vecTop"]):
            hit["score"] = round(hit["score"] * (1 - times * 1e-5), 6)
        return receipt

    return edit


def lines_of(pool: Iterable[Sequence[Recall]], *, twice: float = 0.0, draw: random.Random | None = None) -> list[str]:
    """Return the lines of ``logging.file`` as OpenClaw writes them: JSON with a time and a trace, without a session.

    Between two sessions are 40 minutes, so that the audit tells them apart.
    In a share ``twice`` of the recalls a second hook recalls the same half a second later.
    """
    draw = draw or random.Random(11)
    now, lines = datetime(2026, 3, 1, tzinfo=UTC), []
    for session in pool:
        now += timedelta(minutes=40)
        for recall in session:
            now += timedelta(milliseconds=draw.randrange(8_000, 90_000))
            trace = f"{draw.getrandbits(128):032x}"
            for again in range(1 + (draw.random() < twice)):
                for place, text in enumerate(recall):
                    at = now + timedelta(milliseconds=5 * place + 450 * again)
                    stamp = at.isoformat(timespec="milliseconds")
                    lines.append(js_json({"1": text, "time": stamp, "message": text, "traceId": trace}))
    return lines


def console_of(lines: Iterable[str], hours: int) -> list[str]:
    """Return these lines as on the console: coloured, with the time of day in a zone so many hours ahead."""
    shown = []
    for line in lines:
        said = json.loads(line)
        at = datetime.fromisoformat(said["time"]) + timedelta(hours=hours)
        shown.append(f"\x1b[90m{at:%H:%M:%S}\x1b[39m \x1b[35m[plugins]\x1b[39m \x1b[36m{said['message']}\x1b[39m")
    return shown
