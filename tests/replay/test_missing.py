"""Settings of live engines that the lab does not implement: every replay lists them and continues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.replay.run import run_replay
from lab.runs.notes import missing_notes
from lab.runs.request import ReplayRequest
from tests.playing import arms_named
from tests.replay.conftest import Desk

NOTE = "settings that the lab does not implement, so without effect here: "


def test_missing_notes_live_file_is_noted_lab_file_is_refused(desk: Desk) -> None:
    desk.say("talk", ("global", [("user", "the port is 8080", "port 8080"), ("user", "which port is it?")]))
    desk.judge("talk/s1/t1#0", turn="talk/s1/t2")
    live, own = desk.home / "live.json", desk.home / "own.json"
    live.write_text(json.dumps({"weijiMemoryPreflight": True, "gbrainMirror": True}))
    own.write_text(json.dumps({"gbrainMirror": True, "lab": {"arm": "engine"}}))
    first = desk.run(f"engine={live}", "hybrid")
    note = NOTE + "weijiMemoryPreflight, gbrainMirror (of arm engine)"
    for _ in range(2):
        messages: list[str] = []
        run_replay(ReplayRequest.of_manifest(first.run.manifest.asked), desk.home / "again", announce=messages.append)
        assert messages.count(note) == 1
    with pytest.raises(UnusableInput, match=r"own\.json: gbrainMirror: not implemented here; leave it out"):
        desk.run(f"mine={own}")


def test_missing_notes_name_settings_and_arms_in_one_sentence() -> None:
    def notes(**configs: Any) -> tuple[str, ...]:
        infos = [arms_named("seed_full", name=name, config=config)[0].describe() for name, config in configs.items()]
        return missing_notes(infos)

    assert notes(a=None, b={"budget": {"enabled": True}}) == ()
    assert notes(a={"dbPath": "x"}, b={"gbrainMirror": True, "dbPath": "y"}, c={}) == (
        NOTE + "dbPath, gbrainMirror (of arms a, b)",
    )
    assert notes(a={}, b={"dbPath": "y"}) == (NOTE + "dbPath (of arm b)",)
