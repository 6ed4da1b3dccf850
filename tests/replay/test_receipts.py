"""Receipts: their contents, no texts, and equal bytes for equal input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lab.base.errors import CannotMeasure
from lab.base.token_estimate import tokens
from lab.base.utf16 import js_length
from lab.recordings.model import Recording
from lab.replay.loop import Answered, replay
from lab.replay.plan import Plan, make_plan
from lab.replay.receipts import Checked, SafetyChecks, latency_table, receipts_table
from lab.replay.run import run_replay
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table, write_table
from lab.systems.openclaw.seed.stages import STAGES
from tests.playing import as_listed, listed_in

ARMS = ("tier_first_v1", "tier_quota_v1", "vector", "bm25", "hybrid", "recency", "random", "none", "oracle")
ARMS += ("quota_flow", "seed_full")
SCALARS = [
    "arm",
    "turn",
    "seq",
    "scope",
    "is_recall_turn",
    "probe",
    "status",
    "failure",
    "injected",
    "visible",
    "visible_nice",
    "chars",
]
SCALARS += ["hard_rules", "hard_kept", "pinned", "duplicates", "log"]
BLOCK = ["block", "tokens", "evicted", "future", "duplicate_items", "unescaped", "superseded", "stale", "outdated"]
READINGS = ["prefix_tokens", "stable_chars", "body_chars", "receipt_bytes", "receipt_lines", "to_explain", "explained"]
READINGS += ["item_exempt"]
ITEMS = ["key", "id", "tier", "label", "scope", "score", "fts_rank", "vec_rank", "decision"]


@pytest.fixture
def plan(desk: Any) -> Plan:
    """Every arm on a small recording with scopes, labels, a hard rule, an old TODO and Chinese."""
    labels = ("must_remember", "nice_to_have", "ignore", "unknown")
    fields: list[dict[str, Any]] = [{"importance_label": labels[turn % 4]} for turn in range(12)]
    fields[0] |= {"category": "todo"}
    fields[1] |= {"hard_rule": True}
    fields[3] |= {"category": "decision"}
    turns = [
        ("user", f"第{turn}箱梨子 crate {turn}", (f"梨子 pears in crate {turn}", fields[turn])) for turn in range(12)
    ]
    desk.say("果園 east", ("orchard", turns[:6]), ("global", [*turns[6:], ("user", "thanks")]))
    desk.judge("果園 east/s1/t2#0", id="果園 east/q", conversation="果園 east", query="pears")
    (desk.home / "config.json").write_text('{"autoCapture": {"todoStaleTtlDays": 1}}')
    return make_plan(desk.request(*ARMS, config=str(desk.home / "config.json")))


@pytest.fixture
def answered(plan: Plan) -> list[Answered]:
    """All answers of all arms."""
    (recording,) = plan.recordings
    sources = prepared_sources(plan, [recording])
    return list(replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms))


def decoded(path: Path) -> str:
    """Return the contents of a Parquet file: values and metadata."""
    table = parquet.read_table(path)
    return json.dumps(
        [table.to_pylist(), str(table.schema), str(parquet.read_metadata(path).metadata)], ensure_ascii=False
    )


def test_receipts_table_round_trip_keeps_every_answer(plan: Plan, answered: list[Answered], tmp_path: Path) -> None:
    write_table(receipts_table(answered, plan.recordings[0], {}), tmp_path / "r.parquet")
    rows = read_table(tmp_path / "r.parquet").to_pylist()
    assert len(rows) == len(answered) == 14 * len(ARMS)
    for row, one in zip(rows, answered, strict=True):
        assert [row[name] for name in SCALARS] == [
            one.arm,
            one.point.key,
            one.point.seq,
            one.point.scope or "global",
            one.point.is_recall_turn,
            one.point.probe.id if one.point.probe else None,
            one.recall.status,
            None,
            one.recall.injected,
            one.visible,
            one.visible_nice,
            js_length(one.recall.context),
            one.hard_rules,
            one.hard_kept,
            list(one.recall.pinned),
            one.recall.duplicates,
            list(one.recall.log),
        ]
        assert listed_in(row) == as_listed(one.recall)
        assert json.loads(row["receipt"]) == one.recall.receipt
        assert row["block"] == hashlib.sha256(one.recall.context.encode()).hexdigest()[:16]
        assert row["tokens"] == tokens(one.recall.context)
        assert row["evicted"] == one.recall.receipt.get("budget", {}).get("droppedCount", 0)
        checked = SafetyChecks(plan.recordings[0]).check(one.recall, one.point.seq)
        assert tuple(row[name] for name in Checked._fields) == checked
    assert {rank for answer in answered for entry in answer.recall.items for rank in entry.signals[3:5]} > {
        None,
        1,
    }
    # Every column varies, so that the fixture covers them all.
    for name in (scalar for scalar in SCALARS if scalar != "failure"):
        assert len({json.dumps(row[name]) for row in rows}) > 1, name


def test_item_has_the_label_of_its_memory_though_the_system_reports_none(plan: Plan, desk: Any) -> None:
    chosen = make_plan(desk.request("memory_lancedb", "hybrid"))
    (recording,) = chosen.recordings
    sources = prepared_sources(chosen, [recording])
    answers = list(replay(play_of(chosen, recording, tools_of(chosen, recording, sources)), chosen.arms))
    labels = chosen.labels_of(recording)
    rows = receipts_table(answers, recording, {}, labels).to_pylist()
    for row in rows:
        assert row["item_label"] == [labels[key] for key in row["item_key"]]
    found = {(row["arm"], label) for row in rows for label in row["item_label"]}
    assert {arm for arm, label in found if label == "nice_to_have"} == {"memory_lancedb", "hybrid"}
    assert not any(item.signals.label for one in answers if one.arm == "memory_lancedb" for item in one.recall.items)


def test_receipts_table_has_the_documented_columns(plan: Plan, answered: list[Answered]) -> None:
    table = receipts_table(answered, plan.recordings[0], {})
    assert table.column_names == [
        *SCALARS[:-1],
        *(f"item_{name}" for name in ITEMS),
        "log",
        "receipt",
        *BLOCK,
        *READINGS,
    ]
    assert table.schema.metadata == {b"kind": b"lab.receipts", b"schema_version": b"4"}


def test_receipts_table_without_items_has_the_same_schema(plan: Plan, answered: list[Answered], tmp_path: Path) -> None:
    whole = receipts_table(answered, plan.recordings[0], {}).schema
    for some in ([answer for answer in answered if answer.arm == "none"], []):
        table = receipts_table(some, plan.recordings[0], {})
        assert table.schema == whole
        write_table(table, tmp_path / "r.parquet")
        assert read_table(tmp_path / "r.parquet").to_pylist() == table.to_pylist()
        assert [row["item_key"] for row in table.to_pylist()] == [[]] * len(some)


def test_latency_table_holds_the_timings(answered: list[Answered]) -> None:
    table = latency_table(answered)
    assert table.column_names == ["arm", "turn", "stage", "ns", "cold"]
    rows = table.to_pylist()
    assert {row["arm"] for row in rows} == set(ARMS)
    flows = {"seed_full", "quota_flow"}
    stages = {"search", "select", "wrap", "receipt"}
    assert {row["stage"] for row in rows if row["arm"] not in flows} == {"retrieve", *stages}
    stages = {"retrieve", "search", *(name for name, _ in STAGES)}
    assert {row["stage"] for row in rows if row["arm"] in flows} == stages
    assert {row["turn"] for row in rows if row["cold"]} == {answered[0].point.key}
    assert all(row["ns"] >= 0 for row in rows)
    assert latency_table([]).schema == table.schema


def test_receipts_table_bytes_do_not_depend_on_timings(plan: Plan, answered: list[Answered], tmp_path: Path) -> None:
    for number, answers in enumerate((answered, answered)):
        write_table(receipts_table(answers, plan.recordings[0], {}), tmp_path / f"{number}.parquet")
        for answer in answered:
            answer.recall.timings["search"] = 123456789
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()


def said_in(recording: Recording) -> set[str]:
    return {text for memory in recording.memories for text in (memory.text, memory.index_text)} | {
        turn.text for turn in recording.turns if len(turn.text) > 12
    }


def test_receipts_and_gold_hold_no_text(operators: Path, tmp_path: Path) -> None:
    # In English and in Chinese.
    two = ("tea-mountain", "two-desks")
    request = ReplayRequest(str(operators), "lab", ARMS, embedder="hashing", conversation=two)
    run = run_replay(request, tmp_path / "run").run
    gold = (run.path / "golden.jsonl").read_text()
    manifest = (run.path / "manifest.json").read_text()
    for recording in make_plan(request).recordings:
        said = decoded(run.receipts(recording.conversation)) + decoded(run.latency(recording.conversation))
        assert recording.memories[0].key in said
        raw = run.receipts(recording.conversation).read_bytes()
        for text in said_in(recording):
            assert json.dumps(text, ensure_ascii=False)[1:-1] not in said
            assert text not in gold + manifest
            assert text.encode() not in raw


@pytest.mark.parametrize("keep", [0, 3, 200, -1])
def test_read_table_damaged_file_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "r.parquet"
    write_table(pa.table({"arm": ["x"] * 100}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CannotMeasure, match=r"r\.parquet: damaged .* delete it and run the replay again"):
        read_table(path)


def test_read_table_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"gone\.parquet"):
        read_table(tmp_path / "gone.parquet")
