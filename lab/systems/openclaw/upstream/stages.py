"""The stages specific to the public plugin: select, drop stale TODOs, build the Working Set from the selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.utf16 import js_length
from lab.recordings.model import MUST
from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import resolve_label
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.inject import inject, memory_slot
from lab.systems.openclaw.recall.scoped import select_in_scopes
from lab.systems.openclaw.recall.stages import stale_marks, take
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.turn import Collected, Injected, Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.recall.working_set import PREFIX, no_working_set, working_set_row
from lab.systems.openclaw.recall.working_set_v1 import CATEGORIES, MAX_ROWS, V1, build_working_set_v1
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.openclaw.select.policies import by_policy
from lab.systems.openclaw.upstream.pack import pack
from lab.systems.openclaw.upstream.working_set import build_working_set

STICKY_CATEGORIES = ("preference", "decision")
STICKY_READ, STICKY_KEPT = 12, 8
CONSUMPTION = ("consumedCount", "suppressedRecallCount")


@dataclass(slots=True)
class PluginTurn(Turn):
    """The turn's state, which the plugin's stages fill in. ``consumed`` are the ids that the Working Set used."""

    consumed: tuple[str, ...] = ()

    @property
    def covered(self) -> tuple[str, ...]:
        """Ids of the memories whose lines were chosen for the Working Set, even if a cut removed them."""
        return self.consumed if self.working_set_slot else ()


class Selected(NamedTuple):
    """The selection, and the memories of it that are no stored Working Set."""

    selection: Selection
    fallback: dict[str, Any] | None
    rejected: list[str]
    log: list[tuple[str, str]]
    hits: list[Picked]


class Fresh(NamedTuple):
    """The hits without stale TODOs."""

    hits: list[Picked]
    final: list[Picked]
    log: list[tuple[str, str]]


class Pinned(NamedTuple):
    """The Working Set, the memories that it was built from, and the hits that it leaves."""

    working_set: dict[str, Any]
    hits: list[Picked]
    pinned: Slot | None = None
    consumed: tuple[str, ...] = ()
    synthesised: tuple[str, ...] = ()


def select(turn: PluginTurn) -> Selected:
    """Search and select in the primary scope, then in its fallbacks while slots remain (E-12)."""
    config, tiers = turn.config, turn.tiers
    scoped = select_in_scopes(
        turn.scopes,
        config.max_items,
        lambda scope, slots: by_policy(config.auto_recall, slots, lambda plan: tiers.fused(plan, scope)),
        config.scope_policy,
        turn.barred,
    )
    # A stored Working Set row that was selected is removed here, and its slot stays empty.
    chosen = scoped.selection.picked[: config.max_items]
    hits = [pick for pick in chosen if not pick.candidate.id.startswith(PREFIX)]
    return Selected(*take(turn, scoped), hits)


def todo(turn: PluginTurn) -> Fresh:
    """Drop stale TODOs (E-33); their slots stay empty."""
    rows, now, days = turn.memories.by_id, turn.prompt.now_ms, turn.config.todo_stale_ttl_days

    def stale(row: Row) -> bool:
        return row.category == "todo" and is_stale(row.created_at, now, days)

    kept = [pick for pick in turn.hits if not stale(rows[pick.candidate.id])]
    return Fresh(kept, kept, [*turn.log, *stale_marks(turn, len(turn.hits) - len(kept))])


def working_set(turn: PluginTurn) -> Pinned:
    """Build the Working Set from the hits and the scope's must memories; remove its memories from the hits (E-26)."""
    settings, memories, now = turn.config.working_set, turn.memories, turn.prompt.now_ms
    receipt: dict[str, Any] = no_working_set(enabled=settings.enabled)
    if settings.variant == V1:
        # The plugin of that time consumed no hits, and its receipt had no such counts.
        receipt = {key: value for key, value in receipt.items() if key not in CONSUMPTION}
    if not settings.enabled:
        return Pinned(receipt, turn.hits)
    if settings.variant == V1:
        recent = memories.listing.recent_of_first(turn.filter_scope, CATEGORIES, MAX_ROWS)
        built = build_working_set_v1(turn.scope, turn.text, now, settings, recent)
        used = tuple(dict.fromkeys(row.id for _, row in built.lines if row))
        return Pinned(receipt | _pinned(turn, built.slot, built.sections), turn.hits, built.slot, used, used)
    hot = [memories.by_id[pick.candidate.id] for pick in turn.hits]
    recent = memories.listing.recent_of_first(turn.filter_scope, STICKY_CATEGORIES, STICKY_READ)
    merged = {row.id: row for row in reversed([*hot, *[row for row in recent if _is_sticky(row)][:STICKY_KEPT]])}
    slot, consumed, sections = build_working_set(turn.scope, turn.text, now, settings, list(merged.values()))
    if slot is None:
        return Pinned(receipt, turn.hits, consumed=consumed)
    hits = [pick for pick in turn.hits if pick.candidate.id not in consumed]
    counts = {"consumedCount": len(consumed), "suppressedRecallCount": len(turn.hits) - len(hits)}
    return Pinned(receipt | _pinned(turn, slot, sections) | counts, hits, slot, consumed, consumed)


def _pinned(turn: PluginTurn, slot: Slot, sections: Mapping[str, int | bool]) -> dict[str, Any]:
    """Store the Working Set if it persists (E-28), and return its part of the receipt."""
    memories = turn.memories
    write = memories.write if turn.config.working_set.persist else None
    if write is not None:
        write(working_set_row(slot, turn.scope, turn.prompt.now_ms, no_vector=memories.no_vector is not None))
    return {
        "generated": True,
        "id": slot.id,
        "chars": js_length(slot.text),
        "sections": sections,
        "persisted": write is not None,
    }


def _is_sticky(row: Row) -> bool:
    """Whether a row is considered for every Working Set of its scope."""
    return resolve_label(row.importance_label, row.importance) == MUST and not row.id.startswith(PREFIX)


def slots(turn: PluginTurn) -> Collected:
    """Collect the slots: Working Set, memories, documents."""
    memories = [memory_slot(turn.memories.by_id[pick.candidate.id]) for pick in turn.hits]
    return Collected([*([turn.pinned] if turn.pinned else ()), *memories, *turn.docs], turn.additions)


def budget(turn: PluginTurn) -> Injected:
    """Fit the slots into the budget and write the receipt (E-32, E-40)."""
    return inject(turn, lambda chosen, comment: pack(chosen, turn.config.budget, comment))


STAGES = (
    ("scope", stages.scope),
    ("trivial", stages.trivial),
    ("embedding", stages.embedding),
    ("select", select),
    ("todo", todo),
    ("docs", stages.docs),
    ("working_set", working_set),
    ("slots", slots),
    ("budget", budget),
)


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> PluginTurn:
    """Run the stages. A failed stage leaves a warning and no receipt."""
    turn = PluginTurn(prompt, config, memories, state)
    return stages.run(turn, STAGES) if config.auto_recall.enabled else turn
