"""Memories of other conversations that a replay adds to a conversation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import OtherArguments, UnusableInput
from lab.base.set_registry import DEMO, shipped
from lab.golden.files import golden_bytes, read_golden
from lab.golden.lint import lint
from lab.golden.model import GoldenSet, Judgement, Probe, is_added, original_key
from lab.measures.score import score_run, summarise
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.readers import read_library
from lab.replay import plan as plan_module
from lab.replay.explain import explain
from lab.replay.haystack import Supply, TooFew, fill, with_haystack
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.systems.openclaw.near_duplicate import says_the_same

DAY = 86_400_000
SHIPPED = shipped("datasets", "operators")


def turn(seq: int, conversation: str) -> Turn:
    return Turn(f"{conversation}/t{seq}", seq, f"{conversation}/s", "user", f"turn {seq}", seq * DAY)


def made(key: str, text: str = "tea at four", visible_from: int = 0, **options: Any) -> Memory:
    return Memory(key, text, text, visible_from, visible_from * DAY, **options)


def recording(name: str, turns: Sequence[Turn], memories: Sequence[Memory]) -> Recording:
    return Recording(name, tuple(turns), tuple(memories))


def plan_of(path: Path, format_name: str = "lab", **options: Any) -> Plan:
    return make_plan(ReplayRequest(str(path), format_name, ("none",), embedder="hashing", **options))


def added(one: Recording) -> list[Memory]:
    return [memory for memory in one.memories if is_added(memory.key)]


def joined(host: Recording, *others: Recording, number: int, seed: int = 0) -> Recording:
    return with_haystack([host], [Supply("", [host, *others])], number, seed, Path("set"))[0][0]


def conversation(name: str, texts: Sequence[str], turns: int = 10, **options: Any) -> Recording:
    """A conversation with one memory for each text, created one turn after the other from the start."""
    memories = [made(f"{name}/m{n}", text=text, visible_from=n, **options) for n, text in enumerate(texts)]
    return recording(name, [turn(n, name) for n in range(turns)], memories)


@pytest.mark.parametrize(
    ("data", "form", "number"), [("operators", "lab", 200), ("realmem", "realmem", 400), ("locomo", "locomo", 400)]
)
def test_haystack_of_every_format_holds_memories_of_others(
    data: str, form: str, number: int, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(data)
    own = {one.conversation: one for one in read_library(path, form).recordings}
    plan = plan_of(path, form, haystack=number)
    assert plan.haystack is not None
    assert {name: counts.added for name, counts in plan.haystack.conversations.items()} == dict.fromkeys(own, number)
    for host in plan.recordings:
        haystack = added(host)
        assert len({memory.key for memory in haystack}) == number
        assert [memory for memory in host.memories if memory not in haystack] == list(own[host.conversation].memories)
        births = [memory.visible_from for memory in host.memories]
        assert births == sorted(births)
        times = [memory.created_at for memory in host.memories]
        assert times == sorted(times)
        assert {memory.scope for memory in haystack} <= {memory.scope for memory in own[host.conversation].memories}
        for one in haystack:
            source = own[original_key(one.key).split("/")[0]]
            assert source.conversation != host.conversation
            original = next(other for other in source.memories if other.key == original_key(one.key))
            assert (one.text, one.label, one.category) == (original.text, original.label, original.category)
            # The relative position, to within a turn.
            place, expected = one.visible_from / len(host.turns), original.visible_from / len(source.turns)
            assert expected - 1 / len(host.turns) < place <= max(expected, 1 / len(host.turns))


def test_haystack_smaller_is_a_subset_and_seeds_differ(operators: Path) -> None:
    def keys(number: int, seed: int = 0) -> list[set[str]]:
        return [{one.key for one in added(host)} for host in plan_of(operators, haystack=number, seed=seed).recordings]

    few, many, other = keys(50), keys(200), keys(50, seed=1)
    assert all(small < large for small, large in zip(few, many, strict=True))
    assert keys(50) == few
    assert all(one != another for one, another in zip(few, other, strict=True))
    # No two hosts are given the same sample.
    assert len({frozenset(one) for one in few}) == len(few)


def test_haystack_leaves_out_near_duplicates_and_hard_rules() -> None:
    host = conversation("host", ["The staging server listens on port 8080.", "Deploys happen on Fridays."])
    other = conversation(
        "other",
        [
            "the staging server listens on port 8080",
            "Deploys happen on Fridays. So said Mara.",
            "[HARD] Never deploy on Mondays.",
            "Mara brews the coffee.",
            "Mara  brews the coffee!",
            "The roof leaks in April.",
        ],
    )
    (one,), counts = with_haystack([host], [Supply("", [host, other])], 2, 0, Path("set"))
    assert {memory.text for memory in added(one)} >= {"The roof leaks in April."}
    assert not any(says_the_same(memory.text, own.text) for memory in added(one) for own in host.memories)
    said = r"haystack 3: set supplies at most 2 .*without 3 near-duplicates and 1 hard rule\)"
    with pytest.raises(TooFew, match=said) as few:
        joined(host, other, number=3)
    assert few.value.most == 2
    assert counts["host"].added == 2


def test_haystack_recorded_hard_rule_is_not_added() -> None:
    rules = conversation("other", ["Always answer in French."], hard_rule=True)
    with pytest.raises(TooFew, match="at most 0"):
        joined(conversation("host", ["Tea is at four."]), rules, number=1)


def test_haystack_scopes_are_those_of_the_host_in_turn() -> None:
    host = recording(
        "host",
        [turn(n, "host") for n in range(4)],
        [made("host/a", scope="red"), made("host/b", text="b", scope="blue", visible_from=1)],
    )
    others = [
        conversation(f"c{number}", [f"{word} {number} stands alone" for word in ("elm", "oak", "fir")], scope="own")
        for number in range(4)
    ]
    one = joined(host, *others, number=12)
    assert Counter(memory.scope for memory in added(one)) == {"red": 6, "blue": 6}
    # Memories that share a scope still share one.
    assert all(
        len({memory.scope for memory in added(one) if memory.key.startswith(f"haystack:c{number}/")}) == 1
        for number in range(4)
    )


def test_haystack_keeps_updates_and_deletions_at_their_place() -> None:
    host = conversation("host", ["tea at four"], turns=100)
    turns = [turn(n, "other") for n in range(10)]
    memories = [
        made("other/a", text="the key is red", visible_from=1, visible_until=5),
        made("other/b", text="the lock is blue", visible_from=3, supersedes=("other/a",)),
    ]
    old, new = sorted(added(joined(host, recording("other", turns, memories), number=2)), key=lambda one: one.key)
    assert (old.visible_from, old.visible_until, new.visible_from) == (10, 50, 30)
    assert new.supersedes == (old.key,) == ("haystack:other/a",)
    assert host.turns[9].time_ms <= old.created_at <= host.turns[10].time_ms


def test_haystack_prefers_conversations_in_a_language_of_the_host() -> None:
    host = replace(conversation("host", ["tea"]), language="zh")
    english = conversation("english", [f"{word} in the garden" for word in ("elm", "oak", "fir")])
    chinese = replace(conversation("chinese", ["花園裡的榆樹", "港口今天關閉"]), language="zh+en")
    keys = {memory.key for memory in added(joined(host, english, chinese, number=2))}
    assert keys == {"haystack:chinese/m0", "haystack:chinese/m1"}
    assert len(added(joined(host, english, chinese, number=5))) == 5


def test_haystack_key_that_the_host_has_already_is_an_error() -> None:
    host = recording("host", [turn(0, "host")], [made("haystack:other/m0", text="mine")])
    with pytest.raises(UnusableInput, match="memory 'haystack:other/m0' has a key of the haystack"):
        joined(host, conversation("other", ["another text"]), number=1)


def test_sampled_labels_and_hard_rules_of_the_haystack(operators: Path) -> None:
    plain = plan_of(operators, labels="sampled", haystack=0)
    own = {key: label for one in plain.recordings for key, label in plain.labels_of(one).items()}
    plan = plan_of(operators, labels="sampled", haystack=100, hard_rules=3)
    for one in plan.recordings:
        labels = plan.labels_of(one)
        assert {key: labels[key] for key in labels if is_added(key)} == {
            key: own[original_key(key)] for key in labels if is_added(key)
        }
        rules = [memory.key for memory in plan.memories_of(one) if memory.hard_rule]
        assert len(rules) >= 3
        assert not any(map(is_added, rules))


def test_haystack_from_another_set_fills_what_is_missing(operators: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("two-desks", "orchid-lab"):
        (few / f"{name}.jsonl").write_bytes((operators / f"{name}.jsonl").read_bytes())
    with pytest.raises(TooFew, match=r"add another set with --haystack-from SET\[:FORMAT\]") as error:
        plan_of(few, haystack=200)
    with pytest.raises(TooFew, match=f"haystack 90000: {few} and operators supply at most "):
        plan_of(few, haystack=90_000, haystack_from=(str(operators),))
    plan = plan_of(few, haystack=200, haystack_from=(f"{operators}:lab",))
    assert plan.haystack is not None
    assert list(plan.haystack.sets) == ["operators"]
    for one in plan.recordings:
        sources = Counter(memory.key.count(":") for memory in added(one))
        assert sources.total() == 200
        # The set's own memories come first: at least as many as all conversations can be given.
        assert sources[1] >= error.value.most
        assert plan.haystack.conversations[one.conversation].from_other_sets == sources[2]
        # Its own conversations are in the other set too, so its memories there are near-duplicates.
        assert not any(f":{one.conversation}/" in memory.key for memory in added(one))
    for given, said in (
        ((str(few),), "is the set that is replayed"),
        ((str(operators), str(operators)), "another set is also called 'operators'"),
        ((f"{tmp_path}/none:lab",), "no such file or folder"),
    ):
        with pytest.raises(UnusableInput, match=said):
            plan_of(few, haystack=200, haystack_from=given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"haystack": -1}, "haystack -1 is not a whole number from 0"),
        ({"haystack_from": ("shipped:traps",)}, "give its size with --haystack"),
    ],
)
def test_unusable_haystack_options_are_refused(operators: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UnusableInput, match=said):
        plan_of(operators, **options)


def test_haystack_of_replaced_memories_is_refused(operators: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    store.write_text(json.dumps({"id": "a", "text": "tea", "createdAt": 1}) + "\n")
    with pytest.raises(UnusableInput, match="and --memories-from replaces them"):
        make_plan(ReplayRequest(str(operators), "lab", ("none",), haystack=5, memories_from=str(store)), judged=False)
    with pytest.raises(UnusableInput, match="and --source captured replaces them"):
        make_plan(ReplayRequest(str(operators), "lab", ("verbatim",), haystack=5, source="captured"))


def test_shipped_set_has_a_haystack_of_400_by_default() -> None:
    plan = plan_of(SHIPPED)
    assert plan.haystack is not None
    assert plan.haystack.memories == 400
    assert all(len(added(one)) == 400 for one in plan.recordings)
    # The conversations of the demo come first, so that its figures stay the same when conversations are added.
    assert {original_key(memory.key).split("/")[0] for one in plan.recordings for memory in added(one)} == set(DEMO)
    assert plan_of(SHIPPED, haystack=0).haystack is None
    # A copy, or one conversation of it, is another set.
    assert plan_of(SHIPPED / "two-desks.jsonl").haystack is None
    captured = make_plan(ReplayRequest(str(SHIPPED), "lab", ("verbatim",), source="captured", embedder="hashing"))
    assert captured.haystack is None


def test_random_arm_rarely_hits_the_shipped_set_by_default(tmp_path: Path) -> None:
    """The criterion of the haystack: at 400, six random memories hit at most once in twenty turns."""
    run = run_replay(
        ReplayRequest(str(SHIPPED), "lab", ("random",), recall_turns="none", embedder="hashing"), tmp_path / "run"
    ).run
    means = summarise(score_run(run), read_gold(run), run.arms)["arms"]["random"]["measures"]
    assert means["Success@6"] <= 0.05


def test_manifest_records_the_haystack_and_resume_refuses_another(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(str(operators), "lab", ("hybrid",), embedder="hashing", limit=2, haystack=50)
    run = run_replay(request, tmp_path / "run").run
    recorded = run.manifest.resolved.haystack
    assert recorded is not None
    assert (recorded.memories, recorded.seed) == (50, 0)
    assert {name: counts.added for name, counts in recorded.conversations.items()} == dict.fromkeys(
        run.conversations, 50
    )
    assert run_replay(request, tmp_path / "run").skipped == tuple(run.conversations)
    for other in (0, 49):
        with pytest.raises(OtherArguments, match="different arguments: haystack"):
            run_replay(replace(request, haystack=other), tmp_path / "run")


def without_haystack(golden: GoldenSet) -> GoldenSet:
    """The shipped set judges memories of conversations that the copy of the tests does not have."""
    return GoldenSet(
        tuple(
            replace(
                probe,
                relevant=tuple(one for one in probe.relevant if not is_added(one.memory)),
                forbidden=tuple(one for one in probe.forbidden if not is_added(one.memory)),
                irrelevant=(),
            )
            for probe in golden.probes
        )
    )


def test_golden_set_may_judge_memories_of_the_haystack(operators: Path) -> None:
    golden = without_haystack(read_golden(operators.parents[1] / "golden" / operators.name))
    library = read_library(operators, "lab")
    host = plan_of(operators, haystack=100).recordings[0]
    seen = next(memory for memory in added(host) if memory.visible_from < 5)
    probe = next(one for one in golden.of(host.conversation) if one.relevant)

    def judged(key: str) -> GoldenSet:
        changed = replace(probe, forbidden=(*probe.forbidden, Judgement(key, 1, "misleads")))
        return GoldenSet(tuple(changed if one is probe else one for one in golden.probes))

    assert lint(judged(seen.key), library.recordings).errors == ()
    for wrong in ("haystack:nowhere/s01/t01#0", f"haystack:{host.memories[0].key}", "haystack:"):
        (error,) = lint(judged(wrong), library.recordings).errors
        assert f"names memory {wrong!r}, which the recording does not have" in error


def test_judgement_of_a_memory_that_was_not_added_is_dropped(operators: Path, tmp_path: Path) -> None:
    full = plan_of(operators, haystack=100)
    host = full.recordings[0]
    last = added(host)[-1]
    probe = Probe("extra", host.conversation, None, "Which one?", (Judgement(last.key, 1, "names it"),))
    path = tmp_path / "golden.jsonl"
    path.write_bytes(golden_bytes([probe]))
    graded = {
        number: plan_of(operators, golden=str(path), haystack=number).probes(host)[0].grades for number in (0, 100)
    }
    assert graded == {0: {}, 100: {last.key: 1}}


def test_explain_fills_only_the_haystack_of_its_conversation(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("harbor-release", "tea-mountain", "two-desks")
    request = ReplayRequest(str(operators), "lab", ("bm25",), embedder="hashing", haystack=20, conversation=names)
    run = run_replay(request, tmp_path / "run").run
    hosts: list[list[str]] = []

    def noted(given: Sequence[Recording], *more: Any) -> Any:
        hosts.append([host.conversation for host in given])
        return fill(given, *more)

    monkeypatch.setattr(plan_module, "fill", noted)
    whole = plan_module.plan_of(run)
    expected = explain(run, "two-desks/s01/t01", "bm25", whole)
    assert len(added(whole.recordings[2])) == 20
    found = explain(run, "two-desks/s01/t01", "bm25")
    assert hosts == [[*names], ["two-desks"]]
    assert (found.recall.items, found.texts, found.visible) == (expected.recall.items, expected.texts, expected.visible)
    # A shortened key may be of any conversation.
    with pytest.raises(UnusableInput, match="no recall happened at 's99/t01'"):
        explain(run, "s99/t01", "bm25")
    assert hosts[2:] == [[*names]]


def test_explain_refuses_another_haystack_than_that_of_the_run(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ReplayRequest(
        str(operators), "lab", ("bm25",), embedder="hashing", haystack=20, conversation=("two-desks",)
    )
    run = run_replay(request, tmp_path / "run").run
    other = replace(request, haystack=21)
    monkeypatch.setattr(ReplayRequest, "of_manifest", lambda _: other)
    with pytest.raises(UnusableInput, match="has changed since"):
        explain(run, "two-desks/s01/t01", "bm25")
