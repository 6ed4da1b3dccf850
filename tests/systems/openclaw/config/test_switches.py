"""What a host does not run injects nothing, and everything says it alike (HC-9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.host.snapshot import engine_section
from lab.runs.notes import off_note
from lab.systems.openclaw.config.file import ENTRY, switched_off
from lab.systems.openclaw.upstream.host import check_host, host_of
from lab.systems.registry import SwitchedOffArm, info_of, make_arm, parse_arms

CONFIG = {"autoRecall": {"enabled": True}}
OTHER = "openclaw-auto-recall"


def host_file(plugins: dict[str, Any] | None = None, **entry: Any) -> dict[str, Any]:
    """Return a whole openclaw.json that runs the engine, changed."""
    entries = {ENTRY: {"enabled": True, "config": CONFIG, **entry}, OTHER: {"config": {}}}
    return {"gateway": {}, "plugins": {"slots": {"memory": ENTRY}, "entries": entries, **(plugins or {})}}


OFF = [
    (host_file({"enabled": False}), "plugins.enabled: nothing happens: the host loads no plugin"),
    (host_file({"deny": ["x", f" {ENTRY.upper()} "]}), f"plugins.deny: nothing happens: it names {ENTRY}"),
    (host_file(enabled=False), f"plugins.entries.{ENTRY}.enabled: nothing happens: the engine is switched off"),
    (host_file({"slots": {"memory": "memory-core"}}), "plugins.slots.memory: nothing happens: it names 'memory-core'"),
    (host_file({"slots": {"memory": "None"}}), "plugins.slots.memory: nothing happens: it is 'None', so no plugin"),
    (host_file({"slots": {"memory": " "}}), "it is not set, which means 'memory-core'"),
    (host_file({"slots": {}}), "it is not set, which means 'memory-core'"),
    (host_file(hooks={"allowPromptInjection": False}), "nothing is injected: the host lets no hook change a prompt"),
]


def reasons(value: object, plugin: str = ENTRY) -> list[str]:
    return list(switched_off(value, plugin))


@pytest.mark.parametrize(("value", "reason"), OFF)
def test_switched_off_is_said_alike_by_check_and_arm_and_section(value: Any, reason: str, tmp_path: Path) -> None:
    (found,) = reasons(value)
    assert reason in found
    host = host_of(value)
    assert host is not None
    assert f"openclaw.json: {found}" in check_host(value, host, where="openclaw.json").warnings
    file = tmp_path / "openclaw.json"
    file.write_text(json.dumps(value))
    (spec,) = parse_arms([f"engine={file}"])
    arm = make_arm(spec)
    info = info_of(spec, arm)
    assert (info.off, info.writes, info.stateful) == (found, False, False)
    # What a snapshot keeps of the file is as silent as the file.
    kept = engine_section(value, file)
    assert reasons(kept) == [found]
    assert kept["plugins"]["entries"][ENTRY]["config"] == CONFIG


def test_switched_off_is_nothing_for_a_host_that_runs_the_engine(tmp_path: Path) -> None:
    value = host_file({"allow": ["something"], "deny": ["other"]})
    assert reasons(value) == []
    assert engine_section(value, tmp_path) == {"plugins": {"entries": {ENTRY: {"enabled": True, "config": CONFIG}}}}
    for part in (value["plugins"], value["plugins"]["entries"], value["plugins"]["entries"][ENTRY], CONFIG, None, 7):
        assert reasons(part) == []


def test_switched_off_of_a_part_needs_no_slot_but_obeys_the_entry() -> None:
    entries = {ENTRY: {"enabled": False, "config": CONFIG}}
    for part in ({"plugins": {"entries": entries}}, {"entries": entries}, entries, entries[ENTRY]):
        assert len(reasons(part)) == 1
    assert reasons({"plugins": {"entries": {ENTRY: {"config": CONFIG}}}}) == []
    assert len(reasons({"gateway": {}, "plugins": {"entries": {ENTRY: {"config": CONFIG}}}})) == 1


def test_switched_off_gives_every_reason() -> None:
    value = host_file({"enabled": False, "slots": {"memory": "x"}}, enabled=False)
    assert len(reasons(value)) == 3


def test_switched_off_of_another_plugin_follows_its_own_switches() -> None:
    assert reasons(host_file(), OTHER) == []
    assert reasons(host_file({"slots": {"memory": "memory-core"}}), OTHER) == []
    assert reasons(host_file({"allow": [ENTRY]}), OTHER) == [
        f"plugins.allow: nothing happens: it does not name {OTHER}"
    ]
    entries = {OTHER: {"enabled": False, "config": {}}}
    (reason,) = reasons(host_file({"entries": entries}), OTHER)
    assert reason == f"plugins.entries.{OTHER}.enabled: nothing happens: the plugin is switched off"
    assert len(reasons(host_file(), "memory-lancedb")) == 1


@pytest.mark.parametrize("system", ["engine", "tier_first_v1", "tier_quota_v1"])
def test_parse_arms_switches_every_system_of_the_plugin_off(system: str, tmp_path: Path) -> None:
    file = tmp_path / "o.json"
    file.write_text(json.dumps(host_file(enabled=False)))
    (spec,) = parse_arms([f"{system}={file}"])
    assert isinstance(make_arm(spec), SwitchedOffArm)
    (budgeted,) = parse_arms([f"{system}@256={file}"])
    assert isinstance(make_arm(budgeted), SwitchedOffArm)


def test_parse_arms_leaves_systems_that_are_no_plugin_on(tmp_path: Path) -> None:
    file = tmp_path / "o.json"
    file.write_text(json.dumps(host_file(enabled=False)))
    (spec,) = parse_arms(["bm25"], file)
    assert not isinstance(make_arm(spec), SwitchedOffArm)


def test_switched_off_arm_recalls_nothing_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "o.json"
    file.write_text(json.dumps(host_file(enabled=False)))
    (spec,) = parse_arms([f"engine={file}"])
    assert spec.off is not None
    arm = make_arm(spec)
    system = arm.open(None)
    recall = system.recall(None)
    assert (recall.items, recall.injected, recall.context, recall.status) == ((), 0, "", "skipped")
    assert recall.receipt == {"skipped": True, "skipReason": "switched_off", "why": spec.off}
    assert off_note("engine", spec.off) == f"arm engine injects nothing, as on its host: {spec.off}"
