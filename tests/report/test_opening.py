"""The first screen of a report: runs that no gate has judged, and the evidence beside a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.gate.action import Action
from lab.gate.line import PASS
from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.report.build import write_report
from lab.report.opening import NOT_JUDGED, opening_of
from lab.runs.directory import RunDirectory, open_run
from tests.commands import without_charts

MakeRun = Callable[..., RunDirectory]


@pytest.fixture(scope="module")
def six(make_run: MakeRun) -> RunDirectory:
    """The fewest conversations that policy nightly judges."""
    return make_run("den", "attic", "cellar", "kitchen", "hall", "shed", sessions=3)


def test_opening_of_an_unjudged_run_names_the_policy_of_its_arms(six: RunDirectory) -> None:
    opening = opening_of(six, None, None, None, 0)
    assert (opening.state, opening.word, opening.means) == (NOT_JUDGED, "NOT JUDGED", "no gate has judged this run")
    assert opening.subject == "tier_first_v1 alone"
    assert opening.action == Action("Let a policy judge this run.", "lab gate DIR --policy rollout")
    assert opening.sure == "No interval decides this."


def test_opening_of_other_arms_says_how_to_write_a_policy(make_run: MakeRun) -> None:
    opening = opening_of(make_run("den", arms=("hybrid", "bm25"), sessions=2), None, None, None, 0)
    assert opening.action == Action(
        "Write a policy for these arms, starting from the one that this command shows, and judge the run by it.",
        "lab gate policies --show rollout",
    )


@pytest.mark.parametrize(("is_host", "command"), [(True, "lab golden judge"), (False, "lab golden pool")])
def test_opening_without_judgements_orders_judging(
    six: RunDirectory, monkeypatch: pytest.MonkeyPatch, is_host: bool, command: str
) -> None:
    monkeypatch.setattr("lab.report.opening.read_gold", lambda _: {})
    monkeypatch.setattr("lab.report.opening.of_host", lambda _: is_host)
    action = opening_of(six, None, None, None, 0).action
    assert action.sentence.startswith("No turn is judged")
    assert str(action.command).startswith(command)


def test_opening_of_a_run_with_failed_recalls_says_that_no_gate_judges_it(six: RunDirectory) -> None:
    failed = RunDirectory(six.path, replace(six.manifest, failed={"tier_quota_v1": 2}), allow_failed=True)
    assert opening_of(failed, None, None, None, 0).action == Action(
        "Mend tier_quota_v1, and replay again: a gate judges no run with failed recalls."
    )


def test_evidence_of_identical_values_says_so(six: RunDirectory, copy_of: Callable[[RunDirectory], Path]) -> None:
    policy = replace(read_policy("nightly"), candidate="tier_quota_v1")
    verdict = judge(policy, six, against=open_run(copy_of(six)))
    assert verdict.status == PASS
    opening = opening_of(six, verdict, None, None, 0)
    assert opening.sure == "6 conversations: both arms have the same value wherever they were compared."
    # A rule that decides by an interval shows the interval in its place.
    (first, *others) = [line for line in verdict.lines if line.kind == "guard" and line.status == PASS]
    changed = replace(first, reason="better", low=-0.01, high=0.03, difference=0.01)
    lines = (changed, *others)
    assert "same value" not in opening_of(six, replace(verdict, lines=lines), None, None, 0).sure


def test_report_of_another_pair_is_titled_with_its_own(
    make_run: MakeRun, copy_of: Callable[[RunDirectory], Path]
) -> None:
    arms = ("tier_first_v1", "tier_quota_v1", "hybrid")
    run = open_run(copy_of(make_run("den", "attic", arms=arms, sessions=3)))
    (run.path.parent / "mine.toml").write_text(
        'name = "mine"\nabout = "no worse than without tiers"\n[comparison]\nbaseline = "hybrid"\n'
        'candidate = "tier_first_v1"\n[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n'
    )
    verdict = judge(read_policy(str(run.path.parent / "mine.toml")), run)
    write_verdict(verdict, run.path)

    with without_charts():
        # Without a pair, the report is about that of the verdict.
        own = write_report(run).opening
        assert (own.subject, own.state) == ("tier_first_v1 against hybrid", verdict.status)
        for names in (
            ("tier_first_v1", "tier_quota_v1"),
            ("hybrid", "tier_quota_v1"),
            ("tier_quota_v1", "tier_first_v1"),
        ):
            built = write_report(run, *names)
            base, candidate = names
            assert (built.opening.subject, built.opening.state) == (f"{candidate} against {base}", NOT_JUDGED)
            assert built.opening.action.sentence.startswith(
                f"The verdict of this run is on tier_first_v1 against hybrid (INCONCLUSIVE, policy {verdict.policy})."
            )
            page = built.files[0].read_text("utf-8")
            assert f"<h1>{candidate} against {base}</h1>" in page
            assert "<strong>NOT JUDGED</strong>" in page
