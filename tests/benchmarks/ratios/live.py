"""Ratios of the live plugin to profile ``upstream``: processor time of a turn over the same memories and prompts.

The plugin is timed in its own process. Its vectors come from a table there (``vectors.mjs``), those of the lab from its
pool, so that neither side embeds anything. The plugin's table has the 1,536 dimensions of its model, the lab's store
the 384 of the vectors; zeros fill the rest. Without Node (``LAB_NODE``) and the plugin (``LAB_PLUGIN``) they are left
out.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ground import TURNS, each_alone, filled, questions, shipped
from harness import PROJECT, Absent, Bench, Side, Sides, ratio

from lab.recordings.model import IGNORE, MUST, NICE
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest

POLICY_OF = {"first": "tier_first_v1", "quota": "tier_quota_v1"}
SIZES = {"1k": 1_000, "10k": 10_000}
# Of one sample of the plugin, whose turns take longer.
PLUGIN_TURNS = 32
# That the plugin imports at once.
MOST = 5_000
UNIT = "ms of a processor"
IMPORTANCE = {MUST: 0.95, NICE: 0.7, IGNORE: 0.2}


def spent_by(process: int) -> float:
    """Return the milliseconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return 1e3 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peers() -> tuple[Any, Any]:
    """Return the modules of ``tests/peers`` that find and run the plugin."""
    sys.path += [str(PROJECT), str(PROJECT / "tests" / "peers")]
    import needs
    import plugin

    return needs, plugin


def memories(bench: Bench, size: int) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows of a store as the plugin imports them, and their vectors."""
    import numpy as np

    rows_of = filled(bench, "exact", size).tools.rows.of
    rows, vectors = list[dict[str, Any]](), []
    for part, their in shipped(bench).pool.parts(0, size):
        vectors.append(their)
        rows += [
            {"id": row.id, "text": row.text, "category": row.category, "createdAt": row.created_at, "scope": row.scope}
            | {"importance": IMPORTANCE.get(row.importance_label)}
            for row in rows_of(part)
        ]
    return rows, np.concatenate(vectors)


def plugin_in(bench: Bench, size: int, policy: str) -> Any:
    """Return the live plugin under a policy, filled with the memories of a store."""
    import numpy as np

    needs, live = peers()
    try:
        node, folder = needs.find_node(), needs.find_plugin(None)
    except needs.Missing as error:
        raise Absent(str(error)) from None
    rows, vectors = memories(bench, size)
    asked = questions(bench, TURNS)
    home = bench.new_folder()
    home.mkdir()
    texts = [*(row["text"] for row in rows), *(question.ask.text for question in asked)]
    (home / "texts.json").write_text(json.dumps(texts), "utf-8")
    both = np.concatenate([vectors, np.asarray([question.query.vector for question in asked])])
    (home / "vectors.f32").write_bytes(both.astype("<f4").tobytes())
    env = {"LAB_VECTORS": str(home), "NODE_OPTIONS": f"--import {Path(__file__).with_name('vectors.mjs')}"}
    server = SimpleNamespace(url="http://127.0.0.1:9/v1", model=live.MODEL, dimension=1536)
    config = {"autoRecall": {"selectionMode": policy}, "embedding": {"model": live.MODEL}, "dbPath": "{home}/db"}
    settings = {"plugin": str(folder), "config": config, "keys": [{"at": "embedding.apiKey"}]}
    started = live.Plugin(node, settings, home / "home", server, env)
    bench.close_later(partial(started.__exit__, None, None, None))
    file = home / "rows.json"
    for first in range(0, size, MOST):
        some = rows[first : first + MOST]
        file.write_text(json.dumps(some), "utf-8")
        told = started.tool("memory_import", asked[0].ask.now_ms, inPath=str(file), format="json", dedupe="none")
        if told["imported"] != len(some):
            raise Absent(f"the plugin imported {told['imported']} of {len(some)} memories")
    return started


def beside_upstream(bench: Bench, size: int, policy: str) -> Sides:
    """The plugin's processor time relative to the lab's."""
    plugin, asked = plugin_in(bench, size, policy), questions(bench, TURNS)
    counted, injected = itertools.count(), list[int]()

    def live() -> float:
        began = spent_by(plugin._process.pid)
        for _ in range(PLUGIN_TURNS):
            number = next(counted)
            question = asked[number % len(asked)]
            given = {"text": question.ask.text, "now_ms": question.ask.now_ms, "scope": None, "scoping": "tags"}
            answer = plugin.ask("recall", turn=f"t{number}", session=f"turn-{number}", probe=False, **given)
            injected.append(len(answer["context"]))
        return (spent_by(plugin._process.pid) - began) / PLUGIN_TURNS

    path = bench.folder / f"upstream-{policy}.json"
    path.write_text(json.dumps({"lab": {"arm": "engine"}, "autoRecall": {"selectionMode": policy}}), "utf-8")
    own = make_plan(
        ReplayRequest(
            str(PROJECT / "datasets" / "operators"),
            "lab",
            (f"upstream={path}",),
            profile="upstream",
            scope="tags",
            haystack=0,
        )
    )
    side = each_alone("profile upstream, exact", filled(bench, "exact", size), own, asked)

    def ours() -> float:
        began = time.process_time()
        side.work()
        return 1e3 * (time.process_time() - began) / side.count

    return Sides(
        Side(f"the live plugin, {policy}", live, unit=UNIT),
        side._replace(work=ours, count=1, unit=UNIT),
        lambda: {"turns with memories": sum(map(bool, injected)), "turns": len(injected)},
    )


for (shown, size), (short, policy) in itertools.product(SIZES.items(), POLICY_OF.items()):
    ratio(
        f"plugin-{shown}-{short}",
        at_least=20,
        about=f"A turn of the live plugin over one of profile upstream, {size} memories, {policy}, processor time.",
    )(partial(beside_upstream, size=size, policy=policy))
