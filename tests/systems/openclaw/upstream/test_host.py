"""What an OpenClaw host refuses in a configuration of the engine, and settings without effect."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.config_text import parse_json
from lab.systems.openclaw.config.resolve import Checked
from lab.systems.openclaw.config.table import PLUGIN, Section
from lab.systems.openclaw.upstream.host import check_host, host_of

ENTRY = "openclaw-mem-engine"
OLDER, NEWEST = "2026.6.11", "2026.9.6"
SOUND: dict[str, Any] = {
    "plugins": {
        "slots": {"memory": ENTRY},
        "entries": {
            ENTRY: {
                "enabled": True,
                "hooks": {"allowConversationAccess": True},
                "config": {"embedding": {"apiKey": "sk-FAKE"}, "autoRecall": {"maxItems": 4}},
            }
        },
    }
}


def checked(value: Any, version: str | None = None) -> Checked:
    host = host_of(value, version)
    assert host is not None
    return check_host(value, host, where="f")


def with_value(path: str, value: Any) -> dict[str, Any]:
    """The valid file with a value at a path below ``plugins``; ``entry`` and ``config`` are the engine's."""
    file = copy.deepcopy(SOUND)
    target: Any = file["plugins"]
    first, *rest = path.split(".")
    steps = {"entry": ["entries", ENTRY], "config": ["entries", ENTRY, "config"]}.get(first, [first]) + rest
    for step in steps[:-1]:
        target = target.setdefault(step, {})
    target[steps[-1]] = value
    return file


@pytest.mark.parametrize("version", [OLDER, NEWEST])
def test_check_host_of_a_sound_file_says_nothing(version: str) -> None:
    assert checked(SOUND, version) == Checked((), (), ())


@pytest.mark.parametrize("version", [OLDER, NEWEST])
@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("config.autoRecall.maxItems", 9, "expected a whole number from 1 to 6, found 9"),
        ("config.autoRecall.quotas", {"mustMax": 1.5}, "expected a whole number from 0 to 5, found 1.5"),
        ("config.autoRecall.maxItems", "5", "expected a whole number from 1 to 6, found '5'"),
        ("config.autoRecall.maxItems", True, "expected a whole number from 1 to 6, found true"),
        ("config.autoRecall.maxItems", float("inf"), "expected a whole number from 1 to 6, found Infinity"),
        ("config.autoRecall", None, "expected true, false or an object, found null"),
        ("config.autoRecall.repeatPenalty", 0.1, "unknown key (a key of this lab's profile 'seed'"),
        ("config.lab", {}, "unknown key (a key of this lab; keep it in the file of an arm)"),
        ("config.autoRecal", {}, "unknown key (known: autoCapture, autoRecall, "),
        ("config.embedding.model", "mini", "expected one of text-embedding-3-small, text-embedding-3-large, found"),
        ("config.embedding.maxBytes", 499, "expected a whole number from 500 to 200000, found 499"),
        ("config.embedding.headChars", 20_001, "expected a whole number from 0 to 20000, found 20001"),
        ("config.embedding.apiKey", {"source": "env"}, "expected a string, found an object"),
        ("config.autoCapture", {"dedupeSimilarityThreshold": 0.69}, "expected a number from 0.7 to 0.99, found 0.69"),
        ("config.symbolicCanvas", True, "expected an object, found true or false"),
        ("config.docsColdLane", {"sourceRoots": ["a", 1]}, "item 2: expected a string, found a number"),
        ("config.docsColdLane", {"scopeMap": {"a": "b"}}, "a: expected a list of strings, found 'b'"),
        ("config.readOnly", None, "expected true or false, found null"),
        ("entry.config", None, "expected an object, found null"),
        ("entry.autoRecall", {}, "unknown key (known: config, enabled, hooks, llm, subagent)"),
        ("entry.hooks.timeoutMs", 0, "expected a whole number from 1 to 600000, found 0"),
        ("entry.hooks.timeouts", {"agent_end": 1.5}, "expected a whole number from 1 to 600000, found 1.5"),
        ("entry.enabled", "yes", "expected true or false, found 'yes'"),
        ("entries.another", {"level": 1}, "unknown key (known: config, enabled"),
        ("slots", "memory", "expected an object, found a string"),
        ("deny", [1], "item 1: expected a string, found a number"),
    ],
)
def test_check_host_of_a_refused_value_is_an_error(version: str, path: str, value: Any, what: str) -> None:
    result = checked(with_value(path, value), version)
    assert len(result.problems) == 1, result
    assert result.problems[0].startswith("f: plugins.")
    assert f": the host refuses this: {what}" in result.problems[0]
    assert "FAKE" not in str(result)


@pytest.mark.parametrize(
    ("path", "value", "refused_by"),
    [
        ("bundledDiscovery", "compat", {NEWEST}),
        ("bundledDiscovery", "all", {OLDER, NEWEST}),
        ("entry.llm", {"allowedCompletionModels": []}, {OLDER}),
    ],
)
def test_check_host_of_a_versions_own_key_follows_the_version(path: str, value: Any, refused_by: set[str]) -> None:
    for version in (OLDER, NEWEST):
        assert bool(checked(with_value(path, value), version).problems) == (version in refused_by)


@pytest.mark.parametrize(
    ("meta", "refused_by"),
    [
        ({"lastTouchedVersion": OLDER, "lastTouchedAt": "2026-06-11T00:00:00Z"}, {NEWEST}),
        ({"lastTouchedAt": 1.7e12}, {NEWEST}),
        ({"lastTouchedAt": 1e17}, {OLDER, NEWEST}),
        ({"lastTouchedAt": []}, {OLDER, NEWEST}),
        ({"migrations": {"modelPolicyAllowlist": True}}, {OLDER}),
        ({"migrations": {"modelPolicyAllowlist": False}}, {OLDER, NEWEST}),
    ],
)
def test_check_host_of_meta_follows_the_version(meta: dict[str, Any], refused_by: set[str]) -> None:
    for version in (OLDER, NEWEST):
        result = checked({"meta": meta} | SOUND, version)
        assert bool(result.problems) == (version in refused_by)
        assert all(message.startswith("f: meta") for message in result.problems)


def test_check_host_accepts_both_ends_of_every_range() -> None:
    def ends(section: Section, path: str) -> None:
        for key, entry in section.keys.items():
            if isinstance(entry, Section):
                ends(entry, f"{path}.{key}")
            elif not entry.only_seed and entry.kind in ("whole", "number"):
                low, high = entry.manifest or (entry.low, entry.high)
                step = 1 if entry.kind == "whole" else 0.001
                for value, sound in ((low, True), (high, True), (low - step, False), (high + step, False)):
                    result = checked(with_value(f"{path}.{key}", value), NEWEST)
                    assert bool(result.problems) != sound, (path, key, value)

    ends(Section(PLUGIN), "config")


@pytest.mark.parametrize(
    ("path", "value", "warning"),
    [
        ("entry.hooks", {}, "hooks.allowConversationAccess: must be true, or nothing happens: the host blocks both"),
        ("entry.hooks.allowConversationAccess", False, "hooks.allowConversationAccess: must be true, or nothing"),
        ("entry.hooks.allowPromptInjection", False, "hooks.allowPromptInjection: nothing is injected"),
        ("entry.enabled", False, "enabled: nothing happens: the engine is switched off"),
        ("enabled", False, "plugins.enabled: nothing happens: the host loads no plugin"),
        ("deny", ["OpenClaw-Mem-Engine "], "plugins.deny: nothing happens: it names openclaw-mem-engine"),
        ("slots.memory", "memory-lancedb", "plugins.slots.memory: nothing happens: it names 'memory-lancedb'"),
        ("slots", {}, "plugins.slots.memory: nothing happens: it is not set, which means 'memory-core'"),
        ("config.autoRecall", False, "autoRecall: nothing is injected: it is switched off"),
        ("config.autoRecall.quotas", {"mustMax": 1}, "autoRecall.quotas: no quota is applied"),
        ("config.workingSet", {"persist": False}, "workingSet: it stays off"),
        ("config.workingSet", True, "workingSet: true means the defaults, which leave it off"),
        ("config.dbPath", " ", "dbPath: is blank: the host accepts it and the plugin ignores it"),
    ],
)
def test_check_host_of_a_file_that_does_nothing_warns(path: str, value: Any, warning: str) -> None:
    result = checked(with_value(path, value))
    assert not result.problems
    assert len(result.warnings) == 1, result
    assert warning in result.warnings[0]


def test_check_host_before_prompts_were_guarded_warns_of_capture_alone() -> None:
    result = checked(with_value("entry.hooks", {}), OLDER)
    assert len(result.warnings) == 1
    assert "nothing is captured: the host blocks the hook agent_end" in result.warnings[0]


@pytest.mark.parametrize(
    ("receipts", "budget", "warns"),
    [
        ({"verbosity": "high"}, {}, True),
        ({"verbosity": "high"}, {"maxChars": 6000}, False),
        ({"verbosity": "high"}, {"enabled": False}, False),
        ({"verbosity": "high", "maxItems": 1}, {}, False),
        ({"verbosity": "high", "maxItems": 5}, {"maxChars": 2400}, True),
        ({"verbosity": "high", "enabled": False}, {}, False),
        ({}, {}, False),
    ],
)
def test_check_host_of_long_receipt_comments_warns(receipts: Any, budget: Any, warns: bool) -> None:
    file = with_value("config.receipts", receipts)
    file["plugins"]["entries"][ENTRY]["config"] |= {"budget": budget, "autoRecall": {"maxItems": 5}}
    assert any("most blocks would hold no memory" in message for message in checked(file).warnings) == warns


def test_check_host_of_a_value_the_plugin_clamps_is_a_note() -> None:
    result = checked(with_value("config.autoRecall.maxItems", 6))
    assert result.notes == (
        "f: autoRecall.maxItems: 5, clamped from 6: the host accepts it, and the plugin changes it silently",
    )
    assert not result.problems
    assert not result.warnings


@pytest.mark.parametrize(
    ("value", "option", "expected"),
    [
        (SOUND, None, (NEWEST, NEWEST)),
        (SOUND | {"meta": {"lastTouchedVersion": OLDER}}, None, (OLDER, OLDER)),
        (SOUND | {"meta": {"lastTouchedVersion": OLDER}}, NEWEST, (NEWEST, NEWEST)),
        (SOUND | {"meta": {"lastTouchedVersion": "2026.8.1-beta.2"}}, None, ("2026.8.1-beta.2", OLDER)),
        (SOUND | {"meta": {"lastTouchedVersion": 5}}, None, (NEWEST, NEWEST)),
        (SOUND, "2027.1.0", ("2027.1.0", NEWEST)),
        (SOUND, "2025.1.1", ("2025.1.1", OLDER)),
        (SOUND, "none", None),
        ({"autoRecall": {}}, None, None),
        ({"autoRecall": {}}, NEWEST, (NEWEST, NEWEST)),
    ],
)
def test_host_of_takes_the_option_then_the_file(value: Any, option: str | None, expected: Any) -> None:
    host = host_of(value, option)
    assert (host and host[:2]) == expected
    assert host is None or str(host).startswith(host.version)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"autoRecall": {"maxItems": 7}}, "autoRecall.maxItems"),
        ({"config": {"autoRecall": {"maxItems": 7}}}, f"plugins.entries.{ENTRY}.config.autoRecall.maxItems"),
        ({ENTRY: {"config": {"autoRecall": {"maxItems": 7}}}}, f"plugins.entries.{ENTRY}.config.autoRecall.maxItems"),
        ({"plugins": None}, "plugins"),
        ([], "config"),
        (None, "config"),
    ],
)
def test_check_host_reads_the_parts_that_operators_paste(value: Any, path: str) -> None:
    assert checked(value, NEWEST).problems[0].startswith(f"f: {path}: the host refuses this: expected ")


def test_check_host_agrees_with_recorded_verdicts_of_hosts(shared: Callable[..., Path]) -> None:
    for file in sorted(shared("live", "config").glob("*.json")):
        version = file.stem.partition("-")[2] if file.stem.startswith("openclaw-") else NEWEST
        result = checked(parse_json(file.read_text("utf-8"), file.name), version)
        assert bool(result.problems) == file.stem.startswith("refused-"), file.name
        assert not result.warnings


def test_check_host_with_faults_around_and_in_the_section_lists_both() -> None:
    value = with_value("config.autoRecall.maxItems", 9)
    value["plugins"]["foo"] = 1
    assert [problem.split(":")[1].strip() for problem in checked(value).problems] == [
        "plugins.foo",
        f"plugins.entries.{ENTRY}.config.autoRecall.maxItems",
    ]


def test_check_host_without_receipts_warns_of_a_canary_that_sees_nothing() -> None:
    (warning,) = checked(with_value("config.receipts", {"enabled": False})).warnings
    assert "receipts.enabled: recalls are not logged" in warning
