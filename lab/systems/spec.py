"""An arm as it was asked for, before its system makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """A name, the system behind it, and a configuration of its own if it has one.

    ``raw`` is all that stands in the file, ``config`` the part that is the system's; ``where`` is the file, for
    messages. ``embedder`` is the embedding model that the configuration names, where that is known already.
    ``profile``, ``max_items`` (None: the configuration's), ``depth`` and ``seed`` are the run's own options, for
    systems that have use for them.
    """

    name: str
    system: str
    config: Mapping[str, Any] | None = None
    where: str = "config"
    raw: Any = None
    embedder: str | None = None
    profile: str = "seed"
    max_items: int | None = None
    depth: int = 50
    seed: int = 0
