"""What changed in a home since a snapshot: conversations that were added, went on, were removed or changed (IN-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.recordings.model import Memory, Recording
from lab.recordings.readers import Library
from lab.replay.run import turns_digest

ADDED, GROWN, CHANGED, REMOVED = "added", "went on", "changed", "removed"


class Growth(NamedTuple):
    """Conversations by what happened to them since the snapshot, with the number of their turns, before and now.

    ``grown`` begin with the turns of the snapshot; ``changed`` do not. ``memories`` counts the memories of the store
    that were added, removed and changed.
    """

    added: Mapping[str, tuple[int, int]]
    grown: Mapping[str, tuple[int, int]]
    changed: Mapping[str, tuple[int, int]]
    removed: Mapping[str, tuple[int, int]]
    memories: Mapping[str, int]

    @property
    def to_replay(self) -> tuple[str, ...]:
        """The conversations that the snapshot does not have as they are now."""
        return (*self.added, *self.grown, *self.changed)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return one record for each conversation, in the order of the kinds."""
        kinds = ((ADDED, self.added), (GROWN, self.grown), (CHANGED, self.changed), (REMOVED, self.removed))
        return [
            {"conversation": name, "what": what, "before": before, "turns": turns}
            for what, names in kinds
            for name, (before, turns) in names.items()
        ]


def growth(before: Library, after: Library) -> Growth:
    """Compare the conversations and the memories of a snapshot with those of the home as it is now."""
    old, new = (_by_name(library) for library in (before, after))
    grown: dict[str, tuple[int, int]] = {}
    changed: dict[str, tuple[int, int]] = {}
    for name in old.keys() & new.keys():
        mine, theirs = old[name].turns, new[name].turns
        if turns_digest(mine) != turns_digest(theirs):
            is_longer = turns_digest(mine) == turns_digest(theirs[: len(mine)])
            (grown if is_longer else changed)[name] = (len(mine), len(theirs))
    return Growth(
        {name: (0, len(new[name].turns)) for name in sorted(new.keys() - old.keys())},
        dict(sorted(grown.items())),
        dict(sorted(changed.items())),
        {name: (len(old[name].turns), 0) for name in sorted(old.keys() - new.keys())},
        _memories(before, after),
    )


def _by_name(library: Library) -> dict[str, Recording]:
    return {recording.conversation: recording for recording in library.recordings}


def _memories(before: Library, after: Library) -> dict[str, int]:
    """Count the memories of a store that were added, removed and changed; every conversation has all of them."""
    if before.stored is None or after.stored is None:
        return {}
    old, new = (
        {memory.key: _saved(memory) for memory in library.recordings[0].memories} for library in (before, after)
    )
    return {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(old[key] != new[key] for key in old.keys() & new.keys()),
    }


def _saved(memory: Memory) -> tuple[object, ...]:
    return memory.text, memory.created_at, memory.category, memory.scope, memory.label, memory.trust
