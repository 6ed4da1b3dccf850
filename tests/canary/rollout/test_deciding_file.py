"""Which file a canary and ``lab canary apply`` change, or why they cannot (HC-8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.rollout.change import SELECTION, SLOT, selection_change, slot_change
from lab.canary.rollout.run import Patch, applied
from lab.systems.openclaw.config.file import ENTRY


def written(folder: Path, mode: str, **own: Any) -> Path:
    """Write a configuration whose plugins are in another file; ``own`` are its keys beside the include."""
    engine = {"enabled": True, "config": {"autoRecall": {"selectionMode": mode}}}
    (folder / "part.json").write_text(json.dumps({"slots": {"memory": ENTRY}, "entries": {ENTRY: engine}}))
    (folder / "openclaw.json").write_text(json.dumps({"plugins": {"$include": "part.json", **own}}))
    return folder / "openclaw.json"


def test_selection_change_names_the_included_file_that_decides(tmp_path: Path) -> None:
    config = written(tmp_path, "tier_quota_v1")
    with pytest.raises(UnusableInput, match=r"already; there is nothing to switch"):
        selection_change(config, "tier_quota_v1")
    with pytest.raises(UnusableInput, match=r"is decided in .*part\.json:1, which it includes"):
        selection_change(config, "tier_first_v1")


def test_slot_change_edits_the_configuration_where_it_overrides(tmp_path: Path) -> None:
    config = written(tmp_path, "tier_quota_v1", slots={"memory": "memory-core"})
    change = slot_change(config, ENTRY)
    assert (change.config, change.before, change.path) == (config, "memory-core", SLOT)
    assert json.loads(change.switched)["plugins"] == {"$include": "part.json", "slots": {"memory": ENTRY}}


def test_selection_change_of_a_variable_compares_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, "${LAB_TEST_MODE}")
    with pytest.raises(UnusableInput, match=r"not set: LAB_TEST_MODE \(plugins\.entries"):
        selection_change(config, "tier_first_v1")
    monkeypatch.setenv("LAB_TEST_MODE", "tier_first_v1")
    with pytest.raises(UnusableInput, match=r"is 'tier_first_v1' already"):
        selection_change(config, "tier_first_v1")
    with pytest.raises(UnusableInput, match=r"cannot be switched: it comes from the variable LAB_TEST_MODE"):
        selection_change(config, "tier_quota_v1")


def test_applied_shows_each_value_in_the_file_that_decides_it(tmp_path: Path) -> None:
    config = written(tmp_path, "tier_quota_v1", slots={"memory": "memory-core"})
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    shown = applied(config, Patch({SELECTION: "tier_first_v1", SLOT: ENTRY}, "why"))
    assert shown.lines[0] == f"{'.'.join(SELECTION)} (in {tmp_path / 'part.json'})"
    assert "tier_first_v1" in shown.lines[2]
    assert shown.lines[3] == "plugins.slots.memory"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
