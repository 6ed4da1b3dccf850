"""Why a verdict is what it is, and the one thing to do next, with a command that names no path of a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.base.set_registry import shipped
from lab.gate.action import action_of, why
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.policy import read_policy
from lab.gate.verdict import Inputs, Verdict, judge
from lab.replay.command import arguments, portable, replay_command
from lab.runs.directory import RunDirectory

HARM = Line("guard", "Forbidden@6", FAIL, True, "Forbidden@6: worse", baseline=0.119, candidate=0.441)
OPEN = Line(
    *("guard", "CleanHit@6", INCONCLUSIVE, True, "CleanHit@6: 0.4 against 0.4"),
    settles="about 104 more conversations like these, if the observed difference is true (80 % power)",
    **dict.fromkeys(("baseline", "candidate", "difference", "low", "high"), 0.4),
)
FEW = Line(
    *("guard", "Success@6", INCONCLUSIVE, True, "Success@6: 3 conversations; the policy requires at least 8"),
    settles="5 more conversations",
)
BLIND = Line(
    *("guard", "HardRules", INCONCLUSIVE, True, "HardRules: there is nothing to measure: no memory is a hard rule"),
    settles="`lab replay --hard-rules N` samples N per conversation",
)
MISSING = Line("receipts", "errors.rate", ERROR, True, "errors.rate: needs an audit of receipts; add AUDIT")
GAIN = Line("improve", "GoldNice@6", PASS, True, "GoldNice@6: better", baseline=0.0, candidate=0.5)
KEPT = tuple(Line("guard", name, PASS, True, "kept") for name in ("Success@6", "nDCG@6", "RepeatRate", "R@6", "AP"))
ABOUT = "It recalls no less and brings more."
VERDICT = Verdict("rollout", ABOUT, "/home/me/run", "old", "new", FAIL, (HARM, FEW))
ASKED = {
    "path": str(shipped("datasets", "operators")),
    "format": "lab",
    "arms": ["tier_first_v1", "mine=/home/me/openclaw.json"],
    "golden": str(shipped("golden", "operators")),
    "conversation": ["choir-tour"],
    "cache": "~/cache/lab",
}


@pytest.mark.parametrize(
    ("status", "lines", "said"),
    [
        (FAIL, (HARM, OPEN), "a misleading memory is injected at 44% of the probes that have one, against 12%"),
        (PASS, (GAIN,), "the only critical rule holds: better in GoldNice@6"),
        (
            *(PASS, (GAIN, *KEPT)),
            "all 6 critical rules hold: better in GoldNice@6; shown to be no worse in Success@6, nDCG@6, RepeatRate",
        ),
        (
            *(INCONCLUSIVE, (FEW, replace(FEW, measure="R@6", reason=FEW.reason.replace("Success", "R")), OPEN)),
            "3 of 3 critical rules are open, 2 of them for one reason: 3 conversations; the policy requires at least 8",
        ),
        (
            *(INCONCLUSIVE, (OPEN, GAIN)),
            "1 of 2 critical rules is open: CleanHit@6 may be worse than the policy allows",
        ),
        (ERROR, (MISSING, FEW), "1 of 2 critical rules is not measured: needs an audit of receipts"),
    ],
)
def test_why_follows_from_the_lines_that_decide(status: str, lines: tuple[Line, ...], said: str) -> None:
    assert why(replace(VERDICT, status=status, lines=lines)).startswith(said)


def test_action_after_a_failure_keeps_the_baseline_and_shows_a_turn() -> None:
    assert action_of(VERDICT, turn="den/s01/t01") == (
        "Keep old. Then look at a turn that became worse.",
        "lab explain DIR den/s01/t01 --arm new --with-text",
    )
    assert action_of(VERDICT).command == "lab report DIR --baseline old --candidate new"
    since = replace(VERDICT, against="/home/me/before")
    assert action_of(since).command == "lab compare DIR --baseline DIR2:new --candidate new --all"


def test_action_after_a_broken_limit_shows_the_rules() -> None:
    broken = replace(VERDICT, lines=(Line("limit", "Future", FAIL, True, "Future: 1; at most 0"),))
    assert action_of(broken).command == "lab gate DIR --policy rollout"
    own = Inputs("0", None, {}, "/home/me/mine.toml")
    assert action_of(replace(broken, evidence=own)).command == "lab gate DIR --policy mine.toml"
    live = replace(broken, run=None, policy="stage-b")
    assert action_of(live).command == "lab gate AUDIT --policy stage-b"


def test_action_after_a_failure_rolls_back_or_does_not_roll_out() -> None:
    assert action_of(replace(VERDICT, rollback="set it back")).sentence == "Roll back: set it back."
    assert action_of(replace(VERDICT, against="/home/me/before")).sentence.startswith("Do not roll this change out.")


def test_action_of_an_open_verdict_asks_for_what_settles_it() -> None:
    verdict = replace(VERDICT, status=INCONCLUSIVE, lines=(FEW, OPEN, BLIND))
    said, command = action_of(verdict, ASKED)
    assert said == (
        "Replay more conversations: 2 of 3 open rules need 5 to about 104 more. They do not settle HardRules; the "
        "reasons say what does."
    )
    counted = replace(verdict, lines=(FEW, OPEN))
    assert action_of(counted).sentence == "Replay more conversations: the open rules need 5 to about 104 more."
    assert action_of(replace(verdict, lines=(FEW,))).sentence.endswith("the open rule needs 5 more.")
    # All conversations of the shipped set, because the run chose one.
    assert str(command).startswith("lab replay shipped:operators --format lab --arm tier_first_v1")
    assert str(command).endswith("--out DIR2")
    assert "choir-tour" not in str(command)
    elsewhere = action_of(verdict, ASKED | {"path": "/data/mine", "golden": "/data/gold", "conversation": []}).command
    assert str(elsewhere).startswith("lab replay MORE --format lab ")
    assert "--golden MORE_GOLDEN" in str(elsewhere)
    sampled = action_of(replace(verdict, lines=(BLIND,)), ASKED).command
    assert "--hard-rules 3" in str(sampled)


def test_action_without_a_judged_probe_is_to_judge_and_not_to_replay_more() -> None:
    why_not = "Success@6: not measurable here: no probe has relevant memories"
    unjudged = Line("guard", "Success@6", INCONCLUSIVE, True, why_not, unmeasured=True)
    act = action_of(replace(VERDICT, status=INCONCLUSIVE, lines=(unjudged, FEW)), ASKED)
    assert act.sentence == "No probe has relevant memories. Judge some turns, and replay with --golden."
    assert act.command == "lab golden pool RECORDINGS --format FORMAT --out POOL.jsonl"


def test_action_of_an_error_names_what_is_missing(run: RunDirectory) -> None:
    verdict = replace(VERDICT, status=ERROR, lines=(MISSING,), policy="stage-b")
    assert action_of(verdict).command == "lab gate DIR --policy stage-b AUDIT"
    # With a rollback, whether to roll back comes first; the command is the same.
    judged = judge(read_policy("stage-b"), run)
    said, command = action_of(judged, arguments(run.manifest))
    assert said.startswith("No live receipts were judged")
    assert command == "lab gate DIR --policy stage-b AUDIT"


def test_action_after_a_pass_names_the_next_step() -> None:
    assert action_of(replace(VERDICT, status=PASS, lines=(GAIN,))).command == ("lab gate AUDIT --policy stage-b")
    equal = replace(VERDICT, status=PASS, lines=(GAIN,), against="/home/me/before")
    assert action_of(equal).command == "lab nightly baseline approve DIR --name new"


def test_portable_arguments_hold_no_folder_of_a_machine() -> None:
    command = replay_command(portable(ASKED))
    assert command.startswith("lab replay shipped:operators --format lab")
    assert "mine=openclaw.json" in command
    assert "/home" not in command
    assert "--golden" not in command
    there = portable(ASKED | {"path": "/data/talks/locomo.json", "golden": r"C:\gold\locomo"})
    assert (there["path"], there["golden"]) == ("locomo.json", "locomo")
    assert portable(ASKED | {"path": "talks/realmem"})["path"] == "talks/realmem"
