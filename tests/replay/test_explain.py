"""Explanations of one recall: they match the receipts, and give every reason why gold can be missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.replay.explain import Explanation, explain
from lab.replay.run import run_replay
from lab.report.explanation import explanation_json, explanation_text
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.openclaw.memory import engine_id
from tests.playing import as_listed, listed_in

pytestmark = pytest.mark.slow

ARMS = ("tier_first_v1", "tier_quota_v1", "vector", "bm25", "hybrid", "recency", "random", "none", "oracle")
# Stateful arms: earlier turns influence the explained one.
FLOWS = ("quota_repeat", "seed_full")
MUST, NICE, IGNORE, UNKNOWN = "must_remember", "nice_to_have", "ignore", "unknown"


def graded(text: str, label: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return text, {"importance_label": label, **fields}


def many(count: int, label: str, words: str = "pears in crate") -> list[tuple[str, dict[str, Any]]]:
    return [graded(f"{words} {number}", label) for number in range(count)]


@pytest.fixture
def orchard(desk: Any) -> Any:
    """Two scopes, every label, decisions, TODOs, a hard rule, gold of every kind, and a probe from outside."""
    labels = (MUST, NICE, UNKNOWN, IGNORE, NICE)
    kinds: tuple[dict[str, Any], ...] = ({"category": "decision"}, {}, {"category": "todo"}, {}, {"hard_rule": True})
    turns = [
        (
            "user",
            f"how many pears are in crate {turn}",
            *(
                graded(f"crate {turn} pears {one}", label, **(kinds[one] if turn in (1, 3) else {}))
                for one, label in enumerate(labels)
            ),
        )
        for turn in range(6)
    ]
    desk.say("orchard", ("shop", turns[:4]), ("farm", turns[4:]))
    desk.say("empty", ("shop", [("user", "is anybody here"), ("assistant", "yes")]))
    gold = [f"orchard/s1/t{turn}#{place}" for turn in (1, 3) for place in range(5)]
    desk.judge(*gold, "orchard/s2/t1#1", turn="orchard/s2/t2")
    desk.judge(*gold, turn="orchard/s1/t3")
    desk.judge(gold[0], gold[8], id="orchard/ask", conversation="orchard", query="pears in crate 2")
    return desk


@pytest.mark.parametrize("store", ["exact", "lancedb"])
@pytest.mark.parametrize("scope", ["none", "recorded"])
def test_explain_every_arm_and_recall_point_matches_the_receipt(orchard: Any, store: str, scope: str) -> None:
    outcome = orchard.run(*ARMS, *FLOWS, store=store, scope=scope)
    assert outcome.failures == ()
    rows = orchard.rows(outcome)
    assert len(rows) == (6 + 1 + 1) * (len(ARMS) + len(FLOWS))
    for row in rows:
        if store == "lancedb" and row["turn"] != "orchard/s2/t2":
            continue
        result = explain(outcome.run, row["turn"], row["arm"])
        recall = result.recall
        assert (result.point.key, result.arm.name, result.point.seq) == (row["turn"], row["arm"], row["seq"])
        assert as_listed(recall) == listed_in(row)
        assert (recall.injected, len(recall.context)) == (row["injected"], row["chars"])
        assert (list(recall.pinned), recall.duplicates, list(recall.log)) == (
            row["pinned"],
            row["duplicates"],
            row["log"],
        )
        assert ("flow" in result.explained.value) is (row["arm"] in FLOWS)
        if store == "exact":
            assert recall.receipt == json.loads(row["receipt"])
        assert sum(result.visible.values()) == row["visible"]
        assert result.visible[NICE] == row["visible_nice"]
        injected = row["item_key"][: row["injected"]]
        gold = set(result.point.probe.grades) if result.point.probe else set()
        assert set(result.explained.reasons) == gold - set(injected)
        assert all(result.explained.reasons.values())
        assert not set(result.explained.runners_up) & set(injected)
        if row["arm"] in FLOWS:
            flow = result.explained.value["flow"]
            dropped = (recall.receipt.get("budget") or {}).get("droppedIds", ())
            assert not set(result.explained.runners_up) & {*flow["digested"], *flow["excluded"], *injected}
            assert not set(map(engine_id, result.explained.runners_up)) & set(dropped)
        assert len(result.explained.runners_up) <= 3
        assert set(result.texts) >= {*injected, *result.explained.runners_up, *gold}
    # The explained turns have predecessors and a Working Set.
    flows = [(row, json.loads(row["receipt"])) for row in rows if row["arm"] == "seed_full"]
    assert any(receipt["suppressedByRepeat"]["penalized"] for _, receipt in flows)
    assert any(row["pinned"] for row, _ in flows)


def test_explain_real_turns_matches_the_receipts(operators: Path, tmp_path: Path) -> None:
    arms = (*ARMS, *FLOWS)
    request = ReplayRequest(
        str(operators), "lab", arms, embedder="hashing", scope="recorded", conversation=("two-desks",)
    )
    run = run_replay(request, tmp_path / "run").run
    rows = [row for row in read_table(run.receipts("two-desks")).to_pylist() if row["probe"]]
    assert len(rows) == 18 * len(arms)
    for row in rows[:: len(arms) + 1]:
        result = explain(run, row["turn"], row["arm"])
        assert as_listed(result.recall) == listed_in(row)
        assert result.recall.receipt == json.loads(row["receipt"])


def explain_turn(desk: Any, turn: str, arm: str, **changes: Any) -> Explanation:
    return explain(desk.run(arm, **changes).run, turn, arm)


@pytest.mark.parametrize("arm", ["tier_first_v1", "tier_quota_v1", "vector", "none", "oracle"])
def test_explain_later_gold_did_not_exist_yet(desk: Any, arm: str) -> None:
    desk.say(
        "c", ("global", [("user", "pears", "pears are red"), ("user", "pears?"), ("user", "yes", "pears are green")])
    )
    desk.judge("c/s1/t3#0", turn="c/s1/t2")
    assert explain_turn(desk, "c/s1/t2", arm).explained.reasons == {"c/s1/t3#0": "it did not exist yet"}


def test_explain_gold_of_the_querying_turn_did_not_exist_yet(desk: Any) -> None:
    desk.say("c", ("global", [("user", "pears", "pears are red"), ("user", "pears?")]))
    desk.judge("c/s1/t1#0", turn="c/s1/t1")
    assert explain_turn(desk, "c/s1/t1", "recency").explained.reasons == {"c/s1/t1#0": "it did not exist yet"}


@pytest.mark.parametrize("arm", ["tier_first_v1", "tier_quota_v1", "vector", "recency", "oracle"])
def test_explain_gold_of_another_scope_names_both_scopes(desk: Any, arm: str) -> None:
    desk.say("c", ("farm", [("user", "pears", "pears are red")]), ("shop", [("user", "pears?"), ("user", "bye")]))
    desk.judge("c/s1/t1#0", turn="c/s2/t1")
    assert explain_turn(desk, "c/s2/t1", arm, scope="recorded").explained.reasons == {
        "c/s1/t1#0": "its scope is farm; the scope of the turn is shop"
    }
    assert explain_turn(desk, "c/s2/t1", arm, out="free", scope="none").explained.reasons == {}


def test_explain_gold_of_an_unsearched_tier_names_the_filling_tier(desk: Any) -> None:
    said = [*many(6, MUST), graded("pears exactly as asked", NICE), graded("pears in the hall", UNKNOWN)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears exactly as asked")]))
    desk.judge("c/s1/t1#6", "c/s1/t1#7", turn="c/s1/t2")
    result = explain_turn(desk, "c/s1/t2", "tier_first_v1")
    assert result.recall.receipt["tiersSearched"] == ["must"]
    assert result.explained.reasons == {
        key: f"tier {tier} was not searched: must had filled all slots; text rank 1, vector rank 1 in its tier"
        for key, tier in (("c/s1/t1#6", "nice"), ("c/s1/t1#7", "unknown"))
    }
    assert explain_turn(desk, "c/s1/t2", "tier_quota_v1", out="quota").explained.reasons == {}


@pytest.mark.parametrize("arm", ["tier_first_v1", "tier_quota_v1"])
def test_explain_gold_below_the_candidates_gives_its_ranks(desk: Any, arm: str) -> None:
    said = [*many(20, NICE), graded("umbrella", NICE)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate")]))
    desk.judge("c/s1/t1#20", turn="c/s1/t2")
    result = explain_turn(desk, "c/s1/t2", arm)
    assert result.explained.reasons == {
        "c/s1/t1#20": "not among the 12 candidates of tier nice; text rank none, vector rank 21 in its tier"
    }
    assert result.explained.standings["c/s1/t1#20"] == ("nice", None, None, None, 21)


def test_explain_gold_below_its_quota_gives_score_and_wildcards(desk: Any) -> None:
    said = [*many(8, NICE), graded("pears", NICE), *many(3, MUST)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate 0 in crate 1 in crate 2")]))
    desk.judge("c/s1/t1#8", turn="c/s1/t2")
    result = explain_turn(desk, "c/s1/t2", "tier_quota_v1")
    place = result.explained.standings["c/s1/t1#8"]
    wildcards = [item.score for item in result.recall.items if item.signals.decision == "wildcard"]
    nice = sum(item.tier == "nice" for item in result.recall.items)
    assert len(wildcards) == 2
    assert result.explained.reasons == {
        "c/s1/t1#8": f"candidate {place.rank} of tier nice ({place.score:.4f}): {nice} slots went to that tier, "
        f"wildcards scored at least {min(wildcards):.4f}; text rank {place.fts}, vector rank {place.vec} in its tier"
    }


def test_explain_gold_below_the_slots_of_tier_first_omits_wildcards(desk: Any) -> None:
    said = [*many(8, MUST), graded("pears", MUST)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate 0 in crate 1 in crate 2")]))
    desk.judge("c/s1/t1#8", turn="c/s1/t2")
    (reason,) = explain_turn(desk, "c/s1/t2", "tier_first_v1").explained.reasons.values()
    assert reason.startswith("candidate 9 of tier must (0.0")
    assert "): 6 slots went to that tier; text rank " in reason
    assert "wildcard" not in reason


@pytest.mark.parametrize("arm", ["tier_first_v1", "tier_quota_v1"])
def test_explain_ignored_gold_is_in_no_tier(desk: Any, arm: str) -> None:
    desk.say("c", ("global", [("user", "note", graded("pears", IGNORE), graded("plums", NICE)), ("user", "pears")]))
    desk.judge("c/s1/t1#0", turn="c/s1/t2")
    assert explain_turn(desk, "c/s1/t2", arm).explained.reasons == {
        "c/s1/t1#0": "its label is ignore, which no tier of this arm contains"
    }


@pytest.mark.parametrize("label", [MUST, NICE, UNKNOWN, IGNORE])
@pytest.mark.parametrize("arm", ["vector", "hybrid"])
def test_explain_gold_ranked_by_an_untiered_arm_gives_its_rank(desk: Any, arm: str, label: str) -> None:
    said = [*many(8, NICE), graded("umbrella", label)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate")]))
    desk.judge("c/s1/t1#8", turn="c/s1/t2")
    assert explain_turn(desk, "c/s1/t2", arm).explained.reasons == {
        "c/s1/t1#8": "ranked 9; only the first 6 are injected"
    }


@pytest.mark.parametrize("label", [MUST, NICE, UNKNOWN, IGNORE])
@pytest.mark.parametrize(("arm", "depth"), [("vector", 7), ("hybrid", 7), ("bm25", 50)])
def test_explain_gold_below_the_depth_ignores_labels(desk: Any, arm: str, depth: int, label: str) -> None:
    """These arms have no tiers, so a label is never the reason."""
    said = [*many(8, NICE), graded("umbrella", label)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate")]))
    desk.judge("c/s1/t1#8", turn="c/s1/t2")
    (reason,) = explain_turn(desk, "c/s1/t2", arm, depth=depth).explained.reasons.values()
    assert reason.startswith(f"not among the first {depth} of this arm")


def test_explain_an_arm_that_injects_nothing_says_so(desk: Any) -> None:
    desk.say("c", ("global", [("user", "note", graded("umbrella", MUST)), ("user", "pears in crate")]))
    desk.judge("c/s1/t1#0", turn="c/s1/t2")
    (reason,) = explain_turn(desk, "c/s1/t2", "none").explained.reasons.values()
    assert reason == "the arm injects nothing, whatever there is"


@pytest.mark.parametrize("arm", ["tier_first_v1", "tier_quota_v1"])
def test_explain_disabled_tier_is_not_called_full(desk: Any, arm: str) -> None:
    config = desk.home / "config.json"
    config.write_text('{"autoRecall": {"includeUnknownFallback": false}}')
    desk.say("c", ("global", [("user", "note", graded("pears", UNKNOWN), graded("plums", NICE)), ("user", "pears")]))
    desk.judge("c/s1/t1#0", turn="c/s1/t2")
    result = explain_turn(desk, "c/s1/t2", arm, config=str(config))
    assert result.recall.injected == 1
    (reason,) = result.explained.reasons.values()
    assert "had filled all slots" not in reason
    assert "unknown" in reason


def test_explain_positions_are_ranks_within_the_tier(desk: Any) -> None:
    said = [*many(2, MUST), graded("pears in crate", NICE), graded("umbrella", NICE)]
    desk.say("c", ("global", [("user", "note", *said), ("user", "pears in crate")]))
    result = explain_turn(desk, "c/s1/t2", "tier_quota_v1")
    assert result.explained.standings["c/s1/t1#2"] == ("nice", 1, pytest.approx(2 / 61), 1, 1)
    assert result.explained.standings["c/s1/t1#3"] == ("nice", 2, pytest.approx(1 / 62), None, 2)
    assert {result.explained.standings[f"c/s1/t1#{place}"].tier for place in (0, 1)} == {"must"}
    assert result.visible == {MUST: 2, NICE: 2, IGNORE: 0, UNKNOWN: 0}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "orchard/s9/t1",
            "no recall happened at 'orchard/s9/t1'; recall points are, for instance, empty/s1/t1, orchard/s1/t1",
        ),
        ("orchard/s2", "recall points are, for instance, orchard/s2/t1, orchard/s2/t2"),
        ("orchard", "no recall happened at 'orchard'"),
        ("empty/s1/t2", "no recall happened at 'empty/s1/t2'; recall points are, for instance, empty/s1/t1"),
        (
            "cellar/s1/t1",
            "no recall happened at 'cellar/s1/t1'; recall points are, for instance, empty/s1/t1, orchard/s1/t1",
        ),
        (
            "orchards/s1/t1",
            "no recall happened at 'orchards/s1/t1'; recall points are, for instance, empty/s1/t1, orchard/s1/t1",
        ),
        ("", "no recall happened at ''; recall points are, for instance, empty/s1/t1, orchard/s1/t1"),
    ],
)
def test_explain_unknown_turn_names_known_ones(orchard: Any, key: str, message: str) -> None:
    run = orchard.run("recency").run
    with pytest.raises(UnusableInput, match=message):
        explain(run, key, "recency")


def test_explain_unknown_arm_names_known_ones(orchard: Any) -> None:
    run = orchard.run("recency", "none").run
    with pytest.raises(UnusableInput, match="has no arm 'vector'; it has: recency, none"):
        explain(run, "orchard/s1/t1", "vector")


@pytest.mark.parametrize("what", ["recording", "golden"])
def test_explain_changed_inputs_are_refused(orchard: Any, what: str) -> None:
    run = orchard.run("recency").run
    explain(run, "orchard/s1/t2", "recency")
    path = {"recording": next(orchard.folder.iterdir()), "golden": orchard.golden}[what]
    path.write_text(path.read_text() + "\n")
    with pytest.raises(UnusableInput, match="has changed since; replay it"):
        explain(run, "orchard/s1/t2", "recency")


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_explain_uses_the_configuration_in_the_manifest(orchard: Any, profile: str) -> None:
    config, own = orchard.home / "config.json", orchard.home / "own.json"
    config.write_text('{"autoRecall": {"maxItems": 3}}')
    own.write_text('{"autoRecall": {"maxItems": 2}, "lab": {"arm": "engine"}}')
    ours = ("recommended", "seed_full") if profile == "seed" else ()
    arms = ("recency", "random", "tier_quota_v1", f"mine={own}", *ours)
    run = orchard.run(*arms, config=str(config), profile=profile).run
    before = {arm: explain(run, "orchard/s1/t2", arm).recall for arm in run.arms}
    assert (before["recency"].injected, before["mine"].injected) == (3, 2)
    config.write_text('{"autoRecall": {"maxItems": 1}}')
    own.unlink()
    after = {arm: explain(run, "orchard/s1/t2", arm).recall for arm in run.arms}
    assert [(one.items, one.receipt) for one in after.values()] == [(one.items, one.receipt) for one in before.values()]


def test_explain_missing_recording_is_refused(orchard: Any) -> None:
    run = orchard.run("recency").run
    orchard.folder.rename(orchard.home / "elsewhere")
    with pytest.raises(UnusableInput, match="recordings: no such file or folder"):
        explain(run, "orchard/s1/t2", "recency")


def test_explain_does_not_change_the_run(orchard: Any, files_of: Any) -> None:
    run = orchard.run(*ARMS).run
    before = files_of(run.path)
    for arm in ARMS:
        explain(run, "orchard/s2/t2", arm)
    assert files_of(run.path) == before


def test_explain_probe_from_outside_accepts_any_id(desk: Any) -> None:
    desk.say("c", ("global", [("user", "pears", "pears are red")]))
    desk.judge("c/s1/t1#0", id="c/inside", conversation="c", query="pears")
    desk.judge("c/s1/t1#0", id="which-pears", conversation="c", query="pears")
    run = desk.run("none").run
    for key in ("c/inside", "which-pears"):
        result = explain(run, key, "none")
        assert (result.point.key, list(result.explained.reasons)) == (key, ["c/s1/t1#0"])


def test_explain_conversation_named_as_a_prefix_of_another_is_found(desk: Any) -> None:
    for name in ("a", "a b"):
        desk.say(name, ("global", [("user", f"pears of {name}", "pears are red"), ("user", "pears?")]))
    run = desk.run("recency").run
    for key in ("a/s1/t2", "a b/s1/t2"):
        result = explain(run, key, "recency")
        assert (result.point.key, [item.id for item in result.recall.items]) == (key, [key.replace("t2", "t1#0")])


@pytest.mark.parametrize(("scope", "strange"), [("none", ["another scope"]), ("recorded", [])])
def test_explain_marks_what_the_golden_set_and_the_recording_say(desk: Any, scope: str, strange: list[str]) -> None:
    green = "the pears are green", {"supersedes": ["c/s2/t1#0"]}
    desk.say(
        "c",
        ("farm", [("user", "pears", "the pears are blue")]),
        ("shop", [("user", "pears", "the pears are red", "the pears are old", "the PEARS are  old")]),
        ("shop", [("user", "pears", green), ("user", "the pears are?")]),
    )
    forbidden = [{"memory": "c/s2/t1#0", "reason": "-"}]
    desk.judge("c/s3/t1#0", turn="c/s3/t2", forbidden=forbidden)
    found = explain_turn(desk, "c/s3/t2", "recency", scope=scope)
    assert found.marks == {
        "c/s3/t1#0": ("relevant",),
        "c/s2/t1#2": (),
        "c/s2/t1#1": ("duplicate",),
        "c/s2/t1#0": ("misleading", "superseded"),
        **({"c/s1/t1#0": tuple(strange)} if strange else {}),
    }
    # A candidate that the arm avoided is marked as well.
    avoided = explain(desk.run("recency", out="one", scope=scope, max_items=1).run, "c/s3/t2", "recency")
    assert next(iter(avoided.marks)) == "c/s3/t1#0"
    assert avoided.marks["c/s2/t1#0"] == ("misleading", "superseded")
    assert "[misleading; superseded]" in explanation_text(avoided, with_text=False).partition("not injected")[2]
    text = explanation_text(found, with_text=False)
    assert "\n       [misleading; superseded]\n" in text
    assert "\n\nmisleading 1, injected 1\nrelevant 1, injected 1" in text
    assert ("[another scope]" in text) is bool(strange)
    value = explanation_json(found, with_text=False)
    assert (value["misleading"], value["marks"]["c/s2/t1#1"]) == (["c/s2/t1#0"], ["duplicate"])
    assert "c/s2/t1#2" not in value["marks"]


def test_explain_marks_a_superseded_memory_before_its_successor(desk: Any) -> None:
    green = "green", {"supersedes": ["c/s1/t1#0"]}
    desk.say(
        "c",
        ("shop", [("user", "pears", "pears pears pears are red"), ("user", "yes", green)]),
        ("shop", [("user", "pears are?")]),
    )
    # Without a golden set nothing is relevant or misleading.
    found = explain_turn(desk, "c/s2/t1", "bm25")
    assert found.marks["c/s1/t1#0"] == ("superseded, before or without its successor",)
    assert "misleading" not in explanation_text(found, with_text=False)
