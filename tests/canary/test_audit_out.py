"""Tests of the time and the output path of an audit: it may replace an audit, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.canary.audit.audit import SCHEMA, audit, require_replaceable


def test_audit_since_leaves_out_what_was_before(
    tmp_path: Path, line: Callable[..., str], receipt: Callable[..., dict[str, Any]]
) -> None:
    log = tmp_path / "gateway.log"
    value = receipt(["m1"])
    lines = [line(value, at=at) for at in (0, 60, 120)]
    # A line without a time has that of the line before it.
    log.write_text("\n".join([lines[0], line(value), "openclaw-mem-engine:autoRecall.receipt {", *lines[1:]]), "utf-8")
    assert (audit([str(log)])["recalls"]["receipts"], audit([str(log)])["damage"]["lines"]) == (4, 1)
    found = audit([str(log)], since=datetime(2026, 3, 1, 9, 1, tzinfo=UTC))
    assert (found["recalls"]["receipts"], found["damage"]["lines"]) == (2, 0)
    assert found["first_time"] == "2026-03-01T09:01:00.000Z"
    quiet = tmp_path / "quiet.log"
    quiet.write_text("2026-03-01T09:00:00.000Z [gateway] listening\n" * 30, "utf-8")
    assert audit([str(log), str(quiet)], since=datetime(2026, 3, 1, 9, 1, tzinfo=UTC))["recalls"]["receipts"] == 2
    log.write_text(line(value), "utf-8")
    with pytest.raises(UnusableInput, match="no line of the engine has a time, so --since cannot choose any"):
        audit([str(log)], since=datetime(2026, 3, 1, tzinfo=UTC))


def test_require_replaceable_accepts_an_audit(tmp_path: Path) -> None:
    log, out = tmp_path / "gateway.log", tmp_path / "audit.json"
    log.write_text("nothing\n")
    require_replaceable(out, [str(log), "-"])
    for written in (dump_json({"schema": SCHEMA, "files": []}), json.dumps({"schema": SCHEMA}).encode()):
        out.write_bytes(written)
        require_replaceable(out, [str(log), "-"])


@pytest.mark.parametrize("name", ["gateway.log", "./x/../gateway.log", "linked.log", "hard.log"])
def test_require_replaceable_refuses_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    Path("gateway.log").write_text("nothing\n")
    os.symlink("gateway.log", "linked.log")
    os.link("gateway.log", "hard.log")
    with pytest.raises(UnusableInput, match=f"--out {name.removeprefix('./')}: is one of the logs"):
        require_replaceable(Path(name), ["-", "gateway.log"])


@pytest.mark.parametrize("text", ["", "notes", "{}", '{"schema": "lab.verdict.v1"}', f'{{"about": "{SCHEMA}"}}'])
def test_require_replaceable_refuses_other_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(UnusableInput, match="exists and is not an audit of receipts; choose another file"):
        require_replaceable(tmp_path / "mine.json", ["gateway.log"])
    with pytest.raises(UnusableInput, match="exists and is not an audit"):
        require_replaceable(tmp_path, ["gateway.log"])
