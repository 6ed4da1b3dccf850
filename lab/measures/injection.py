"""What each injection held: nice memories, gold among them, other scopes, misleading ones, duplicates, hard rules.

A value an injection; NaN where there is nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.measures.columns import share
from lab.measures.ranking import Judged, success

if TYPE_CHECKING:
    from lab.columns import Floats, Ints


def nice_presence(nice: Ints, visible_nice: Ints) -> Floats:
    """NicePresence: 1 if a nice memory was injected; NaN where none was visible."""
    return _where_any(visible_nice, (nice > 0).astype(float))


def gold_nice(nice: Judged, k: int) -> Floats:
    """GoldNice@k: 1 if a gold memory labelled nice was injected; NaN where no gold memory that is visible is nice.

    ``nice`` are the injected memories beside the visible gold labelled nice. Presence of any nice memory is 1 under
    tier_quota_v1 by construction; this is not.
    """
    return _where_any(nice.gold, success(nice, k))


def wrong_scope(foreign: Ints, injected: Ints) -> Floats:
    """WrongScope: the share of injected memories of another scope than the turn's; global ones are of every scope.

    NaN for an empty selection.
    """
    return share(foreign, injected)


def forbidden(unwanted: Judged, k: int) -> Floats:
    """Forbidden@k: 1 if a memory judged misleading for this probe was injected; NaN where none was judged so.

    ``unwanted`` are the injected memories beside those judged misleading.
    """
    return _where_any(unwanted.gold, success(unwanted, k))


def present(injected: Judged, pinned: Judged) -> Floats:
    """Present: 1 if a gold memory reached the prompt, as an item of its own or as a line of the Working Set."""
    return (injected.gains.any(axis=1) | pinned.gains.any(axis=1)).astype(float)


def backbone_duplication(duplicates: Floats, injected: Ints) -> Floats:
    """BackboneDuplication: the share of injected memories that say what the Working Set says already.

    NaN without a Working Set (``duplicates`` are NaN), and where nothing else was injected.
    """
    return share(duplicates, injected)


def hard_rules(kept: Ints, visible: Ints) -> Floats:
    """HardRules: the share of the hard rules in reach whose text stands in what was injected; NaN where none is."""
    return share(kept, visible)


def _where_any(there: Ints, value: Floats) -> Floats:
    """The value where there is any, else NaN."""
    import numpy as np

    return np.where(there > 0, value, np.nan)
