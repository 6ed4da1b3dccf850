"""Plugin arms: what is resolved before Node is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.systems.external import arm as external
from lab.systems.external.plugin import HOST, MANIFEST, PRESETS, find_node, make, preset
from lab.systems.external.settings import read_settings
from lab.systems.registry import config_in, parse_arms
from lab.systems.spec import ArmSpec


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[ArmSpec]:
    """Collect what external arms are made from, and let every Node be good enough."""
    specs: list[ArmSpec] = []
    monkeypatch.setattr(external, "make", specs.append)
    monkeypatch.setattr("lab.systems.external.plugin.find_node", lambda: "/usr/bin/node")
    return specs


def plugin(folder: Path, identity: str = "my-memory", **package: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps({"id": identity}), "utf-8")
    (folder / "package.json").write_text(json.dumps({"name": identity} | package), "utf-8")
    return folder


def spec(config: Mapping[str, Any]) -> ArmSpec:
    return ArmSpec("live", "plugin", config, "live.json")


def test_a_known_plugin_gets_its_preset_below_the_file(resolved: list[ArmSpec], tmp_path: Path) -> None:
    folder = plugin(tmp_path / "engine", "openclaw-mem-engine")
    make(spec({"plugin": str(folder), "config": {"autoRecall": {"maxItems": 6}}, "host": {"probes": "fresh"}}))
    (made,) = resolved
    assert made.config is not None
    settings = made.config["settings"]
    assert made.config["exec"] == ["/usr/bin/node", "--no-warnings", str(HOST)]
    assert settings["plugin"] == str(folder)
    assert settings["config"]["autoRecall"] == {"enabled": True, "maxItems": 6}
    assert (settings["probes"], settings["maxItemsAt"]) == ("fresh", "autoRecall.maxItems")
    assert made.config["embedder"] == {"model": "text-embedding-3-small", "dimension": 1536}


def test_an_unknown_plugin_gets_what_the_file_says(resolved: list[ArmSpec], tmp_path: Path) -> None:
    folder = plugin(tmp_path / "other")
    make(spec({"plugin": str(folder), "timeouts": {"recall": 20}, "env": ["MODEL_KEY"]}))
    (made,) = resolved
    assert made.config is not None
    assert made.config["settings"] == {"plugin": str(folder), "config": {}}
    assert (made.config["timeouts"], made.config["env"]) == ({"recall": 20}, ["MODEL_KEY"])


def test_what_a_manifest_holds_is_not_resolved_again(resolved: list[ArmSpec]) -> None:
    held = spec({"exec": ["/usr/bin/node", "host.mjs"], "settings": {"plugin": "/gone"}})
    make(held)
    assert resolved == [held]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "live.json: plugin needs a folder: --arm NAME=plugin:FOLDER, or a file with the key plugin"),
        ({"plugin": 3}, "live.json: plugin: expected"),
        ({"plugin": "gone"}, "no such folder"),
        ({"plugin": ".", "confg": {}}, "live.json: unknown key 'confg'"),
        ({"plugin": "."}, "no plugin there: it has neither openclaw.plugin.json nor package.json"),
    ],
)
@pytest.mark.usefixtures("resolved")
def test_an_unusable_file_names_the_key(
    config: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnusableInput) as caught:
        make(spec(config))
    assert message in str(caught.value)


@pytest.mark.usefixtures("resolved")
def test_a_plugin_without_its_packages_cannot_be_measured(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "bare", dependencies={"@some/store": "^1.0.0"})
    with pytest.raises(CannotMeasure, match=r"its package @some/store is not installed"):
        make(spec({"plugin": str(folder)}))
    (tmp_path / "node_modules" / "@some" / "store").mkdir(parents=True)
    make(spec({"plugin": str(folder)}))


@pytest.mark.parametrize("file", sorted(PRESETS.glob("*.json")), ids=lambda file: file.stem)
def test_presets_are_settings_without_secrets(file: Path) -> None:
    known = preset(file.stem)
    assert set(known) == {"embedder", "config", "host"}
    settings = {"plugin": "/p", "config": known["config"], **known["host"]}
    read = read_settings({"exec": ["node"], "settings": settings, "embedder": known["embedder"]}, file.name)
    assert read.settings == settings
    assert {"relevant", "embedder"} <= set(known["host"]["claims"])


def test_presets_of_other_names_are_empty() -> None:
    assert [preset(name) for name in (None, 7, "none", "../presets/memory-lancedb")] == [{}, {}, {}, {}]


def test_find_node_says_which_node_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_NODE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CannotMeasure, match=r"no Node here: put node 22\.15 or later on the path, or name it in LAB_NODE"
    ):
        find_node()


@pytest.mark.process
def test_find_node_refuses_what_is_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_NODE", str(tmp_path / "node"))
    with pytest.raises(CannotMeasure, match="does not run"):
        find_node()
    monkeypatch.setenv("LAB_NODE", sys.executable)
    with pytest.raises(CannotMeasure, match=r"is Python .*, and 22\.15 or later is needed"):
        find_node()


def test_arm_text_names_the_folder() -> None:
    (made,) = parse_arms(["live=plugin:/some/folder"])
    assert (made.name, made.system) == ("live", "plugin")
    assert made.config is not None
    assert made.config["plugin"] == "/some/folder"
    with pytest.raises(UnusableInput, match="give the arm a name of its own"):
        parse_arms(["engine=plugin:/some/folder"])


def test_file_of_a_plugin_arm_is_not_taken_for_a_hosts_file() -> None:
    own = {"lab": {"arm": "plugin"}, "plugin": "/p", "config": {"autoRecall": True}}
    assert config_in(own, "f") == own
    assert config_in({"config": {"autoRecall": {}}}, "f") == {"autoRecall": {}}
