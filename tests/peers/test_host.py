"""The Node host with small plugins of our own; needs Node alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
START = 1_760_000_000_000

# A plugin under node_modules, where Node itself reads no TypeScript.
PEBBLE = Path(__file__).parent / "pebble"
Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts the host with a plugin."""
    monkeypatch.syspath_prepend(HERE)
    from needs import Missing, find_node
    from plugin import MODEL, Plugin, Provider

    from lab.embedding.server import EmbeddingServer

    try:
        node = find_node()
    except Missing as missing:
        pytest.skip(str(missing))
    folder = tmp_path / "node_modules" / "pebble"
    shutil.copytree(PEBBLE, folder)
    server = EmbeddingServer(Provider(), MODEL)
    started: list[Any] = []

    def begin(settings: dict[str, Any] | None = None, **hello: Any) -> Any:
        told = {"plugin": str(folder), "config": {"url": "{embedder.url}"}} | (settings or {})
        plugin = Plugin(node, told, tmp_path / f"home{len(started)}", server, **hello)
        started.append(plugin)
        return plugin

    yield begin
    for plugin in started:
        plugin.__exit__(None, None, None)
    server.close()


def memory(key: str, text: str, **more: Any) -> dict[str, Any]:
    common = {"category": "fact", "label": None, "scope": "global", "trust": "user", "hard_rule": False}
    return {"key": key, "text": text, "created_at": START} | common | more


def recall(plugin: Any, text: str, *, probe: bool = False, session: str = "s") -> Any:
    asked = {"turn": "t1", "text": text, "scope": None, "scoping": "open", "session": session, "probe": probe}
    return plugin.ask("recall", now_ms=START + 5000, **asked)


def turn(plugin: Any, key: str, role: str, text: str, session: str = "s") -> Any:
    said = {"key": key, "seq": 0, "session": session, "role": role, "text": text, "speaker": "", "scope": "global"}
    return plugin.ask("observe", now_ms=START + 9000, turn=said | {"time_ms": START})


def test_host_says_who_the_plugin_is_and_keeps_stdout_to_itself(start: Start) -> None:
    about = start().about
    assert (about["name"], about["version"], about["writes"], about["probes"]) == ("pebble", "1.2.0", True, "fresh")
    assert sorted(about["sources"]) == ["index.ts", "package.json", "shown.ts"]
    assert about["config"]["hooks"] == ["before_agent_start", "agent_end"]
    assert about["claims"] == ["relevant", "embedder", "hook:before_agent_start"]
    assert about["notes"] == ["ignored:registerCommand"]


def test_host_maps_keys_to_the_ids_that_the_block_names(start: Start) -> None:
    plugin = start()
    kept = [memory("a", "kiln <hot>\nsecond line"), memory("b", "kiln is cold"), memory("c", "harbour", label="ignore")]
    kept[1]["category"] = "todo"
    ids = plugin.ask("remember", now_ms=START + 1, memories=kept)["ids"]
    assert ids["c"] is None
    assert [row["category"] for row in plugin.tool("memory_list", START)["memories"]] == ["fact", "other"]
    assert len({ids["a"], ids["b"]}) == 2
    found = recall(plugin, "the kiln")
    assert [item["id"] for item in found["items"]] == [ids["a"], ids["b"]]
    assert (found["status"], found["injected"], found["items"][0]["text"]) == ("ok", 2, "kiln <hot>\nsecond line")
    nothing = recall(plugin, "nothing of that")
    assert (nothing["status"], nothing["items"], nothing["injected"], nothing["context"]) == ("skipped", [], 0, "")
    assert plugin.ask("forget", now_ms=START + 2, keys=["a"]) == {}
    assert [item["id"] for item in recall(plugin, "the kiln")["items"]] == [ids["b"]]
    proof = plugin.ask("prove")
    assert (proof["hooks"], proof["stored"]) == ({"before_agent_start": 3}, 1)
    assert proof["tools"] == {"memory_store": 3, "memory_forget": 1, "memory_list": 2}


def test_host_waits_for_what_a_plugin_stores_after_it_answered(start: Start) -> None:
    plugin = start({"messages": "turn"}, captures=True)
    assert turn(plugin, "u1", "user", "Kiln at 900") == {}
    (created,) = turn(plugin, "a1", "assistant", "Noted.")["created"]
    assert (created["text"], created["sources"]) == ("Kiln at 900", ["u1"])
    assert turn(plugin, "a2", "assistant", "And more.") == {}
    # A prompt without an answer was a failed run, whatever another session says next.
    assert turn(plugin, "u2", "user", "Harbour at 8") == {}
    assert turn(plugin, "u3", "user", "Ledger at 9", session="next") == {}
    (created,) = turn(plugin, "a3", "assistant", "Noted.", session="next")["created"]
    assert (created["text"], created["sources"]) == ("Ledger at 9", ["u3"])
    assert plugin.ask("prove")["embedded"] == 2


def test_host_that_stood_still_still_waits_for_what_is_stored(start: Start) -> None:
    plugin = start(captures=True, replies=False)
    assert [one["text"] for one in turn(plugin, "u1", "user", "stall, then the kiln")["created"]] == [
        "stall, then the kiln"
    ]


def test_host_without_replies_ends_a_turn_at_once_and_fed_never(start: Start) -> None:
    (created,) = turn(start(captures=True, replies=False), "u1", "user", "Kiln at 900")["created"]
    assert created["sources"] == ["u1"]
    fed = start(captures=False)
    assert [turn(fed, "u1", "user", "Kiln at 900"), turn(fed, "a1", "assistant", "Noted.")] == [{}, {}]
    assert fed.ask("prove")["stored"] == 0


def test_host_gives_time_ids_and_chance(start: Start) -> None:
    one, other, third = start(), start(), start(seed=1)
    one.ask("remember", now_ms=START + 7, memories=[memory("a", "kiln", created_at=START + 3)])
    assert one.tool("memory_list", START)["memories"][0]["at"] == START + 3
    time = one.tool("world", START + 8, what="time")
    assert time == {"now": START + 8, "made": "2025-10-09T08:53:20.008Z", "given": 5, "is": True}
    chance = [plugin.tool("world", START, what="chance") for plugin in (start(), other, third)]
    assert chance[0] == chance[1] != chance[2]
    assert len(set(chance[0]["ids"])) == 2
    env = one.tool("world", START, what="env")
    assert env == {"home": str(one.home), "cwd": str(one.home), "telemetry": "false"}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("fetch", "the lab lets this plugin reach its own endpoints only, not 192.0.2.1"),
        ("port", "not 127.0.0.1:1"),
        ("http", "the lab allows no connection to 192.0.2.1:80"),
        ("socket", "the lab allows no connection to 192.0.2.1:80"),
        ("program", "the lab lets this plugin start no program (execSync)"),
        ("stub", "the lab's host has no neverCalled"),
    ],
)
def test_host_lets_a_plugin_reach_nothing_else(start: Start, what: str, message: str) -> None:
    assert message in start().tool("world", START, what=what)["error"]


def test_host_survives_what_a_plugin_leaves_unhandled(start: Start) -> None:
    plugin = start()
    assert plugin.tool("world", START, what="background") == {"error": None}
    assert plugin.tool("memory_list", START) == {"memories": []}


@pytest.mark.parametrize(("prompt", "reason"), [("throw", "hook_error"), ("warn", "plugin_warned")])
def test_host_tells_a_degraded_recall(start: Start, prompt: str, reason: str) -> None:
    found = recall(start(), prompt)
    assert (found["status"], found["reason"], found["items"]) == ("degraded", reason, [])


def test_host_gives_a_probe_a_session_of_its_own(start: Start) -> None:
    plugin = start()
    texts = [recall(plugin, "where", probe=probe)["context"] for probe in (False, True)]
    assert texts == ["agent:main:s 0", "agent:main:probe-t1 0"]
    turn(plugin, "u1", "user", "where")
    turn(plugin, "a1", "assistant", "here")
    turn(plugin, "x1", "tool", "no message")
    turn(plugin, "u2", "user", "where", session="other")
    texts = [recall(plugin, "where", probe=probe)["context"] for probe in (False, True)]
    assert texts == ["agent:main:s 2", "agent:main:probe-t1 0"]


@pytest.mark.parametrize(("messages", "kept"), [("session", "Kiln at 900"), ("turn", "Harbour at 8")])
def test_host_ends_a_turn_with_the_messages_of_its_session(start: Start, messages: str, kept: str) -> None:
    plugin = start({"messages": messages}, captures=True)
    said = [("user", "Kiln at 900"), ("assistant", "Noted."), ("user", "Harbour at 8"), ("assistant", "Noted.")]
    for at, (role, text) in enumerate(said):
        found = turn(plugin, f"t{at}", role, text)
    # The plugin keeps the first message that it is given.
    assert found["created"][0]["text"] == kept


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"plugin": "/nowhere"}, "bad_settings", "settings.plugin: no such folder"),
        ({"plugin": 1}, "bad_settings", "settings.plugin: expected the folder of the plugin"),
        ({"plug": "x"}, "bad_settings", "settings.plug: unknown; known: plugin, config"),
    ],
)
def test_host_refuses_unusable_settings(start: Start, settings: dict[str, Any], kind: str, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        start(settings)
    assert kind in str(caught.value)
    assert message in str(caught.value)


def test_host_refuses_what_comes_out_of_turn(start: Start) -> None:
    plugin = start()
    assert plugin.answer("dance")["error"]["kind"] == "unsupported"
    assert plugin.answer("tool", name="none", now_ms=0, params={})["error"]["kind"] == "unsupported"
    assert plugin.ask("close") == {}


def test_host_takes_settings_from_the_file(start: Start, tmp_path: Path) -> None:
    model = {"url": "http://127.0.0.1:9/v1", "name": "m"}
    settings = {"needs": ["embedder", "model"], "cutoff": 7, "probes": "same", "maxItemsAt": "top.k"}
    assert start(settings).about["needs"] == ["embedder", "model"]
    assert start(settings | {"model": model | {"stub": True}}).about["needs"] == ["embedder", "model"]
    real = start(settings | {"model": model}, max_items=3)
    assert (real.about["needs"], real.about["cutoff"], real.about["probes"]) == (["embedder"], 3, "same")
    assert start(settings).about["cutoff"] == 7


def test_host_ranks_what_a_receipt_lists_below_what_the_text_names(start: Start) -> None:
    plugin = start({"config": {"url": "{embedder.url}", "receipts": True, "most": 1}})
    kept = [memory("a", "kiln at 9"), memory("b", "kiln at 8"), memory("c", "harbour")]
    ids = plugin.ask("remember", now_ms=START + 1, memories=kept)["ids"]
    found = recall(plugin, "kiln")
    assert [item["id"] for item in found["items"]] == [ids["a"], ids["b"]]
    assert [item["fts_rank"] for item in found["items"]] == [1, 2]
    assert (found["injected"], found["receipt"]["fusedTop"], found["log"]) == (1, [ids["a"], ids["b"]], [])
    assert found["receipt_text"].startswith('{"fusedTop":["')
    assert recall(plugin, "nothing")["status"] == "skipped"
    assert plugin.ask("prove")["lanes"] == {"fts": 1, "vec": 0}


def test_host_runs_the_hook_of_present_hosts_or_both(start: Start) -> None:
    config = {"config": {"url": "{embedder.url}", "both": True}}
    assert recall(start(config), "echo")["context"] == "first\n\nlast"
    assert recall(start(config | {"hooks": "both"}), "echo")["context"] == "first\n\nlast\n\nsaid echo"


def test_host_names_the_scope_where_it_is_given(start: Start) -> None:
    plugin = start({"scopeTag": "[SCOPE: {scope}] "})
    asked = {"turn": "t", "text": "x", "scope": "oak", "session": "s", "probe": True, "now_ms": START}
    plain = plugin.ask("recall", scoping="tags", **(asked | {"text": "echo"}))["context"]
    assert plain == "said echo"
    plugin = start({"scopeTag": "echo [{scope}] "})
    assert plugin.ask("recall", scoping="given", **asked)["context"] == "said echo [oak] x"


def test_block_tells_rows_with_one_text_apart(start: Start, tmp_path: Path) -> None:
    """The matching by text, through the host: category first, then the receipt, then age."""
    plugin = start()
    kept = [memory("old", "kiln at 9", category="todo"), memory("new", "kiln at 9"), memory("long", "kiln " + "x" * 40)]
    ids = plugin.ask("remember", now_ms=START + 1, memories=kept)["ids"]
    found = [item["id"] for item in recall(plugin, "kiln")["items"]]
    assert found == [ids["new"], ids["old"], ids["long"]]
