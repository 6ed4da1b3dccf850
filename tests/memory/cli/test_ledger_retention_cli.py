"""``lab memory ledger writeback``, ``lifecycle``, ``used`` and ``decay`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.base.errors import CheckFailed, UnusableInput
from lab.cli.main import app
from tests.memory.ledger.ledgers import filled, rows
from tests.memory.ledger.test_ledger_lifecycle import aged
from tests.memory.ledger.test_writeback import noted, store, stored
from tests.memory.tools.lance_tables import uuid


class Terminal:
    """Runs commands and returns what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> str:
        app([str(word) for word in words], standalone_mode=False)
        return self._capsys.readouterr().out


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_writeback_says_what_it_would_do_then_does_it(lab: Terminal, tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(1), noted(9), {"tool_name": "memory_store", "summary": "kettle"}])
    folder = store(tmp_path / "s", 1, 2)
    said = lab("memory", "ledger", "writeback", ledger, folder)
    assert "1 memory would be updated" in said
    assert "Memories labelled unknown: 2 before, 1 after." in said
    assert "Nothing was written; add --write to do it." in said
    assert stored(folder)[1]["importance_label"] == "unknown"
    receipt = tmp_path / "receipt.json"
    said = lab("memory", "ledger", "writeback", ledger, folder, "--write", "--receipt", receipt)
    assert uuid(9) in said
    assert "0 left as they are" in " ".join(said.split())
    assert stored(folder)[1]["importance_label"] == "must_remember"
    kept = json.loads(receipt.read_text("utf-8"))
    assert kept | {"updated": 1, "missingIds": [uuid(9)], "withoutId": 1, "dryRun": False} == kept
    assert "kettle" not in receipt.read_text("utf-8")
    # Nothing changes any more, but a schedule must hear of the missing memory.
    with pytest.raises(CheckFailed, match="1 id of the ledger is not in the table"):
        lab("memory", "ledger", "writeback", ledger, folder, "--write", "--quiet", "--receipt", receipt)
    assert json.loads(receipt.read_text("utf-8"))["missingIds"] == [uuid(9)]
    found = filled(tmp_path / "found.sqlite", [noted(1)])
    assert "1 left as they are" in " ".join(lab("memory", "ledger", "writeback", found, folder).split())
    assert lab("memory", "ledger", "writeback", found, folder, "--write", "--quiet") == ""
    said = lab("memory", "ledger", "writeback", found, folder, "--force", "--profile", "upstream", "--write")
    assert "Overwritten: 2 fields of 1 memory." in said


def test_writeback_refuses_what_it_cannot_use(lab: Terminal, tmp_path: Path) -> None:
    ledger, folder = filled(tmp_path / "l.sqlite", [noted(1)]), store(tmp_path / "s", 1)
    with pytest.raises(UnusableInput, match="expected seed or upstream"):
        lab("memory", "ledger", "writeback", ledger, folder, "--profile", "x")
    with pytest.raises(UnusableInput, match="unknown text; the fields are"):
        lab("memory", "ledger", "writeback", ledger, folder, "--force", "--force-fields", "text")
    with pytest.raises(UnusableInput, match="is not a LanceDB folder"):
        lab("memory", "ledger", "writeback", ledger, tmp_path)
    with pytest.raises(UnusableInput, match="no such file"):
        lab("memory", "ledger", "writeback", tmp_path / "none.sqlite", folder)


def test_decay_archives_and_lifecycle_revives(lab: Terminal, tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [aged(100), aged(1), aged(500, importance=0.9)])
    command = ("memory", "ledger", "decay", ledger, "--at", "2026-11-23")
    assert "1 observation to archive; P0, which is never archived: 1." in lab(*command)
    assert [item["recordRef"] for item in json.loads(lab(*command, "--json"))["items"]] == ["obs:1"]
    # What was archived is summarised without its records (seed 003).
    value = json.loads(lab(*command, "--write", "--json"))
    assert (value["count"], value["by_priority"]["P2"], value["items"]) == (1, 1, [])
    assert "0 observations to archive" in lab(*command)
    revive = ("memory", "ledger", "lifecycle", ledger, 1, "--to", "active", "--reason", "needed", "--at", "2026-11-23")
    assert "soft-archived" in lab(*revive)
    assert "0 observations to archive" in lab(*command)
    assert json.loads(lab(*revive, "--write", "--json"))["transitions"][0]["changed"]
    assert "0 observations to archive" in lab(*command)
    # By then the second was not used for 30 days either.
    assert "2 observations to archive" in lab("memory", "ledger", "decay", ledger, "--at", "2026-12-23")


def test_used_delays_decay(lab: Terminal, tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [aged(100), aged(100)])
    said = lab("memory", "ledger", "used", ledger, 1, 7, "--at", "2026-11-20", "--write")
    assert "1 observation refreshed." in said
    assert "Not in the ledger: obs:7." in said
    assert rows(ledger)[0].detail["lifecycle"] == {"last_used_at": "2026-11-20T00:00:00Z", "used_count": 1}
    lab("memory", "ledger", "used", ledger, 2, "--retrieved", "--at", "2026-11-20", "--write")
    # Being found is no use.
    value = json.loads(lab("memory", "ledger", "decay", ledger, "--at", "2026-11-23", "--json"))
    assert [item["recordRef"] for item in value["items"]] == ["obs:2"]
    with pytest.raises(UnusableInput, match="at most 64"):
        lab("memory", "ledger", "used", ledger, *range(1, 70))
