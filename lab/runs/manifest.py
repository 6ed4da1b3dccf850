"""The manifest of a run: what was asked, what it came to, on which code it was made, and the digest of every file.

A manifest is covered by a sha256 of its own, so that a change of one bit is noticed. Whoever changes files on purpose
and writes new digests is not: a digest is no signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.errors import Altered, NotARun, UnusableInput
from lab.files import digest, read_json
from lab.runs.records import from_json, schema_of, to_json
from lab.systems.contract import ArmInfo

KIND, VERSION = "lab.run", 4
STARTED, INCOMPLETE, COMPLETE = "started", "incomplete", "complete"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# What a manifest has beside the fields of :class:`Manifest`.
COVER = "sha256"
GIVEN = "given"


def _about(text: str) -> Mapping[str, str]:
    return {"about": text}


@dataclass(frozen=True, slots=True)
class Labels:
    """Where importance labels came from. Shares and seed are those of labels that were sampled."""

    mode: str
    must_share: float | None = None
    nice_share: float | None = None
    seed: int | None = None

    @property
    def are_sampled(self) -> bool:
        """Whether another seed would give other labels."""
        return self.seed is not None

    def __str__(self) -> str:
        if self.seed is None:
            return self.mode
        return f"{self.mode}, must {self.must_share:.2f}, nice {self.nice_share:.2f}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class HardRules:
    """How many memories a conversation were made hard rules by a draw, and the seed where there are any."""

    drawn: int
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything that decides what the receipts hold: equal values, equal receipts."""

    format: str
    memories: str
    recordings: Mapping[str, str] = field(metadata=_about("sha256 of every file that was read, by name"))
    golden: Mapping[str, str]
    conversations: tuple[str, ...]
    labels: Labels
    scope: str
    recall_turns: str
    hard_rules: HardRules
    categories: str
    lab: str = field(metadata=_about("version of the lab"))
    arms: tuple[ArmInfo, ...]
    store: str
    profile: str
    depth: int
    embedder: Mapping[str, object]
    faults: tuple[str, ...]
    memories_from: str | None = None
    vectors: str | None = None
    equal_conversations: tuple[tuple[str, ...], ...] | None = field(
        default=None, metadata=_about("groups of conversations that say the same")
    )
    source: str = field(default=GIVEN, metadata=_about("where memories come from: given, tools or captured"))

    @property
    def key(self) -> str:
        """The run key: sha256 of all of it."""
        return digest(to_json(self))

    @property
    def embedder_model(self) -> str:
        """The model that embedded texts."""
        return str(self.embedder.get("model"))


@dataclass(frozen=True, slots=True)
class Git:
    """The commit of the source tree, and whether it had been edited."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class Environment:
    """What made the run. ``packages`` maps to None what was not installed; ``code`` names the sources on the way."""

    python: str
    platform: str
    machine: str
    packages: Mapping[str, str | None]
    code: str | None = None
    git: Git | None = None

    @property
    def commit(self) -> str | None:
        """The commit of the source tree, if it was run from one."""
        return self.git.commit if self.git else None


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a run, counted from 1, and the conversations that it is to hold."""

    number: int
    of: int
    conversations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class Migrated:
    """That a run was made by an earlier version, and what could not be known when it was brought forward."""

    schema_version: int
    lab: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run directory says of itself.

    ``recall_points`` is how many rows each conversation has in its receipts, once for every arm. ``files`` has the
    sha256 of each file by its path below the run; while a replay is under way, the files of conversations are listed
    in ``digests/`` instead (:mod:`lab.runs.resume`).
    """

    status: str
    run_key: str
    comparable_key: str
    asked: Mapping[str, object]
    resolved: Resolved
    environment: Environment
    recall_points: Mapping[str, int]
    files: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict, metadata=_about("failed recalls by arm"))
    shard: Shard | None = None
    migrated: Migrated | None = None

    @property
    def own(self) -> tuple[str, ...]:
        """Conversations that the folder is to hold: all, or those of its shard."""
        return self.shard.conversations if self.shard else self.resolved.conversations

    def arm(self, name: str) -> ArmInfo:
        """An arm by name."""
        return next(arm for arm in self.resolved.arms if arm.name == name)

    def as_json(self) -> dict[str, object]:
        """Plain values, as manifest.json has them, its own digest last."""
        found = {"kind": KIND, "schema_version": VERSION, **to_json(self)}
        return found | {COVER: digest(found)}

    def ended(self, status: str, files: Mapping[str, str], failed: Mapping[str, int]) -> Manifest:
        """The same with another status, other files and other failed recalls."""
        return replace(self, status=status, files=dict(files), failed=dict(failed))


def resolved_of(value: Mapping[str, object]) -> Resolved:
    """What a plan was resolved to, as a manifest keeps it: tuples are lists in JSON."""
    return from_json(Resolved, json.loads(json.dumps(value)), "resolved")


def read_manifest(path: Path) -> Manifest:
    """The manifest of a run in ``path``.

    Raises :class:`NotARun` for a file that is none, or is of another version, and :class:`Altered` for one that is not
    as it was written.
    """
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise NotARun(f"{path}: is no manifest of a run")
    version = value.get("schema_version")
    if version != VERSION:
        older = isinstance(version, int) and version < VERSION
        way = f"`lab migrate {path.parent} OUT` brings it forward" if older else "use the version that wrote it"
        raise NotARun(f"{path}: has schema_version {version!r}, this version reads {VERSION}; {way}")
    covered = {name: one for name, one in value.items() if name != COVER}
    if COVER not in value:
        raise NotARun(f"{path}: has no field {COVER!r}; run the replay again into another --out")
    if value[COVER] != digest(covered):
        raise Altered(f"{path}: is not as it was written (its sha256 differs); run the replay again into another --out")
    own = {name: one for name, one in covered.items() if name not in ("kind", "schema_version")}
    try:
        manifest = from_json(Manifest, own, str(path))
        _require_whole(manifest, str(path))
    except UnusableInput as error:
        raise NotARun(f"{error}; run the replay again into another --out") from None
    return manifest


def _require_whole(manifest: Manifest, where: str) -> None:
    """Refuse a manifest whose parts do not agree."""
    resolved = manifest.resolved
    if not resolved.arms:
        raise UnusableInput(f"{where}: resolved: field 'arms': holds no arm")
    if manifest.run_key != resolved.key:
        raise UnusableInput(f"{where}: run_key is not the hash of what it was resolved to")
    without = [name for name in manifest.own if name not in manifest.recall_points]
    if without:
        raise UnusableInput(f"{where}: recall_points says nothing of {without[0]!r}")


def manifest_schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of manifest.json."""
    found = schema_of(Manifest)
    head: dict[str, object] = {"kind": {"const": KIND}, "schema_version": {"const": VERSION}}
    own, needed = found["properties"], found["required"]
    if not isinstance(own, dict) or not isinstance(needed, list):
        raise TypeError("a record has properties, and a list of those it needs")
    cover = {COVER: {"type": "string", "description": "sha256 of all the rest, as JSON with sorted keys"}}
    status = {"status": {"enum": [STARTED, INCOMPLETE, COMPLETE]}}
    return {
        "$schema": DIALECT,
        "$id": f"{KIND}.v{VERSION}",
        "title": "manifest.json of a run directory",
        **found,
        "properties": head | own | status | cover,
        "required": [*head, *needed, COVER],
    }
