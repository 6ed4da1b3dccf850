"""Check ``engine_vectors.json``, the second set of vectors, whose lanes are scripted row by row (see parity.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.systems.openclaw.arms import recall
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.docs.globs import glob_matches
from lab.systems.openclaw.docs.lane import matches_scope, pushdown_repos
from lab.systems.openclaw.js import text_or_blank
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from tests.conformance.capture_pack import captures_of, unclosed_block
from tests.conformance.e2e import plugin_config
from tests.conformance.functions_inject import budget
from tests.conformance.functions_other import shown_clamp
from tests.conformance.functions_select import tier_quota
from tests.conformance.pack_tools import preflights, tool_calls
from tests.conformance.plugin_config import resolve_embedding_clamp
from tests.conformance.plugin_hook import HookDedupe
from tests.conformance.plugin_rules import is_too_long
from tests.conformance.record_files import FAILED, FileResult, Outcome, Record, Skip, describe_error, judge, tally
from tests.conformance.scripted import Scripted, shown_row
from tests.conformance.values import Difference, difference

Value = dict[str, Any]
Run = Callable[[], Difference | None]
Runs = Iterator[tuple[str, Run]]
NAME = "engine_vectors"
HEAD, OLD = "upstream_head", "upstream_2026_03_27"
# The defaults of the older plugin's Working Set.
WORKING_SET_V1 = {"maxChars": 1200, "maxItemsPerSection": 3, "maxGoalChars": 200, "maxItemChars": 180}
NO_VECTOR = {"fail": "provider_unavailable", "long": "embedding_input_too_long"}
# In this case, the persisted Working Set ranks first in its tier: score, distance.
WORKING_SET_FIRST = (99.0, 0.01)
# The pack does not contain its scope map; these entries are derived from its expected outputs.
SCOPE_MAP = {"proj-a": ["RepoA", "docs/a"], "proj-a/x": ["repox"]}


def check_pack(path: Path) -> FileResult:
    """Run all cases of the pack; parts without a check are skipped."""
    try:
        pack = json.loads(path.read_bytes())
        if not isinstance(pack, dict):
            raise TypeError("not an object")  # noqa: TRY301 - handled like every other invalid file
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return tally(NAME, [Outcome("", 0, FAILED, f"{path}: is not a pack of vectors: {error}")])
    return tally(NAME, _outcomes(pack))


def _outcomes(pack: Value) -> Iterator[Outcome]:
    for part, value in pack.items():
        if part == "note":
            continue
        try:
            for name, run in PARTS.get(part, _unknown)(value):
                yield judge(Record(0, f"{part}/{name}", {}), run)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            yield Outcome(part, 0, FAILED, describe_error(error))


def _unknown(value: Any) -> Runs:
    return _skipped("no check for this part", value)


def _config(plugin: str, config: Value) -> EngineConfig:
    """Return the configuration of a case, for the plugin of the design documents' days with its Working Set."""
    if plugin == HEAD:
        return plugin_config(config)
    sizes = {"workingSet": WORKING_SET_V1 | config.get("workingSet", {}), "lab": {"workingSet": "v1"}}
    return plugin_config(config | sizes)


def _skipped(why: str, value: Any) -> Runs:
    def skip() -> None:
        raise Skip(why)

    for number in range(len(value) if isinstance(value, list | dict) else 1):
        yield str(number), skip


def _cases(cases: Sequence[Value]) -> Runs:
    for case in cases:
        name = case["name"]
        if case.get("kind") == "capture":
            yield from _prefixed(name, captures_of(case))
        elif case.get("kind") == "tool":
            yield from _prefixed(name, tool_calls(case, NO_VECTOR.get(case["embedding"])))
        elif "kind" in case:
            yield from _prefixed(name, _unknown([case]))
        else:
            no_vector = NO_VECTOR.get(case["embedding"])
            table = Scripted(case["rows"], words=case["fts"] == "ok", vectors=no_vector is None)
            yield from _prefixed(name, _turns(table, _config(case["plugin"], case["config"]), case["turns"], no_vector))
            if "rowsAfter" in case:
                yield f"{name}/rowsAfter", _equal(case["rowsAfter"], partial(_rows_left, table))


def _working_set_in_must_tier(value: Value) -> Runs:
    for name, plugin in (("head", HEAD), ("seed_era", OLD)):
        table = Scripted(value["rows"], written=WORKING_SET_FIRST)
        config = _config(plugin, {"workingSet": {"enabled": True}})
        yield from _prefixed(name, _turns(table, config, value[name], None))


def _turns(table: Scripted, config: EngineConfig, turns: Sequence[Value], no_vector: str | None) -> Runs:
    for number, turn in enumerate(turns):
        yield str(number), _equal(_expected(turn), partial(_turn, table, config, turn, no_vector))


def _turn(table: Scripted, config: EngineConfig, turn: Value, no_vector: str | None) -> Value:
    writes = config.working_set.enabled and config.working_set.persist
    memories = Memories(
        table,
        table.rows,
        table.by_id,
        no_vector=no_vector,
        listing=table.listing,
        write=table.write if writes else None,
    )
    outcome = recall(Prompt(turn["prompt"], turn["now"]), config, memories, RecallState())
    others = []
    for _, logged in outcome.log:
        marker, _, value = logged.partition(" ")
        others.append([marker.partition(":")[2], json.loads(value)])
    return {
        "prependContext": outcome.context if outcome.packed else None,
        "receipts": [outcome.receipt] if outcome.receipt is not None else [],
        "otherLogs": others,
    }


def _rows_left(table: Scripted) -> list[Value]:
    return [shown_row(row) for row in table.left()]


def _expected(turn: Value) -> Value:
    receipts = [log["json"] for log in turn["logs"] if log["marker"] == "autoRecall.receipt"]
    others = [[log["marker"], log["json"]] for log in turn["logs"] if log["marker"] != "autoRecall.receipt"]
    return {"prependContext": turn["prependContext"], "receipts": receipts, "otherLogs": others}


def _quotas(records: Sequence[Value]) -> Runs:
    for number, record in enumerate(records):
        expected = {key: record[key] for key in ("selectedIds", "selectedByTier", "wildcardUsed")}
        yield str(number), _equal(expected, partial(_quota_answer, record))


def _quota_answer(record: Value) -> Value:
    buckets = [{"tier": bucket["tier"], "fused": bucket["hits"]} for bucket in record["buckets"]]
    answer = tier_quota({"input": {"limit": record["limit"], "quotas": record["quotas"], "buckets": buckets}})
    ids = [hit["id"] for hit in answer["selected"]]
    used = answer["quota"]["wildcardUsed"]
    return {"selectedIds": ids, "selectedByTier": answer["selectedByTier"], "wildcardUsed": used}


def _budgets(records: Sequence[Value]) -> Runs:
    for number, record in enumerate(records):
        expected = {key: record[key] for key in ("prependContext", "keptSlots", "budget")}
        yield str(number), _equal(expected, partial(budget, {"input": record}))


def _clamps(records: Sequence[Value]) -> Runs:
    for number, record in enumerate(records):
        expected = record["out"] | {
            "text": base64.b64decode(record["out"]["text"]).decode("utf-16-le", "surrogatepass")
        }
        limits = resolve_embedding_clamp(record["config"])
        yield str(number), _equal(expected, partial(shown_clamp, record["text"], limits))


def _too_long(records: Sequence[Value]) -> Runs:
    for number, record in enumerate(records):
        yield str(number), _equal(record["tooLong"], partial(is_too_long, record["body"]))


def _docs(tables: Value) -> Runs:
    for number, record in enumerate(tables["glob"]):
        yield f"glob/{number}", _equal(record["match"], partial(glob_matches, record["glob"], record["path"]))
    for number, record in enumerate(tables["scope"]):
        row = (record["row"].get("repo", ""), record["row"].get("path", ""))
        matches = partial(matches_scope, *row, text_or_blank(record["scope"]), record["strategy"], SCOPE_MAP)
        yield f"scope/{number}", _equal(record["match"], matches)
    for number, record in enumerate(tables["push"]):
        repos = partial(pushdown_repos, text_or_blank(record["scope"]), record["strategy"], SCOPE_MAP)
        yield f"push/{number}", _equal(record["repos"], repos)


def _hook(expected: Value) -> Runs:
    dedupe = HookDedupe()
    for name, at in (("first", 0), ("second_other_hook_same_key", 0), ("after_4001ms", 4001)):
        yield name, _equal(expected[name], partial(_runs, dedupe, at))


def _runs(dedupe: HookDedupe, at: int) -> bool:
    return not dedupe.is_repeat("session", 1, "how do we deploy?", at)


def _unclosed(expected: Sequence[str]) -> Runs:
    yield "stored", partial(unclosed_block, list(expected))


def _equal(expected: Any, answer: Callable[[], Any]) -> Run:
    return lambda: difference(expected, answer())


def _prefixed(name: str, runs: Runs) -> Runs:
    return ((f"{name}/{inner}", run) for inner, run in runs)


PARTS: dict[str, Callable[[Any], Runs]] = {
    "cases": _cases,
    "select_tier_quota_fuzz": _quotas,
    "budget_fuzz": _budgets,
    "embedding_clamp": _clamps,
    "embedding_too_long_messages": _too_long,
    "docs_cold_lane": _docs,
    "ws_row_in_must_tier": _working_set_in_must_tier,
    "hook_dedupe": _hook,
    "wei_ji": preflights,
    "unclosed_artefact_capture": _unclosed,
}
