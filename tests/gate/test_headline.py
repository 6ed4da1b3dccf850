"""What a verdict says first: why it fails, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.cli.verdict_tables import emit_verdict
from lab.gate.action import action_of, why
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.outputs import by_status, headline, rollback, summary
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.verdict import Answer, Inputs, Verdict, judge
from lab.runs.directory import RunDirectory

ABOUT = "The new policy does no more harm."
HARM = Line("guard", "Forbidden@6", FAIL, True, "Forbidden@6: worse", baseline=0.119, candidate=0.441)
STALE = Line("guard", "StaleRecall", FAIL, True, "StaleRecall: worse", baseline=0.155, candidate=0.307)
GRAVE_LIMIT = Line("limit", "WrongScope", FAIL, True, "", candidate=0.25, limit="at most 0")
LINES = (
    HARM,
    Line("guard", "CleanHit@6", INCONCLUSIVE, True, "CleanHit@6: open"),
    Line("worth", "RepeatRate", FAIL, False, "RepeatRate: no", against="hybrid", baseline=0.2, candidate=0.3),
)
VERDICT = Verdict(
    *("rollout", ABOUT, "run", "old", "new", FAIL, LINES), control=Answer("hybrid", INCONCLUSIVE, "it is not shown")
)
FORBIDDEN = "a misleading memory is injected at 44% of the probes that have one, against 12% (Forbidden@6)"


def test_headline_of_a_failure_says_why_before_the_control() -> None:
    assert headline(VERDICT) == f"FAIL: rollout, new against old: {FORBIDDEN}; it is not shown"
    # With a rollback, what to do stands right below the decision.
    assert headline(replace(VERDICT, rollback="back")) == "NO-GO (fail): rollout, new against old; it is not shown"
    assert headline(replace(VERDICT, status=PASS, lines=())) == "PASS: rollout, new against old; it is not shown"


def test_headline_names_slices_controls_limits_and_how_many_more() -> None:
    lines = (
        replace(HARM, slice="type=todo"),
        replace(HARM, against="hybrid"),
        GRAVE_LIMIT,
        STALE,
        Line("guard", "InjectedChars", FAIL, True, "", baseline=100.0, candidate=900.0),
    )
    words = headline(replace(VERDICT, lines=lines)).split("; ")
    assert words[0].endswith("(Forbidden@6 [type=todo])")
    assert words[1].endswith("(Forbidden@6 against hybrid)")
    assert words[2:4] == ["WrongScope 0.25, where the policy requires at most 0", "and 2 more rules fail"]
    assert "InjectedChars 900 against 100" in headline(replace(VERDICT, lines=lines[4:]))


@pytest.mark.parametrize("status", [PASS, FAIL, INCONCLUSIVE, ERROR])
def test_what_a_policy_hopes_for_is_never_printed(status: str) -> None:
    verdict = replace(VERDICT, status=status)
    assert not [text for text in (headline(verdict), summary(verdict), why(verdict)) if ABOUT[:20] in text]


def test_banner_lists_critical_rules_before_advisory_ones() -> None:
    # As in the table of the rules: what cannot be measured is not merely open.
    blind = Line("guard", "HardRules", INCONCLUSIVE, True, "", unmeasured=True)
    assert by_status([*LINES, blind]) == [
        "Fails: guard Forbidden@6.",
        "Inconclusive: guard CleanHit@6.",
        "Not measurable here: guard HardRules.",
        "Advisory rules that fail: worth RepeatRate against hybrid.",
    ]


def test_rules_without_an_audit_share_one_status_and_ask_for_it(run: RunDirectory) -> None:
    verdict = judge(read_policy("stage-b"), run)
    statuses = {line.measure: line.status for line in verdict.lines if line.kind == "receipts"}
    assert set(statuses.values()) == {ERROR}
    assert {"must.share", "repeat.rate", "errors.rate"} <= set(statuses)
    said = str(rollback(verdict))
    assert said.startswith("No live receipts were judged: the policy needs an audit of receipts; add AUDIT.")


def test_rollback_leaves_out_the_selection_that_is_already_live(audit: dict[str, Any]) -> None:
    policy = read_policy("stage-b")
    alone = "for the selection policy alone, set autoRecall.selectionMode back to tier_first_v1"
    assert str(judge(policy, audit=audit).rollback).endswith(f"; {alone}")
    used = audit["recalls"]["receipts"]
    modes = {"tier_first_v1": {"count": used, "rate": 1.0}, "tier_quota_v1": {"count": 0, "rate": 0.0}}
    assert alone not in str(judge(policy, audit=audit | {"selection_mode": modes}).rollback)


def test_audit_beyond_the_most_recalls_is_noted(audit: dict[str, Any]) -> None:
    rule = Rule("receipts", "recalls.empty_rate", of="recalls.answered", at_most=1.0)
    answered = audit["recalls"]["answered"]
    policy = Policy("mine", ABOUT, "a", "b", 6, (rule,), maximum_receipts=answered)
    assert judge(policy, audit=audit).embedder == ()
    (note,) = judge(replace(policy, maximum_receipts=answered - 1), audit=audit).embedder
    assert note.startswith(f"{answered} answered recalls: the policy is meant for at most {answered - 1} at a time")
    assert read_policy("stage-b").maximum_receipts == 1000


def test_tables_keep_labels_and_intervals_whole_in_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shared: dict[str, Any] = {"baseline": 0.711, "candidate": 0.609, "confidence": 0.9}
    lines = (
        Line("guard", "InjectedChars", PASS, False, "", difference=-71.607, low=-83.57, high=-59.644, **shared),
        Line("guard", "RepeatRate", PASS, True, "", against="hybrid", difference=0.0, low=-0.006, high=0.007, **shared),
        *(
            Line(
                "slice", "Success@6", INCONCLUSIVE, False, "", difference=0.1, low=-0.1, high=0.3, slice=name, **shared
            )
            for name in ("type=cross_language", "type=wrong_scope_temptation")
        ),
    )
    emit_verdict(replace(VERDICT, lines=lines))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    assert "guard against hybrid" in printed
    assert "slice Success@6 by type" in printed
    rows = [line.split() for line in printed]
    assert ["InjectedChars", "(pass)", "0.711", "0.609", "-71.607", "-83.570", "…", "-59.644"] in rows
    for name in ("cross_language", "wrong_scope_temptation"):
        assert [name, "(inconclusive)", "0.711", "0.609", "+0.100", "-0.100", "…", "+0.300"] in rows


def test_command_on_the_terminal_names_the_policy_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A page names no folder; a command that is printed is run as it is printed."""
    verdict = replace(VERDICT, evidence=Inputs("0", None, {}, "deep/mine.toml"), lines=(GRAVE_LIMIT,))
    assert str(action_of(verdict).command).endswith("--policy mine.toml")
    emit_verdict(verdict)
    assert "--policy deep/mine.toml" in capsys.readouterr().out


def test_table_says_why_the_candidate_has_two_figures(capsys: pytest.CaptureFixture[str]) -> None:
    first = Line("guard", "RepeatRate", PASS, True, "", candidate=0.901, n=20)
    second = replace(first, against="hybrid", candidate=0.842, n=21)
    emit_verdict(replace(VERDICT, lines=(first, second)))
    assert "RepeatRate 0.901 over 20 and 0.842 over 21." in " ".join(capsys.readouterr().out.split())
    emit_verdict(replace(VERDICT, lines=(first, replace(second, candidate=0.901))))
    assert "differs by what" not in " ".join(capsys.readouterr().out.split())
