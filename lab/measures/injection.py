"""What one injection held: nice memories, gold among them, wrong scopes, superseded ones, duplicates, hard rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.engine.memory import NICE


def nice_presence(labels: Sequence[str], visible_nice: int) -> float | None:
    """NicePresence: 1 if a nice memory was injected; None where none was visible."""
    return float(NICE in labels) if visible_nice else None


def gold_nice(injected: Sequence[str], gold_labels: Mapping[str, str]) -> float | None:
    """GoldNice@k: 1 if a gold memory labelled nice was injected; None where no gold memory that is visible is nice.

    ``gold_labels`` are the labels of the visible gold. Presence of any nice memory is 1 under tier_quota_v1 by
    construction; this is not.
    """
    wanted = {key for key, label in gold_labels.items() if label == NICE}
    return float(any(key in wanted for key in injected)) if wanted else None


def wrong_scope(scopes: Sequence[str], home: str) -> float | None:
    """WrongScope: the share of injected memories of another scope than the turn's; global ones are of every scope.

    None for an empty selection.
    """
    return sum(scope not in (home, "global") for scope in scopes) / len(scopes) if scopes else None


def forbidden(injected: Sequence[str], unwanted: Sequence[str]) -> float | None:
    """Forbidden@k: 1 if a memory judged misleading for this probe was injected; None where none was judged so."""
    return float(any(key in injected for key in unwanted)) if unwanted else None


def present(injected: Sequence[str], pinned: Sequence[str], gold: Mapping[str, int]) -> float:
    """Present: 1 if a gold memory reached the prompt, as an item of its own or as a line of the Working Set."""
    return float(any(key in gold for key in (*injected, *pinned)))


def backbone_duplication(duplicates: int | None, injected: int) -> float | None:
    """BackboneDuplication: the share of injected memories that say what the Working Set says already.

    None without a Working Set, and where nothing else was injected.
    """
    return None if duplicates is None or not injected else duplicates / injected


def hard_rules(kept: int, visible: int) -> float | None:
    """HardRules: the share of the hard rules in reach whose text stands in what was injected; None where none is."""
    return kept / visible if visible else None
