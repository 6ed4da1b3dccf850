"""The strip of a conversation: one small cell for each turn, to see where hits, flips and repeats are and go there."""

from __future__ import annotations

from typing import NamedTuple

from lab.view.index import Index, Pair

HIT, NO_HIT, NO_PROBE, NOTHING_NEEDED, FAILED = "hit", "no hit", "no probe", "nothing needed", "failed"
SIGNS = {HIT: "●", NO_HIT: "○", NO_PROBE: "·", NOTHING_NEEDED: "–", FAILED: "!"}


class Cell(NamedTuple):
    """A turn in the strip.

    ``arms`` has what became of each shown arm, a key of :data:`SIGNS`; ``kinds`` are ``probe``, ``flip``, ``gained``,
    ``lost`` and ``repeated``, where they apply. ``begins`` is the session that begins here, else empty.
    """

    number: int
    turn: str
    arms: tuple[str, ...]
    kinds: tuple[str, ...]
    begins: str
    about: str


def strip(index: Index, pair: Pair, conversation: str) -> list[Cell]:
    """Return the cells of a conversation, one for each recall point, in order."""
    position = index.conversations.index(conversation)
    hits = {arm: index.hits(arm, pair.cutoff) for arm in pair.arms}
    flips = {name: index.where(pair, name) for name in ("gained", "lost")} if pair.candidate else {}
    cells: list[Cell] = []
    session = ""
    for number in range(index.starts[position], index.ends[position]):
        turn = index.turns[number]
        own = session_of(turn)
        marks = {arm: index.marks(number, arm) for arm in pair.arms}
        states = tuple(_state(index, number, bool(hits[arm][number]), "failed" in marks[arm], arm) for arm in pair.arms)
        kinds = ["probe"] if index.judged[number] else []
        kinds += [name for name, flags in flips.items() if flags[number]]
        kinds += ["flip"] if len(kinds) > 1 else []
        kinds += ["repeated"] if any("repeated" in marks[arm] for arm in pair.arms) else []
        states_by_arm = zip(pair.arms, states, strict=True)
        words = [f"{arm} {state}" for arm, state in states_by_arm if state != NO_PROBE]
        words += [kind for kind in kinds if kind in ("gained", "lost", "repeated")]
        about = ", ".join(words) or NO_PROBE
        cells.append(Cell(number, turn, states, tuple(kinds), own if own != session else "", about))
        session = own
    return cells


def session_of(turn: str) -> str:
    """Return the session in the key of a turn, which is all but its last part."""
    return turn.rpartition("/")[0]


def _state(index: Index, number: int, hit: bool, failed: bool, arm: str) -> str:
    if failed:
        return FAILED
    if not index.judged[number]:
        return NO_PROBE
    if index.first[arm][number] == 0:
        return NOTHING_NEEDED
    return HIT if hit else NO_HIT
