"""What a replay was asked to do, resolved until nothing is left to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab import __version__
from lab.draw import draw
from lab.embedding.embedder import Embedder, embedder_named
from lab.embedding.endpoint import from_cache_alone
from lab.embedding.stored import StoredVectors
from lab.errors import UnusableInput
from lab.files import sha256_file
from lab.golden.model import GoldenSet, Probe
from lab.golden.read import read_golden
from lab.recordings.equal import EQUAL, equal_conversations
from lab.recordings.model import GLOBAL, MUST, UNKNOWN, Memory, Recording
from lab.recordings.readers import Library, read_library, with_golden
from lab.replay.labels import Labels, choose_labels
from lab.replay.loop import SOURCES, Source
from lab.replay.memories_from import read_stored, with_stored
from lab.replay.recall_points import RECALL_TURNS, RecallPoint, recall_points
from lab.retrieval.faults import FaultPlan
from lab.retrieval.query_context import Retrieval
from lab.retrieval.retrievers import STORES
from lab.runs.directory import RunDirectory
from lab.runs.manifest import resolved_of
from lab.runs.records import to_json
from lab.set_registry import golden_beside
from lab.systems.contract import Arm, ArmInfo, Searches
from lab.systems.openclaw.capture.categories import detect_category
from lab.systems.openclaw.memory import is_hard_rule
from lab.systems.registry import info_of, make_arm, parse_arms
from lab.systems.spec import ArmSpec

CATEGORIES = ("recorded", "detected")
VECTORS = ("embed", "stored")
# How each choice of --scope is asked of an arm.
SCOPES = {"none": "open", "recorded": "given", "tags": "tags"}


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The arguments of ``lab replay`` as they were given; None where the default is to be found."""

    path: str
    format: str
    arms: tuple[str, ...]
    golden: str | None = None
    store: str = "exact"
    profile: str = "seed"
    memories: str | None = None
    labels: str | None = None
    must_share: float | None = None
    nice_share: float | None = None
    seed: int = 0
    scope: str = "none"
    recall_turns: str | None = None
    max_items: int | None = None
    depth: int = 50
    limit: int | None = None
    conversation: tuple[str, ...] = ()
    config: str | None = None
    embedder: str = "all-MiniLM-L6-v2"
    faults: tuple[str, ...] = ()
    memories_from: str | None = None
    hard_rules: int = 0
    categories: str = "recorded"
    vectors: str = "embed"
    source: str = "given"

    @classmethod
    def of_manifest(cls, values: Mapping[str, Any]) -> ReplayRequest:
        """The arguments as a manifest keeps them: JSON has lists where these are tuples."""
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay ready to run. ``vectors`` are those of the store that memories come from, where they are used."""

    asked: ReplayRequest
    library: Library
    recordings: tuple[Recording, ...]
    specs: tuple[ArmSpec, ...]
    arms: tuple[Arm, ...]
    infos: tuple[ArmInfo, ...]
    labels: Labels
    recall_turns: str
    embedder: Embedder
    golden_files: tuple[Path, ...]
    vectors: StoredVectors | None = None

    def probes(self, recording: Recording) -> tuple[Probe, ...]:
        """The probes of one conversation."""
        return self.library.golden.of(recording.conversation)

    @property
    def scoping(self) -> str:
        """How scopes are asked for: one of :data:`lab.systems.openclaw.recall.turn.SCOPING`."""
        return SCOPES[self.asked.scope]

    @property
    def faults(self) -> FaultPlan:
        """The faults that were asked for."""
        return FaultPlan(self.asked.faults)

    def alone(self, recording: Recording) -> Plan:
        """The same for one of its conversations, without the others."""
        golden = GoldenSet(self.probes(recording))
        library = replace(self.library, recordings=(recording,), golden=golden, files=())
        return replace(self, library=library, recordings=(recording,), golden_files=())

    @property
    def source(self) -> Source:
        """Where memories come from."""
        return next(one for one in SOURCES if one == self.asked.source)

    def retrievals(self) -> tuple[Retrieval, ...]:
        """How the arms search, as far as that is known of them, each way once."""
        return tuple(dict.fromkeys(arm.retrieval for arm in self.arms if isinstance(arm, Searches)))

    def labels_of(self, recording: Recording) -> dict[str, str]:
        """The label of each memory of one conversation."""
        gold = {judgement.memory for probe in self.probes(recording) for judgement in probe.relevant}
        return self.labels.of(recording, gold)

    def memories_of(self, recording: Recording) -> tuple[Memory, ...]:
        """The memories of one conversation as systems are given them: labelled, hard rules and categories decided."""
        labels = self.labels_of(recording)
        must = [key for key, label in labels.items() if label == MUST]
        drawn = sorted(must, key=lambda key: draw(self.asked.seed, f"hard {key}"))[: self.asked.hard_rules]
        hard, detect = frozenset(drawn), self.asked.categories == "detected"
        return tuple(
            replace(
                memory,
                label=labels.get(memory.key, UNKNOWN),
                category=(detect_category(memory.text) if detect else None) or memory.category,
                scope=memory.scope or GLOBAL,
                hard_rule=memory.hard_rule or memory.key in hard or is_hard_rule(memory.text),
            )
            for memory in recording.memories
        )

    def recall_points_of(self, recording: Recording) -> list[RecallPoint]:
        """The recalls of one conversation in order."""
        return list(recall_points(recording, self.probes(recording), self.recall_turns))

    def resolved(self) -> dict[str, Any]:
        """Everything that decides what the receipts hold. Equal values, equal receipts."""
        stored = {"vectors": self.vectors.sha256} if self.vectors else {}
        return self.comparable() | {
            "lab": __version__,
            "arms": [to_json(info) for info in self.infos],
            "store": self.asked.store,
            "profile": self.asked.profile,
            "depth": self.asked.depth,
            "embedder": self.embedder.identity(),
            "faults": sorted(self.asked.faults),
            "source": self.asked.source,
            **stored,
        }

    def comparable(self) -> dict[str, Any]:
        """What two runs must share before their arms may be compared."""
        stored: dict[str, Any] = {"memories_from": self.library.stored} if self.library.stored else {}
        drawn = {"drawn": self.asked.hard_rules}
        if equal := equal_conversations(self.recordings):
            stored[EQUAL] = [list(names) for names in equal]
        return stored | {
            "format": self.library.format.name,
            "memories": self.library.memories,
            "recordings": self.library.checksums(),
            "golden": {path.name: sha256_file(path) for path in self.golden_files},
            "conversations": [recording.conversation for recording in self.recordings],
            "labels": self.labels.describe(),
            "scope": self.asked.scope,
            "recall_turns": self.recall_turns,
            # The seed matters where something is drawn with it.
            "hard_rules": drawn | ({"seed": self.asked.seed} if self.asked.hard_rules else {}),
            "categories": self.asked.categories,
        }

    def run_key(self) -> str:
        """Hash of :meth:`resolved`, as a manifest keeps it."""
        return resolved_of(self.resolved()).key

    def recall_points(self) -> dict[str, int]:
        """How many recalls each conversation has."""
        return {recording.conversation: len(self.recall_points_of(recording)) for recording in self.recordings}


def make_plan(
    asked: ReplayRequest,
    *,
    judged: bool = True,
    arms: Sequence[Mapping[str, Any]] | None = None,
    made: Mapping[str, Arm] | None = None,
) -> Plan:
    """Read what is named, check what was asked, and decide the defaults.

    Without ``judged`` no golden set is read, and the probes of the recordings are left out. ``arms`` are descriptions
    that stand for the arms' configuration files; ``made`` are arms that are there already, by name. Raises
    :class:`UnusableInput` for what cannot be done.
    """
    choices = (
        ("store", asked.store, STORES),
        ("scope", asked.scope, SCOPES),
        ("categories", asked.categories, CATEGORIES),
        ("vectors", asked.vectors, VECTORS),
        ("source", asked.source, SOURCES),
    )
    for what, value, known in choices:
        if value not in known:
            raise UnusableInput(f"unknown {what} {value!r}; known: {', '.join(known)}")
    if asked.vectors == "stored" and asked.memories_from is None:
        raise UnusableInput("vectors stored: needs a store to take them from; name one with --memories-from")
    FaultPlan(asked.faults).check()
    if asked.depth < 1:
        raise UnusableInput(f"depth {asked.depth} is not a whole number from 1")
    if asked.hard_rules < 0:
        raise UnusableInput(f"hard rules {asked.hard_rules} is not a whole number from 0")
    config = Path(asked.config) if asked.config else None
    specs = parse_arms(asked.arms, config, made or {}) if arms is None else _specs_of(arms)
    specs = with_options(specs, asked)
    opened = tuple((made or {}).get(spec.name) or make_arm(spec) for spec in specs)
    infos = tuple(info_of(spec, arm) for spec, arm in zip(specs, opened, strict=True))
    library = read_library(Path(asked.path), asked.format, memories=asked.memories)
    _require_source(asked, library, infos)
    if not judged:
        library = replace(library, golden=GoldenSet(notes=library.golden.notes))
    vectors = None
    if asked.memories_from is not None:
        stored = read_stored(Path(asked.memories_from), vectors=asked.vectors == "stored")
        library, vectors = with_stored(library, stored), stored.vectors
    golden_path = golden_beside(Path(asked.path)) if asked.golden is None else Path(asked.golden)
    if not judged:
        golden_path = None
    if golden_path:
        golden = read_golden(golden_path)
        if asked.golden is None and Path(asked.path).is_file():
            # A set found beside a folder judges all its recordings; one file of them brings its own probes alone.
            golden = GoldenSet(tuple(probe for one in library.recordings for probe in golden.of(one.conversation)))
        library = with_golden(library, golden)
    recordings = _chosen(library.recordings, asked.conversation, asked.limit)
    recall_turns = asked.recall_turns or library.format.recall_turns
    if recall_turns not in RECALL_TURNS:
        raise UnusableInput(f"unknown recall turns {recall_turns!r}; known: {', '.join(RECALL_TURNS)}")
    if asked.faults:
        each = (recall_points(one, library.golden.of(one.conversation), recall_turns) for one in recordings)
        FaultPlan(asked.faults).require({point.key for happening in each for point in happening})
    labels = choose_labels(asked.labels, recordings, asked.must_share, asked.nice_share, asked.seed)
    files = tuple(sorted(golden_path.glob("*.jsonl")) if golden_path.is_dir() else [golden_path]) if golden_path else ()
    embedder = embedder_named(asked.embedder)
    return Plan(asked, library, recordings, specs, opened, infos, labels, recall_turns, embedder, files, vectors)


def with_options(specs: Sequence[ArmSpec], asked: ReplayRequest) -> tuple[ArmSpec, ...]:
    """The specs under the options of a replay."""
    return tuple(
        replace(spec, profile=asked.profile, max_items=asked.max_items, depth=asked.depth, seed=asked.seed)
        for spec in specs
    )


def _specs_of(arms: Sequence[Mapping[str, Any]]) -> tuple[ArmSpec, ...]:
    """Arms out of their own descriptions, as a manifest keeps them: their files may say something else by now."""
    return tuple(
        ArmSpec(told["name"], told["system"], told["config"], f"arm {told['name']}", embedder=told.get("embedder"))
        for told in arms
    )


def _require_source(asked: ReplayRequest, library: Library, infos: Sequence[ArmInfo]) -> None:
    """Refuse a source that these recordings do not have, or that none of the arms can do with."""
    if asked.source == "captured" and not any(info.writes for info in infos):
        raise UnusableInput("source captured: none of these arms captures memories; verbatim is one that does")
    if asked.source == "tools" and (asked.memories_from or not library.format.from_tools):
        what = "--memories-from" if asked.memories_from else f"format {library.format.name!r}"
        raise UnusableInput(f"source tools: {what} has no memories from tool calls; format openclaw has")


def plan_of(run: RunDirectory) -> Plan:
    """What a run was asked to do, read again; :class:`UnusableInput` where it would not be the same run any more.

    Its arms are those of its manifest: a baseline outlives the files that configured it. Its embedder makes no request:
    a manifest may be somebody else's, and names the address that texts and key would be sent to.
    """
    arms = [to_json(arm) for arm in run.manifest.resolved.arms]
    plan = make_plan(ReplayRequest.of_manifest(run.manifest.asked), arms=arms)
    if plan.run_key() != run.manifest.run_key:
        raise UnusableInput(
            f"{run.path}: its recording, memories, golden set, documents or the lab's version has changed since; "
            "replay it into another --out"
        )
    return replace(plan, embedder=from_cache_alone(plan.embedder))


def _chosen(recordings: tuple[Recording, ...], names: tuple[str, ...], limit: int | None) -> tuple[Recording, ...]:
    known = {recording.conversation for recording in recordings}
    for name in names:
        if name not in known:
            raise UnusableInput(f"no conversation {name!r}; there are: {', '.join(sorted(known))}")
    if limit is not None and limit < 1:
        raise UnusableInput(f"limit {limit} is not a whole number from 1")
    return tuple(one for one in recordings if not names or one.conversation in names)[:limit]
