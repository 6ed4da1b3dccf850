"""Replay a plan into a run directory, or a shard of it, and merge the shards of a run.

All texts are embedded first; then each conversation is replayed and its files are written. A run lists what the
receipts and figures of each conversation depend on as digests (IN-8), so that two runs can be compared conversation by
conversation while the recordings grow.

Machines replay shards independently. The recordings alone determine the shard of a conversation: the largest
conversations come first, and each goes to the shard with the least work so far. So every machine computes the same
shards.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, CannotWrite, LabError, UnusableInput
from lab.base.files import digest, dump_json, only_writer, write_atomically
from lab.base.formatting import counted, free_of_credentials
from lab.base.progress import Progress, beating
from lab.base.shape import to_json
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.events import SEARCHES
from lab.recordings.host_prompts import Suspect
from lab.recordings.inventory import Passed
from lab.recordings.model import EQUAL, Memory, Recording, Turn
from lab.replay.admission import FILE as ADMISSION
from lab.replay.admission import admitted, is_hosted
from lab.replay.candidates import is_cached
from lab.replay.executors import Replayed, on_workers, replay_each, size, workers_for
from lab.replay.labels import labels_note
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Announce, open_sources, prepare
from lab.replay.timeline import recall_points
from lab.runs.directory import GOLDEN, RunDirectory, open_run
from lab.runs.manifest import GIVEN, Content, Shard, resolved_of
from lab.runs.notes import config_notes, missing_notes
from lab.runs.request import ReplayRequest
from lab.runs.resume import Fresh, create_or_resume, decisive, finish, keep, resume_or_begin, tolerated
from lab.systems.contract import Arm


def contents_of(plan: Plan) -> dict[str, Content]:
    """Return the content of each conversation of a plan, by name.

    Memories that no turn can recall are left out: what a store receives after a conversation's last turn changes
    nothing in it. The order of a store's rows counts, but not their numbers.
    """
    contents = {}
    lines = _Lines()
    for recording in plan.recordings:
        end = len(recording.turns)
        seen = [memory for memory in plan.memories_of(recording) if memory.visible_from <= end]
        if any(memory.place is not None for memory in seen):
            seen.sort(key=lambda memory: -1 if memory.place is None else memory.place)
        contents[recording.conversation] = Content(
            turns_digest(recording.turns),
            _hash(map(lines.of, seen)),
            _digest(map(_probe, plan.probes(recording))),
        )
    return contents


def scarce_in(plan: Plan) -> dict[str, int] | None:
    """Return the memories of each conversation that has no more than every arm can inject; None if there is none.

    There, nothing has to be chosen. What arms capture is not known before.
    """
    if plan.request.source != GIVEN:
        return None
    slots = min(info.cutoff for info in plan.infos)
    held = {}
    for recording in plan.recordings:
        last = max((point.seq for point in plan.recall_points_of(recording)), default=-1)
        if last >= 0:
            held[recording.conversation] = sum(memory.visible_from <= last for memory in recording.memories)
    return {name: count for name, count in held.items() if count <= slots} or None


def turns_digest(turns: Iterable[Turn]) -> str:
    """Return a digest of turns in order, without what the live engine did at them."""
    return _digest(
        [turn.key, turn.session, turn.role, turn.text, turn.time_ms, turn.scope, turn.speaker, turn.said]
        + [turn.index_text] * bool(turn.index_text)
        for turn in turns
    )


# So that a store of a million memories takes no more room.
_MOST_LINES = 1 << 16


class _Lines:
    """The lines from which digests of memories are made. Those of a store are the same objects in most conversations.

    A memory is kept with its line, so that no other gets its id.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Memory, bytes]] = {}

    def of(self, memory: Memory) -> bytes:
        """Return the line of a memory."""
        known = self._known.get(id(memory))
        if known is not None:
            return known[1]
        line = _line(_memory(memory))
        if memory.place is not None and not memory.visible_from and len(self._known) < _MOST_LINES:
            self._known[id(memory)] = memory, line
        return line


def _memory(memory: Memory) -> list[object]:
    provenance = [memory.source_kind, memory.source_ref, memory.lang]
    # Not the number of its row: the list is in the order of the rows.
    return [
        *(memory.key, memory.text, memory.index_text, memory.visible_from, memory.visible_until, memory.created_at),
        *(memory.category, memory.scope, memory.label, memory.supersedes, memory.trust, memory.hard_rule),
        memory.embedded,
        *(provenance if any(provenance) else ()),
        *([] if memory.due_at is None else [memory.due_at]),
    ]


def _probe(probe: Probe) -> list[object]:
    return [
        *(probe.id, probe.turn, probe.query, probe.capture, sorted(probe.irrelevant), sorted(probe.slices.items())),
        *(sorted(map(_judgement, part)) for part in (probe.relevant, probe.forbidden)),
        *([probe.answer] if probe.answer else []),
    ]


def _judgement(judgement: Judgement) -> list[object]:
    # Its reason changes no figure.
    return [judgement.memory, judgement.grade]


def _digest(values: Iterable[object]) -> str:
    """Return a sha256 (hex) of values, one at a time: a store may have a million memories."""
    return _hash(map(_line, values))


def _hash(lines: Iterable[bytes]) -> str:
    hashed = hashlib.sha256()
    for line in lines:
        hashed.update(line)
    return hashed.hexdigest()


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


class Merged(NamedTuple):
    """A merged run: the numbers of conversations copied and already existing, and notes."""

    run: RunDirectory
    copied: int
    there: int
    notes: tuple[str, ...]


def parse_shard(text: str) -> Shard:
    """Return the shard that a text names: ``2/3`` is the second of three. Raises :class:`UnusableInput`."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, of = (int(digits) for digits in match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise UnusableInput(f"--shard {text!r}: expected NUMBER/OF from 1/OF to OF/OF, such as 2/3")
    return Shard(number, of)


def shard_of(plan: Plan, shard: Shard) -> Shard:
    """Return the shard with its conversations, in the order of the run; it may have none."""
    sizes = {recording.conversation: size(plan, recording) for recording in plan.recordings}
    parts: list[set[str]] = [set() for _ in range(shard.of)]
    totals = [0] * shard.of
    for conversation in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = totals.index(min(totals))
        parts[least].add(conversation)
        totals[least] += sizes[conversation]
    part = parts[shard.number - 1]
    return replace(shard, conversations=tuple(name for name in sizes if name in part))


def merge(out: Path, folders: Sequence[Path], announce: Callable[[str], None] = lambda _: None) -> Merged:
    """Merge all shards of a run into ``out``: the same bytes as a replay without shards.

    The manifest takes ``asked`` and ``environment`` from shard 1. Existing files are compared and kept. Raises
    :class:`UnusableInput` if a shard is missing, repeated, of another run, or made with other code or packages, and
    :class:`lab.base.errors.Incomplete` if one is unfinished.
    """
    shards = _checked(folders)
    first = shards[0]
    notes = _notes(shards)
    for note in notes:
        announce(note)
    golden = {shard.path: _bytes(shard.check(shard.path / GOLDEN)) for shard in shards}
    for path, data in golden.items():
        if data != golden[first.path]:
            raise UnusableInput(f"{path}: its golden.jsonl differs from that of {first.path}; replay one of them again")
    with only_writer(out):
        manifest = replace(first.manifest, shard=None)
        fresh = Fresh(golden[first.path], manifest.recall_points, manifest.contents, manifest.origins, manifest.scarce)
        run = resume_or_begin(out, manifest, lambda: fresh)
        copied, done = 0, frozenset(run.done())
        for shard in shards:
            for conversation in shard.assigned:
                copied += _copied(shard, run, conversation, is_done=conversation in done)
            announce(f"{shard.path}: {counted(len(shard.assigned), 'conversation')}")
        finish(run)
    return Merged(run, copied, len(run.conversations) - copied, notes)


def _copied(shard: RunDirectory, run: RunDirectory, conversation: str, *, is_done: bool) -> bool:
    """Copy the files of a conversation; return False if they exist already. Existing receipts must be equal."""
    # Read first, so that only readable files are copied.
    shard.read_receipts(conversation, ("arm", "turn"))
    target = run.receipts(conversation)
    if target.exists():
        if _bytes(target) != _bytes(shard.receipts(conversation)):
            raise UnusableInput(f"{target}: exists already and differs from the shard's; choose another folder")
        if is_done:
            return False
    pairs = zip(run.files(conversation), shard.files(conversation), strict=True)
    keep(
        run, conversation, {to: _bytes(shard.check(path)) for to, path in pairs if shard.name_of(path) in shard.digests}
    )
    return True


def _checked(folders: Sequence[Path]) -> list[RunDirectory]:
    """Return the shards in order of their numbers, after checking that they are all shards of one run."""
    by_number: dict[int, RunDirectory] = {}
    first: RunDirectory | None = None
    for folder in folders:
        run = open_run(folder)
        if run.shard is None:
            raise UnusableInput(f"{folder}: is a complete run, not a shard")
        first = first or run
        if run.manifest.run_key != first.manifest.run_key:
            before, now = to_json(first.manifest.resolved), to_json(run.manifest.resolved)
            differs = sorted(key for key in {*before, *now} if digest(before.get(key)) != digest(now.get(key)))
            raise UnusableInput(f"{folder}: belongs to another run than {first.path}: other {', '.join(differs)}")
        if first.shard and run.shard.of != first.shard.of:
            raise UnusableInput(f"{folder}: is shard {run.shard}, but {first.path} is shard {first.shard}")
        if run.shard.number in by_number:
            raise UnusableInput(f"{folder}: is shard {run.shard}, and so is {by_number[run.shard.number].path}")
        by_number[run.shard.number] = run
    if first is None or first.shard is None:
        raise UnusableInput("no shards were given")
    missing = [f"{number}/{first.shard.of}" for number in range(1, first.shard.of + 1) if number not in by_number]
    if missing:
        raise UnusableInput(f"shards are missing: {', '.join(missing)}; give all {first.shard.of}")
    shards = [by_number[number] for number in sorted(by_number)]
    for run in shards:
        run.require_assigned()
    held = sorted(name for run in shards for name in run.assigned)
    if held != sorted(first.conversations):
        raise UnusableInput(
            f"{first.path}: the shards do not hold each conversation exactly once; replay them with one version"
        )
    return shards


def _notes(shards: Sequence[RunDirectory]) -> tuple[str, ...]:
    """Return tolerated differences of the environments; raise :class:`UnusableInput` for other differences."""
    first = shards[0].manifest.environment
    notes = []
    for run in shards[1:]:
        here = run.manifest.environment
        differs = decisive(first, here)
        if differs:
            raise UnusableInput(
                f"{run.path}: was made with another {'; another '.join(differs)} than {shards[0].path}; one run must "
                "not mix receipts of two versions: replay one of them again"
            )
        if others := tolerated(first, here):
            notes.append(f"{run.path}: was made in another environment than {shards[0].path}: {'; '.join(others)}")
    return tuple(notes)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); replay its shard again") from None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a replay. Conversations whose receipts existed already are ``skipped``.

    ``passed`` counts what the reader of the recordings left out, and ``suspects`` are user turns that look like a
    host's text, with examples for the terminal alone; both for formats that report them.
    """

    run: RunDirectory
    done: tuple[str, ...]
    skipped: tuple[str, ...]
    failures: tuple[dict[str, str], ...]
    embedded: int
    passed: tuple[Passed, ...] = ()
    suspects: tuple[Suspect, ...] = ()


def run_replay(
    request: ReplayRequest,
    out: Path,
    *,
    jobs: int = 1,
    dask: str | None = None,
    shard: Shard | None = None,
    use_cache: bool = True,
    announce: Announce = lambda _: None,
    made: Mapping[str, Arm] | None = None,
    earlier: Iterable[RunDirectory] = (),
    plan: Plan | None = None,
) -> Outcome:
    """Replay a request, or a shard of it, into the folder ``out``.

    It uses ``jobs`` processes of this machine, or the workers of ``dask`` (``local``, or a scheduler's address). A
    conversation that fails is listed in failures.jsonl and the others continue; a full or read-only disk ends the
    replay. ``made`` are existing arms by name, and ``plan`` is that of the request, if it is made. Without
    ``use_cache``, cached candidates are neither read nor written: every search is run. What runs ``earlier`` replayed
    from the same inputs is copied from them; the caller must know that what no :class:`Content` covers is the same:
    stored vectors, and rows of a store that are no memories. Raises
    :class:`lab.base.errors.InUse` while another process writes into ``out``, and
    :class:`lab.replay.admission.Refused` for an external arm that does not prove what it is named for.
    """
    plan = plan or make_plan(request, made=made or {})
    part = shard_of(plan, shard) if shard else None
    with only_writer(out):
        proofs = admitted(plan, out / ADMISSION, is_hosted)
        comparable = plan.comparable()
        run = create_or_resume(
            out,
            free_of_credentials(asdict(request)),
            resolved_of(plan.resolved(comparable)),
            comparable,
            plan.code_roots(),
            lambda: Fresh(gold_of(plan), plan.recall_points(), contents_of(plan), plan.origins, scarce_in(plan)),
            part,
            announce,
        )
        if proofs is not None:
            write_atomically(out / ADMISSION, proofs)
        _take_over(earlier, run, plan)
        return _replay_into(run, plan, jobs, dask, use_cache, announce)


# What may differ between two runs of which conversations are copied, because it is compared for each conversation.
_BY_CONVERSATION = frozenset({"recordings", "conversations", "golden", "memories_from", "vectors", "faults", EQUAL})


def _take_over(earlier: Iterable[RunDirectory], run: RunDirectory, plan: Plan) -> None:
    """Copy the conversations that earlier runs replayed from the same inputs with the same code."""
    missing = set(run.assigned).difference(run.done())
    keys = {each.conversation: {point.key for point in plan.recall_points_of(each)} for each in plan.recordings}
    for before in earlier if missing else ():
        if _of_all(before) != _of_all(run) or decisive(before.manifest.environment, run.manifest.environment):
            continue
        changed = {*before.manifest.resolved.faults} ^ {*run.manifest.resolved.faults}
        at = {spec.partition("=")[2] for spec in changed}
        if not at <= set().union(*keys.values()):
            # A fault at a share of the turns, or at all.
            continue
        for conversation in missing.intersection(before.done()):
            is_same = before.manifest.contents.get(conversation) == run.manifest.contents[conversation]
            if is_same and at.isdisjoint(keys[conversation]):
                _copied(before, run, conversation, is_done=False)
                missing.discard(conversation)
        if not missing:
            break


def _of_all(run: RunDirectory) -> dict[str, Any]:
    return {name: value for name, value in to_json(run.manifest.resolved).items() if name not in _BY_CONVERSATION}


def _replay_into(
    run: RunDirectory, plan: Plan, jobs: int, dask: str | None, use_cache: bool, announce: Announce
) -> Outcome:
    for note in (run.manifest.too_small, *config_notes(run.manifest.resolved), *missing_notes(plan.infos)):
        if note:
            announce(note)
    for names in run.manifest.resolved.equal_conversations or ():
        announce(f"{', '.join(names)} have nearly the same turns: they count as one")
    note_on_labels = labels_note(
        plan.labels, plan.request.labels, (plan.labels_of(recording) for recording in plan.recordings)
    )
    if note_on_labels:
        announce(note_on_labels)
    for note in plan.library.golden.notes:
        announce(note)
    assigned, skipped = run.assigned, tuple(run.done())
    missing = set(assigned).difference(skipped)
    waiting = [recording for recording in plan.recordings if recording.conversation in missing]
    done: list[str] = []
    problems: dict[str, str] = {}
    # Workers first: embedding may take hours, and would be in vain without them.
    with workers_for(len(waiting), jobs, dask) as workers:
        sources = open_sources(plan, announce, embedding=on_workers(plan.embedder, workers, announce))
        uncached = [recording for recording in waiting if not (use_cache and is_cached(plan, recording))]
        embedded = prepare(plan, uncached, sources, announce)
        progress = Progress(len(assigned), len(skipped))
        with beating(announce, "replaying") as tell:
            for conversation, result in replay_each(plan, waiting, sources, workers, use_cache=use_cache):
                problem = _keep(run, conversation, result)
                if problem is None:
                    done.append(conversation)
                    tell(progress.next(f"{conversation}: done"))
                else:
                    problems[conversation] = problem
                    tell(f"{conversation}: failed: {problem}")
    failures = [
        {"conversation": name, "phase": "replay", "reason": problems[name]} for name in assigned if name in problems
    ]
    finish(run, failures)
    read = plan.library.inventory
    reported = (read.passed, read.suspects) if read else ()
    done_here = tuple(name for name in assigned if name in done)
    return Outcome(run, done_here, skipped, tuple(failures), embedded, *reported)


def _keep(run: RunDirectory, conversation: str, result: Replayed | str) -> str | None:
    """Write a conversation's files; return the reason of a failure, else None."""
    if isinstance(result, str):
        return result
    try:
        files = {run.latency(conversation): result.latency, run.receipts(conversation): result.receipts}
        if result.writes is not None:
            files[run.writes(conversation)] = result.writes
        keep(run, conversation, files)
    except CannotWrite:
        raise
    except LabError as error:
        return str(error)
    return None


def searched_slices(recording: Recording) -> dict[str, str]:
    """Return, by the key of a user's turn, whether the agent then searched its memory by itself (seed 004).

    Empty for a recording without the calls of tools.
    """
    found: dict[str, str] = {}
    if any(turn.tool_uses for turn in recording.turns):
        asked = ""
        for turn in recording.turns:
            if turn.role == "user":
                asked = turn.key
                found[asked] = "no"
            elif asked and any(use.tool in SEARCHES for use in turn.tool_uses):
                found[asked] = "yes"
    return found


def gold_of(plan: Plan, golden: GoldenSet | None = None) -> bytes:
    """Return the judgements that a run is scored with, as JSON Lines of keys without texts.

    With them a run can be scored without its recording. ``golden`` replaces the plan's, whose labels stay.
    """
    lines = []
    judged = plan.library.golden if golden is None else golden
    for recording in plan.recordings:
        labels = plan.labels_of(recording)
        known = {memory.key: memory for memory in recording.memories}
        searched = searched_slices(recording)
        for point in recall_points(recording, judged.of(recording.conversation), "none"):
            probe = point.probe
            if probe is None:
                continue
            by_agent = {"agent_searched": searched[probe.turn]} if probe.turn in searched else {}
            relevant = [
                {
                    "memory": judgement.memory,
                    "grade": judgement.grade,
                    "label": labels[judgement.memory],
                    "visible": known[judgement.memory].is_visible_at(point.seq),
                }
                for judgement in probe.relevant
            ]
            lines.append(
                {
                    "probe": probe.id,
                    "conversation": probe.conversation,
                    "relevant": relevant,
                    "forbidden": [judgement.memory for judgement in probe.forbidden],
                    **({"irrelevant": list(probe.irrelevant)} if probe.irrelevant else {}),
                    "slices": dict(probe.slices) | by_agent,
                }
            )
    return b"".join(dump_json(line, indent=None) for line in lines)
