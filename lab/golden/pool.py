"""A pool: for each sampled turn, the union of the memories that several arms returned, to be shown to a judge.

The file is JSON Lines: a header, then one line per turn. Memories are keys; their texts stay in the recordings.

    {"kind": "pool", "schema": "lab.pool.v1", "depth": 6, "arms": ["hybrid", …], "seed": 0, "recordings": PATH,
     "format": "openclaw", "memories": "stored", "memories_from": PATH, "scope": "none", "content": SHA256,
     "haystack": 400, "haystack_from": [], "origin": ["person"]}
    {"kind": "turn", "turn": KEY, "items": [{"memory": KEY, "arms": {"hybrid": 3, "bm25": 1}}, …]}

Items are ordered by a hash, so that their ranks do not influence the judge. A pool of captures (``"captures": true``)
has the candidates of each turn in their order instead, and no arms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json_lines
from lab.base.shape import field, optional

SCHEMA = "lab.pool.v1"


class Pooled(NamedTuple):
    """A memory and its rank (from 1) in each arm that returned it."""

    memory: str
    arms: dict[str, int]


class PooledTurn(NamedTuple):
    """A turn to be judged."""

    turn: str
    items: tuple[Pooled, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The pooled memories in display order."""
        return tuple(item.memory for item in self.items)


@dataclass(frozen=True, slots=True)
class Pool:
    """Turns in the order of their conversations, with the parameters of the pool.

    ``recordings`` and ``memories_from`` are paths as given; ``content`` is the digest of their content. ``haystack`` is
    the number of memories of other conversations added to each one, of which ``haystack_from`` names more sets.
    ``origin`` names what started the conversations that it was drawn from; a pool of an earlier version has no such
    field, and was drawn from all.
    """

    depth: int
    arms: tuple[str, ...]
    seed: int
    recordings: str
    format: str
    memories: str
    memories_from: str | None
    scope: str
    content: str
    turns: tuple[PooledTurn, ...]
    haystack: int = 0
    haystack_from: tuple[str, ...] = ()
    captures: bool = False
    origin: tuple[str, ...] = ()

    def without(self, judged: Mapping[str, Collection[str]], source: Path) -> Pool:
        """Return the pool without the memories ``judged`` at each turn, and without turns that have no others.

        Raises :class:`UnusableInput`, which names the ``source`` of the judgements, if nothing is left to judge.
        """
        turns = [
            PooledTurn(turn, tuple(item for item in items if item.memory not in judged.get(turn, ())))
            for turn, items in self.turns
        ]
        left = tuple(turn for turn in turns if turn.items)
        if not left:
            raise UnusableInput(f"--unjudged {source}: judges every pooled memory; nothing is left to judge")
        return replace(self, turns=left)

    def as_bytes(self) -> bytes:
        """Return the content of the pool file."""
        header = {"kind": "pool", "schema": SCHEMA, **asdict(self)}
        del header["turns"]
        for name in ("captures", "origin"):
            if not header[name]:
                del header[name]
        lines = [
            {"kind": "turn", "turn": turn.turn, "items": [item._asdict() for item in turn.items]} for turn in self.turns
        ]
        return b"".join(dump_json(line, indent=None) for line in (header, *lines))


def read_pool(path: Path) -> Pool:
    """Read a pool. Raises :class:`UnusableInput` for a file that is not a pool."""
    lines = list(read_json_lines(path))
    if not lines or lines[0][1].get("kind") != "pool":
        raise UnusableInput(f"{path}: is not a pool; `lab golden pool` creates one")
    header, at = lines[0][1], f"{path}:1"
    if header.get("schema") != SCHEMA:
        raise UnusableInput(f"{at}: a pool of schema {header.get('schema')!r}; this lab reads {SCHEMA}")
    turns = tuple(_turn(line, f"{path}:{number}") for number, line in lines[1:])
    if not turns:
        raise UnusableInput(f"{path}: has no turn to judge and may be truncated; create it again")
    for name, times in Counter(turn.turn for turn in turns).items():
        if times > 1:
            raise UnusableInput(f"{path}: turn {name} occurs twice")
    stored = header.get("memories_from")
    return Pool(
        field(header, "depth", int, at),
        tuple(map(str, field(header, "arms", list, at))),
        field(header, "seed", int, at),
        field(header, "recordings", str, at),
        field(header, "format", str, at),
        field(header, "memories", str, at),
        stored if isinstance(stored, str) else None,
        field(header, "scope", str, at),
        field(header, "content", str, at),
        turns,
        optional(header, "haystack", int, 0, at),
        tuple(map(str, optional(header, "haystack_from", list, [], at))),
        optional(header, "captures", bool, False, at),
        tuple(map(str, optional(header, "origin", list, [], at))),
    )


def _turn(line: dict[str, Any], at: str) -> PooledTurn:
    if line.get("kind") != "turn":
        raise UnusableInput(f'{at}: "kind" must be "turn"')
    items = field(line, "items", list, at)
    if not all(isinstance(item, dict) and isinstance(item.get("memory"), str) for item in items) or not all(
        isinstance(item.get("arms", {}), dict) for item in items
    ):
        raise UnusableInput(f'{at}: each item is {{"memory": KEY, "arms": {{ARM: RANK}}}}')
    return PooledTurn(
        field(line, "turn", str, at), tuple(Pooled(item["memory"], item.get("arms", {})) for item in items)
    )
