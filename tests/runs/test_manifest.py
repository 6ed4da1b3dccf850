"""The manifest as a record, as JSON and as a schema; records in general."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jsonschema
import pytest

from lab.base.errors import UnusableInput
from lab.base.shape import from_json, schema_of, to_json
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Manifest, Shard, manifest_schema


def _validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(manifest_schema())
    return jsonschema.Draft202012Validator(manifest_schema())


def test_manifest_round_trip_through_json_is_equal(sound: RunDirectory) -> None:
    value = json.loads(json.dumps(to_json(sound.manifest)))
    assert from_json(Manifest, value, "manifest") == sound.manifest


def test_manifest_schema_accepts_a_written_manifest(sound: RunDirectory) -> None:
    _validator().validate(json.loads((sound.path / "manifest.json").read_bytes()))
    other = replace(sound.manifest, shard=Shard(1, 2, ("a",)))
    _validator().validate(json.loads(json.dumps(other.as_json())))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "finished"},
        {"schema_version": 3},
        {"recall_points": {"a": "many"}},
        {"colour": "red"},
        {"files": {"golden.jsonl": 7}},
    ],
)
def test_manifest_schema_refuses_what_the_reader_refuses(sound: RunDirectory, change: dict[str, Any]) -> None:
    value = json.loads((sound.path / "manifest.json").read_bytes()) | change
    assert not _validator().is_valid(value)


def test_schema_command_prints_the_schema(lab: Any) -> None:
    assert json.loads(lab("runs", "schema").out) == json.loads(lab("runs", "schema", "--json").out) == manifest_schema()


def test_manifest_describes_each_arm(sound: RunDirectory) -> None:
    arm = sound.arm("tier_quota_v1")
    assert (arm.system, arm.cutoff, arm.depth, arm.writes, arm.version) == ("tier_quota_v1", 6, 6, False, "")
    assert sound.manifest.resolved.source == "given"
    points = sound.manifest.recall_points
    assert {name: sound.read_receipts(name, ("arm",)).num_rows for name in points} == {
        name: len(sound.arms) * count for name, count in points.items()
    }


@dataclass(frozen=True, slots=True)
class Inner:
    """A nested record."""

    number: float


@dataclass(frozen=True, slots=True)
class Outer:
    """One field of every kind."""

    text: str
    many: tuple[Inner, ...]
    by_name: Mapping[str, int | None]
    anything: object = None
    flag: bool = False


def test_from_json_reads_every_kind_of_field() -> None:
    one = Outer("x", (Inner(1), Inner(2.5)), {"a": 1, "b": None}, {"any": ["thing"]}, True)
    value = json.loads(json.dumps(to_json(one)))
    assert from_json(Outer, value, "here") == one
    jsonschema.Draft202012Validator(schema_of(Outer)).validate(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 7}, "here: field 'text': expected a string, found a number"),
        ({"many": [{}]}, r"here: field 'many'\[0\]: has no field 'number'"),
        ({"many": [{"number": True}]}, r"field 'many'\[0\]: field 'number': expected a number, found true or false"),
        ({"by_name": {"a": "one"}}, "field 'by_name': 'a': expected a number, found a string"),
        ({"flag": 1}, "field 'flag': expected true or false, found a number"),
        ({"other": 1}, "here: unknown key 'other'"),
    ],
)
def test_from_json_wrong_shape_names_its_path(change: dict[str, Any], message: str) -> None:
    value = {"text": "x", "many": [], "by_name": {}} | change
    with pytest.raises(UnusableInput, match=message):
        from_json(Outer, value, "here")
    assert not jsonschema.Draft202012Validator(schema_of(Outer)).is_valid(value)
