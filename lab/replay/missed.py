"""Why relevant memories were missed: the cause of each, over a complete run.

Runs store no explanations. Every conversation is replayed again, and each recall at a probe is explained by the same
code as one turn (:mod:`lab.replay.explain`). What was missed is read from the receipts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.processes import mapped
from lab.base.progress import Progress
from lab.recordings.model import Recording
from lab.replay.explain import explanation_of
from lab.replay.loop import RecallCall, replay
from lab.replay.plan import Plan, plan_of
from lab.replay.receipts import block_hash
from lab.replay.sources import open_sources, play_of, prepare, prepared_sources, tools_of
from lab.runs.directory import RunDirectory
from lab.runs.gold import read_gold
from lab.runs.tables import table_of, write_table
from lab.systems.contract import Detail

if TYPE_CHECKING:
    import pyarrow as pa

FILE, KIND, VERSION = "missed.parquet", "lab.missed", "1"
UNKNOWN, FAILED = "unknown", "failed"
# In the order of a recall: what did not reach the search, what the search or the selection left out, what was cut.
CAUSES = {
    "unborn": "it did not exist yet at the probe",
    "forgotten": "it had been deleted",
    FAILED: "the recall failed",
    "trivial": "the prompt was skipped as trivial",
    "scope": "it belongs to another scope than the turn",
    "label": "no tier contains its label",
    "score": "its score is below the lowest that the system injects",
    "silent": "the system kept silent: nothing was relevant enough",
    "nothing": "the arm injects nothing, whatever there is",
    "fault": "no search returned it, under injected faults",
    "depth": "it is not among the candidates: the search does not go that deep",
    "todo": "it is a TODO past its lifetime",
    "trust": "it is quarantined, and the trust policy excludes it",
    "superseded": "another memory supersedes it",
    "tier": "its tier was not searched: earlier tiers had filled all slots",
    "duplicate": "it repeats a line of the Working Set",
    "repeat": "it was injected recently, and its score was lowered",
    "decay": "it had decayed: by rank fusion alone it would have been injected",
    "kind": "it is of a kind that is never injected",
    "merged": "an equal text was injected under another key",
    "slot": "it is a candidate, and other memories took the slots",
    "cut": "only the start of it is in the Working Set",
    "snippet": "its chunk was injected, but the part shown ends before it",
    "budget": "it was selected, and the budget dropped it",
    UNKNOWN: "the system does not explain its recalls",
}


class Missed(NamedTuple):
    """A relevant memory that one arm missed at a probe: neither injected nor a full line of the Working Set."""

    arm: str
    conversation: str
    probe: str
    memory: str
    grade: int
    cause: str


class Counts(NamedTuple):
    """What became of the relevant memories of all probes under one arm; ``causes`` sum to those missed."""

    relevant: int
    injected: int
    pinned: int
    causes: Mapping[str, int]

    @property
    def missed(self) -> int:
        """The number of missed memories."""
        return self.relevant - self.injected - self.pinned


class Present(NamedTuple):
    """What a receipt says of one recall: the block's hash, and the keys that were injected and pinned."""

    block: str
    injected: frozenset[str]
    pinned: frozenset[str]


Recalls = Mapping[tuple[str, str], Present]
Job = tuple[Plan, Recording, Recalls]


def missed(
    run: RunDirectory, *, jobs: int = 1, announce: Callable[[str], None] = lambda _: None
) -> tuple[list[Missed], dict[str, Counts]]:
    """Return every missed relevant memory of a finished run with its cause, and the counts by arm.

    Raises :class:`UnusableInput` for a run without relevant memories or with a recording that has changed, and
    :class:`CannotMeasure` if a recall differs from its receipt, because the code has changed since.
    """
    run.require_done()
    gold = {probe: judged for probe, judged in read_gold(run).items() if judged.grades}
    if not gold:
        raise UnusableInput(f"{run.path}: has no probe with relevant memories; replay it with a golden set (--golden)")
    plan = _exact(plan_of(run))
    prepare(plan, plan.recordings, open_sources(plan), announce)
    rows: list[Missed] = []
    present = {arm: [0, 0, 0] for arm in run.arms}
    todo = []
    for recording in plan.recordings:
        recalls = _recalls(run, recording.conversation)
        todo.append((plan, recording, recalls))
        for (arm, point), found in recalls.items():
            relevant = gold[point].grades if point in gold else {}
            present[arm][0] += len(relevant)
            present[arm][1] += len(found.injected.intersection(relevant))
            present[arm][2] += len(found.pinned.intersection(relevant) - found.injected)
    progress = Progress(len(todo))
    for part in mapped(_conversation, todo, jobs):
        announce(progress.next("conversations"))
        rows += part
    return rows, {arm: _counts(arm, numbers, rows) for arm, numbers in present.items()}


def missed_in(run: RunDirectory, plan: Plan, conversation: str) -> list[Missed]:
    """Return the missed memories of one conversation of a run, whose ``plan`` has its recording.

    Raises :class:`CannotMeasure` as :func:`missed` does.
    """
    (recording,) = (recording for recording in plan.recordings if recording.conversation == conversation)
    return _conversation((_exact(plan), recording, _recalls(run, conversation)))


def _exact(plan: Plan) -> Plan:
    """Return a plan with the exact store, which gives the same answers as LanceDB and opens faster."""
    return replace(plan, request=replace(plan.request, store="exact"))


def _counts(arm: str, numbers: Sequence[int], rows: Sequence[Missed]) -> Counts:
    relevant, injected, pinned = numbers
    causes = [row.cause for row in rows if row.arm == arm]
    counts = Counts(relevant, injected, pinned, {cause: causes.count(cause) for cause in CAUSES if cause in causes})
    if counts.missed != len(causes):
        raise CannotMeasure(f"arm {arm}: {counts.missed} relevant memories are missed, and {len(causes)} are explained")
    return counts


def _recalls(run: RunDirectory, conversation: str) -> Recalls:
    """Return the recalls of one conversation by arm and recall point, without turns that are left out."""
    table = run.read_receipts(conversation, ("arm", "turn", "block", "injected", "item_key", "pinned"))
    columns = (table[name].to_pylist() for name in table.column_names)
    return {
        (arm, turn): Present(block, frozenset(keys[:injected]), frozenset(pinned))
        for arm, turn, block, injected, keys, pinned in zip(*columns, strict=True)
        if turn not in run.left_out
    }


def _conversation(job: Job) -> list[Missed]:
    """Return the missed memories of one conversation."""
    plan, recording, recalls = job
    sources = prepared_sources(plan, [recording])
    play = play_of(plan, recording, tools_of(plan, recording, sources))
    infos = {info.name: info for info in plan.infos}
    calls: list[RecallCall] = []
    rows: list[Missed] = []
    with closing(replay(play, plan.arms, on_recall=calls.append)) as answers:
        for answer in answers:
            call = calls.pop()
            probe, recall = answer.point.probe, answer.recall
            known = recalls.get((answer.arm, answer.point.key))
            if known is None or probe is None:
                continue
            if known.block != block_hash(recall.context):
                raise CannotMeasure(
                    f"{answer.point.key}: arm {answer.arm} recalls something else than its receipt says; the code has "
                    "changed since, so replay the run again into another --out"
                )
            missing = [key for key in probe.grades if key not in known.injected | known.pinned]
            if not missing:
                continue
            causes: Mapping[str, str] = dict.fromkeys(missing, FAILED)
            if answer.failure is None:
                causes = explanation_of(play.memories, answer, call, infos[answer.arm], Detail()).explained.causes
            rows += [
                Missed(
                    answer.arm,
                    recording.conversation,
                    answer.point.key,
                    key,
                    probe.grades[key],
                    cause if (cause := causes.get(key)) in CAUSES else UNKNOWN,
                )
                for key in missing
            ]
    return rows


def write_missed(rows: Sequence[Missed], counts: Mapping[str, Counts], path: Path) -> pa.Table:
    """Write every missed memory, and one row with cause ``injected`` or ``pinned`` for the others, without probe.

    Columns: ``arm, conversation, probe, memory, grade, cause, count``. ``count`` is 1 for a missed memory.
    """
    import pyarrow as pa

    named: list[tuple[str | int | None, ...]] = [(*row, 1) for row in rows]
    named += [
        (arm, None, None, None, None, where, number)
        for arm, count in counts.items()
        for where, number in (("injected", count.injected), ("pinned", count.pinned))
    ]
    types = [pa.string()] * 4 + [pa.int32(), pa.string(), pa.int32()]
    table = table_of(named, dict(zip((*Missed._fields, "count"), types, strict=True)))
    table = table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION})
    write_table(table, path)
    return table


def counts_in(table: pa.Table) -> dict[str, Counts]:
    """Return the counts by arm of a table of :func:`write_missed`."""
    totals: dict[str, dict[str, int]] = {}
    for arm, cause, number in zip(*(table[name].to_pylist() for name in ("arm", "cause", "count")), strict=True):
        by_cause = totals.setdefault(arm, {})
        by_cause[cause] = by_cause.get(cause, 0) + number
    return {
        arm: Counts(
            sum(by_cause.values()),
            by_cause.get("injected", 0),
            by_cause.get("pinned", 0),
            {cause: by_cause[cause] for cause in CAUSES if cause in by_cause},
        )
        for arm, by_cause in totals.items()
    }
