"""The page of a canary: the decision, and each figure with its limit beside that of a control."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.canary.audit.waits import Receipt, Span, bounded
from lab.gate.policy import read_policy
from lab.gate.sessions import course, decided_by
from lab.gate.verdict import Verdict, judge
from lab.report.canary import FILE, course_chart, write_page
from tests.commands import run_here
from tests.gate.shares import with_share

TAGS = re.compile(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", re.DOTALL)


def _judged(audit: dict[str, Any]) -> Verdict:
    return judge(read_policy("stage-b"), audit=audit)


def _words(page: Path) -> str:
    return " ".join(unescape(TAGS.sub(" ", page.read_text("utf-8"))).split())


def _failing(audit: dict[str, Any], rate: float) -> dict[str, Any]:
    """The audit with a share of 400 attempts that failed; the policy allows 2 %."""
    return with_share(audit, "errors.rate", rate, failed=round(400 * rate), attempts=400)


def _broken(audit: dict[str, Any]) -> dict[str, Any]:
    return _failing(audit, 0.1)


def test_page_says_the_decision_and_how_to_roll_back(audit: dict[str, Any], tmp_path: Path) -> None:
    broken = _broken(audit)
    verdict = _judged(broken)
    assert verdict.status == "fail"
    page = write_page(verdict, broken, tmp_path, None)
    words = _words(page)
    assert "NO-GO fail: a critical rule is shown to be broken" in words
    assert "Roll back: set plugins.slots.memory back" in words
    assert "errors.rate" in words
    assert "10.0 %" in words
    assert "at most 2.0 %" in words
    # Why has the units of the table.
    assert "Why errors.rate 10.0 %, where the policy requires at most 2.0 %." in words.replace("\u00a0", " ")
    assert '<div class="verdict fail">' in page.read_text("utf-8")
    # Without a control there is no column of one, and the page says how to get it.
    assert '<th scope="col">control</th>' not in page.read_text("utf-8")
    assert "lab gate AUDIT --control AUDIT2" in words


def test_control_stands_beside_the_canary(audit: dict[str, Any], tmp_path: Path) -> None:
    broken = _broken(audit)
    verdict = _judged(broken)
    page = write_page(verdict, broken, tmp_path, audit)
    text = page.read_text("utf-8")
    assert '<th scope="col">control</th>' in text
    row = next(row for row in text.split("<tr>")[1:] if ">errors.rate<" in row)
    assert [float(value) for value in re.findall(r'data-value="([^"]+)">', row)] == pytest.approx([0.1, 0.0])
    assert 'aria-label="canary 0.1, control 0"' in row
    assert "The control breaks these limits as well" not in text
    assert "NO-GO" in _words(page)


def test_limit_that_the_control_breaks_too_is_named(audit: dict[str, Any], tmp_path: Path) -> None:
    broken = _broken(audit)
    page = write_page(_judged(broken), broken, tmp_path, broken)
    assert re.search(r"The control breaks these limits as well: [^.]*errors\.rate", _words(page))


def test_what_the_control_breaks_as_well_is_not_the_fault_of_the_switch(audit: dict[str, Any]) -> None:
    broken, policy = _broken(audit), read_policy("stage-b")

    def status(control: dict[str, Any] | None) -> dict[str, str]:
        return {line.measure: line.status for line in judge(policy, audit=broken, control=control).lines}

    assert status(None)["errors.rate"] == status(audit)["errors.rate"] == "fail"
    assert status(broken)["errors.rate"] == "inconclusive"
    line = next(one for one in judge(policy, audit=broken, control=broken).lines if one.measure == "errors.rate")
    assert "the control breaks it as well, so the switch is not the cause" in line.reason
    # Answers that do not vary are what the switch is there to mend.
    stuck = {**audit, "repeat": {**audit["repeat"], "longest_streak": 99}}
    alike = {one.measure: one.status for one in judge(policy, audit=stuck, control=stuck).lines}
    assert alike["repeat.longest_streak"] == "fail"


def test_wait_rule_that_passes_has_a_row(audit: dict[str, Any], tmp_path: Path) -> None:
    def timed(slow: int) -> dict[str, Any]:
        receipts = [Receipt(1_000 * at + 20 + slow + at % 30, False) for at in range(300)]
        return audit | {"latency": bounded(receipts, [Span(1_000 * at, 1_000 * at + 999) for at in range(300)])}

    mine, other = timed(10), timed(0)
    verdict = judge(read_policy("stage-b"), audit=mine, control=other)
    assert next(line.status for line in verdict.lines if line.kind == "wait") == "pass"
    text = write_page(verdict, mine, tmp_path, other).read_text("utf-8")
    row = next(row for row in text.split("<tr>")[1:] if ">p95 of recalls in ms<" in row)
    shown = [float(value) for value in re.findall(r'data-value="([^"]+)">', row)]
    assert shown == [mine["latency"]["p95"]["high"]["value"], other["latency"]["p95"]["high"]["value"]]
    assert "at most 1.15 times the control's and 100 ms more" in unescape(row)


def test_sound_log_is_a_go(audit: dict[str, Any], tmp_path: Path) -> None:
    words = _words(write_page(_judged(audit), audit, tmp_path, None))
    assert "GO every critical rule is shown to hold" in words


def test_open_rule_is_inconclusive_and_says_how_many_more(audit: dict[str, Any], tmp_path: Path) -> None:
    close = _failing(audit, 0.01)
    verdict = _judged(close)
    assert verdict.status == "inconclusive"
    words = _words(write_page(verdict, close, tmp_path, None))
    assert "NO-GO YET inconclusive: too little evidence to decide" in words
    assert re.search(r"Keep the window open: about [\d,]+ more answered recalls", words)
    assert "lab canary audit LOG --out AUDIT && lab gate AUDIT --policy stage-b" in words


def test_page_shows_the_course_of_the_rule_that_decided(audit: dict[str, Any], tmp_path: Path) -> None:
    broken = _broken(audit)
    verdict = _judged(broken)
    words = _words(write_page(verdict, broken, tmp_path, None))
    by = decided_by(verdict.lines, verdict.status)
    assert by is not None
    assert by.sequence is not None
    found = course(by, broken)
    assert found is not None
    numbers, means, low, high = found
    at = numbers.index(by.sequence["decided"])
    # The lower bound passes the limit at the session of the decision, and not before.
    assert low[at - 1] < 0.02 <= low[at]
    assert (low[-1], high[-1]) == pytest.approx((by.low, by.high), abs=0.006)
    assert means[-1] == pytest.approx(by.candidate)
    assert f"errors.rate is shown to be beyond its limit at session {by.sequence['decided']}" in words
    assert f"Decided at session {by.sequence['decided']}" in words
    (panel,) = course_chart(by, found).panels
    assert [value for value, _, _ in panel.lines] == [0.02, 0.05]
    # A floor is drawn as it is read: the bounds stand below and above the mean.
    met = with_share(audit, "quota.nice_floor_met", 0.5)
    floor = decided_by(_judged(met).lines, "fail")
    assert floor is not None
    _, means, low, high = course(floor, met) or ([], [], [], [])
    assert low[-1] <= means[-1] == 0.5 <= high[-1] < 0.9


def test_page_of_something_else_is_not_replaced(audit: dict[str, Any], tmp_path: Path) -> None:
    write_page(_judged(audit), audit, tmp_path, None)
    write_page(_judged(audit), audit, tmp_path, None)
    (tmp_path / FILE).write_text("<html>mine</html>")
    with pytest.raises(UnusableInput, match=r"canary\.html: exists and is not a page"):
        write_page(_judged(audit), audit, tmp_path, None)


def test_gate_writes_the_page_and_refuses_a_control_alone(audit: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(dump_json(_broken(audit)))
    (tmp_path / "b.json").write_bytes(dump_json(audit))
    done = run_here("gate", "a.json", "--control", "b.json", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "fail")
    assert (tmp_path / FILE).is_file()
    alone = run_here("gate", "--control", "b.json", cwd=tmp_path)
    assert alone.returncode == 2
    assert "add AUDIT" in alone.stderr
