"""Verdicts: by interval against margin, and never a pass where nothing was shown."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from lab.compare.paired import Difference
from lab.compare.statistics import clustered
from lab.gate.outputs import junit, openmetrics, summary, workflow_commands
from lab.gate.policy import Policy, Rule
from lab.gate.verdict import ERROR, FAIL, INCONCLUSIVE, PASS, Line, Verdict, _line, overall

POLICY = Policy("mine", "what it means", "old", "new", 4, ())
GUARD = Rule("guard", "Success@6", margin=0.02)


def difference(mean: float, spread: float, conversations: int = 8, **more: float) -> Difference:
    values = {str(number): [mean + spread * (-1) ** number * (1 + number // 2)] * 5 for number in range(conversations)}
    found = clustered(values)
    return Difference(
        "Success@6", 5 * conversations, conversations, 0.5, 0.5 + found.mean, found, 0.5, more.get("p_holm"), 1, 2, 3
    )


@pytest.mark.parametrize(
    ("rule", "found", "status"),
    [
        (GUARD, difference(0.0, 0.001), PASS),
        (GUARD, difference(-0.015, 0.0001), PASS),
        (GUARD, difference(-0.1, 0.001), FAIL),
        (GUARD, difference(0.0, 0.1), INCONCLUSIVE),
        (GUARD, difference(0.5, 0.001, conversations=3), INCONCLUSIVE),
        (replace(GUARD, direction="lower"), difference(0.1, 0.001), FAIL),
        (replace(GUARD, direction="lower"), difference(-0.1, 0.001), PASS),
        (Rule("improve", "Success@6", by=0.05), difference(0.1, 0.001), PASS),
        (Rule("improve", "Success@6", by=0.05), difference(0.1, 0.001, p_holm=0.06), INCONCLUSIVE),
        (Rule("improve", "Success@6", by=0.05), difference(0.01, 0.001), FAIL),
        (Rule("improve", "Success@6", by=0.05), difference(0.05, 0.01), INCONCLUSIVE),
        (Rule("limit", "Success@6", at_most=0.6), difference(0.05, 0.3), PASS),
        (Rule("limit", "Success@6", at_most=0.5), difference(0.05, 0.3, conversations=2), FAIL),
        (Rule("limit", "Success@6", at_least=0.6), difference(0.05, 0.3, conversations=2), FAIL),
        (GUARD, None, ERROR),
        (replace(GUARD, must_have_data=False), None, PASS),
    ],
)
def test_a_rule_is_judged_by_its_interval(rule: Rule, found: Difference | None, status: str) -> None:
    line = _line(rule, found, POLICY)
    assert line.status == status, line.reason
    assert line.reason.startswith("Success@6: ")
    # Whatever is inconclusive says what would settle it, but for a claim that Holm's correction holds back.
    if status == INCONCLUSIVE and not (found and found.p_holm):
        assert line.settles


def test_what_would_settle_it_does() -> None:
    line = _line(GUARD, difference(0.0, 0.05), POLICY)
    assert line.status == INCONCLUSIVE
    more = int(str(line.settles).split()[1])
    # So many more conversations make the interval so much narrower.
    assert _line(GUARD, difference(0.0, 0.05 / np.sqrt((8 + more) / 8)), POLICY).status == PASS
    assert _line(GUARD, difference(0.0, 0.05 / np.sqrt((8 + more / 2) / 8)), POLICY).status == INCONCLUSIVE


@pytest.mark.parametrize("states", list(itertools.product((PASS, INCONCLUSIVE, FAIL, ERROR), repeat=2)))
def test_the_gravest_critical_line_decides(states: tuple[str, str]) -> None:
    lines = [Line("guard", "R@6", state, True, "why") for state in states]
    told = [Line("guard", "R@6", ERROR, False, "why")]
    order = [PASS, INCONCLUSIVE, FAIL, ERROR]
    assert overall([*lines, *told]) == max(states, key=order.index)
    assert overall(told) == ERROR


LINES = (
    Line("guard", "Success@6", PASS, True, "fine", difference=0.1),
    Line("guard", "R@6", FAIL, True, 'worse & <b>"|', difference=-0.5),
    Line("guard", "P@6", INCONCLUSIVE, True, "open", "40 more"),
    Line("limit", "WrongScope", ERROR, True, "nothing\nthere"),
    Line("limit", "Jaccard", FAIL, False, "told"),
)
VERDICT = Verdict("mine", "what it means", "run", "old", "new", ERROR, LINES)


def test_junit_counts_what_it_holds() -> None:
    suite = ElementTree.fromstring(junit(VERDICT)).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "1", "errors": "1", "skipped": "2"
    }  # fmt: skip
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [[], ["failure"], ["skipped"], ["error"], ["skipped"]]
    assert 'worse & <b>"|.' in [child.get("message") for case in suite for child in case]


def test_openmetrics_ends_as_it_must_and_has_a_sample_a_rule() -> None:
    text = openmetrics(VERDICT)
    assert text.endswith("# EOF\n")
    assert text.count("lab_gate_rule{") == 5
    assert 'lab_gate_verdict{policy="mine",lab_gate_verdict="error"} 1\n' in text
    assert 'lab_gate_difference{policy="mine",rule="guard",measure="R@6"} -0.5\n' in text


def test_a_summary_breaks_no_table_and_a_workflow_command_no_line() -> None:
    assert 'worse &amp; &lt;b&gt;"\\|.' in summary(VERDICT)
    commands = list(workflow_commands(VERDICT))
    assert [one.split(" ")[0] for one in commands] == ["::error", "::warning", "::error", "::warning"]
    assert all("\n" not in one for one in commands)
    assert "nothing%0Athere" in commands[2]
