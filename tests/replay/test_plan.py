"""Replay requests, checked and resolved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.shape import to_json
from lab.replay.candidates import rows_of
from lab.replay.labels import Labels
from lab.replay.plan import make_plan, plan_of
from lab.runs.request import ReplayRequest


@pytest.fixture
def garden(desk: Any) -> Any:
    """Two labelled conversations with a probe each."""
    for name in ("garden", "kitchen"):
        graded = {"importance_label": "nice_to_have"}
        desk.say(name, ("global", [("user", "the spade is in the shed", ("spade: shed", graded)), ("user", "where?")]))
        desk.judge(f"{name}/s1/t1#0", turn=f"{name}/s1/t2")
    return desk


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"store": "chroma"}, "unknown store 'chroma'; known: exact, lancedb"),
        ({"scope": "all"}, "unknown scope 'all'; known: none, recorded, tags"),
        ({"categories": "guessed"}, "unknown categories 'guessed'; known: recorded, detected"),
        ({"hard_rules": -1}, "hard rules -1 is not a whole number from 0"),
        ({"faults": ("earthquake",)}, "unknown fault 'earthquake'; known: embedder_down, input_too_long, fts_error"),
        (
            {"faults": ("fts_error", "slow_store=1.5")},
            "fault 'slow_store=1.5': the share must be above 0 and at most 1",
        ),
        ({"faults": ("fts_error=0",)}, "fault 'fts_error=0': the share must be above 0 and at most 1"),
        ({"faults": ("fts_error=cellar/s1/t1",)}, "fault 'fts_error': there is no recall point 'cellar/s1/t1'"),
        ({"faults": ("fts_error=",)}, "fault 'fts_error': there is no recall point ''"),
        ({"faults": ("fts_error=kitchen/s1/t2",), "limit": 1}, "there is no recall point 'kitchen/s1/t2'"),
        ({"recall_turns": "sometimes"}, "unknown recall turns 'sometimes'; known: user, all, none"),
        ({"labels": "graded"}, "unknown labels 'graded'"),
        ({"depth": 0}, "depth 0"),
        ({"limit": 0}, "limit 0"),
        ({"limit": -1}, "limit -1"),
        ({"conversation": ("cellar",)}, "no conversation 'cellar'; known: garden, kitchen"),
        ({"memories": "turns"}, "has no memories 'turns'; choose from: recorded"),
        ({"format": "csv"}, "unknown format 'csv'"),
        ({"profile": "downstream"}, "unknown profile 'downstream'; known: seed, upstream"),
        ({"max_items": 7}, r"max-items 7 is not in 1\.\.6"),
        ({"max_items": 0}, r"max-items 0 is not in 1\.\.6"),
        ({"max_items": 6, "profile": "upstream"}, r"max-items 6 is not in 1\.\.5"),
        ({"must_share": 0.8, "nice_share": 0.3, "labels": "sampled"}, "sum to at most 1"),
        ({"arms": ()}, "no arm given"),
        (
            {"arms": ("tier_third_v1",)},
            "unknown arm 'tier_third_v1'; did you mean 'tier_first_v1'\\? known: ",
        ),
        ({"arms": ("bm25", "bm25")}, "arm 'bm25' is given twice"),
        ({"embedder": "word2vec"}, "embedder 'word2vec': no such folder"),
        ({"path": "nowhere"}, "nowhere: no such file or folder"),
        ({"golden": "nowhere.jsonl"}, "nowhere.jsonl: no such file"),
        ({"config": "nowhere.json"}, "nowhere.json: no such file"),
    ],
)
def test_make_plan_bad_arguments_are_named(garden: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        make_plan(garden.request(**changes))


def test_make_plan_defaults_follow_format_and_recording(garden: Any) -> None:
    plan = make_plan(garden.request())
    assert (plan.recall_turns, plan.labels, plan.library.memories) == ("user", Labels("recorded"), "recorded")
    assert [recording.conversation for recording in plan.recordings] == ["garden", "kitchen"]
    assert [probe.id for recording in plan.recordings for probe in plan.probes(recording)] == [
        "garden/s1/t2",
        "kitchen/s1/t2",
    ]
    assert plan.labels_of(plan.recordings[0]) == {"garden/s1/t1#0": "nice_to_have"}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["garden", "kitchen"]),
        ({"limit": 1}, ["garden"]),
        ({"limit": 9}, ["garden", "kitchen"]),
        ({"conversation": ("kitchen",)}, ["kitchen"]),
        ({"conversation": ("kitchen", "garden")}, ["garden", "kitchen"]),
        ({"conversation": ("kitchen", "garden"), "limit": 1}, ["garden"]),
    ],
)
def test_make_plan_conversations_are_ordered_by_id(garden: Any, changes: dict[str, Any], names: list[str]) -> None:
    plan = make_plan(garden.request(**changes))
    assert [recording.conversation for recording in plan.recordings] == names
    assert plan.comparable()["conversations"] == names


def test_replay_request_of_manifest_is_equal() -> None:
    request = ReplayRequest(
        "p", "lab", ("bm25", "x=c.json"), golden="g", limit=3, conversation=("a", "b"), must_share=0.2
    )
    request = replace(request, faults=("fts_error", "slow_store=0.1"), hard_rules=2, categories="detected")
    assert ReplayRequest.of_manifest(json.loads(json.dumps(asdict(request)))) == request


@pytest.mark.parametrize(
    ("changes", "where", "comparable"),
    [
        ({"arms": ("tier_quota_v1",)}, {"arms"}, True),
        ({"arms": ("tier_first_v1", "bm25")}, {"arms"}, True),
        ({"store": "lancedb"}, {"store"}, True),
        ({"profile": "upstream", "max_items": 5}, {"arms", "profile"}, True),
        ({"max_items": 4}, {"arms"}, True),
        ({"depth": 20}, {"depth"}, True),
        ({"embedder": "all-MiniLM-L6-v2"}, {"embedder"}, True),
        ({"labels": "sampled"}, {"labels"}, False),
        ({"scope": "recorded"}, {"scope"}, False),
        ({"scope": "tags"}, {"scope"}, False),
        ({"hard_rules": 1}, {"hard_rules"}, False),
        ({"categories": "detected"}, {"categories"}, False),
        ({"faults": ("embedder_down",)}, {"faults"}, True),
        ({"faults": ("embedder_down=0.5", "fts_error=garden/s1/t2")}, {"faults"}, True),
        ({"recall_turns": "all"}, {"recall_turns"}, False),
        # The two conversations have equal turns; without one of them, the other has no equal.
        ({"limit": 1}, {"conversations", "equal_conversations"}, False),
        ({"conversation": ("kitchen",)}, {"conversations", "equal_conversations"}, False),
        ({"golden": None}, {"golden"}, False),
    ],
)
def test_run_key_every_argument_that_matters_differs(
    garden: Any, changes: dict[str, Any], where: set[str], comparable: bool
) -> None:
    plain, changed = make_plan(garden.request()), make_plan(garden.request(**changes))
    before, after = plain.resolved(), changed.resolved()
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} == where
    assert plain.run_key() != changed.run_key()
    assert (plain.comparable() == changed.comparable()) is comparable


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": "recorded"},
        {"recall_turns": "user"},
        {"memories": "recorded"},
        {"seed": 3},
        {"categories": "recorded"},
        {"conversation": ("garden", "kitchen")},
        {"limit": 2},
    ],
)
def test_run_key_explicit_defaults_are_equal(garden: Any, changes: dict[str, Any]) -> None:
    assert make_plan(garden.request(**changes)).run_key() == make_plan(garden.request()).run_key()


def test_run_key_seed_matters_only_where_it_is_used(garden: Any) -> None:
    for request in (garden.request(labels="sampled"), garden.request("random"), garden.request(hard_rules=1)):
        assert make_plan(request).run_key() != make_plan(replace(request, seed=1)).run_key()


def test_run_key_configuration_counts_not_its_file_name(garden: Any) -> None:
    one, same, other = (garden.home / name for name in ("one.json", "same.json", "other.json"))
    one.write_text('{"autoRecall": {"quotas": {"mustMax": 1}}}')
    same.write_text('{ "autoRecall": {"quotas": {"mustMax": 1}} }')
    other.write_text('{"autoRecall": {"quotas": {"mustMax": 2}}}')
    keys = [make_plan(garden.request("tier_quota_v1", config=str(path))).run_key() for path in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]
    # 2 is the default, so naming it changes nothing.
    assert keys[2] == make_plan(garden.request("tier_quota_v1")).run_key()


def test_comparable_changed_recording_or_gold_differs(garden: Any) -> None:
    before = make_plan(garden.request()).comparable()
    garden.judge(turn="garden/s1/t1")
    judged = make_plan(garden.request()).comparable()
    assert {key for key in before if before[key] != judged[key]} == {"golden"}
    garden.say("cellar", ("global", [("user", "it is dark", ("dark", {"importance_label": "ignore"}))]))
    grown = make_plan(garden.request()).comparable()
    assert {key for key in before if judged[key] != grown[key]} == {"recordings", "conversations"}


@pytest.fixture
def shelved(garden: Any) -> Callable[..., Path]:
    """The garden as a shipped set: recordings in datasets/plants, golden sets in golden/plants."""
    home = garden.home / "shelf"
    datasets, golden = home / "datasets" / "plants", home / "golden" / "plants"
    datasets.mkdir(parents=True)
    golden.mkdir(parents=True)

    def put(file: str, conversation: str) -> Path:
        old = next(path for path in garden.folder.iterdir() if f'"{conversation}"' in path.read_text())
        (datasets / file).write_bytes(old.read_bytes())
        lines = [line for line in garden.golden.read_text().splitlines() if f"{conversation}/" in line]
        (golden / file).write_text("\n".join(lines) + "\n")
        return datasets / file

    return put


def test_make_plan_golden_set_beside_the_folder_is_used(garden: Any, shelved: Callable[..., Path]) -> None:
    folder = shelved("garden.jsonl", "garden").parent
    shelved("kitchen.jsonl", "kitchen")
    plan = make_plan(replace(garden.request(), path=str(folder), golden=None))
    assert [probe.id for probe in plan.library.golden.probes] == ["garden/s1/t2", "kitchen/s1/t2"]
    assert set(plan.comparable()["golden"]) == {"garden.jsonl", "kitchen.jsonl"}


@pytest.mark.parametrize("file", ["kitchen.jsonl", "02-kitchen.jsonl"])
def test_make_plan_single_file_uses_only_its_probes(garden: Any, shelved: Callable[..., Path], file: str) -> None:
    """The name of the conversation is in the file, not the file's name."""
    shelved("garden.jsonl", "garden")
    path = shelved(file, "kitchen")
    plan = make_plan(replace(garden.request(), path=str(path), golden=None))
    assert [recording.conversation for recording in plan.recordings] == ["kitchen"]
    assert [probe.id for probe in plan.library.golden.probes] == ["kitchen/s1/t2"]


def test_make_plan_given_golden_set_must_match(garden: Any) -> None:
    path = next(path for path in garden.folder.iterdir() if '"garden"' in path.read_text())
    with pytest.raises(UnusableInput, match="names conversation 'kitchen', which no recording has"):
        make_plan(garden.request(path=str(path)))


def test_make_plan_shipped_set_has_labels_and_probes(operators: Path) -> None:
    plan = make_plan(ReplayRequest(str(operators), "lab", ("none",)))
    assert plan.labels == Labels("recorded")
    assert all(plan.probes(recording) for recording in plan.recordings)
    single = make_plan(ReplayRequest(str(operators / "two-desks.jsonl"), "lab", ("none",)))
    assert single.library.golden.probes == plan.probes(plan.recordings[-1])


def test_plan_hard_rules_are_sampled_among_must_memories(desk: Any) -> None:
    must = {"importance_label": "must_remember"}
    said = [(f"rule {number}", must if number < 6 else {}) for number in range(9)]
    desk.say("c", ("global", [("user", "note this", *said)]))
    sampled = set()
    for seed in range(6):
        plan = make_plan(desk.request(hard_rules=2, seed=seed, labels="recorded"))
        hard = [row for row in rows_of(plan, plan.recordings[0]) if row.hard_rule]
        assert [row.importance_label for row in hard] == ["must_remember"] * 2
        sampled.add(tuple(row.key for row in hard))
    assert len(sampled) > 1


def test_plan_of_random_arm_keeps_its_seed(desk: Any) -> None:
    desk.say("c", ("global", [("user", "note this", "a pear", "a plum")]))
    run = desk.run("random", seed=7).run
    (kept,) = run.manifest.resolved.arms
    (described,) = [to_json(info) for info in plan_of(run).infos]
    assert {name: to_json(kept)[name] for name in described} == json.loads(json.dumps(described))
    assert plan_of(run).infos[0].seed == plan_of(run).arms[0].describe().seed == 7


def test_plan_of_engine_with_unsupported_keys_is_unchanged(desk: Any, tmp_path: Path) -> None:
    desk.say("c", ("global", [("user", "note this", "a pear", "a plum")]))
    config = tmp_path / "live.json"
    config.write_text(json.dumps({"dbPath": "~/.openclaw/memory", "autoRecall": {"maxItems": 3}}), "utf-8")
    run = desk.run(f"engine={config}").run
    config.unlink()
    assert run.manifest.resolved.arms[0].missing == ("dbPath",)
    assert plan_of(run).resolved()["arms"] == [to_json(arm) for arm in run.manifest.resolved.arms]
    assert plan_of(run).run_key() == run.manifest.run_key
