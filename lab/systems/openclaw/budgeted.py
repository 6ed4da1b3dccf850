"""How the engine's arms take a token budget, and what they claim: base classes of :mod:`lab.systems.openclaw.arms`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from lab.base.token_estimate import most_ascii
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.config.table import MAX_CHARS, MAX_ITEMS

# The least that workingSet.maxChars may be.
WS_CHARS = 240


@dataclass(frozen=True, slots=True)
class Configured:
    """An arm with the engine's configuration."""

    name: str
    system: str
    config: EngineConfig

    @property
    def claims(self) -> tuple[str, ...]:
        """What it is named for: both searches answer, and what they find is injected."""
        return "relevant", "words", "meaning", "embedder"


class Widening(Configured):
    """An arm without a budget: its ranking can be cut."""

    __slots__ = ()

    def widened(self, items: int) -> Self:
        """Return the same arm with ``items`` items, or the most that its profile allows."""
        return replace(self, config=_with_items(self.config, items))


class Budgeted(Configured):
    """An arm with the plugin's ``budget``, which counts UTF-16 units and drops items as it is configured to."""

    __slots__ = ()

    def with_tokens(self, tokens: int) -> Self:
        """Return the same arm with the ``budget.maxChars`` that so many tokens of ASCII fill, and the most items.

        ``budget`` does not count the Working Set, which is given up to a third of the characters. Other scripts take
        more tokens for each character, so the lab also cuts what is too long.
        """
        config, chars = _with_items(self.config, None), most_ascii(tokens)
        working_set = config.working_set
        if working_set.enabled:
            working_set = replace(working_set, max_chars=min(working_set.max_chars, max(WS_CHARS, chars // 3)))
            chars -= working_set.max_chars
        most = int(min(MAX_CHARS.high_in(config.profile), max(MAX_CHARS.low, chars)))
        budget = config.budget._replace(enabled=True, max_chars=most)
        return replace(self, config=replace(config, budget=budget, working_set=working_set))


def _with_items(config: EngineConfig, items: int | None) -> EngineConfig:
    """Return a configuration with ``items`` items (None: the most), as far as its profile allows."""
    high = int(MAX_ITEMS.high_in(config.profile))
    most = high if items is None else min(items, high)
    return replace(config, auto_recall=replace(config.auto_recall, max_items=most))
