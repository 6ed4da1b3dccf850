"""Locating the engine's configuration in a file, and the accepted file formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.base.config_text import parse_json
from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.file import locate, read_value
from lab.systems.openclaw.config.resolve import explain_config, resolve


def recall(**values: Any) -> dict[str, Any]:
    return {"autoRecall": values}


def phases(**values: Any) -> dict[str, Any]:
    return {"lab": {"phases": values}}


def by(raw: Any, profile: str, key: str, **more: Any) -> tuple[Any, str]:
    (decided,) = [decided for decided in explain_config(raw, profile, **more) if decided.key == key]
    return decided.value, decided.by


@pytest.mark.parametrize(
    "around",
    [
        lambda config: config,
        lambda config: {"plugins": {"entries": {"other": {}, "openclaw-mem-engine": {"config": config}}}, "agents": {}},
        lambda config: {"slots": {}, "entries": {"openclaw-mem-engine": {"enabled": True, "config": config}}},
        lambda config: {"openclaw-mem-engine": {"config": config}},
        lambda config: {"enabled": True, "config": config},
    ],
)
def test_locate_finds_the_configuration_in_its_surroundings(around: Any) -> None:
    assert locate(around(recall(maxItems=3)), "x") == recall(maxItems=3)
    assert resolve(around(recall(maxItems=3)), "seed").max_items == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"plugins": {}}, "f: plugins has no 'entries'; it has: nothing"),
        ({"plugins": {"entries": {"b": {}, "a": {}}}}, "f: plugins.entries has no 'openclaw-mem-engine'; it has: a, b"),
        ({"plugins": {"entries": []}}, "f: plugins.entries: expected an object, found a list"),
        ({"openclaw-mem-engine": {"budget": {}}}, "f: openclaw-mem-engine.budget: this key belongs inside 'config'"),
        ({"config": {}, "budget": {}}, "f: budget: this key belongs inside 'config'"),
    ],
)
def test_locate_without_a_configuration_of_the_engine_raises(value: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        locate(value, "f")
    assert str(caught.value) == message


@pytest.mark.parametrize("entry", [{}, {"enabled": True}, {"config": None}])
def test_locate_entry_without_configuration_gives_the_defaults(entry: Any) -> None:
    assert resolve({"plugins": {"entries": {"openclaw-mem-engine": entry}}}, "seed") == resolve({}, "seed")


def test_read_value_accepts_json5(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{plugins: {entries: {'openclaw-mem-engine': {config: {\n // mine\n dbPath: 'x',}}}}}", "utf-8")
    assert locate(read_value(path), str(path)) == {"dbPath": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":\n {"b": }}', 'f:2: neither JSON nor JSON5: Unexpected "}" at column 8'),
        ('{"a": 1', "f:1: neither JSON nor JSON5: Unexpected end of input at column 8 (the file seems cut off)"),
        ("", "f:1: is empty (the file seems cut off)"),
        ("[" * 100_000, "f: JSON is nested too deeply"),
        ('{"kind": "turn"}\n' * 20_000, "f: not JSON: Extra data: line 2 column 1 (char 17)"),
    ],
)
def test_read_value_of_invalid_json5_raises_with_the_line(text: str, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        locate(parse_json(text, "f"), "f")
    assert str(caught.value) == message
