"""Which plugin a downgrade goes back to, periods of options, and copies of the host that are still switched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lab.base.config_resolve import Resolved, resolve_config
from lab.base.errors import UnusableInput
from lab.canary.cli.canary import TIMEOUT, _expects_receipts, log_file, seconds_of
from lab.canary.cli.canary import recover as recover_command
from lab.canary.rollout import recover as recovering
from lab.canary.rollout.change import SLOT, slot_change, slot_to_go_back_to, target_of
from lab.canary.rollout.journal import State, begin
from lab.canary.rollout.recover import host_copies, recover
from lab.cli.results import print_results
from tests.canary.rollout.conftest import ENTRY


def home(tmp_path: Path, plugins: dict[str, Any], version: str | None = None) -> Resolved:
    value: dict[str, Any] = {"plugins": plugins}
    if version:
        value["meta"] = {"lastTouchedVersion": version}
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps(value), "utf-8")
    return resolve_config(config)


def plugin_at(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder / "openclaw.plugin.json").write_text(json.dumps({"id": name}), "utf-8")


@pytest.mark.parametrize(
    ("plugins", "version", "slot"),
    [
        ({}, None, "memory-core"),
        ({"slots": {"memory": ENTRY}}, "2026.9.6", "memory-core"),
        # An entry that was left says nothing of a host that does not bring the plugin.
        ({"entries": {"memory-lancedb": {"enabled": True}}}, "2026.9.6", "memory-core"),
        ({"entries": {"memory-lancedb": {"enabled": True}}}, "2026.3.13", "memory-lancedb"),
        ({"entries": {"memory-lancedb": {"enabled": False}}}, "2026.3.13", "memory-core"),
        ({"installs": {"memory-lancedb": {"source": "npm"}}}, "2026.9.6", "memory-lancedb"),
        ({"installs": {"memory-lancedb": {"source": "npm"}}, "deny": ["memory-lancedb"]}, "2026.9.6", "memory-core"),
        ({"entries": [], "installs": 3, "deny": {}, "load": []}, "x", "memory-core"),
    ],
)
def test_slot_to_go_back_to_is_a_plugin_that_the_host_has(
    tmp_path: Path, plugins: dict[str, Any], version: str | None, slot: str
) -> None:
    assert slot_to_go_back_to(home(tmp_path, plugins, version)) == slot


@pytest.mark.parametrize("place", ["extensions/memory-lancedb", "npm/node_modules/@openclaw/memory-lancedb", "mine"])
def test_plugin_is_known_by_its_folder(tmp_path: Path, place: str) -> None:
    resolved = home(tmp_path, {"load": {"paths": [str(tmp_path / "mine")]}})
    assert target_of(resolved, "memory-lancedb").known is None
    plugin_at(tmp_path / place, "memory-lancedb")
    assert target_of(resolved, "memory-lancedb").known == "its folder is there"
    assert slot_to_go_back_to(resolved) == "memory-lancedb"
    assert target_of(resolved, "memory-other").known is None


def test_plugin_of_the_state_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    plugin_at(state / "extensions" / "memory-lancedb", "memory-lancedb")
    assert slot_to_go_back_to(home(tmp_path, {})) == "memory-core"
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(state))
    assert slot_to_go_back_to(home(tmp_path, {})) == "memory-lancedb"


def test_plugins_of_a_variable_that_is_not_set_are_refused(tmp_path: Path) -> None:
    resolved = home(tmp_path, {"load": {"paths": ["${RECALL_LAB_NOWHERE}/mine"]}})
    with pytest.raises(UnusableInput, match=r"not set: RECALL_LAB_NOWHERE \(plugins\.load\.paths\.0\)"):
        slot_to_go_back_to(resolved)


def test_log_of_a_variable_that_is_not_set_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text('{"logging": {"file": "${RECALL_LAB_NOWHERE}/gateway.log"}}', "utf-8")
    resolved = resolve_config(config)
    with pytest.raises(UnusableInput, match=r"not set: RECALL_LAB_NOWHERE \(logging\.file\)"):
        log_file(None, resolved)
    assert log_file(tmp_path / "a.log", resolved) == tmp_path / "a.log"


@pytest.mark.parametrize("given", [[], ["."]])
def test_canary_finds_the_configuration_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    home(tmp_path, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    app = typer.Typer()
    app.command()(recover_command)
    print_results(app)
    done = CliRunner().invoke(app, given)
    assert (done.exit_code, "Nothing to recover beside" in done.output) == (0, True)
    assert str(tmp_path / "openclaw.json") in done.output.replace("\n", "")


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ({"deny": ["memory-core"]}, "plugins.deny names memory-core"),
        ({"entries": {"memory-core": {"enabled": False}}}, "plugins.entries.memory-core.enabled is false"),
    ],
)
def test_plugin_that_the_configuration_keeps_out_is_refused(tmp_path: Path, plugins: Any, said: str) -> None:
    config = home(tmp_path, {"slots": {"memory": ENTRY}, **plugins}).config
    with pytest.raises(UnusableInput, match=said):
        slot_change(config, "memory-core")


def test_plugin_that_nothing_names_is_refused_with_those_that_the_host_has(tmp_path: Path) -> None:
    place = home(tmp_path, {"slots": {"memory": ENTRY}, "entries": {"memory-lancedb": {"enabled": True}}}).config
    (tmp_path / "extensions" / "my-memory").mkdir(parents=True)
    with pytest.raises(UnusableInput) as refused:
        slot_change(place, "memory-lancedbs")
    said = str(refused.value)
    assert "nothing says that the host has a plugin 'memory-lancedbs'; did you mean 'memory-lancedb'? known: " in said
    assert said.endswith("known: memory-core, memory-lancedb, my-memory")
    for plugin in ("memory-core", "memory-lancedb"):
        assert slot_change(place, plugin).after == plugin
    (tmp_path / "bare").mkdir()
    bare = home(tmp_path / "bare", {"slots": {"memory": ENTRY}}).config
    assert slot_change(bare, "memory-lancedb").after == "memory-lancedb"


@pytest.mark.parametrize(
    ("text", "seconds"), [("400", 400), ("400s", 400), ("1.5m", 90), ("2 h", 7200), ("90 sec", 90), ("1D", 86400)]
)
def test_periods(text: str, seconds: float) -> None:
    assert seconds_of(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5", "5 years", "m", "1e3", "4h30m"])
def test_periods_that_are_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="expected a period"):
        seconds_of(text, "--timeout")


def test_restart_of_a_real_host_fits_the_default_timeout() -> None:
    # The longest that was seen is 200 s.
    assert seconds_of(TIMEOUT, "--timeout") >= 2 * 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, True),
        ({"logging": {"level": "debug"}}, True),
        ({"logging": {"level": "WARN"}}, False),
        ({"plugins": {"entries": {ENTRY: {"config": {"autoRecall": {"enabled": True}}}}}}, True),
        ({"plugins": {"entries": {ENTRY: {"config": {"autoRecall": {"enabled": False}}}}}}, False),
        ({"plugins": {"entries": {ENTRY: {"config": {"autoRecall": False}}}}}, False),
        ({"plugins": {"entries": {ENTRY: {"config": {"receipts": {"enabled": False}}}}}}, False),
        ({"plugins": {"entries": {ENTRY: {"config": {"receipts": False}}}}}, False),
    ],
)
def test_receipts_are_expected_unless_they_are_switched_off(value: dict[str, Any], expected: bool) -> None:
    assert _expects_receipts(value) is expected


def switched(tmp_path: Path) -> State:
    """A configuration that a canary switched and left."""
    config = home(tmp_path, {"slots": {"memory": "memory-core"}, "entries": {ENTRY: {"enabled": True}}}).config
    change, state = slot_change(config, ENTRY), State(config)
    state.folder.mkdir()
    state.write(begin(change, restart="true", check=None, timeout=5.0, out=tmp_path / "out"))
    state.prepare(change)
    journal = state.read()
    assert journal is not None
    state.step(journal, "window")
    config.write_bytes(change.switched)
    return state


@pytest.mark.process
def test_copies_of_the_host_that_are_still_switched_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovering, "COPIES_SECONDS", 0.0)
    state = switched(tmp_path)
    data = state.config.read_bytes()
    for name in ("last-good", "bak", "bak.2", "clobbered.2026-11-22", "mine"):
        state.config.with_name(f"openclaw.json.{name}").write_bytes(data)
    state.config.with_name("openclaw.json.bak.1").write_text("{", "utf-8")
    assert host_copies(state.config, SLOT, ENTRY) == [
        "openclaw.json.bak",
        "openclaw.json.bak.2",
        "openclaw.json.last-good",
    ]
    done = recover(state.config)
    assert done is not None
    assert "openclaw.json.bak, openclaw.json.bak.2, openclaw.json.last-good: the host's own copies" in done.notes[-1]
    # The host knows its copy by its sha256: it is left as it is.
    assert state.config.with_name("openclaw.json.last-good").read_bytes() == data
    assert b"memory-core" in state.config.read_bytes()


@pytest.mark.process
def test_copy_that_the_host_replaces_at_its_start_is_no_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = switched(tmp_path)
    copy = state.config.with_name("openclaw.json.last-good")
    copy.write_bytes(state.config.read_bytes())
    # The gateway has started some looks later.
    looks: list[float] = []

    def starts(seconds: float) -> None:
        looks.append(seconds)
        copy.write_bytes(state.config.read_bytes())

    monkeypatch.setattr(recovering.time, "sleep", starts)
    done = recover(state.config)
    assert done is not None
    assert (done.restarted, done.notes, bool(looks)) == (True, (), True)
