"""The specification of an arm, from which its system makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Where the answers of external systems come from.
LIVE, RECORDED = "live", "recorded"
ANSWERS = (LIVE, RECORDED)


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """A name, the system behind it, and its configuration, if any.

    ``raw`` is the whole content of the file, ``config`` the system's part of it; ``where`` is the file, for messages.
    ``embedder`` is the embedding model that the configuration names, if known. ``profile``, ``max_items`` (None: from
    the configuration), ``depth`` and ``seed`` are options of the run, for systems that use them. ``answers`` and
    ``allow_remote`` are for external systems: whether they run or their recorded answers are used, and whether
    they may be on another machine. ``off`` is why the host of the file does not run the system, if it does not.
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
    answers: str = LIVE
    allow_remote: bool = False
    off: str | None = None
