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
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

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


@pytest.fixture(scope="module")
def receipts(run: RunDirectory) -> list[str]:
    """Lines of a log, each with a receipt of tier_quota_v1."""
    return [
        f"2026-03-01T09:{second // 60:02}:{second % 60:02}Z openclaw-mem-engine:autoRecall.receipt {row['receipt']}"
        for second, row in enumerate(
            row
            for conversation in run.conversations
            for row in read_table(run.receipts(conversation), ("arm", "receipt")).to_pylist()
            if row["arm"] == "tier_quota_v1"
        )
    ]


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
    found = log(["2026-03-01T09:00:01Z WARN openclaw-mem-engine: autoRecall failed: TypeError"] * 1)
    assert nothing_found(found) is None
    verdict, lines = stage_b(found)
    assert (lines["errors.rate"].status, str(rollback(verdict))[:11]) == (FAIL, "Roll back: ")


@pytest.mark.parametrize(("broken", "status"), [(0, PASS), (1, PASS), (40, FAIL), (12, INCONCLUSIVE)])
def test_damage_is_judged_by_its_counts(log: Log, receipts: list[str], broken: int, status: str) -> None:
    sound = [f"2026-03-02T{at:02}{line[13:]}" for at in range(3) for line in receipts]
    found = log(sound[broken:] + [line[:200] for line in sound[:broken]])
    assert (found["damage"]["of"], found["damage"]["rate"]) == (len(sound), broken / len(sound))
    _, lines = stage_b(found)
    line = lines["damage.rate"]
    assert (line.status, line.reason.startswith(f"damage.rate: {broken} of {len(sound)} engine log lines")) == (
        status,
        True,
    ), line.reason


def test_damage_rule_fails_with_few_receipts(log: Log, receipts: list[str]) -> None:
    found = log([line[:200] for line in receipts[:16]] + receipts[16:20])
    assert nothing_found(found) is None
    verdict, lines = stage_b(found)
    assert lines["damage.rate"].status == FAIL
    assert lines["damage.rate"].reason.startswith("damage.rate: 16 of 20 engine log lines, 0.8 (")
    assert str(rollback(verdict)).startswith("Roll back: ")


def test_damage_rule_ignores_overlapping_logs(log: Log, receipts: list[str]) -> None:
    found = log([*receipts, *receipts[-50:]])
    damage = found["damage"]
    assert (damage["lines"], damage["duplicates"], damage["rate"], damage["of"]) == (50, 50, 0.0, len(receipts))
    verdict, lines = stage_b(found)
    assert lines["damage.rate"].reason.endswith(" (50 duplicates from overlapping logs are not counted)")
    # There may be too few lines to pass, but no violation is shown.
    assert lines["damage.rate"].status in (PASS, INCONCLUSIVE)
    assert FAIL not in {line.status for line in verdict.lines if line.critical}
