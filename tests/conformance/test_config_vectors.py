"""Configurations, held against what the public engine made of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lab.engine.config import (
    check_config,
    describe,
    normal_boolean,
    number_in_range,
    parse,
    parse_env_boolean,
    resolve,
    resolve_embedding_clamp,
    resolve_section,
)
from lab.engine.config_table import PLUGIN, Section
from lab.errors import UnusableInput

Record = dict[str, Any]
# What JSON cannot hold. A value that is undefined is None here, for the engine takes both alike.
JS = {"undefined": None, "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def given(value: Any) -> Any:
    """A recorded value as the engine got it."""
    if isinstance(value, dict):
        return JS[value["$js"]] if set(value) == {"$js"} else {key: given(inner) for key, inner in value.items()}
    return [given(one) for one in value] if isinstance(value, list) else value


def written(value: Any) -> str:
    """A value as JavaScript writes it: no endless numbers, one kind of number, keys in any order."""

    def plain(inner: Any) -> Any:
        if isinstance(inner, float):
            return (int(inner) if inner.is_integer() else inner) if math.isfinite(inner) else None
        if isinstance(inner, dict):
            return {key: plain(one) for key, one in inner.items()}
        return [plain(one) for one in inner] if isinstance(inner, list) else inner

    return json.dumps(plain(value), sort_keys=True)


def parsed(raw: Any) -> Record:
    try:
        return {"value": parse(raw)}
    except UnusableInput as error:
        return {"error": str(error)}


def config(record: Record) -> Any:
    asked, kind = given(record["input"]), record["kind"]
    if kind == "resolve":
        return resolve_section(record["section"], asked)
    if kind == "parse":
        return parsed(asked)
    if kind == "parseEnvBoolean":
        return parse_env_boolean(asked)
    if kind == "normalizeBoolean":
        return normal_boolean(asked["raw"], asked["fallback"])
    options = asked["options"]
    return number_in_range(
        asked["raw"], asked["fallback"], options["min"], options["max"], whole=options.get("integer", False)
    )


def records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_configuration_is_read_as_the_public_engine_reads_it(vectors: Path) -> None:
    found = records(vectors / "config.jsonl")
    assert len(found) == 540
    for record in found:
        assert written(config(record)) == written(given(record["output"])), record["id"]


def test_the_limits_of_embedding_are_resolved_as_the_public_engine_does(vectors: Path) -> None:
    found = [one for one in records(vectors / "embedding_clamp.jsonl") if one["fn"] == "resolveEmbeddingClampConfig"]
    assert len(found) == 78
    for record in found:
        answer = resolve_embedding_clamp(given(record["input"])["raw"])
        assert written(answer) == written(given(record["output"])), record["id"]


def test_what_the_lab_accepts_it_resolves_as_the_public_engine_does(vectors: Path) -> None:
    accepted = 0
    for record in records(vectors / "config.jsonl"):
        if record["kind"] not in ("resolve", "parse"):
            continue
        asked = given(record["input"])
        raw = {record["section"]: asked} if record["kind"] == "resolve" else asked
        if not isinstance(raw, dict) or check_config(raw, "upstream").problems:
            continue
        accepted += 1
        kept, described = parse(raw), describe(resolve(raw, "upstream"))
        for name, entry in PLUGIN.items():
            if isinstance(entry, Section):
                expected = resolve_section(name, kept.get(name))
                expected.pop("apiKey", None)
                assert written(described[name]) == written(expected), (record["id"], name)
    assert accepted > 100


@pytest.mark.parametrize("path", ["engine_vectors.json"])
def test_the_configurations_of_recorded_turns_are_accepted(shared: Any, path: str) -> None:
    cases = json.loads(shared("parity", path).read_text(encoding="utf-8"))["cases"]
    configs = [case["config"] for case in cases if case.get("config")]
    assert len(configs) > 10
    for raw in configs:
        assert check_config(raw, "upstream").problems == ()
