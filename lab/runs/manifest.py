"""The manifest of a run: its request, what that resolved to, its environment, and the digest of every file.

A manifest ends in its own sha256, so that accidental changes are detected. Deliberate ones are not: a digest is not a
signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import Altered, NotARun, UnusableInput
from lab.base.files import digest, dump_json, read_json, write_atomically
from lab.base.formatting import counted
from lab.base.shape import from_json, schema_of, to_json
from lab.recordings.origins import Origins
from lab.systems.arm_info import ArmInfo

KIND, VERSION = "lab.run", 4
STARTED, INCOMPLETE, COMPLETE = "started", "incomplete", "complete"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# The field that holds the manifest's own digest.
COVER = "sha256"
GIVEN = "given"


def _about(text: str) -> Mapping[str, str]:
    return {"about": text}


@dataclass(frozen=True, slots=True)
class Labels:
    """Where importance labels came from. Only sampled labels have shares and a seed."""

    mode: str
    must_share: float | None = None
    nice_share: float | None = None
    seed: int | None = None

    @property
    def are_sampled(self) -> bool:
        """Whether another seed would sample other labels."""
        return self.seed is not None

    def __str__(self) -> str:
        if self.seed is None:
            return self.mode
        return f"{self.mode}, must {self.must_share:.2f}, nice {self.nice_share:.2f}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class HardRules:
    """How many memories of each conversation were sampled as hard rules; ``seed`` is None if ``drawn`` is 0."""

    drawn: int
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class HaystackCounts:
    """How many memories of other conversations were added to a conversation, and left out for each reason.

    ``from_other_sets`` of the added ones are from sets that were named to fill the haystack.
    """

    added: int
    duplicates: int
    hard_rules: int
    from_other_sets: int = 0


NO_HAYSTACK = "no memories of other conversations added"


@dataclass(frozen=True, slots=True)
class Haystack:
    """The memories of other conversations that were added to each one; ``sets`` has the digests of other sets."""

    memories: int
    seed: int
    conversations: Mapping[str, HaystackCounts]
    sets: Mapping[str, str] = field(default_factory=dict)

    @property
    def most_from_other_sets(self) -> int:
        """The most memories of other sets that one conversation was given; 0 if they were named but not needed."""
        return max((counts.from_other_sets for counts in self.conversations.values()), default=0)

    def __str__(self) -> str:
        most = self.most_from_other_sets
        others = f", up to {most} of them from {', '.join(self.sets)}" if most else ""
        return f"{counted(self.memories, 'memory')} of other conversations added to each{others}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything that determines the receipts: equal values give equal receipts, with equal code and packages."""

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
        default=None, metadata=_about("groups of conversations that are copies of each other")
    )
    source: str = field(default=GIVEN, metadata=_about("where memories come from: given, tools or captured"))
    haystack: Haystack | None = field(default=None, metadata=_about("memories of other conversations that were added"))

    @property
    def key(self) -> str:
        """The run key: sha256 of all fields."""
        return digest(to_json(self))

    @property
    def labels_are_sampled(self) -> bool:
        """Whether another seed would give another result. A memory that an arm captured has the label it was given."""
        return self.labels.are_sampled and not all(arm.writes for arm in self.arms)

    @property
    def embedder_model(self) -> str:
        """Name of the embedding model."""
        return str(self.embedder.get("model"))


@dataclass(frozen=True, slots=True)
class Content:
    """Digests of what the receipts and figures of one conversation depend on (IN-8).

    ``turns`` covers its turns, ``memories`` those that one of its recalls can see, as systems receive them, and
    ``gold`` its probes.
    """

    turns: str
    memories: str
    gold: str

    def differs(self, other: Content) -> str:
        """Return which parts differ, in words."""
        return ", ".join(
            name for name in ("turns", "memories", "gold") if getattr(self, name) != getattr(other, name)
        ).replace("gold", "judgements")


@dataclass(frozen=True, slots=True)
class Git:
    """The commit of the source tree, and whether it had been edited."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class Environment:
    """What made the run. ``packages`` has versions, None if not installed; ``code`` is the hash of the sources."""

    python: str
    platform: str
    machine: str
    packages: Mapping[str, str | None]
    code: str | None = None
    git: Git | None = None

    @property
    def commit(self) -> str | None:
        """The commit of the source tree; None for an installed package."""
        return self.git.commit if self.git else None


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a run, numbered from 1, and the conversations assigned to it."""

    number: int
    of: int
    conversations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class Seal:
    """The stored scores: the sha256 of their file, and the hash of what they were made from.

    That is receipts, gold, arms, and the code and libraries that measure (:func:`lab.runs.scores.made_from`).
    """

    sha256: str
    made_from: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of manifest.json.

    ``recall_points`` counts the recall points of each conversation; receipts have one row for each, for every arm.
    ``contents`` tells which conversations of two runs are the same; runs of earlier versions have none.
    ``files`` has the sha256 of each file by its path below the run; during a replay the files of conversations are
    listed in ``digests/`` instead (:mod:`lab.runs.resume`). ``scores`` is there once the run was scored; stored scores
    without it are not used.
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
    contents: Mapping[str, Content] = field(default_factory=dict, metadata=_about("what each conversation consists of"))
    origins: Origins | None = field(
        default=None, metadata=_about("conversations taken and left out by what started them, if not only a person did")
    )
    scarce: Mapping[str, int] | None = field(
        default=None, metadata=_about("memories of each conversation that has no more than every arm can inject")
    )
    scores: Seal | None = field(default=None, metadata=_about("sha256 and origin of scores.parquet, once written"))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the run says of its conversations, as sentences: who started them, and if there is nothing to choose."""
        return (*(self.origins.notes if self.origins else ()), *([self.too_small] if self.too_small else ()))

    @property
    def too_small(self) -> str | None:
        """A sentence on conversations in which there is nothing to choose; None if there is none."""
        if not self.scarce:
            return None
        slots = min(arm.cutoff for arm in self.resolved.arms)
        conversation, held = min(self.scarce.items(), key=lambda entry: entry[1])
        of_all = f"{len(self.scarce)} of {counted(len(self.resolved.conversations), 'conversation')}"
        have = "has" if len(self.scarce) == 1 else "have"
        return (
            f"too small to choose from: {of_all} {have} no more memories than the "
            f"{counted(slots, 'item')} that every arm can inject ({conversation}: {counted(held, 'memory')})"
        )

    @property
    def assigned(self) -> tuple[str, ...]:
        """Conversations assigned to the folder: all, or those of its shard."""
        return self.shard.conversations if self.shard else self.resolved.conversations

    def arm(self, name: str) -> ArmInfo:
        """Return an arm by name."""
        return next(arm for arm in self.resolved.arms if arm.name == name)

    def as_json(self) -> dict[str, object]:
        """Return the manifest as plain JSON values, its own digest last."""
        values = {"kind": KIND, "schema_version": VERSION, **to_json(self)}
        return values | {COVER: digest(values)}

    def ended(self, status: str, files: Mapping[str, str], failed: Mapping[str, int]) -> Manifest:
        """Return a copy with another status, other files and other failed recalls; other files have no scores yet."""
        scores = self.scores if files == self.files else None
        return replace(self, status=status, files=dict(files), failed=dict(failed), scores=scores)


def resolved_of(value: Mapping[str, object]) -> Resolved:
    """Return what a plan resolved to as a record; a round trip through JSON makes its tuples lists."""
    return from_json(Resolved, json.loads(json.dumps(value)), "resolved")


def read_manifest(path: Path) -> Manifest:
    """Return the manifest in the file ``path``.

    Raises :class:`NotARun` for another file or schema version, and :class:`Altered` for a manifest that is not as it
    was written.
    """
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise NotARun(f"{path}: is not the manifest of a run")
    version = value.get("schema_version")
    if version != VERSION:
        older = isinstance(version, int) and version < VERSION
        remedy = "run the replay again" if older else "use the version that wrote it"
        raise NotARun(f"{path}: has schema_version {version!r}, this version reads {VERSION}; {remedy}")
    covered = {name: content for name, content in value.items() if name != COVER}
    if COVER not in value:
        raise NotARun(f"{path}: has no field {COVER!r}; run the replay again into another --out")
    if value[COVER] != digest(covered):
        raise Altered(
            f"{path}: has changed since it was written (its sha256 differs); run the replay again into another --out"
        )
    try:
        manifest = manifest_of(value, str(path))
        _require_consistent(manifest, str(path))
    except UnusableInput as error:
        raise NotARun(f"{error}; run the replay again into another --out") from None
    return manifest


def manifest_of(value: Mapping[str, object], where: str) -> Manifest:
    """Return a manifest from its JSON, whatever its own digest says; raise :class:`UnusableInput` for a wrong field."""
    head = ("kind", "schema_version", COVER)
    return from_json(Manifest, {name: content for name, content in value.items() if name not in head}, where)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest, its own digest last."""
    write_atomically(path, dump_json(manifest.as_json()))


def _require_consistent(manifest: Manifest, where: str) -> None:
    """Raise :class:`UnusableInput` for a manifest whose parts do not agree."""
    resolved = manifest.resolved
    if not resolved.arms:
        raise UnusableInput(f"{where}: resolved: field 'arms': lists no arm")
    if manifest.run_key != resolved.key:
        raise UnusableInput(f"{where}: run_key is not the hash of field 'resolved'")
    missing = [name for name in manifest.assigned if name not in manifest.recall_points]
    if missing:
        raise UnusableInput(f"{where}: recall_points lacks conversation {missing[0]!r}")


def manifest_schema() -> dict[str, object]:
    """Return the JSON Schema (2020-12) of manifest.json."""
    schema = schema_of(Manifest)
    head: dict[str, object] = {"kind": {"const": KIND}, "schema_version": {"const": VERSION}}
    properties, required = schema["properties"], schema["required"]
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise TypeError("the schema of a record has properties, and a list of those required")
    cover = {COVER: {"type": "string", "description": "sha256 of all other fields, as JSON with sorted keys"}}
    status = {"status": {"enum": [STARTED, INCOMPLETE, COMPLETE]}}
    return {
        "$schema": DIALECT,
        "$id": f"{KIND}.v{VERSION}",
        "title": "manifest.json of a run directory",
        **schema,
        "properties": head | properties | status | cover,
        "required": [*head, *required, COVER],
    }
