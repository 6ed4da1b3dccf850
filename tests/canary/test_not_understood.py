"""Tests of formats that are not understood: one line and exit code 2, never damage and never a verdict."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.canary.audit.audit import audit, last_receipts
from lab.canary.audit.check import ENOUGH, MARKERS, RECALL
from lab.gate.line import ERROR, INCONCLUSIVE
from lab.gate.outputs import rollback
from lab.gate.policy import read_policy
from lab.gate.receipts import WITH_JSON, nothing_found, read_audit, unreadable
from lab.gate.verdict import judge

Make = Callable[..., Any]


@pytest.fixture
def receipts(receipt: Make, line: Make) -> list[str]:
    """Twenty lines of a gateway with a receipt each."""
    return [line(receipt([f"m{number}", "n1"]), at=number) for number in range(20)]


def _audit(folder: Path, lines: Sequence[str]) -> dict[str, Any]:
    path = folder / "gateway.log"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return audit([str(path)])


# What collectors do to lines that no rule undoes, with the reason that is given.
FOREIGN: dict[str, tuple[Callable[[str], str], str]] = {
    "cut off": (lambda line: line[:200], "is truncated; raise the length at which the collector cuts off lines"),
    "quotes removed": (lambda line: line.replace('"', ""), "is invalid at character 2; export it as"),
    "payload hidden": (
        lambda line: line.split(" {")[0] + " " + base64.b64encode(line.encode()).decode(),
        "autoRecall.receipt without its JSON; export it as",
    ),
    "another schema": (lambda line: line.replace("receipt.v1", "receipt.v7"), "the engine is of another version"),
    "a field left out": (lambda line: line.replace('"skipped"', '"passed"'), "the engine is of another version"),
}


@pytest.mark.parametrize(("change", "reason"), FOREIGN.values(), ids=FOREIGN)
def test_audit_of_foreign_format_gives_one_reason(
    tmp_path: Path, receipts: list[str], change: Callable[[str], str], reason: str
) -> None:
    found = _audit(tmp_path, ["openclaw-mem-engine: registered (db=x)", "", *map(change, receipts)])
    why = str(unreadable(found))
    assert why.startswith(
        f"{tmp_path / 'gateway.log'}:3: the format is not understood: 20 of 20 lines with the engine's"
    )
    assert reason in why
    assert "accepted are the gateway's log file or console" in why
    assert nothing_found(found) == why
    # No limit of the policy is judged on it.
    verdict = judge(read_policy("stage-b"), audit=found)
    assert {line.status for line in verdict.lines if line.kind == "receipts"} == {ERROR}
    assert str(rollback(verdict)).endswith(f"To roll back anyway: {verdict.rollback}")


def test_read_audit_of_foreign_format_is_refused(tmp_path: Path, receipts: list[str]) -> None:
    found = _audit(tmp_path, [line[:200] for line in receipts])
    path = tmp_path / "audit.json"
    # Audits of earlier versions have only the counts.
    for value in (found, {key: part for key, part in found.items() if key != "not_understood"}):
        path.write_bytes(dump_json(value))
        with pytest.raises(UnusableInput, match=r"no evidence: .*gateway\.log.*20 of 20 lines .*truncated"):
            read_audit(path)


@pytest.mark.parametrize(("broken", "is_format"), [(2, False), (17, False), (18, True), (20, True)])
def test_single_damaged_lines_stay_damage(tmp_path: Path, receipts: list[str], broken: int, is_format: bool) -> None:
    found = _audit(tmp_path, [*(line[:200] for line in receipts[:broken]), *receipts[broken:]])
    assert found["damage"]["by_kind"]["cut_off"] == broken
    assert (unreadable(found) is not None) is is_format
    if broken == 17:
        lines = {line.measure: line for line in judge(read_policy("stage-b"), audit=found).lines}
        # They are of one session, which is open.
        assert lines["damage.rate"].status == INCONCLUSIVE


def test_two_broken_lines_of_two_are_damage(tmp_path: Path, receipts: list[str]) -> None:
    found = _audit(tmp_path, [line[:200] for line in receipts[:2]])
    assert (unreadable(found), found["damage"]["rate"]) == (None, 1.0)


def test_receipts_that_contradict_themselves_are_damage(tmp_path: Path, receipts: list[str]) -> None:
    found = _audit(tmp_path, [line.replace('"finalCount":2', '"finalCount":9') for line in receipts])
    assert (unreadable(found), found["damage"]["by_kind"]["counts"]) == (None, 20)


def test_each_log_is_understood_for_itself(tmp_path: Path, receipts: list[str]) -> None:
    sound, foreign = tmp_path / "a.log", tmp_path / "b.log"
    sound.write_text("\n".join(receipts * 9) + "\n", "utf-8")
    foreign.write_text("\n".join(line[:200] for line in receipts[:5]), "utf-8")
    assert str(unreadable(audit([str(sound), str(foreign)]))).startswith(
        f"{foreign}:1: the format is not understood: 5 of 5"
    )


def test_foreign_notation_of_json_is_no_mention(tmp_path: Path, receipts: list[str]) -> None:
    found = _audit(tmp_path, [f"1:{line.split('] ')[1]}".replace('"', "") for line in receipts])
    assert found["markers"]["mentions"] == 0
    assert "20 of 20 lines with the engine's JSON" in str(unreadable(found))


def test_log_of_one_endless_line_is_not_understood(tmp_path: Path, receipts: list[str]) -> None:
    assert "1 of 1 line with the engine's JSON" in str(unreadable(_audit(tmp_path, ["; ".join(receipts * 99)])))
    # One such line among others is damage.
    assert unreadable(_audit(tmp_path, [*receipts, "; ".join(receipts * 99)])) is None


def test_long_foreign_log_is_not_read_to_its_end(tmp_path: Path, receipts: list[str]) -> None:
    found = _audit(tmp_path, [line[:200] + str(number) for number in range(ENOUGH) for line in receipts])
    assert found["damage"]["lines"] == ENOUGH
    assert found["bytes"] < 20 * ENOUGH * 200
    assert f"{ENOUGH:,} of {ENOUGH:,} lines" in str(unreadable(found))


@pytest.mark.parametrize("data", [bytes(range(256)) * 40, b"PAR1\0\0\1\2" * 99])
def test_binary_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "gateway.log"
    path.write_bytes(data)
    assert str(unreadable(audit([str(path)]))).startswith(f"{path}: the format is not understood: is not text")


def test_last_receipts_names_damaged_lines(tmp_path: Path, receipts: list[str]) -> None:
    _audit(tmp_path, [line[:200] for line in receipts])
    with pytest.raises(UnusableInput, match="20 damaged lines, which lab canary audit lists"):
        last_receipts(str(tmp_path / "gateway.log"), 1)


def test_json_document_of_many_records_is_read_in_pieces(tmp_path: Path, receipts: list[str]) -> None:
    texts = [line.partition(" ")[2] for line in receipts * 60]
    values = [[f"{1_772_355_600 + number}000000000", text] for number, text in enumerate(texts)]
    path = tmp_path / "answer.json"
    for indent in (None, 1):
        path.write_text(json.dumps({"data": {"result": [{"values": values}]}}, indent=indent), "utf-8")
        assert path.stat().st_size > 1 << 20
        lines = path.read_bytes().count(b"\n") + 1
        found = audit([str(path)])
        assert (found["recalls"]["receipts"], found["damage"]["lines"], found["timed_lines"]) == (1200, 0, 1200)
        assert (found["first_time"], found["last_time"]) == ("2026-03-01T09:00:00.000Z", "2026-03-01T09:19:59.000Z")
        assert found["lines"] == lines


def test_markers_with_json_are_those_that_an_audit_checks() -> None:
    assert (RECALL, *MARKERS) == WITH_JSON
