"""Audits of logs without receipts, of damaged logs, and of overlapping logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.formatting import counted
from lab.canary.audit.audit import audit as read_logs
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS
from lab.gate.outputs import rollback
from lab.gate.policy import read_policy
from lab.gate.receipts import ACCEPTED, nothing_found
from lab.gate.verdict import Verdict, judge
from tests.gate.shares import with_share

Log = Callable[[list[str]], dict[str, Any]]
SILENT = "no recall receipt in {}: is this the gateway's log? Are receipts enabled (receipts.enabled)?"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return the audit of a log with these lines."""

    def read(lines: list[str]) -> dict[str, Any]:
        path = tmp_path / "gateway.log"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return read_logs([str(path)])

    return read


def stage_b(audit: dict[str, Any]) -> tuple[Verdict, dict[str, Any]]:
    verdict = judge(read_policy("stage-b"), audit=audit)
    return verdict, {line.measure: line for line in verdict.lines}


def test_log_of_another_program_is_not_understood(log: Log) -> None:
    found = log(['192.0.2.7 - - "GET /index.html HTTP/1.1" 200'] * 30)
    (path,) = (one["file"] for one in found["files"])
    assert nothing_found(found) == (
        f"{path}: the format is not understood: none of its 30 lines names the engine, and none of the first ones a "
        f"gateway; {ACCEPTED}"
    )
    # One line of the engine, far from the beginning, is enough.
    late = log(["tick"] * 250_000 + ["openclaw-mem-engine: registered"])
    assert nothing_found(late) == SILENT.format("250,001 lines")


@pytest.mark.parametrize("lines", [[], ["some other program's log"] * 7, ["[gateway] listening"] * 30])
def test_gate_on_a_log_without_receipts_asks_what_to_check(log: Log, lines: list[str]) -> None:
    found = log(lines)
    assert nothing_found(found) == SILENT.format(counted(len(lines), "line"))
    verdict, _ = stage_b(found)
    assert verdict.status == ERROR
    said = SILENT.format(counted(len(lines), "line")).replace("no recall", "No recall", 1)
    assert rollback(verdict) == f"{said} To roll back anyway: {verdict.rollback}"


def test_audit_of_failed_recalls_only_is_judged(log: Log) -> None:
    failed = [
        f"2026-03-01T{9 + at // 60:02}:{at % 60:02}:01Z WARN openclaw-mem-engine: autoRecall failed: TypeError"
        for at in range(400)
    ]
    # One failure in a session that goes on shows nothing yet.
    found = log(failed[:1])
    assert nothing_found(found) is None
    verdict, lines = stage_b(found)
    assert lines["errors.rate"].status == INCONCLUSIVE
    verdict, lines = stage_b(log(failed))
    assert (lines["errors.rate"].status, str(rollback(verdict))[:11]) == (FAIL, "Roll back: ")


@pytest.mark.parametrize(("share", "status"), [(0, PASS), (0.02, INCONCLUSIVE), (0.5, FAIL)])
def test_damage_is_judged_by_sessions(audit: dict[str, Any], share: float, status: str) -> None:
    _, lines = stage_b(with_share(audit, "damage.rate", share))
    assert lines["damage.rate"].status == status, lines["damage.rate"].reason


def test_damaged_lines_belong_to_the_session_before_them(log: Log, log_lines: list[str]) -> None:
    broken = set(range(3, len(log_lines), 4))
    found = log([line[:200] if at in broken else line for at, line in enumerate(log_lines)])
    assert (found["damage"]["of"], found["damage"]["lines"]) == (len(log_lines), len(broken))
    sums = found["sessions"]["sums"]["damage.rate"]
    # The last session is open.
    assert len(log_lines) - 5 < sum(sums["of"]) < len(log_lines)
    assert len(broken) - 2 <= sum(sums["part"]) <= len(broken)
    verdict, lines = stage_b(found)
    assert lines["damage.rate"].status == FAIL
    assert lines["damage.rate"].reason.endswith("(most frequent: the JSON is truncated)")
    assert str(rollback(verdict)).startswith("Roll back: ")


def test_damage_rule_ignores_overlapping_logs(log: Log, log_lines: list[str]) -> None:
    found = log([*log_lines, *log_lines[-50:]])
    damage = found["damage"]
    assert (damage["lines"], damage["duplicates"], damage["rate"], damage["of"]) == (50, 50, 0.0, len(log_lines))
    verdict, lines = stage_b(found)
    assert lines["damage.rate"].reason.endswith(" (50 duplicates from overlapping logs are not counted)")
    # There may be too few lines to pass, but no violation is shown.
    assert lines["damage.rate"].status in (PASS, INCONCLUSIVE)
    assert FAIL not in {line.status for line in verdict.lines if line.critical}
