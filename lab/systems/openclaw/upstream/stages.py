"""The stages specific to the public plugin: select, drop stale TODOs, build the Working Set from the selection (E-26).

Its Working Set is pinned as the first slot and holds constraints, decisions and open work, without goal or header.
Every row whose line was chosen counts as consumed, even if the final cut removes the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.utf16 import WHITESPACE, js_length, js_slice
from lab.recordings.model import MUST
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import EngineConfig, WorkingSetSettings
from lab.systems.openclaw.memory import is_stale, resolve_label
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.block import Slot, pack
from lab.systems.openclaw.recall.scope import select_in_scopes
from lab.systems.openclaw.recall.stages import inject, memory_slot, stale_marks, take
from lab.systems.openclaw.recall.turn import Collected, Injected, Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.recall.working_set import (
    CATEGORIES,
    MAX_ROWS,
    NO_SECTIONS,
    PREFIX,
    RANKS,
    V1,
    build_working_set_v1,
    distinct,
    is_constraint,
    no_working_set,
    normal_line,
    open_questions,
    working_set_row,
    working_set_slot,
)
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.openclaw.select.policies import by_policy


class WorkingSet(NamedTuple):
    """The slot (None: nothing to pin), the ids whose lines were chosen, and how many lines each section has."""

    slot: Slot | None
    consumed: tuple[str, ...]
    sections: dict[str, int]


def build_working_set(
    scope: str, prompt: str, now_ms: float, limits: WorkingSetSettings, rows: Sequence[Row]
) -> WorkingSet:
    """Build the Working Set of a scope; none if it had only open questions, or a single line that is not a rule."""
    memories = (row for row in rows if not row.id.startswith(PREFIX))
    newest = sorted(memories, key=lambda row: (-row.created_at, id_order(row.id)))
    ranked = sorted(newest, key=lambda row: RANKS.get(row.importance_label, 2))
    constraints = _section(newest, lambda row: is_constraint(row.category, row.text), limits)
    decisions = _section(ranked, lambda row: row.category == "decision", limits)
    actions = _section(newest, lambda row: row.category == "todo", limits)
    questions = open_questions(prompt, limits.max_items_per_section, limits.max_item_chars)
    chosen = [identity.strip(WHITESPACE) for part in (constraints, decisions, actions) for identity in part.values()]
    consumed = [identity for identity in chosen if identity]
    if not chosen or (len(consumed) < 2 and not constraints):
        return WorkingSet(None, (), dict(NO_SECTIONS))
    parts = (
        ("constraints", list(constraints)),
        ("decisions", list(decisions)),
        ("next_actions", list(actions)),
        ("open_questions", questions),
    )
    text = "\n".join(
        line for title, lines in parts if lines for line in (f"{title}:", *(f"- {entry}" for entry in lines))
    )
    counts = dict(zip(NO_SECTIONS, (False, *(len(lines) for _, lines in parts)), strict=True))
    slot = working_set_slot(scope, now_ms, js_slice(text.strip(WHITESPACE), limits.max_chars))
    return WorkingSet(slot, tuple(dict.fromkeys(consumed)), counts)


def _section(rows: Iterable[Row], belongs: Callable[[Row], bool], limits: WorkingSetSettings) -> dict[str, str]:
    """Return the distinct lines in order, each with the id of its first row."""
    owners: dict[str, str] = {}
    lines = []
    for row in rows:
        if belongs(row):
            line = normal_line(row.text, limits.max_item_chars)
            owners.setdefault(line.lower(), row.id)
            lines.append(line)
    return {line: owners[line.lower()] for line in distinct(lines, limits.max_items_per_section)}


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
        write(working_set_row(slot, turn.scope, turn.prompt.now_ms, no_vector=memories.no_vector))
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
