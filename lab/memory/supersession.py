"""What replaces what: which of some records are superseded, and which supersede each other in a cycle (PK-3, LD-7)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def superseded(replaces: Mapping[Key, Sequence[Key]]) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the keys that others supersede, and those in a cycle, which stay: their order is unknown.

    ``replaces`` has by key what it supersedes; what is no key there is ignored. What a member of a cycle supersedes
    outside of it is superseded, and so is a cycle of which a key outside supersedes a member.
    """
    known = {key: [old for old in olds if old in replaces] for key, olds in replaces.items()}
    # Only these can reach themselves, so a long chain costs no more than its length.
    reach = {key: reachable(known[key], known) for key in in_or_after_cycles(known)}
    entered = {old for new, olds in known.items() for old in olds if old != new and new not in reach.get(old, ())}
    members = {one for key in entered if key in reach for one in reach[key] if key in reach.get(one, ())}
    gone = frozenset(entered | members)
    return gone, frozenset(key for key, others in reach.items() if key in others) - gone


def in_or_after_cycles(replaces: Mapping[Key, Collection[Key]]) -> set[Key]:
    """Return the keys that are left when those that no other key leads to are removed, again and again."""
    counts = dict.fromkeys(replaces, 0)
    for olds in replaces.values():
        for old in olds:
            counts[old] += 1
    waiting = [key for key, count in counts.items() if not count]
    left = set(replaces)
    while waiting:
        key = waiting.pop()
        left.discard(key)
        for old in replaces[key]:
            counts[old] -= 1
            if not counts[old]:
                waiting.append(old)
    return left


def reachable(starts: Iterable[Key], replaces: Mapping[Key, Sequence[Key]]) -> set[Key]:
    """Return ``starts`` and all keys that ``replaces`` leads to from them, directly or through others."""
    seen: set[Key] = set()
    waiting = list(starts)
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting += replaces.get(key, ())
    return seen
