"""``memory_core``: the host's own memory search with its defaults, searched with every prompt (HB-1).

In the host, the agent decides whether to search. The arm shows what the search would return.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lab.base.token_estimate import tokens
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import ArmInfo, Ask, Recall, Step
from lab.systems.files.search import Hit, query_of
from lab.systems.files.settings import Settings, host_section, read_settings
from lab.systems.files.system import (
    BUDGET,
    INJECTED,
    FileMemory,
    Trace,
    harmed,
    items_of,
    receipt_of,
    rendered,
)
from lab.systems.kit import Kit
from lab.systems.spec import ArmSpec

# The newest release of the host whose search the lab implements.
HOST = "2026.9.6"
MOST_RESULTS = 100
DRAFT_ROLES = ("tool",)


@dataclass(frozen=True, slots=True)
class MemoryCoreArm:
    """The host's search with its settings. ``max_tokens``: budget of a comparison; the host has none."""

    name: str
    settings: Settings
    depth: int = 50
    max_tokens: int | None = None
    claims: ClassVar[tuple[str, ...]] = ("relevant", "words", "meaning", "embedder")

    def describe(self) -> ArmInfo:
        """Describe the arm. A result may hold many memories, so every rank of the ranking may be injected."""
        config, missing = self.settings.config(), self.settings.missing
        inputs = self.settings.inputs()
        return ArmInfo(
            self.name, "memory_core", self.depth, self.depth, config, writes=True, missing=missing, inputs=inputs
        )

    def with_tokens(self, tokens: int) -> MemoryCoreArm:
        """Return the arm with a budget, and as many results as fit."""
        return replace(self, max_tokens=tokens, settings=replace(self.settings, max_results=MOST_RESULTS))

    @property
    def rehearsal_key(self) -> Hashable:
        """What the chunks depend on."""
        return self.settings.chunk_key, DRAFT_ROLES

    def rehearse(self, kit: Kit, steps: Iterable[Step]) -> Iterator[str]:
        """Yield the chunks that a replay embeds."""
        return self.open(kit).rehearse(steps)

    def query_for(self, prompt: str) -> str:
        """Return what is embedded of a prompt."""
        return query_of(prompt)

    def open(self, kit: Kit) -> MemoryCore:
        """Open an empty workspace."""
        return MemoryCore(self, kit)


def make(spec: ArmSpec) -> MemoryCoreArm:
    """Make the arm from the host's section ``memory.search``, alone or in the host's file.

    Raises :class:`UnusableInput` for an unknown key or a value out of range.
    """
    config = spec.config
    section = host_section(config) if isinstance(config, Mapping) else None
    if section is None:
        section = (
            {key: value for key, value in config.items() if key != "lab"} if isinstance(config, Mapping) else config
        )
    settings = read_settings({} if section is None else section, spec.where, HOST)
    if spec.max_items:
        settings = replace(settings, max_results=spec.max_items)
    return MemoryCoreArm(spec.name, settings, spec.depth)


class MemoryCore(FileMemory):
    """The host's search in one conversation."""

    def __init__(self, arm: MemoryCoreArm, kit: Kit) -> None:
        super().__init__(arm.settings, DRAFT_ROLES, kit)
        self.arm = arm

    def recall(self, ask: Ask) -> Recall:
        """Search with the prompt and inject the results as the tool would return them."""
        settings, timer = self.arm.settings, StageTimer()
        found = self.search(ask, settings.max_results, settings.min_score, timer)
        chosen = list(found.results)
        while self.arm.max_tokens is not None and tokens(_listed(chosen)) > self.arm.max_tokens:
            chosen.pop()
        decisions = {hit.row: BUDGET for hit in found.results} | {hit.row: INJECTED for hit in chosen}
        self._trace = Trace(candidates=found.candidates, decisions=decisions, floor=settings.min_score)
        items, injected = items_of(chosen, found.candidates, self.arm.depth)
        context = _listed(chosen)
        receipt = {
            "candidates": {"fts": found.fts, "vec": found.vec},
            "results": receipt_of(found.results, decisions),
            "tokens": tokens(context),
        }
        return Recall(items, injected, context, receipt, timer.timings, "degraded" if harmed(ask.faults) else "ok")


def _listed(hits: Sequence[Hit]) -> str:
    """Return the results as text; blank without any."""
    return "\n\n".join(map(rendered, hits))
