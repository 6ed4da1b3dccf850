"""Choose the user turns that a pool offers to a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.recordings.model import Recording, Turn
from lab.replay.timeline import births
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
    ``eligible`` how many could be. ``trivial`` turns are skipped by recall, ``early`` ones see too few memories.
    """

    keys: Mapping[str, list[str]]
    order: Sequence[tuple[str, str]]
    eligible: Mapping[str, int]
    trivial: int
    early: int
    seed: int

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
            "not_eligible": {"skipped by recall": self.trivial, "too few memories": self.early},
            "seed": self.seed,
        }


def choose_turns(recordings: Sequence[Recording], chosen: Chosen, depth: int, seed: int) -> Drawn:
    """Return the turns to pool; raise :class:`NothingToPool` if there is none.

    Sampling by hash alternates between conversations, because many conversations are more informative than many turns
    of one; a smaller sample is a subset of a larger one. Two kinds of turns are pooled only if they are named: turns
    with at most ``depth`` memories, where every arm returns them all, and turns that recall skips as trivial.
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
