"""What a retention rule would have archived in a run, and which relevant memories it would have lost (RT-6 to RT-9).

A rule archives a memory of priority P1 or P2 that was not used for so many days. A run says when each memory was used:
from its receipts follow the times at which a memory was found, and those at which it was injected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import UnusableInput
from lab.recordings.model import MUST, NICE, Memory, Recording
from lab.replay.plan import Plan, plan_of
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import write_points
from lab.systems.sidecar import DURABLE, PRIORITIES

if TYPE_CHECKING:
    import pyarrow as pa

FILE, KIND, VERSION = "retention.parquet", "lab.retention", "1"
DAY_MS = 24 * 3600 * 1000
# What counts as a use: being injected, being found, or nothing, so that only age counts.
SIGNALS = ("included", "retrieved", "none")
BY = ("label", "kind")
# The thresholds that are tried for the rule that archives most.
P1_DAYS = (30, 60, 90, 120, 180, 270, 365)
P2_DAYS = (7, 14, 30, 60, 90, 180, 365)
ALL = "all"


class Rule(NamedTuple):
    """Days without use after which a memory is archived, by priority. P0 is never archived."""

    p1: int
    p2: int

    def __str__(self) -> str:
        return f"{self.p1}/{self.p2}"

    def days(self, priority: str) -> int | None:
        """Return the days of a priority; None if it is never archived."""
        return {"P1": self.p1, "P2": self.p2}.get(priority)


DEFAULT = Rule(90, 30)


@dataclass(slots=True)
class Life:
    """A memory under one arm; times are in epoch milliseconds.

    ``retrieved`` and ``included`` are the times at which it was found and injected, in order; ``wanted`` are the probes
    to which it is relevant: the time, and whether it was injected there. ``end`` is the end of the conversation.
    """

    arm: str
    conversation: str
    memory: str
    priority: str
    created: int
    end: int
    retrieved: list[int] = field(default_factory=list)
    included: list[int] = field(default_factory=list)
    wanted: list[tuple[int, bool]] = field(default_factory=list)

    def archived_at(self, rule: Rule, signal: str = "included") -> int | None:
        """Return when the rule archives the memory for good; None if it never does (RT-7)."""
        days = rule.days(self.priority)
        if days is None:
            return None
        uses = {"included": self.included, "retrieved": self.retrieved, "none": []}[signal]
        before = self.created
        for time in (*uses, self.end):
            if time - before >= days * DAY_MS:
                return before + days * DAY_MS
            before = max(before, time)
        return None


class LastUse(NamedTuple):
    """When a memory was last used under one arm, in epoch milliseconds; None if never.

    ``archived_at`` is None if the rule never archives it. ``retrieved`` and ``included`` say how often it was,
    ``relevant`` to how many probes it is, ``lost`` to how many of them after it was archived.
    """

    arm: str
    conversation: str
    memory: str
    priority: str
    created_at: int
    last_retrieved_at: int | None
    last_included_at: int | None
    archived_at: int | None
    retrieved: int
    included: int
    relevant: int
    lost: int


class Loss(NamedTuple):
    """What one rule archives and loses under one arm, of one priority or of ``all``.

    ``relevant`` counts pairs of a probe and a memory that is relevant to it and exists then; ``lost`` those whose
    memory was archived by then. ``found`` and ``lost_found`` are the pairs among them in which the memory was injected:
    what the rule would have taken from the prompt. ``relevant_memories`` and ``lost_memories`` count distinct memories.
    """

    arm: str
    rule: Rule
    priority: str
    memories: int
    archived: int
    relevant: int
    lost: int
    found: int
    lost_found: int
    relevant_memories: int
    lost_memories: int

    @property
    def lost_share(self) -> float | None:
        """Share of relevant pairs that are lost; None without any."""
        return self.lost / self.relevant if self.relevant else None

    @property
    def archived_share(self) -> float | None:
        """Share of the memories that are archived; None without any."""
        return self.archived / self.memories if self.memories else None


def parse_rule(text: str) -> Rule:
    """Return the rule ``P1/P2`` in days; raise :class:`UnusableInput` for anything else."""
    first, sign, second = text.partition("/")
    if not (sign and first.strip().isdecimal() and second.strip().isdecimal() and int(first) and int(second)):
        raise UnusableInput(f"--rule {text!r}: expected two numbers of days, P1/P2, such as 90/30")
    return Rule(int(first), int(second))


def priority(memory: Memory, by: str = "label") -> str:
    """Return the priority of a memory (RT-6): by its label, or by its kind as the sidecar does. A hard rule is P0."""
    if memory.hard_rule:
        return "P0"
    if by == "label":
        return {MUST: "P0", NICE: "P1"}.get(memory.label or "", "P2")
    return "P1" if memory.category in DURABLE else "P2"


def lives(run: RunDirectory, by: str = "label") -> list[Life]:
    """Return every memory of a finished run under every arm, with its uses.

    Raises :class:`UnusableInput` for a run whose recordings have changed, and what
    :meth:`RunDirectory.read_receipts` raises.
    """
    if by not in BY:
        raise UnusableInput(f"--priority {by}: expected {' or '.join(BY)}")
    run.require_done()
    plan = plan_of(run)
    gold = read_gold(run)
    found: list[Life] = []
    for recording in plan.recordings:
        grades = {
            probe: judged.grades for probe, judged in gold.items() if judged.conversation == recording.conversation
        }
        found += _lives(run, plan, recording, grades, by)
    return found


def _lives(
    run: RunDirectory, plan: Plan, recording: Recording, gold: dict[str, dict[str, int]], by: str
) -> Iterator[Life]:
    """Yield the memories of one conversation under every arm."""
    end = recording.turns[-1].time_ms
    times = {point.key: (point.now_ms, point.seq) for point in plan.recall_points_of(recording)}
    memories = {memory.key: memory for memory in plan.memories_of(recording)}
    by_arm = {
        arm: {
            key: Life(arm, recording.conversation, key, priority(memory, by), memory.created_at, end)
            for key, memory in memories.items()
        }
        for arm in run.arms
    }
    names = ("arm", "turn", "probe", "is_recall_turn", "injected", "item_key", "pinned")
    table = run.read_receipts(recording.conversation, names)
    columns = (table[name].to_pylist() for name in names)
    for arm, turn, probe, is_recall_turn, injected, keys, pinned in zip(*columns, strict=True):
        if turn in run.left_out:
            continue
        now, seq = times[turn]
        known, included = by_arm[arm], {*keys[:injected], *pinned}
        for key in gold.get(probe, ()):
            if key in known and memories[key].is_visible_at(seq):
                known[key].wanted.append((now, key in included))
        # A probe leaves no trace in a system, so it is no use.
        if is_recall_turn:
            for key in included & known.keys():
                known[key].included.append(now)
            for key in (included | {*keys}) & known.keys():
                known[key].retrieved.append(now)
    for known in by_arm.values():
        yield from known.values()


def losses(found: Sequence[Life], rules: Iterable[Rule], signal: str = "included") -> list[Loss]:
    """Return what each rule archives and loses (RT-8): for each arm and rule the priorities P0 to P2, then all."""
    if signal not in SIGNALS:
        raise UnusableInput(f"--used {signal}: expected {', '.join(SIGNALS)}")
    by_arm: dict[str, list[Life]] = {}
    for life in found:
        by_arm.setdefault(life.arm, []).append(life)
    result = []
    for arm, mine in by_arm.items():
        for rule in rules:
            parts = {name: [0] * 8 for name in PRIORITIES}
            for life in mine:
                archived = life.archived_at(rule, signal)
                lost = [hit for time, hit in life.wanted if archived is not None and archived <= time]
                hits = sum(hit for _, hit in life.wanted)
                pairs = (len(life.wanted), len(lost), hits, sum(lost))
                counts = (1, archived is not None, *pairs, bool(life.wanted), bool(lost))
                part = parts[life.priority]
                part[:] = [total + count for total, count in zip(part, counts, strict=True)]
            parts[ALL] = [sum(column) for column in zip(*parts.values(), strict=True)]
            result += [Loss(arm, rule, name, *counts) for name, counts in parts.items()]
    return result


def largest(found: Sequence[Life], most_lost: float, signal: str = "included") -> dict[str, Loss | None]:
    """Return for each arm the rule of the grid that archives most and loses less than a share of relevant pairs (RT-9).

    None if no rule of the grid archives a memory and loses less. Of equal ones, that with the shorter days.
    """
    rules = [Rule(p1, p2) for p1 in P1_DAYS for p2 in P2_DAYS if p2 <= p1]
    best: dict[str, Loss | None] = dict.fromkeys(life.arm for life in found)
    for loss in losses(found, rules, signal):
        known = best[loss.arm]
        fits = loss.priority == ALL and (loss.lost_share or 0.0) < most_lost
        if fits and loss.archived and (known is None or loss.archived > known.archived):
            best[loss.arm] = loss
    return best


def write_lives(found: Sequence[Life], path: Path, rule: Rule = DEFAULT, signal: str = "included") -> pa.Table:
    """Write a :class:`LastUse` for each memory and arm as Parquet, and return the table."""
    rows = []
    for life in found:
        archived = life.archived_at(rule, signal)
        lost = sum(archived is not None and archived <= time for time, _ in life.wanted)
        rows.append(
            LastUse(
                life.arm,
                life.conversation,
                life.memory,
                life.priority,
                life.created,
                life.retrieved[-1] if life.retrieved else None,
                life.included[-1] if life.included else None,
                archived,
                len(life.retrieved),
                len(life.included),
                len(life.wanted),
                lost,
            )
        )
    times = [name for name in LastUse._fields if name.endswith("_at")]
    about = {"kind": KIND, "schema_version": VERSION, "rule": str(rule), "signal": signal}
    return write_points(LastUse, rows, path, wide=times, **about)


def span_days(found: Sequence[Life]) -> float:
    """Return the days from the first memory of the longest conversation to its end."""
    first: dict[str, int] = {}
    for life in found:
        first[life.conversation] = min(life.created, first.get(life.conversation, life.created))
    return max(((life.end - first[life.conversation]) / DAY_MS for life in found), default=0.0)
