"""What a host's configuration names is used, or refused with its key and its place (HC-1, HC-10, IN-2)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import remove_folder
from lab.host.home import look
from lab.host.snapshot import open_snapshot, take
from lab.recordings.openclaw import gather
from lab.recordings.readers import read_library
from lab.replay.memories_from import table_read
from lab.systems.openclaw.config.file import ENTRY
from tests.host.hosts import FIRST, add_session


def written(home: Path, engine: dict[str, Any] | None = None, **parts: Any) -> Path:
    """Write the configuration of a home, with one session of the agent main."""
    add_session(home, "main0000-aaaa", FIRST, ["Where does the spare key hang?"])
    value = {
        "plugins": {"slots": {"memory": ENTRY}, "entries": {ENTRY: {"enabled": True, "config": engine or {}}}},
        **parts,
    }
    (home / "openclaw.json").write_text(json.dumps(value))
    return home


def add_table(folder: Path, texts: list[str], name: str = "memories") -> Path:
    """Write a LanceDB table of the plugin's form."""
    import lancedb

    rows = [
        {"id": f"{at:08d}-0000-4000-8000-000000000000", "text": text, "vector": [0.1, 0.2], "createdAt": FIRST + at,
         "category": "fact", "importance": 0.5, "importance_label": "unknown", "scope": "global", "trust_tier": "user"}
        for at, text in enumerate(texts)
    ]  # fmt: skip
    lancedb.connect(str(folder)).create_table(name, rows)
    return folder


def refused(home: Path, **named: Any) -> str:
    with pytest.raises(UnusableInput) as caught:
        look(home, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the store that a host makes by default."""
    add_table(tmp_path / "home" / "memory" / "lancedb", ["stale one", "stale two", "stale three"])
    return tmp_path / "home"


def test_look_takes_the_store_that_a_variable_names(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = add_table(tmp_path / "elsewhere" / "new", ["new"])
    written(home, {"dbPath": "${LAB_TEST_LANCE}/new"})
    assert f"plugins.entries.{ENTRY}.config.dbPath" in refused(home)
    assert "not set: LAB_TEST_LANCE" in refused(home)
    monkeypatch.setenv("LAB_TEST_LANCE", str(tmp_path / "elsewhere"))
    assert look(home).store == store
    (home / ".env").write_text(f"LAB_TEST_LANCE={tmp_path / 'gone'}\n")
    assert look(home).store == store


@pytest.mark.parametrize("path", ["/nowhere/lancedb", "gone", "~/.openclaw/gone", "${}", "agents"])
def test_look_never_replaces_a_named_store_that_is_not_there(home: Path, path: str) -> None:
    text = refused(written(home, {"dbPath": path}))
    assert f"{home / 'openclaw.json'}: plugins.entries.{ENTRY}.config.dbPath: " in text
    assert "--store" in text
    assert look(home, store=home / "memory" / "lancedb").store == home / "memory" / "lancedb"


def test_look_takes_the_table_that_is_named(home: Path, tmp_path: Path) -> None:
    add_table(home / "memory" / "lancedb", ["second"], "memories_v2")
    found = look(written(home, {"tableName": "memories_v2"}))
    assert (found.table, found.store) == ("memories_v2", home / "memory" / "lancedb")
    assert [part.contains[:28] for part in found.parts if part.what == "store"] == ["1 row of table memories_v2, "]
    snapshot = take(found, tmp_path / "root", date="2026-11-23", created="x")
    assert (snapshot.rows, [path.name for path in (snapshot.path / "store" / "data").iterdir()]) == (
        1,
        ["memories.lance"],
    )
    assert open_snapshot(snapshot.path).rows == 1
    assert table_read(str(snapshot.store), [snapshot.path / "engine.json"]) == str(snapshot.store)
    remove_folder(tmp_path / "root")
    text = refused(written(home, {"tableName": "memories_v3"}))
    assert f"plugins.entries.{ENTRY}.config.tableName: {home}/memory/lancedb has no table 'memories_v3'" in text


def test_sessions_elsewhere_are_read_beside_those_of_the_home(home: Path, tmp_path: Path) -> None:
    ext = tmp_path / "ext"
    moved = add_session(tmp_path / "made", "ops00000-aaaa", FIRST, ["What does the choir sing?"])
    (ext / "ops" / "sessions").mkdir(parents=True)
    moved.rename(ext / "ops" / "sessions" / moved.name)
    written(home, session={"store": f"{ext}/{{agentId}}/sessions/sessions.json"}, agents={"list": [{"id": "main"}]})
    found = gather(home)
    assert [each.conversation for each in found.recordings] == ["main0000-aaaa", "ops00000-aaaa"]
    looked = look(home)
    assert f"session.store: {ext}/main/sessions is not there (agent main)" in looked.lacks
    snapshot = take(looked, tmp_path / "root", date="2026-11-23", created="x")
    assert (snapshot.path / "agents" / "ops" / "sessions" / moved.name).is_file()
    assert len(read_library(snapshot.path, "openclaw").recordings) == 2
    remove_folder(tmp_path / "root")


def test_sessions_of_one_agent_in_two_places_are_both_in_a_snapshot(home: Path, tmp_path: Path) -> None:
    other = add_session(tmp_path / "made", "main0000-bbbb", FIRST, ["What does the choir sing?"]).parent
    add_session(tmp_path / "made", "main0000-aaaa", FIRST, ["Another session of that name?"])
    written(home, session={"store": str(other / "sessions.json")})
    snapshot = take(look(home), tmp_path / "root", date="2026-11-23", created="x")
    names = sorted(path.relative_to(snapshot.path).as_posix() for path in snapshot.path.rglob("*.jsonl"))
    assert names == [
        "agents/main.1/sessions/main0000-aaaa.jsonl",
        "agents/main/sessions/main0000-aaaa.jsonl",
        "agents/main/sessions/main0000-bbbb.jsonl",
    ]
    remove_folder(tmp_path / "root")


def test_a_store_in_its_default_place_is_read_once(home: Path) -> None:
    written(home, session={"store": "~/.openclaw/agents/{agentId}/sessions/sessions.json"})
    assert [each.conversation for each in gather(home).recordings] == ["main0000-aaaa"]


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        ({"session": {"store": "/nowhere/{agentId}/sessions.json"}}, "session.store: /nowhere/{agentId}/sessions.json"),
        ({"session": {"store": "/nowhere/sessions.json"}}, "session.store: /nowhere/sessions.json"),
        ({"agents": {"list": [{"id": "ops", "agentDir": "/nowhere"}]}}, "agents.list.0.agentDir: /nowhere"),
        ({"agents": {"entries": {"ops": {"agentDir": "gone"}}}}, "agents.entries.ops.agentDir: "),
        ({"session": {"store": "${LAB_NOT_SET}/sessions.json"}}, "not set: LAB_NOT_SET (session.store)"),
        ({"agents": {"list": [{"agentDir": "${LAB_NOT_SET}"}]}}, "not set: LAB_NOT_SET (agents.list.0.agentDir)"),
    ],
)
def test_a_place_of_sessions_that_is_not_there_is_refused(home: Path, parts: Any, key: str) -> None:
    assert f"openclaw.json: {key}" in refused(written(home, **parts))
    with pytest.raises(UnusableInput, match=r"openclaw\.json: "):
        gather(home)


def test_a_pipe_in_place_of_sessions_is_refused_and_not_read(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sessions.json")
    assert "is a pipe" in refused(written(home, session={"store": str(tmp_path / "sessions.json")}))
    written(home)
    (home / "agents" / "main" / "agent").mkdir()
    os.mkfifo(home / "agents" / "main" / "agent" / "openclaw-agent.sqlite")
    assert "openclaw-agent.sqlite: is a pipe" in refused(home)
    (home / "agents" / "main" / "agent" / "openclaw-agent.sqlite").unlink()
    os.mkfifo(home / "agents" / "main" / "sessions" / "second-aaaa.jsonl")
    assert "second-aaaa.jsonl: is a pipe" in refused(home)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableInput, match="is a pipe"):
        gather(tmp_path / "pipe")


def test_look_takes_a_configuration_outside_of_the_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "etc" / "openclaw.json"
    config.parent.mkdir()
    written(home).joinpath("openclaw.json").rename(config)
    assert "name the configuration with --config, or by OPENCLAW_CONFIG_PATH" in refused(home)
    assert look(home, config=config).config == config
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(config))
    found = look(home)
    assert (found.config, found.store) == (config, home / "memory" / "lancedb")
    snapshot = take(found, tmp_path / "root", date="2026-11-23", created="x")
    assert open_snapshot(snapshot.path).config == str(config)
    remove_folder(tmp_path / "root")


def test_look_says_why_the_host_does_not_run_the_engine(home: Path) -> None:
    written(home)
    assert look(home).off == ()
    value = json.loads((home / "openclaw.json").read_text())
    value["plugins"]["slots"]["memory"] = "memory-core"
    (home / "openclaw.json").write_text(json.dumps(value))
    assert look(home).off == (f"plugins.slots.memory: nothing happens: it names 'memory-core', not '{ENTRY}'",)


def test_look_lists_included_files(home: Path) -> None:
    written(home)
    whole = json.loads((home / "openclaw.json").read_text())
    (home / "plugins.json").write_text(json.dumps(whole["plugins"]))
    (home / "openclaw.json").write_text('{"plugins": {"$include": "plugins.json"}}')
    parts = [(part.where, part.what) for part in look(home).parts][:2]
    assert parts == [("openclaw.json", "configuration"), ("plugins.json", "configuration")]
