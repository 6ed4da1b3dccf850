"""Resolve a replay request into a plan, in which every default is decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.base.code import __version__
from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.base.formatting import choices, counted
from lab.base.set_registry import golden_beside
from lab.base.shape import to_json
from lab.embedding.embedder import Embedder
from lab.embedding.endpoint import from_cache_alone
from lab.embedding.vectors import StoredVectors, embedder_named
from lab.golden.files import read_golden
from lab.golden.model import GoldenSet, Probe, is_added
from lab.recordings.formats import format_named
from lab.recordings.model import EQUAL, GLOBAL, MUST, UNKNOWN, Memory, Recording, equal_conversations
from lab.recordings.origins import Origins
from lab.recordings.readers import Library, of_origins, read_library, with_golden
from lab.replay.haystack import default_haystack, fill, supply_format, without_absent
from lab.replay.labels import Labels, choose_labels
from lab.replay.loop import SOURCES, Source
from lab.replay.memories_from import read_stored, table_read, with_stored
from lab.replay.timeline import RECALL_TURNS, RecallPoint, recall_points
from lab.retrieval.faults import FaultPlan
from lab.retrieval.retrievers import STORES, Retrieval
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Haystack, Resolved, resolved_of
from lab.runs.request import ReplayRequest
from lab.systems.contract import Arm, ArmInfo, Searches
from lab.systems.openclaw.capture.candidates import detect_category
from lab.systems.openclaw.memory import is_hard_rule
from lab.systems.registry import info_of, make_arm, modules_of, parse_arms
from lab.systems.spec import ANSWERS, RECORDED, ArmSpec

CATEGORIES = ("recorded", "detected")
VECTORS = ("embed", "stored")
# How arms are queried under each value of --scope.
SCOPES = {"none": "open", "recorded": "given", "tags": "tags"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay ready to run.

    ``vectors`` are the stored vectors of ``--memories-from``, if they are used. ``recordings`` hold the memories of the
    ``haystack``; those of ``library`` do not. ``copies`` are the groups of equal conversations, if they are known.
    ``places`` has the paths of cached candidates, by conversation, as they are named.
    """

    request: ReplayRequest
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
    haystack: Haystack | None = None
    copies: tuple[tuple[str, ...], ...] | None = None
    places: dict[str, dict[Retrieval, Path]] = field(default_factory=dict, init=False, repr=False, compare=False)
    # The memories of conversations over one store, which are mostly the same objects.
    _labelled: dict[str, tuple[Memory, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def probes(self, recording: Recording) -> tuple[Probe, ...]:
        """Return the probes of one conversation."""
        return self.library.golden.of(recording.conversation)

    @property
    def origins(self) -> Origins | None:
        """How many conversations of each origin were taken and left out; None if persons started all."""
        return None if (counts := self.library.origins) is None or counts.is_plain else counts

    @property
    def scoping(self) -> str:
        """How scopes are queried: ``scoping`` of :class:`lab.systems.openclaw.recall.turn.Prompt`."""
        return SCOPES[self.request.scope]

    @property
    def faults(self) -> FaultPlan:
        """The faults to inject."""
        return FaultPlan(self.request.faults)

    def alone(self, recording: Recording) -> Plan:
        """Return the plan of one of its conversations."""
        golden = self.library.golden.alone(recording.conversation)
        library = replace(self.library, recordings=(recording,), golden=golden, files=())
        return replace(self, library=library, recordings=(recording,), golden_files=())

    @property
    def source(self) -> Source:
        """Where memories come from."""
        return next(source for source in SOURCES if source == self.request.source)

    def retrievals(self) -> tuple[Retrieval, ...]:
        """Return the different retrievals of the arms that declare one."""
        return tuple(dict.fromkeys(arm.retrieval for arm in self.arms if isinstance(arm, Searches)))

    def labels_of(self, recording: Recording) -> dict[str, str]:
        """Return the label of each memory of one conversation, by key."""
        gold = {judgement.memory for probe in self.probes(recording) for judgement in probe.relevant}
        return self.labels.of(recording, gold)

    def memories_of(self, recording: Recording) -> tuple[Memory, ...]:
        """Return the memories of one conversation as systems receive them, with labels, hard rules and categories."""
        known = self._labelled.get(recording.conversation)
        if known is None:
            known = self._memories_of(recording)
            if self.library.stored:
                self._labelled[recording.conversation] = known
        return known

    def _memories_of(self, recording: Recording) -> tuple[Memory, ...]:
        labels = self.labels_of(recording)
        must = [key for key, label in labels.items() if label == MUST and not is_added(key)]
        sampled = sorted(must, key=lambda key: draw(self.request.seed, f"hard {key}"))[: self.request.hard_rules]
        hard, detect = frozenset(sampled), self.request.categories == "detected"
        return tuple(
            _with(
                memory,
                labels.get(memory.key, UNKNOWN),
                (detect_category(memory.text) if detect else None) or memory.category,
                memory.scope or GLOBAL,
                memory.hard_rule or memory.key in hard or is_hard_rule(memory.text),
            )
            for memory in recording.memories
        )

    def recall_points_of(self, recording: Recording) -> list[RecallPoint]:
        """Return the recall points of one conversation in order."""
        return list(recall_points(recording, self.probes(recording), self.recall_turns))

    def resolved(self, comparable: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what determines the receipts, beside code and packages: equal values give equal receipts.

        ``comparable`` is what :meth:`comparable` returned, which reads every turn.
        """
        stored = {"vectors": self.vectors.sha256} if self.vectors else {}
        return dict(self.comparable() if comparable is None else comparable) | {
            "lab": __version__,
            "arms": [to_json(info) for info in self.infos],
            "store": self.request.store,
            "profile": self.request.profile,
            "depth": self.request.depth,
            "embedder": self.embedder.identity(),
            "faults": sorted(self.request.faults),
            "source": self.request.source,
            **stored,
        }

    def comparable(self) -> dict[str, Any]:
        """Return what must be equal for the arms of two runs to be comparable."""
        optional: dict[str, Any] = {"memories_from": self.library.stored} if self.library.stored else {}
        if self.haystack:
            optional["haystack"] = to_json(self.haystack)
        drawn = {"drawn": self.request.hard_rules}
        if equal := equal_conversations(self.recordings) if self.copies is None else self.copies:
            optional[EQUAL] = [list(names) for names in equal]
        return optional | {
            "format": self.library.format.name,
            "memories": self.library.memories,
            "recordings": self.library.checksums(),
            "golden": {path.name: sha256_file(path) for path in self.golden_files},
            "conversations": [recording.conversation for recording in self.recordings],
            "labels": self.labels.describe(),
            "scope": self.request.scope,
            "recall_turns": self.recall_turns,
            # Without sampled hard rules the seed has no effect.
            "hard_rules": drawn | ({"seed": self.request.seed} if self.request.hard_rules else {}),
            "categories": self.request.categories,
        }

    def code_roots(self) -> tuple[str, ...]:
        """Return the modules whose imports are the code of the run: the replay, its readers and its arms."""
        supplies = (format_named(supply_format(text)[1]) for text in self.request.haystack_from)
        readers = {form.module for form in (self.library.format, *supplies)}
        arms = (modules_of(arm, spec.system) for arm, spec in zip(self.arms, self.specs, strict=True))
        return tuple(sorted({"lab.replay.run"}.union(readers, *arms)))

    def run_key(self) -> str:
        """Return the hash of :meth:`resolved`, as in a manifest."""
        return resolved_of(self.resolved()).key

    def recall_points(self) -> dict[str, int]:
        """Return the number of recall points of each conversation."""
        return {recording.conversation: len(self.recall_points_of(recording)) for recording in self.recordings}


def _with(memory: Memory, label: str, category: str, scope: str, hard_rule: bool) -> Memory:
    """Return a memory with some fields. Most have them already, and a copy of every one would take longer."""
    if (memory.label, memory.category, memory.scope, memory.hard_rule) == (label, category, scope, hard_rule):
        return memory
    return replace(memory, label=label, category=category, scope=scope, hard_rule=hard_rule)


def make_plan(
    request: ReplayRequest,
    *,
    judged: bool = True,
    arms: Sequence[Mapping[str, Any]] | None = None,
    made: Mapping[str, Arm] | None = None,
    cached: bool = False,
    known: Resolved | None = None,
    alone: Collection[str] = (),
) -> Plan:
    """Read the recordings and the golden set of a request, check its arguments, and decide defaults.

    Without ``judged`` no golden set is read and the probes of recordings are ignored. ``arms`` are descriptions of arms
    in a manifest that replace their configuration files, with recorded answers of external systems; ``made`` are
    existing arms by name. ``cached``: memories from an address are read from the cache. With ``known``, what an earlier
    plan of the request resolved to, only the conversations ``alone`` get a haystack; what the others have is taken
    from there. Raises :class:`UnusableInput` for unusable arguments or files.
    """
    _check_choices(request)
    specs, opened, infos = _arms_of(request, arms, made or {})
    everything = read_library(Path(request.path), request.format, memories=request.memories)
    library = of_origins(everything, request.origin, request.conversation)
    _require_source(request, library, infos)
    if request.source != "captured":
        # No arm captures, whatever it could do.
        infos = tuple(replace(info, writes=False) for info in infos)
    if not judged:
        library = replace(library, golden=GoldenSet(notes=library.golden.notes))
    if arms is None:
        request = _with_table(request)
    library, vectors = _with_memories(library, request, cached)
    golden_path = _golden_path(request) if judged else None
    if golden_path:
        library = _with_golden_of(golden_path, request, library, everything)
    recordings = _chosen(library.recordings, request.conversation, request.limit)
    recordings, haystack = _with_haystack(recordings, library, request, known, alone)
    library = replace(library, golden=without_absent(library.golden, recordings))
    recall_turns = _recall_turns(request, library, recordings)
    labels = choose_labels(request.labels, recordings, request.must_share, request.nice_share, request.seed)
    return Plan(
        request,
        library,
        recordings,
        specs,
        opened,
        infos,
        labels,
        recall_turns,
        embedder_named(request.embedder),
        _golden_files(golden_path),
        vectors,
        haystack,
        None if known is None else known.equal_conversations or (),
    )


def _check_choices(request: ReplayRequest) -> None:
    """Raise :class:`UnusableInput` for an option that has no such value."""
    choices = (
        ("store", request.store, STORES),
        ("scope", request.scope, SCOPES),
        ("categories", request.categories, CATEGORIES),
        ("vectors", request.vectors, VECTORS),
        ("source", request.source, SOURCES),
        ("answers", request.answers, ANSWERS),
    )
    for what, value, known in choices:
        if value not in known:
            raise UnusableInput(f"unknown {what} {value!r}; known: {', '.join(known)}")
    if request.vectors == "stored" and request.memories_from is None:
        raise UnusableInput("vectors stored: needs a store; name one with --memories-from")
    FaultPlan(request.faults).check()
    if request.depth < 1:
        raise UnusableInput(f"depth {request.depth} is not a whole number from 1")
    if request.hard_rules < 0:
        raise UnusableInput(f"hard rules {request.hard_rules} is not a whole number from 0")


def _arms_of(
    request: ReplayRequest, described: Sequence[Mapping[str, Any]] | None, made: Mapping[str, Arm]
) -> tuple[tuple[ArmSpec, ...], tuple[Arm, ...], tuple[ArmInfo, ...]]:
    """Return specifications, arms and descriptions of a request, or of the arms ``described`` in a manifest."""
    if described is None:
        config = Path(request.config) if request.config else None
        specs = with_options(parse_arms(request.arms, config, made), request)
    else:
        specs = with_options(_specs_of(described), replace(request, answers=RECORDED))
    opened = tuple(made.get(spec.name) or make_arm(spec) for spec in specs)
    infos = tuple(info_of(spec, arm) for spec, arm in zip(specs, opened, strict=True))
    if described is not None:
        # A resolved configuration lacks the keys that are not implemented.
        infos = tuple(replace(info, missing=tuple(arm["missing"])) for info, arm in zip(infos, described, strict=True))
    return specs, opened, infos


def _with_table(request: ReplayRequest) -> ReplayRequest:
    """Return the request with the table that ``--memories-from`` means by the configurations of its arms."""
    if request.memories_from is None:
        return request
    named = (request.config or "", *(arm.partition("=")[2] for arm in request.arms))
    configs = [Path(file) for file in named if file and Path(file).is_file()]
    return replace(request, memories_from=table_read(request.memories_from, configs))


def _with_memories(library: Library, request: ReplayRequest, cached: bool) -> tuple[Library, StoredVectors | None]:
    """Return the library with the memories of ``--memories-from``, if there are any, and their stored vectors."""
    if request.memories_from is None:
        return library, None
    stored = read_stored(request.memories_from, vectors=request.vectors == "stored", cached=cached)
    return with_stored(library, stored), stored.vectors


def _golden_path(request: ReplayRequest) -> Path | None:
    """Return the golden set that a request names, or the one beside its recordings; None if there is none."""
    return golden_beside(Path(request.path)) if request.golden is None else Path(request.golden)


def _golden_files(path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    return tuple(sorted(path.glob("*.jsonl"))) if path.is_dir() else (path,)


def _with_golden_of(path: Path, request: ReplayRequest, library: Library, everything: Library) -> Library:
    """Return the library with a golden set, as far as it judges the recordings that were taken."""
    golden = _of_taken(read_golden(path), everything, library)
    if request.golden is None and Path(request.path).is_file():
        # A golden set found beside a folder covers all its files; only the probes of this file count.
        golden = golden.of_conversations({recording.conversation for recording in library.recordings})
    return with_golden(library, golden)


def _recall_turns(request: ReplayRequest, library: Library, recordings: Sequence[Recording]) -> str:
    """Return which turns recall. Raises :class:`UnusableInput` for an unknown value, or a fault at no recall point."""
    recall_turns = request.recall_turns or library.format.recall_turns
    if recall_turns not in RECALL_TURNS:
        raise UnusableInput(f"unknown recall turns {recall_turns!r}; {choices(recall_turns, RECALL_TURNS)}")
    if request.faults:
        points = (
            point
            for recording in recordings
            for point in recall_points(recording, library.golden.of(recording.conversation), recall_turns)
        )
        FaultPlan(request.faults).require({point.key for point in points})
    return recall_turns


def _of_taken(golden: GoldenSet, everything: Library, taken: Library) -> GoldenSet:
    """Return a golden set without the judgements of conversations that were left out, which a note counts."""
    kept, every = ({recording.conversation for recording in of.recordings} for of in (taken, everything))
    names = every - kept
    out = sum(probe.conversation in names for probe in golden.judged)
    if not out:
        return golden
    note = f"{counted(out, 'judged turn')} of left-out conversations {'is' if out == 1 else 'are'} not used"
    left = {probe.conversation for probe in (*golden.probes, *golden.captures)} - names
    return replace(golden.of_conversations(left), notes=(*golden.notes, note))


def _with_haystack(
    recordings: tuple[Recording, ...],
    library: Library,
    request: ReplayRequest,
    known: Resolved | None,
    alone: Collection[str],
) -> tuple[tuple[Recording, ...], Haystack | None]:
    """Return the recordings with the memories of the haystack, and its description; see :func:`make_plan`."""
    given = request.memories_from is None and request.source != "captured"
    number = request.haystack
    if number is None:
        number = default_haystack(library.path) if given else 0
    if number < 0:
        raise UnusableInput(f"haystack {number} is not a whole number from 0")
    if not number:
        if request.haystack_from:
            raise UnusableInput("--haystack-from names a set to fill a haystack from; give its size with --haystack")
        return recordings, None
    if not given:
        what = "--memories-from" if request.memories_from is not None else "--source captured"
        raise UnusableInput(f"--haystack adds memories to those of the recording, and {what} replaces them; omit one")
    if known is None or known.haystack is None:
        return fill(recordings, library, number, request.haystack_from, request.seed)
    hosts = [recording for recording in recordings if recording.conversation in alone]
    filled, haystack = fill(hosts, library, number, request.haystack_from, request.seed)
    by_name = {recording.conversation: recording for recording in filled}
    counts = {**known.haystack.conversations, **haystack.conversations}
    joined = tuple(by_name.get(recording.conversation, recording) for recording in recordings)
    return joined, replace(haystack, conversations=counts)


def with_options(specs: Sequence[ArmSpec], request: ReplayRequest) -> tuple[ArmSpec, ...]:
    """Return the specs with the options of a replay."""
    return tuple(
        replace(
            spec,
            profile=request.profile,
            max_items=request.max_items,
            depth=request.depth,
            seed=request.seed,
            answers=request.answers,
            allow_remote=request.allow_remote,
        )
        for spec in specs
    )


def _specs_of(arms: Sequence[Mapping[str, Any]]) -> tuple[ArmSpec, ...]:
    """Return specs from the descriptions in a manifest; the files of the arms may have changed."""
    return tuple(
        ArmSpec(
            arm["name"],
            arm["system"],
            arm["config"],
            f"arm {arm['name']}",
            embedder=arm.get("embedder"),
            off=arm.get("off"),
        )
        for arm in arms
    )


def _require_source(request: ReplayRequest, library: Library, infos: Sequence[ArmInfo]) -> None:
    """Raise :class:`UnusableInput` for a source that these recordings lack, or that no arm supports."""
    if request.source == "captured" and not any(info.writes for info in infos):
        raise UnusableInput("source captured: none of these arms captures memories; add one such as verbatim")
    if request.source == "tools" and (request.memories_from or not library.format.from_tools):
        what = "--memories-from" if request.memories_from else f"format {library.format.name!r}"
        raise UnusableInput(f"source tools: {what} has no memories from tool calls; use format openclaw")


def plan_of(run: RunDirectory, alone: Collection[str] = ()) -> Plan:
    """Return the plan of an existing run; raise :class:`UnusableInput` if its inputs have changed.

    With ``alone``, the plan is for these conversations: the haystacks of the others are left out, and taken from the
    manifest to tell whether an input has changed.
    Arms come from the manifest, because a baseline outlives its configuration files. The embedder uses the cache alone:
    the manifest may come from others, and names the address that texts and API key would be sent to.
    """
    arms = [to_json(arm) for arm in run.manifest.resolved.arms]
    known = run.manifest.resolved if alone else None
    plan = make_plan(ReplayRequest.of_manifest(run.manifest.asked), arms=arms, cached=True, known=known, alone=alone)
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
            raise UnusableInput(f"no conversation {name!r}; known: {', '.join(sorted(known))}")
    if limit is not None and limit < 1:
        raise UnusableInput(f"limit {limit} is not a whole number from 1")
    return tuple(recording for recording in recordings if not names or recording.conversation in names)[:limit]
