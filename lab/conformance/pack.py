"""The check of ``engine_vectors.json``: a second pack, whose lanes are scripted row by row (docs/design/parity.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.conformance.e2e import plugin_config
from lab.conformance.functions_inject import budget
from lab.conformance.functions_other import shown_clamp
from lab.conformance.functions_select import tier_quota
from lab.conformance.records import FAILED, FileResult, Outcome, Record, Skip, judge, said, tally
from lab.conformance.scripted import Scripted, shown_row
from lab.conformance.values import Difference, difference
from lab.retrieval.clamp import is_too_long
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.docs.globs import glob_matches
from lab.systems.openclaw.docs.scope import matches_scope, pushdown_repos
from lab.systems.openclaw.flow import recall
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.upstream.hook import HookDedupe
from lab.systems.openclaw.upstream.js import text_or_blank
from lab.systems.openclaw.upstream.plugin import resolve_embedding_clamp

Value = dict[str, Any]
Run = Callable[[], Difference | None]
Runs = Iterator[tuple[str, Run]]
NAME = "engine_vectors"
HEAD = "upstream_head"
NO_VECTOR = {"fail": "provider_unavailable", "long": "embedding_input_too_long"}
# The kept digest of this case ranks first in its tier.
DIGEST_FIRST = (99.0, 0.01)
# The pack leaves its scope map out; these entries are the ones that its answers name.
SCOPE_MAP = {"proj-a": ["RepoA", "docs/a"], "proj-a/x": ["repox"]}


def check_pack(path: Path) -> FileResult:
    """Run everything in the pack; what is not compared is skipped by name."""
    try:
        pack = json.loads(path.read_bytes())
        if not isinstance(pack, dict):
            raise TypeError("not an object")  # noqa: TRY301 - one way for every file that is no pack
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return tally(NAME, [Outcome("", 0, FAILED, f"{path}: not a pack of vectors: {error}")])
    return tally(NAME, _outcomes(pack))


def _outcomes(pack: Value) -> Iterator[Outcome]:
    for part, value in pack.items():
        if part == "note":
            continue
        try:
            for name, run in PARTS.get(part, _unknown)(value):
                yield judge(Record(0, f"{part}/{name}", {}), run)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            yield Outcome(part, 0, FAILED, said(error))


def _unknown(value: Any) -> Runs:
    return _passed_over("no such part here", value)


def _later(value: Any) -> Runs:
    return _passed_over("capture, the tools and Wei Ji are not compared yet", value)


def _older(value: Any) -> Runs:
    return _passed_over("an older plugin, which is not reproduced", value)


def _passed_over(why: str, value: Any) -> Runs:
    def skip() -> None:
        raise Skip(why)

    for number in range(len(value) if isinstance(value, list | dict) else 1):
        yield str(number), skip


def _cases(cases: Sequence[Value]) -> Runs:
    for case in cases:
        name = case["name"]
        if "kind" in case:
            yield from _renamed(name, _later([case]))
        elif case["plugin"] != HEAD:
            yield from _renamed(name, _older(case["turns"]))
        else:
            dark = NO_VECTOR.get(case["embedding"])
            table = Scripted(case["rows"], words=case["fts"] == "ok", vectors=dark is None)
            yield from _renamed(name, _turns(table, plugin_config(case["config"]), case["turns"], dark))
            if "rowsAfter" in case:
                yield f"{name}/rowsAfter", _equal(case["rowsAfter"], partial(_rows_left, table))


def _digest_in_must_tier(value: Value) -> Runs:
    table = Scripted(value["rows"], written=DIGEST_FIRST)
    yield from _renamed("head", _turns(table, plugin_config({"workingSet": {"enabled": True}}), value["head"], None))
    yield from _renamed("seed_era", _older(value["seed_era"]))


def _turns(table: Scripted, config: EngineConfig, turns: Sequence[Value], dark: str | None) -> Runs:
    for number, turn in enumerate(turns):
        yield str(number), _equal(_wanted(turn), partial(_turn, table, config, turn, dark))


def _turn(table: Scripted, config: EngineConfig, turn: Value, dark: str | None) -> Value:
    writes = config.working_set.enabled and config.working_set.persist
    memories = Memories(
        table, table.rows, table.by_id, table.listing, no_vector=dark, write=table.write if writes else None
    )
    found = recall(Prompt(turn["prompt"], turn["now"]), config, memories, RecallState())
    others = []
    for _, logged in found.log:
        marker, _, value = logged.partition(" ")
        others.append([marker.partition(":")[2], json.loads(value)])
    return {
        "prependContext": found.context if found.packed else None,
        "receipts": [found.receipt] if found.receipt is not None else [],
        "otherLogs": others,
    }


def _rows_left(table: Scripted) -> list[Value]:
    return [shown_row(row) for row in table.left()]


def _wanted(turn: Value) -> Value:
    receipts = [log["json"] for log in turn["logs"] if log["marker"] == "autoRecall.receipt"]
    others = [[log["marker"], log["json"]] for log in turn["logs"] if log["marker"] != "autoRecall.receipt"]
    return {"prependContext": turn["prependContext"], "receipts": receipts, "otherLogs": others}


def _quotas(records: Sequence[Value]) -> Runs:
    for number, one in enumerate(records):
        wanted = {key: one[key] for key in ("selectedIds", "selectedByTier", "wildcardUsed")}
        yield str(number), _equal(wanted, partial(_quota_answer, one))


def _quota_answer(one: Value) -> Value:
    buckets = [{"tier": bucket["tier"], "fused": bucket["hits"]} for bucket in one["buckets"]]
    found = tier_quota({"input": {"limit": one["limit"], "quotas": one["quotas"], "buckets": buckets}})
    ids = [hit["id"] for hit in found["selected"]]
    used = found["quota"]["wildcardUsed"]
    return {"selectedIds": ids, "selectedByTier": found["selectedByTier"], "wildcardUsed": used}


def _budgets(records: Sequence[Value]) -> Runs:
    for number, one in enumerate(records):
        wanted = {key: one[key] for key in ("prependContext", "keptSlots", "budget")}
        yield str(number), _equal(wanted, partial(budget, {"input": one}))


def _clamps(records: Sequence[Value]) -> Runs:
    for number, one in enumerate(records):
        wanted = one["out"] | {"text": base64.b64decode(one["out"]["text"]).decode("utf-16-le", "surrogatepass")}
        limits = resolve_embedding_clamp(one["config"])
        yield str(number), _equal(wanted, partial(shown_clamp, one["text"], limits))


def _too_long(records: Sequence[Value]) -> Runs:
    for number, one in enumerate(records):
        yield str(number), _equal(one["tooLong"], partial(is_too_long, one["body"]))


def _docs(tables: Value) -> Runs:
    for number, one in enumerate(tables["glob"]):
        yield f"glob/{number}", _equal(one["match"], partial(glob_matches, one["glob"], one["path"]))
    for number, one in enumerate(tables["scope"]):
        row = (one["row"].get("repo", ""), one["row"].get("path", ""))
        matches = partial(matches_scope, *row, text_or_blank(one["scope"]), one["strategy"], SCOPE_MAP)
        yield f"scope/{number}", _equal(one["match"], matches)
    for number, one in enumerate(tables["push"]):
        repos = partial(pushdown_repos, text_or_blank(one["scope"]), one["strategy"], SCOPE_MAP)
        yield f"push/{number}", _equal(one["repos"], repos)


def _hook(wanted: Value) -> Runs:
    dedupe = HookDedupe()
    for name, at in (("first", 0), ("second_other_hook_same_key", 0), ("after_4001ms", 4001)):
        yield name, _equal(wanted[name], partial(_runs, dedupe, at))


def _runs(dedupe: HookDedupe, at: int) -> bool:
    return not dedupe.is_repeat("session", 1, "how do we deploy?", at)


def _equal(wanted: Any, answer: Callable[[], Any]) -> Run:
    return lambda: difference(wanted, answer())


def _renamed(name: str, runs: Runs) -> Runs:
    return ((f"{name}/{inner}", run) for inner, run in runs)


PARTS: dict[str, Callable[[Any], Runs]] = {
    "cases": _cases,
    "select_tier_quota_fuzz": _quotas,
    "budget_fuzz": _budgets,
    "embedding_clamp": _clamps,
    "embedding_too_long_messages": _too_long,
    "docs_cold_lane": _docs,
    "ws_row_in_must_tier": _digest_in_must_tier,
    "hook_dedupe": _hook,
    "wei_ji": _later,
    "unclosed_artefact_capture": _later,
}
