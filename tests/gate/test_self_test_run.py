"""The self-test on a small replay: caught and uncaught faults, and A/A draws without failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.set_registry import shipped
from lab.gate.policy import read_policy
from lab.gate.selftest.faults import Fault, change, shipped_faults
from lab.gate.selftest.run import LAYERS, Clean, Report, Swapped, clean_run, judge_swaps, self_test
from lab.gate.selftest.sandbox import HERE, Replay, Sandbox, shipped_replays
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest

pytestmark = pytest.mark.slow

ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full")
FUSION = "lab.retrieval.fusion"
UNSEEN = Fault(
    "unseen", "Nothing, unseen.", (change("lab.systems.openclaw.recall_tool:memory_recall", "start", "pass"),)
)
SAME = Fault(
    "same", "A number spelt otherwise.", (change(FUSION, "K =", "it + 0"),), equivalent="it is the same number"
)
UNNOTED = Fault("unnoted", "The same, and nobody noted it.", (change(FUSION, "K =", "0 + it"),))


def _traps(conversations: tuple[str, ...] = ("kiln-room",)) -> Replay:
    asked = ReplayRequest(
        str(shipped("datasets", "traps")),
        "lab",
        ARMS,
        scope="recorded",
        conversation=conversations,
        embedder="hashing",
    )
    return Replay("traps", "one of the traps", asked)


def _operators(conversations: int) -> Replay:
    asked = ReplayRequest(
        *(str(shipped("datasets", "operators")), "lab", ARMS),
        scope="recorded",
        limit=conversations,
        golden=str(shipped("golden", "operators")),
        embedder="hashing",
    )
    return Replay("operators", "the first operators", asked)


@pytest.fixture(scope="module")
def report() -> Report:
    named = {fault.name: fault for fault in shipped_faults()}
    wanted = ("nice-floor-dropped", "time-leak", "escaping-off", "wildcard-not-counted", "does-not-import")
    faults = [*(named[name] for name in wanted), SAME, UNNOTED, UNSEEN]
    return self_test(faults, [_traps()], read_policy("nightly"), jobs=2, draws=20)


def test_self_test_layers_catch_their_faults(report: Report) -> None:
    layers = {one.fault.name: one.layers for one in report.trials}
    assert "exact" in layers["nice-floor-dropped"]
    assert "golden" in layers["nice-floor-dropped"]
    assert layers["wildcard-not-counted"] == ("exact",)
    assert layers["does-not-import"] == LAYERS
    broken = {one.fault.name: set(one.effects.broken) for one in report.trials}
    assert "Future" in broken["time-leak"]
    assert broken["escaping-off"] == {"Unescaped"}
    assert broken["wildcard-not-counted"] == set()


def test_self_test_verdict_follows_the_changes(report: Report) -> None:
    verdicts = {one.fault.name: (one.verdict, one.effects.rules) for one in report.trials}
    assert verdicts["wildcard-not-counted"] == ("fail", ("exact receipts",))
    assert "limit Unescaped" in verdicts["escaping-off"][1]
    assert verdicts["does-not-import"] == ("error", ())
    assert verdicts["same"] == verdicts["unnoted"] == ("pass", ())


def test_self_test_lists_uncaught_faults(report: Report) -> None:
    assert [one.fault.name for one in report.survivors] == ["same", "unnoted", "unseen"]
    assert all(one.effects.changed == 0 < one.effects.turns for one in report.survivors)
    # Known equivalent faults are excluded from the rate; others that change nothing count as missed.
    assert report.kill_rate == 5 / 7
    assert not report.passed
    assert [one.why for one in report.survivors] == [
        "Equivalent: it is the same number",
        "No reason is known.",
        "No replay loads systems/openclaw/recall_tool.py.",
    ]


def test_self_test_draws_of_equal_arms_never_fail(report: Report) -> None:
    assert report.draws.draws == 20
    assert len(report.draws.statuses) == 2
    assert report.draws.failed == 0


def test_self_test_compares_other_replays_if_recalls_of_one_fail() -> None:
    arms = (f"fallback={HERE / 'arms' / 'fallback.json'}",)
    fallback = replace(_traps(()).asked, arms=arms, scope="tags")
    replays = [_traps(), Replay("fallback", "scopes that hold no memory are fallbacks", fallback)]
    fault = next(fault for fault in shipped_faults() if fault.name == "unknown-scope-is-the-first")
    trial = self_test([fault], replays, read_policy("nightly"), draws=0).trials[0]
    assert trial.problem == "its run cannot be compared (Incomplete)"
    assert trial.effects.changed > 0
    assert trial.effects.turns == 41 * len(ARMS)


def test_draws_can_fail_and_are_deterministic(tmp_path: Path) -> None:
    run = run_replay(_operators(6).asked, tmp_path / "run").run
    clean: dict[str, Clean] = {"operators": clean_run(run.path)}
    pair = Swapped("operators", *ARMS[:2])
    nightly = read_policy("nightly")
    # One guard with a margin of 0 at the level of 50 %.
    rules = tuple(replace(rule, margin=0.0) for rule in nightly.rules if rule.measure == "RepeatRate")
    careless = replace(nightly, rules=rules, minimum_conversations=2, fail_level=0.49)
    found = judge_swaps(clean, [pair], careless, 16, 1)
    assert 0 < found.failed <= 16
    assert found == judge_swaps(clean, [pair], careless, 16, 1)
    assert found != judge_swaps(clean, [pair], careless, 16, 2)


def test_self_test_ends_a_hanging_fault(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, [_traps()], 3)
    sandbox.set_up(lambda _: None)
    forever = Fault("forever", "It never ends.", (change(f"{FUSION}:fuse", "start", "while True: pass"),))
    ended = sandbox.replay("forever", forever, sandbox.replays, tmp_path / "out")
    assert ended.problem in ("not finished after 3 s", "ended with -24")
    assert not (tmp_path / "copies" / "forever").exists()


def test_shipped_replays_can_be_planned() -> None:
    replays = shipped_replays("hashing")
    plans = {one.name: make_plan(one.asked) for one in replays if one.name != "traps"}
    assert {"operators", "working-set", "lancedb"} <= plans.keys()
    assert plans["working-set"].arms[0].config.upstream
    # Slow replays run only for faults in the files that they exercise.
    slow = {
        "lancedb": "lancedb-upside-down",
        "capture": "capture-stores-secrets",
        "capture-upstream": "capture-stores-secrets",
    }
    faults = {one.name: one for one in shipped_faults()}
    assert {one.name for one in replays if not one.applies_to(shipped_faults()[0])} == slow.keys()
    for one in replays:
        if one.name in slow:
            assert one.applies_to(faults[slow[one.name]])
