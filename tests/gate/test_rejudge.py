"""A stored verdict is an output: every reader judges its inputs again, and calls a policy what its content is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import dump_json
from lab.cli.main import app
from lab.gate.action import judge_command
from lab.gate.outputs import headline, junit, openmetrics, read_verdict, summary, write_verdict
from lab.gate.policy import Policy, read_policy
from lab.gate.rejudge import Stale, rejudge
from lab.gate.shipped import SHIPPED
from lab.gate.verdict import Verdict, judge
from lab.measures.score import score_and_write
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.report.message import message_at
from lab.report.sections import verdict_model
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest

BASELINE, CANDIDATE = "tier_first_v1", "tier_quota_v1"
POLICY = """name = "mine"
about = "x"
minimum_conversations = 2
rollback = "set it back"

[[limit]]
measure = "Future"
at_most = 0

[[limit]]
measure = "RepeatRate"
at_most = MOST
"""
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def judged(run: RunDirectory, tmp_path: Path) -> Path:
    """A copy of the run with a verdict: it fails."""
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    (tmp_path / "mine.toml").write_text(POLICY.replace("MOST", "0"), "utf-8")
    score_and_write(open_run(folder))
    verdict = judge(read_policy(str(tmp_path / "mine.toml")), open_run(folder))
    assert [line.status for line in verdict.lines] == ["pass", "fail"]
    write_verdict(verdict, folder)
    return folder


@pytest.fixture(scope="module")
def other(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose candidate repeats nothing."""
    asked = ReplayRequest(str(operators), "lab", (BASELINE, f"{CANDIDATE}"), embedder="hashing", max_items=1, limit=2)
    return run_replay(asked, tmp_path_factory.mktemp("other") / "run").run.path


def _edit(folder: Path, change: Edit) -> None:
    path = folder / "verdict.json"
    verdict = json.loads(path.read_bytes())
    change(verdict)
    path.write_bytes(dump_json(verdict))


def _passing(verdict: dict[str, Any]) -> None:
    verdict["status"] = verdict["lines"][1]["status"] = "pass"


def _delete_the_failed_rule(verdict: dict[str, Any]) -> None:
    verdict["status"] = "pass"
    del verdict["lines"][1]


EDITS: dict[str, tuple[Edit, str]] = {
    "the status": (lambda one: one.update(status="pass"), "its status pass does not follow from its rules"),
    "the status of a rule": (_passing, "its rule limit RepeatRate has status pass, and its inputs give fail"),
    "a value": (lambda one: one["lines"][1].update(candidate=0.0), "limit RepeatRate has candidate 0.0"),
    "a limit": (lambda one: one["lines"][1].update(limit="at most 1"), "limit RepeatRate has limit at most 1"),
    "the failed rule deleted": (_delete_the_failed_rule, "it has 1 rule, and its inputs give 2"),
    "the failed rule made advisory": (
        lambda one: (one.update(status="pass"), one["lines"][1].update(critical=False)),
        "limit RepeatRate has critical False",
    ),
    "the name of the policy": (lambda one: one.update(policy="rollout"), "its policy is rollout, and its inputs give"),
    "the rollback": (lambda one: one.update(rollback="do nothing"), "its rollback is do nothing"),
    "the candidate": (lambda one: one.update(candidate="hybrid"), "its candidate is hybrid"),
    "no digests": (lambda one: one.update(evidence=None), "does not record its policy and runs"),
    "the digest of the run": (lambda one: one["evidence"].update(run="0" * 64), "the run has changed since"),
    "the digest of the policy": (lambda one: one["evidence"].update(policy="0" * 64), "has changed since"),
    "a shipped policy claimed": (
        lambda one: (one.update(policy="rollout"), one["evidence"].update(policy_file=None)),
        "policy rollout has changed since",
    ),
    "another file of the policy": (
        lambda one: one["evidence"].update(policy_file="gone.toml"),
        "its policy gone.toml is not there",
    ),
    "a status of no kind": (lambda one: one["lines"][1].update(status="fine"), "its status fail does not follow"),
    "values of no kind": (lambda one: one["evidence"].update(others=5), "it cannot be judged again"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_verdict_is_stale_for_every_reader(judged: Path, edit: str) -> None:
    change, why = EDITS[edit]
    _edit(judged, change)
    with pytest.raises(Stale, match=re.escape(why)):
        rejudge(read_verdict(judged / "verdict.json"), judged)
    shown, stale = verdict_model(open_run(judged))
    assert shown is None
    assert why in str(stale)
    unchecked = edit in ("no digests", "another file of the policy")
    if unchecked:
        assert "[not checked: " in message_at(judged).title
    else:
        with pytest.raises(CannotMeasure, match="is stale") as refused:
            message_at(judged)
        assert refused.value.exit_code == 4


def test_page_shows_no_stale_verdict(judged: Path) -> None:
    _edit(judged, lambda one: one.update(status="pass"))
    said = CliRunner().invoke(app, ["report", str(judged)])
    why = "verdict.json is stale and is not shown: its status pass does not follow from its rules"
    page = (judged / "report.md").read_text("utf-8")
    assert why in page
    assert why in " ".join(said.stderr.split())
    assert "PASS" not in said.stdout + page


def test_verdict_of_another_run_is_stale(judged: Path, other: Path, tmp_path: Path) -> None:
    (tmp_path / "lax.toml").write_text(POLICY.replace("MOST", "1"), "utf-8")
    passing = judge(read_policy(str(tmp_path / "lax.toml")), open_run(other))
    assert passing.status == "pass"
    write_verdict(passing, judged)
    for path in (judged, judged / "verdict.json"):
        with pytest.raises(CannotMeasure, match="the run has changed since"):
            message_at(path)
    # With the digest of this run as well, its rules are not what this run gives.
    _edit(judged, lambda one: one["evidence"].update(run=open_run(judged).content))
    with pytest.raises(CannotMeasure, match="is stale: its rule"):
        message_at(judged)


def test_verdict_of_edited_receipts_is_stale(judged: Path) -> None:
    run = open_run(judged)
    first, second = map(run.receipts, run.conversations[:2])
    shutil.copyfile(first, second)
    with pytest.raises(CannotMeasure, match=r"is stale: .*damaged or altered"):
        message_at(judged)


def test_judgement_that_cannot_be_made_removes_the_earlier_verdict(judged: Path, tmp_path: Path) -> None:
    (judged / "verdict.prom").write_text("of somebody else", "utf-8")
    words = ["gate", str(judged), "--policy", str(tmp_path / "mine.toml")]
    # What is only mistyped leaves it.
    assert isinstance(CliRunner().invoke(app, [*words[:-1], "nowhere.toml"]).exception, UnusableInput)
    assert (judged / "verdict.json").exists()
    run = open_run(judged)
    shutil.copyfile(*map(run.receipts, run.conversations[:2]))
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, CannotMeasure)
    assert [path.name for path in judged.glob("verdict.*")] == ["verdict.prom"]


def test_verdict_without_its_run_is_marked(judged: Path, tmp_path: Path) -> None:
    verdict = tmp_path / "verdict"
    write_verdict(read_verdict(judged / "verdict.json"), verdict)
    assert "not checked" not in message_at(verdict).title
    shutil.rmtree(judged)
    assert f"[not checked: the judged run {judged} is not there any more]" in message_at(verdict).title


def test_sound_verdict_gives_the_same_one_after_its_run_has_moved(judged: Path, tmp_path: Path) -> None:
    stored = read_verdict(judged / "verdict.json")
    again = rejudge(stored, judged)
    assert (again.lines, again.status, headline(again)) == (stored.lines, stored.status, headline(stored))
    moved = tmp_path / "moved"
    judged.rename(moved)
    (tmp_path / "mine.toml").rename(moved / "mine.toml")
    assert rejudge(stored, moved).lines == stored.lines


def test_verdict_against_another_run_needs_it(judged: Path, run: RunDirectory, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    verdict = judge(read_policy("nightly"), open_run(judged), against=open_run(other))
    assert rejudge(verdict, judged).lines == verdict.lines
    shutil.rmtree(other)
    with pytest.raises(Stale, match="other, the run that it was compared with, is not there any more"):
        rejudge(verdict, judged)


# Whose policy it is.


def _shipped(tmp_path: Path, change: Callable[[str], str] = str, name: str = "rollout.toml") -> Path:
    path = tmp_path / name
    path.write_text(change((SHIPPED / "nightly.toml").read_text("utf-8")), "utf-8")
    return path


def _without_a_rule(text: str) -> str:
    kept = text.split("[[")
    return "[[".join(kept[:-1])


LAX: dict[str, Callable[[str], str]] = {
    "a wider margin": lambda text: text.replace("margin = 0.02", "margin = 0.4", 1),
    "a rule dropped": _without_a_rule,
    "another case": lambda text: text.replace('name = "nightly"', 'name = "Nightly"'),
    "a blank": lambda text: text.replace('name = "nightly"', 'name = "nightly "'),
    "another letter": lambda text: text.replace('name = "nightly"', 'name = "n\u0456ghtly"'),
    "another level": lambda text: "level = 0.4\n" + text,
}


def _said(verdict: Verdict) -> list[str]:
    """Everything that names the policy of a verdict."""
    return [
        headline(verdict),
        summary(verdict),
        junit(verdict).decode(),
        openmetrics(verdict),
        json.dumps(verdict.as_json()["policy"]),
    ]


@pytest.mark.parametrize("kind", LAX)
@pytest.mark.parametrize("name", ["nightly.toml", "nightly"])
def test_policy_that_calls_itself_a_shipped_one_is_named_by_its_file(
    run: RunDirectory, tmp_path: Path, kind: str, name: str
) -> None:
    path = _shipped(tmp_path, LAX[kind], name)
    assert path.read_text("utf-8") != (SHIPPED / "nightly.toml").read_text("utf-8")
    policy = read_policy(str(path))
    label = f"{name} (sha256 {policy.key[:8]}, not a shipped policy)"
    verdict = judge(policy, run)
    assert verdict.policy == label
    for text in _said(verdict):
        assert label in text
        assert not re.search(r"nightly[,\"<;]", text.replace(label, ""))


def test_copy_of_a_shipped_policy_is_that_policy(run: RunDirectory, tmp_path: Path) -> None:
    path = _shipped(tmp_path, lambda text: f"# a comment\n{text}", "copied.toml")
    assert judge(read_policy(str(path)), run).policy == judge(read_policy("nightly"), run).policy == "nightly"


def test_pages_name_the_file_of_a_policy(judged: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(POLICY.replace("MOST", "1").replace("mine", "rollout"), "utf-8")
    policy = read_policy(str(tmp_path / "mine.toml"))
    write_verdict(judge(policy, open_run(judged)), judged)
    label = f"mine.toml (sha256 {policy.key[:8]}, not a shipped policy)"
    build_report(open_run(judged))
    for page in ("report.html", "report.md"):
        assert label in (judged / page).read_text("utf-8")
    assert message_at(judged).title.startswith(f"PASS: gate {label}, {CANDIDATE} against {BASELINE}")


@pytest.mark.parametrize("with_control", [False, True])
def test_another_pair_is_judged_by_the_same_rules(
    run: RunDirectory, three: RunDirectory, tmp_path: Path, with_control: bool
) -> None:
    folder = tmp_path / "run"
    shutil.copytree((three if with_control else run).path, folder)
    score_and_write(open_run(folder))
    words = ["gate", str(folder), "--candidate", BASELINE, "--baseline", CANDIDATE]
    assert CliRunner().invoke(app, words).exit_code in (0, 1, 3)
    verdict = read_verdict(folder / "verdict.json")
    assert verdict is not None
    assert (verdict.candidate, verdict.baseline) == (BASELINE, CANDIDATE)
    assert verdict.policy == f"rollout (another pair{'' if with_control else ', without hybrid'})"
    assert (verdict.control is not None) == with_control
    # Each difference is that of the policy's own pair, turned.
    policy = read_policy("rollout")
    own = judge(policy if with_control else _without_control(policy), open_run(folder))
    turned = {line.name: line for line in own.lines if line.against is None}
    compared = [line for line in verdict.lines if line.difference is not None and line.against is None]
    assert compared
    assert all(line.difference == pytest.approx(-(turned[line.name].difference or 0)) for line in compared)
    # A reader finds the policy and the pair again.
    assert rejudge(verdict, folder).policy == verdict.policy
    command = judge_command(verdict, "run")
    assert command == f"lab gate run --policy rollout --candidate {BASELINE} --baseline {CANDIDATE}"


def _without_control(policy: Policy) -> Policy:
    rules = tuple(rule for rule in policy.rules if rule.against != "control" and rule.kind != "worth")
    return replace(policy, control=None, rules=rules)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--candidate", "none"), "has no arm 'none'"),
        (("--baseline", BASELINE, "--against", "DIR"), "with --against, the candidate is compared with the arm"),
    ],
)
def test_another_pair_that_is_not_there_is_refused(judged: Path, words: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["gate", str(judged), *(str(judged) if word == "DIR" else word for word in words)])
    assert message in str(done.exception)
