"""Keys that the lab does not implement: reported in a live file, refused in a configuration for the lab only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.resolve import check_config, describe, explain_config, resolve
from lab.systems.openclaw.config.table import LAB, PLUGIN, PROFILES, Knob, Section
from lab.systems.openclaw.config.values import missing, only_here
from lab.systems.openclaw.presets import recommended
from lab.systems.openclaw.upstream.host import check_host, host_of

# A live engine's section, most of which recall never reads.
LIVE: dict[str, Any] = {
    "embedding": {"apiKey": "sk-FAKE", "model": "text-embedding-3-large"},
    "dbPath": "~/lancedb",
    "autoRecall": {"maxItems": 5, "routeAuto": {"enabled": False, "timeoutMs": 900}},
    "autoCapture": {"enabled": True, "captureTodo": True, "todoStaleTtlDays": 3},
    "docsColdLane": {"enabled": True, "sourceRoots": ["notes"], "ingestOnStart": True},
    "weijiMemoryPreflight": True,
    "symbolicCanvas": {"autoBuild": {"enabled": True}},
    "retrievalBackend": {"backend": "lancedb", "qdrantEdge": {"enabled": True}},
    "gbrainMirror": {"mirrorRoot": "~/brain"},
}
MISSING = (
    *("dbPath", "docsColdLane.ingestOnStart", "weijiMemoryPreflight", "symbolicCanvas"),
    "retrievalBackend.qdrantEdge",
)


def test_missing_of_a_live_file_lists_unimplemented_keys() -> None:
    assert missing(LIVE) == MISSING
    for profile in PROFILES:
        assert check_config(LIVE, profile).missing == MISSING
        assert check_config(LIVE, profile).problems == ()
        assert resolve(LIVE, profile).todo_stale_ttl_days == 3
    host = host_of({"plugins": {}})
    assert host is not None
    assert check_host({"plugins": {"entries": {"openclaw-mem-engine": {"config": LIVE}}}}, host).missing == MISSING


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        "no configuration",
        {"autoCapture": False},
        {"autoCapture": None},
        {"autoCapture": {"enabled": False, "maxItemsPerTurn": 3}},
        {"autoCapture": {"captureTodo": True, "todoStaleTtlDays": 3}},
        {"autoCapture": True},
        {"gbrainMirror": {"enabled": False}},
        {"symbolicCanvas": {"autoBuild": False}},
        {"weijiMemoryPreflight": {"command": "x"}},
        {"retrievalBackend": {"backend": "lancedb"}},
        {"workingSet": {"enabled": True}, "readOnly": True},
    ],
)
def test_missing_ignores_what_is_off_or_implemented(raw: Any) -> None:
    assert missing(raw) == ()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"gbrainMirror": True}, "gbrainMirror"),
        ({"symbolicCanvas": True}, "symbolicCanvas"),
        ({"tableName": "memories"}, "tableName"),
        ({"docsColdLane": {"sqlitePath": "x"}}, "docsColdLane.sqlitePath"),
    ],
)
def test_refused_unimplemented_keys_in_a_lab_configuration(raw: Any, path: str) -> None:
    assert missing(raw) == (path,)
    resolve(raw, "seed")
    lab_configs: list[dict[str, Any]] = [
        {"lab": {"arm": "engine"}},
        {"autoRecall": {"repeatPenalty": 0.1}},
        {"autoRecall": {"quotas": {"caps": "strict"}}},
    ]
    for lab_config in lab_configs:
        with pytest.raises(UnusableInput, match=f"^my.json: {path}: not implemented here; leave it out"):
            resolve(raw | lab_config, "seed", where="my.json")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"autoRecall": {"routeAuto": {"enabled": True}}},
            "autoRecall.routeAuto.enabled: true is not implemented here",
        ),
        ({"retrievalBackend": {"backend": "qdrant-edge"}}, "retrievalBackend.backend: qdrant-edge is not implemented"),
    ],
)
def test_refused_values_that_need_another_recall(raw: Any, message: str, profile: str) -> None:
    with pytest.raises(UnusableInput, match=f"^openclaw.json: {message}"):
        resolve(raw, profile, where="openclaw.json")
    host = host_of({"plugins": {}})
    assert host is not None
    warned = [warning for warning in check_host(raw, host).warnings if message in warning]
    assert [warning.endswith("the host accepts it; a replay refuses it") for warning in warned] == [True]


def test_only_here_removes_unimplemented_keys_everywhere() -> None:
    keys = {decided.key: decided.by for decided in explain_config(LIVE, "seed")}
    assert keys["dbPath"] == "not implemented here"
    assert keys["autoCapture.todoStaleTtlDays"] == keys["autoCapture.captureTodo"] == "config"
    assert not [key for key in keys if key.startswith("gbrainMirror.import")]
    assert only_here(LIVE) == {
        "embedding": LIVE["embedding"],
        "autoRecall": {"maxItems": 5},
        "autoCapture": LIVE["autoCapture"],
        "docsColdLane": {"enabled": True, "sourceRoots": ["notes"]},
        "retrievalBackend": {"backend": "lancedb"},
    }
    described = describe(resolve(LIVE, "seed"))
    assert missing(described) == ()
    assert resolve(described, "seed") == resolve(LIVE, "seed")
    assert resolve(recommended(LIVE), "seed").todo_stale_ttl_days == 3


# Provider's key and model belong to the embedder; profile and arm to the command; one backend is refused.
ELSEWHERE = ("embedding.apiKey", "embedding.model", "lab.profile", "lab.arm", "retrievalBackend.backend")


def test_every_key_without_a_record_field_is_marked() -> None:
    """Otherwise the key would be accepted and have no effect."""
    silent = []
    for path, value in _changes(Section({**PLUGIN, "lab": LAB}, boolean=False), ""):
        raw: Any = value
        for key in reversed(path.split(".")):
            raw = {key: raw}
        if path not in ELSEWHERE and not missing(raw) and resolve(raw, "seed") == resolve({}, "seed"):
            silent.append(path)
    assert silent == []


def _changes(section: Section, path: str) -> Iterator[tuple[str, Any]]:
    """Every key of the implemented sections, with a value other than its default."""
    for key, entry in section.keys.items():
        at = f"{path}.{key}" if path else key
        if isinstance(entry, Section):
            yield from _changes(entry, at)
        elif section.here or entry.here:
            yield at, _another(entry)


def _another(knob: Knob) -> Any:
    default = knob.default_in("seed")
    if knob.kind == "flag":
        return not default
    if knob.kind == "positive":
        return 900
    if knob.kind in ("whole", "number"):
        return knob.low if default != knob.low else knob.high_in("seed")
    if knob.choices:
        return next(choice for choice in knob.choices if choice != default)
    return {"another": ["x"]} if knob.kind == "map" else ["another"] if isinstance(default, tuple) else "another"


def test_missing_preflight_is_permitted_in_a_lab_configuration() -> None:
    raw = {"weijiMemoryPreflight": {"enabled": True, "failMode": "closed"}, "lab": {"arm": "engine"}}
    assert missing(raw) == ("weijiMemoryPreflight",)
    decided = {entry.key: entry.by for entry in explain_config(raw, "seed")}
    assert decided["weijiMemoryPreflight.failMode"] == "used by lab memory store alone"
