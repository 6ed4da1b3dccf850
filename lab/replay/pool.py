"""Choose turns and pool memories for a judge to grade.

The arms are replayed over one shared retrieval, and the first items of each ranking are pooled. No golden set is read,
so earlier judgements do not influence what the judge sees.

To judge what should be kept, the pool offers the lines of turns in place of memories. Such a candidate is a line, or in
a text of one line a sentence (E-72). Its key is ``<turn>#<ordinal>``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.draw import draw
from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest
from lab.base.formatting import counted
from lab.base.progress import Progress
from lab.golden.model import GoldenSet
from lab.golden.pool import Pool, Pooled, PooledTurn
from lab.recordings.model import Memory, Recording, Turn, equal_conversations, in_birth_order
from lab.recordings.origins import ALL
from lab.recordings.readers import Library, of_origins, read_library
from lab.replay.haystack import fill
from lab.replay.labels import labels_note
from lab.replay.loop import replay
from lab.replay.memories_from import is_address, read_stored, with_stored
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Announce, open_sources, play_of, prepare, tools_of
from lab.replay.timeline import births
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Haystack
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.capture.candidates import detect_category, split_candidates
from lab.systems.openclaw.recall.trivial import is_trivial

TURNS = 30


class Chosen(NamedTuple):
    """Which user turns to pool: by key, every N-th, or a number sampled by hash (by default :data:`TURNS`)."""

    keys: tuple[str, ...] = ()
    every: int | None = None
    number: int | None = None


class NothingToPool(UnusableInput):
    """No turn sees enough memories to be judged."""


class Drawn(NamedTuple):
    """The chosen turns and what they were chosen from (IN-12).

    ``keys`` has the turns of each conversation in their order, ``order`` conversation and turn as they were drawn, and
    ``eligible`` how many could be. ``trivial`` turns are skipped by recall, ``early`` ones see too few memories, and
    ``copied`` ones are in a copy of a conversation that was drawn from.
    """

    keys: Mapping[str, list[str]]
    order: Sequence[tuple[str, str]]
    eligible: Mapping[str, int]
    trivial: int
    early: int
    seed: int
    copied: int = 0

    def sizes(self, share: float = 1.0) -> dict[str, int]:
        """Return the number of turns by conversation in the first ``share`` of the draw."""
        first = self.order[: round(share * len(self.order))]
        return dict(Counter(conversation for conversation, _ in first))

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "turns": len(self.order),
            "eligible": sum(self.eligible.values()),
            "conversations": {name: [len(keys), self.eligible[name]] for name, keys in self.keys.items()},
            "not_eligible": {
                "skipped by recall": self.trivial,
                "too few memories": self.early,
                **({"in a copy of another conversation": self.copied} if self.copied else {}),
            },
            "seed": self.seed,
        }


def choose_turns(recordings: Sequence[Recording], chosen: Chosen, depth: int, seed: int) -> Drawn:
    """Return the turns to pool; raise :class:`NothingToPool` if there is none.

    Sampling by hash alternates between conversations, because many conversations are more informative than many turns
    of one; a smaller sample is a subset of a larger one. Three kinds of turns are pooled only if they are named: turns
    with at most ``depth`` memories, where every arm returns them all, turns that recall skips as trivial, and turns of
    a copy of another conversation.
    """
    if sum(bool(choice) for choice in (chosen.keys, chosen.every, chosen.number)) > 1:
        raise UnusableInput("choose turns with one of --turn, --every and --turns")
    for what, number in (("every", chosen.every), ("turns", chosen.number)):
        if number is not None and number < 1:
            raise UnusableInput(f"{what} {number} is not a whole number from 1")
    least = 1 if chosen.keys else depth + 1
    by_name = {recording.conversation: _user_turns(recording, least) for recording in recordings}
    users = sum(turn.role == "user" for recording in recordings for turn in recording.turns)
    early = users - sum(map(len, by_name.values()))
    eligible = {
        name: [turn.key for turn in turns if chosen.keys or not is_trivial(turn.text)]
        for name, turns in by_name.items()
    }
    trivial = sum(len(turns) - len(eligible[name]) for name, turns in by_name.items())
    copied = 0
    for group in () if chosen.keys else equal_conversations(recordings):
        # Copies have the same turns, but not always the same memories.
        taken = max(group, key=lambda name: len(eligible[name]))
        for name in group:
            if name != taken:
                copied += len(eligible[name])
                eligible[name] = []
    ranked = []
    for name, keys in eligible.items():
        by_hash = sorted((draw(seed, f"turn {key}"), key) for key in keys)
        ranked += [(rank, hashed, key, name) for rank, (hashed, key) in enumerate(by_hash)]
    order = [(name, key) for _, _, key, name in sorted(ranked)]
    if chosen.keys:
        known = {key for _, key in order}
        for key in chosen.keys:
            if key not in known:
                raise UnusableInput(f"--turn {key}: is not a user turn of these recordings with a memory")
        picked = set(chosen.keys)
    elif chosen.every:
        picked = {key for keys in eligible.values() for key in keys[chosen.every - 1 :: chosen.every]}
    else:
        picked = {key for _, key in order[: chosen.number or TURNS]}
    if not picked:
        raise NothingToPool(f"no user turn with {least} memories or more: nothing to pool")
    return Drawn(
        {name: [key for key in keys if key in picked] for name, keys in eligible.items()},
        [(name, key) for name, key in order if key in picked],
        {name: len(keys) for name, keys in eligible.items()},
        trivial,
        early,
        seed,
        copied,
    )


def _user_turns(recording: Recording, least: int) -> list[Turn]:
    """Return the user turns at which at least ``least`` memories are visible."""
    until, visible = births(recording.memories), 0
    turns = []
    for turn in recording.turns:
        born, gone = until(turn.seq)
        visible += len(born) - len(gone)
        if turn.role == "user" and visible >= least:
            turns.append(turn)
    return turns


def with_candidates(library: Library) -> Library:
    """Return the recordings with the candidates of every turn as memories, and without probes."""
    return replace(library, recordings=tuple(map(_of_lines, library.recordings)), golden=GoldenSet())


def _of_lines(recording: Recording) -> Recording:
    memories = in_birth_order(
        Memory(
            f"{turn.key}#{number}",
            line,
            line,
            visible_from=turn.seq + 1,
            created_at=turn.time_ms,
            category=detect_category(line) or "other",
            scope=turn.scope,
        )
        for turn in recording.turns
        for number, line in enumerate(split_candidates(turn.text, chinese=True))
    )
    return replace(recording, memories=memories)


ARMS = ("hybrid", "vector", "bm25", "recency", "tier_first_v1", "tier_quota_v1")


def make_capture_pool(request: ReplayRequest) -> Pool:
    """Return the candidates of every turn that has any, to be judged for what should be kept.

    The memories of the recordings are the candidates, as ``lab recordings convert --candidates`` writes them. Raises
    :class:`UnusableInput` if no memory belongs to a turn.
    """
    library = unjudged(read_library(Path(request.path), request.format, memories=request.memories))
    library = of_origins(library, request.origin)
    turns = []
    for recording in library.recordings:
        candidates: dict[str, list[Pooled]] = {turn.key: [] for turn in recording.turns}
        for memory in recording.memories:
            candidates.get(memory.key.rpartition("#")[0], []).append(Pooled(memory.key, {}))
        turns += [PooledTurn(turn, tuple(items)) for turn, items in candidates.items() if items]
    if not turns:
        raise UnusableInput(
            f"{request.shown}: no memory belongs to a turn; `lab recordings convert --candidates` makes each line one"
        )
    return Pool(
        0,
        (),
        request.seed,
        request.path,
        request.format,
        library.memories,
        None,
        request.scope,
        content(library),
        tuple(turns),
        captures=True,
        origin=_origin(request, library),
    )


def make_pool(request: ReplayRequest, depth: int, chosen: Chosen, announce: Announce = lambda _: None) -> Pool:
    """Return the pool of :func:`make_drawn_pool` alone."""
    return make_drawn_pool(request, depth, chosen, announce)[0]


def make_drawn_pool(
    request: ReplayRequest, depth: int, chosen: Chosen, announce: Announce = lambda _: None
) -> tuple[Pool, Drawn]:
    """Replay a request and pool the first ``depth`` items of each arm at the chosen turns; return also their draw.

    Raises :class:`UnusableInput` for an unusable request, and if no turn is left to judge.
    """
    if depth < 1:
        raise UnusableInput(f"depth {depth} is not a whole number from 1")
    request = replace(request, arms=request.arms or ARMS, recall_turns="user", depth=depth, store="exact")
    plan = make_plan(request, judged=False)
    for info in plan.infos:
        if info.needs_gold:
            raise UnusableInput(f"arm {info.name!r} needs a golden set, which a pool precedes; leave it out")
    drawn = choose_turns(plan.recordings, chosen, depth, request.seed)
    if drawn.trivial:
        what = "that recall skips (greetings, thanks, commands)"
        announce(f"not sampled: {counted(drawn.trivial, 'user turn')} {what}; name one with --turn to include it")
    keys = drawn.keys
    recordings = [recording for recording in plan.recordings if keys[recording.conversation]]
    note_on_labels = labels_note(plan.labels, request.labels, (plan.labels_of(recording) for recording in recordings))
    for note in (*plan.library.golden.notes, *([note_on_labels] if note_on_labels else [])):
        announce(note)
    sources = open_sources(plan)
    prepare(plan, recordings, sources, announce)
    turns: list[PooledTurn] = []
    progress = Progress(len(recordings))
    for recording in recordings:
        ranks: dict[str, dict[str, dict[str, int]]] = {key: {} for key in keys[recording.conversation]}
        for answer in replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms):
            if answer.failure:
                raise CannotMeasure(f"{answer.point.key}: arm {answer.arm} failed: {answer.failure}")
            if answer.point.key in ranks:
                for rank, item in enumerate(answer.recall.items[:depth], 1):
                    ranks[answer.point.key].setdefault(item.id, {})[answer.arm] = rank
        turns += [PooledTurn(key, _shuffled(key, items, request.seed)) for key, items in ranks.items()]
        announce(progress.next(f"{recording.conversation}: {counted(len(ranks), 'turn')} pooled"))
    return _pool(plan, depth, turns), drawn


def pool_of(run: RunDirectory, keys: Collection[str], depth: int) -> Pool:
    """Pool the first ``depth`` items that each arm of a run returned at some of its turns."""
    turns: list[PooledTurn] = []
    asked, resolved = ReplayRequest.of_manifest(run.manifest.asked), run.manifest.resolved
    for conversation in run.conversations:
        ranks: dict[str, dict[str, dict[str, int]]] = {}
        for row in run.read_receipts(conversation, ("arm", "turn", "item_id")).to_pylist():
            if row["turn"] in keys:
                of_turn = ranks.setdefault(row["turn"], {})
                for rank, item in enumerate(row["item_id"][:depth], 1):
                    of_turn.setdefault(item, {})[row["arm"]] = rank
        turns += [PooledTurn(key, _shuffled(key, items, asked.seed)) for key, items in ranks.items()]
    return Pool(
        depth,
        tuple(run.arms),
        asked.seed,
        asked.path,
        asked.format,
        resolved.memories,
        asked.memories_from,
        asked.scope,
        digest([dict(resolved.recordings), resolved.memories, resolved.memories_from]),
        tuple(turns),
        origin=asked.origin if run.manifest.origins and run.manifest.origins.left_out else (),
    )


def material(pool: Pool, recordings: Path | None = None, memories_from: str | None = None) -> dict[str, Recording]:
    """Return the recordings that a pool was made from, by conversation; paths default to those in the pool.

    Raises :class:`UnusableInput` if they are missing or have changed.
    """
    where = recordings or Path(pool.recordings)
    store = memories_from or pool.memories_from if pool.memories_from else None
    for path, option in ((where, "--recordings"), (store, "--memories-from")):
        if path and not is_address(str(path)) and not Path(path).exists():
            raise UnusableInput(f"{path}: not found, but the pool was made from it; name its new path with {option}")
    library = unjudged(read_library(where, pool.format, memories=None if store else pool.memories))
    library = of_origins(library, pool.origin or (ALL,))
    if store:
        library = with_stored(library, read_stored(store, cached=memories_from is None))
    recordings_of, haystack = library.recordings, None
    if pool.haystack:
        pooled = {turn.turn for turn in pool.turns}
        hosts = [host for host in recordings_of if any(turn.key in pooled for turn in host.turns)]
        recordings_of, haystack = fill(hosts, library, pool.haystack, pool.haystack_from, pool.seed)
    if content(library, haystack) != pool.content:
        raise UnusableInput(f"{where}: has changed since it was pooled; make the pool again, into another file")
    return {recording.conversation: recording for recording in recordings_of}


def unjudged(library: Library) -> Library:
    """Return the recordings without their probes."""
    return replace(library, golden=GoldenSet())


def content(library: Library, haystack: Haystack | None = None) -> str:
    """Return a hash of the files of the recordings, of the memories of a store, and of the sets of a haystack."""
    sets = [dict(haystack.sets)] if haystack and haystack.sets else []
    return digest([library.checksums(), library.memories, library.stored, *sets])


def _pool(plan: Plan, depth: int, turns: Sequence[PooledTurn]) -> Pool:
    request = plan.request
    return Pool(
        depth,
        tuple(arm.name for arm in plan.arms),
        request.seed,
        request.path,
        request.format,
        plan.library.memories,
        request.memories_from,
        request.scope,
        content(plan.library, plan.haystack),
        tuple(turns),
        plan.haystack.memories if plan.haystack else 0,
        request.haystack_from,
        origin=_origin(request, plan.library),
    )


def _origin(request: ReplayRequest, library: Library) -> tuple[str, ...]:
    """Return the origins to record: none where nothing was left out, so that all are read again."""
    return request.origin if library.origins and library.origins.left_out else ()


def _shuffled(turn: str, items: dict[str, dict[str, int]], seed: int) -> tuple[Pooled, ...]:
    order = sorted(items, key=lambda memory: (draw(seed, f"pool {turn} {memory}"), memory))
    return tuple(Pooled(memory, items[memory]) for memory in order)
