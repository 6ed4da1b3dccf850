"""Logs of both selection policies on public sets, for the limits of policy stage-b.

Every set is replayed as the public plugin would run it (``--profile upstream``, four items), once for each selection
policy, with a recall at each turn of a user. Sets without recorded labels get sampled ones (must 10 %, nice 63 %).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from canary_logs import POLICIES, Pool, pools_of

from lab.base.set_registry import shipped
from lab.replay.run import run_replay
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest

DEVELOPMENT, CHECK = "development", "check"


class Set(NamedTuple):
    """A set: its name, its format, its path below the folder of public sets, and how it is replayed and judged."""

    name: str
    format: str
    path: str
    recall_turns: str = "user"
    scope: str = "none"
    # Rules that docs/canary.md removes from the policy for such logs.
    without: tuple[str, ...] = ()


CHINESE = ("lanes.without_fts_share", "lanes.worst_window_without_fts")


# The public sets in the order of their names. Those at even places are development data, as is the shipped set, the
# others check data: the split was fixed before any of them was replayed.
PUBLIC = (
    Set("aider", "aider", "transcripts/aider-chat-history.md"),
    Set("beam", "beam", "beam/100K"),
    Set("hermes", "hermes", "transcripts/hermes-zh.jsonl", without=CHINESE),
    Set("ikat", "ikat", "ikat"),
    Set("locomo", "locomo", "locomo", "all"),
    Set("madial-en", "madial", "madial/en-dialogue-user1.jsonl"),
    Set("madial-zh", "madial", "madial/zh-dialogue-user1.jsonl", without=CHINESE),
    Set("realmem", "realmem", "realmem", scope="recorded"),
    Set("realtalk", "realtalk", "realtalk", "all"),
)
OPERATORS = Set("operators", "lab", "")


def half_of(name: str) -> str:
    """Return which half a set belongs to."""
    names = [one.name for one in PUBLIC]
    return DEVELOPMENT if name == OPERATORS.name or names.index(name) % 2 == 0 else CHECK


def replayed_set(folder: Path, data: Path, one: Set, embedder: str = "all-MiniLM-L6-v2") -> dict[str, Pool]:
    """Return the pools of both policies on a set.

    The run is kept in ``folder`` and not made again, also by later code: name another folder after a change.
    """
    place = folder / one.name
    if (place / "run" / "manifest.json").exists():
        return pools_of(open_run(place / "run"))
    place.mkdir(parents=True, exist_ok=True)
    arms = []
    for policy in POLICIES:
        path = place / f"{policy}.json"
        recall = {"selectionMode": policy, "maxItems": 4}
        path.write_text(json.dumps({"lab": {"arm": "engine"}, "autoRecall": recall}), "utf-8")
        arms.append(f"{policy.removesuffix('_v1')}={path}")
    if one == OPERATORS:
        request = ReplayRequest(
            *(str(shipped("datasets", "operators")), "lab", tuple(arms)),
            profile="upstream",
            scope="recorded",
            embedder=embedder,
        )
    else:
        request = ReplayRequest(
            *(str(data / one.path), one.format, tuple(arms)),
            profile="upstream",
            recall_turns=one.recall_turns,
            scope=one.scope,
            labels="sampled",
            must_share=0.10,
            nice_share=0.63,
            embedder=embedder,
        )
    return pools_of(run_replay(request, place / "run").run)
