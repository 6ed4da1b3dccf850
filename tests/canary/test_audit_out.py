"""Tests of the output path of an audit: it may replace an audit, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.canary.audit.audit import SCHEMA, require_replaceable


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
