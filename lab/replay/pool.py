"""Candidates of several arms pooled at some turns, for a judge to grade.

The arms are replayed as ever, all over one retrieval; of what they return at a chosen turn the first places are pooled.
No golden set is read, so nobody's gold decides what the next judge is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.draw import draw
from lab.errors import CannotMeasure, UnusableInput
from lab.files import digest
from lab.formatting import counted
from lab.golden.model import GoldenSet
from lab.golden.pool import Pool, Pooled, PooledTurn
from lab.recordings.model import Recording, Turn
from lab.recordings.readers import Library, read_library
from lab.replay.labels import tell_labels
from lab.replay.loop import births, replay
from lab.replay.memories_from import read_stored, with_stored
from lab.replay.plan import Plan, ReplayRequest, make_plan
from lab.replay.sources import Announce, open_sources, play_of, prepare, tools_of
from lab.systems.openclaw.recall.trivial import is_trivial

ARMS = ("hybrid", "vector", "bm25", "recency", "tier_first_v1", "tier_quota_v1")
TURNS = 30


class Chosen(NamedTuple):
    """Which user turns: some by key, every N-th, or so many by hash (:data:`TURNS` where nothing is said)."""

    keys: tuple[str, ...] = ()
    every: int | None = None
    number: int | None = None


def make_pool(asked: ReplayRequest, depth: int, chosen: Chosen, announce: Announce = lambda _: None) -> Pool:
    """Replay what was asked and pool the first ``depth`` places of each arm at the chosen turns.

    Raises :class:`UnusableInput` for what cannot be replayed, and where no turn is left to judge.
    """
    if depth < 1:
        raise UnusableInput(f"depth {depth} is not a whole number from 1")
    asked = replace(asked, arms=asked.arms or ARMS, recall_turns="user", depth=depth, store="exact")
    plan = make_plan(asked, judged=False)
    for info in plan.infos:
        if info.needs_gold:
            raise UnusableInput(f"arm {info.name!r} returns what a golden set says; a pool is made before there is one")
    wanted = _choose(plan.recordings, chosen, depth, asked.seed, announce)
    own = [one for one in plan.recordings if wanted[one.conversation]]
    told = tell_labels(plan.labels, asked.labels, (plan.labels_of(one) for one in own))
    for note in (*plan.library.golden.notes, *([told] if told else [])):
        announce(note)
    sources = open_sources(plan)
    prepare(plan, own, sources, announce)
    turns: list[PooledTurn] = []
    for recording in own:
        found: dict[str, dict[str, dict[str, int]]] = {key: {} for key in wanted[recording.conversation]}
        for answer in replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms):
            if answer.failure:
                raise CannotMeasure(f"{answer.point.key}: arm {answer.arm} failed: {answer.failure}")
            if answer.point.key in found:
                for rank, item in enumerate(answer.recall.items[:depth], 1):
                    found[answer.point.key].setdefault(item.id, {})[answer.arm] = rank
        turns += [PooledTurn(key, _shuffled(key, items, asked.seed)) for key, items in found.items()]
        announce(f"{recording.conversation}: {counted(len(found), 'turn')} pooled")
    return _pool(plan, depth, turns)


def material(pool: Pool, recordings: Path | None = None, memories_from: Path | None = None) -> dict[str, Recording]:
    """The recordings that a pool was made from, by conversation; the paths are those of the pool unless given.

    Raises :class:`UnusableInput` where they hold something else by now.
    """
    where = recordings or Path(pool.recordings)
    store = memories_from or Path(pool.memories_from) if pool.memories_from else None
    for path, option in ((where, "--recordings"), (store, "--memories-from")):
        if path and not path.exists():
            raise UnusableInput(f"{path}: what was pooled is not there; {option} says where it is now")
    library = unjudged(read_library(where, pool.format, memories=None if store else pool.memories))
    if store:
        library = with_stored(library, read_stored(store))
    if content(library) != pool.content:
        raise UnusableInput(f"{where}: has changed since it was pooled; make the pool again, into another file")
    return {recording.conversation: recording for recording in library.recordings}


def unjudged(library: Library) -> Library:
    """The same recordings without the probes that they brought."""
    return replace(library, golden=GoldenSet())


def content(library: Library) -> str:
    """A hash of the files that were read, those that belong to them, and of stored memories."""
    return digest([library.checksums(), library.memories, library.stored])


def _pool(plan: Plan, depth: int, turns: Sequence[PooledTurn]) -> Pool:
    asked = plan.asked
    return Pool(
        depth,
        tuple(arm.name for arm in plan.arms),
        asked.seed,
        asked.path,
        asked.format,
        plan.library.memories,
        asked.memories_from,
        asked.scope,
        content(plan.library),
        tuple(turns),
    )


def _shuffled(turn: str, items: dict[str, dict[str, int]], seed: int) -> tuple[Pooled, ...]:
    order = sorted(items, key=lambda memory: (draw(seed, f"pool {turn} {memory}"), memory))
    return tuple(Pooled(memory, items[memory]) for memory in order)


def _choose(
    recordings: Sequence[Recording], chosen: Chosen, depth: int, seed: int, announce: Announce
) -> dict[str, list[str]]:
    """The turns to pool by conversation, in their order.

    By hash, conversations take turns, because many conversations tell more than many turns of one; those of a smaller
    number are among those of a larger one. Where there are no more memories than places every arm returns them all, so
    such turns are pooled only where they are named. So are those that recall passes over as trivial: nothing is
    injected there, and a judge would learn nothing.
    """
    if sum(bool(one) for one in (chosen.keys, chosen.every, chosen.number)) > 1:
        raise UnusableInput("choose turns with one of --turn, --every and --turns")
    for what, number in (("every", chosen.every), ("turns", chosen.number)):
        if number is not None and number < 1:
            raise UnusableInput(f"{what} {number} is not a whole number from 1")
    least = 1 if chosen.keys else depth + 1
    asked = {one.conversation: _asked(one, least) for one in recordings}
    ready = {
        name: [turn.key for turn in turns if chosen.keys or not is_trivial(turn.text)] for name, turns in asked.items()
    }
    if passed := sum(len(turns) - len(ready[name]) for name, turns in asked.items()):
        what = "that recall passes over (greetings, thanks, commands)"
        announce(f"not drawn from: {counted(passed, 'user turn')} {what}; --turn names one all the same")
    if chosen.keys:
        known = {key for keys in ready.values() for key in keys}
        for key in chosen.keys:
            if key not in known:
                raise UnusableInput(f"--turn {key}: is no user turn of these recordings at which there is a memory")
        picked = set(chosen.keys)
    elif chosen.every:
        picked = {key for keys in ready.values() for key in keys[chosen.every - 1 :: chosen.every]}
    else:
        places = []
        for keys in ready.values():
            drawn = sorted((draw(seed, f"turn {key}"), key) for key in keys)
            places += [(place, by_hash, key) for place, (by_hash, key) in enumerate(drawn)]
        picked = {key for _, _, key in sorted(places)[: chosen.number or TURNS]}
    if not picked:
        raise UnusableInput(f"no user turn to draw at which there are {least} memories or more: nothing to pool")
    return {name: [key for key in keys if key in picked] for name, keys in ready.items()}


def _asked(recording: Recording, least: int) -> list[Turn]:
    """The user turns at which there are so many memories."""
    until, there = births(recording.memories), 0
    found = []
    for turn in recording.turns:
        born, gone = until(turn.seq)
        there += len(born) - len(gone)
        if turn.role == "user" and there >= least:
            found.append(turn)
    return found
