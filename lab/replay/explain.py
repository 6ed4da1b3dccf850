"""Explain recalls: why each memory has its rank or was not injected, and why relevant memories were missed.

Runs store no explanations. A recall is repeated, which gives the same result because it is a function of its inputs,
and the system explains it. For the missed memories of a complete run, every conversation is replayed again, and each
recall at a probe is explained in the same way; what was missed is read from the receipts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import choices, is_short_for
from lab.base.processes import mapped
from lab.base.progress import Progress, beating
from lab.recordings.model import LABELS, UNKNOWN, Memory, Recording, media_line
from lab.replay.loop import Answered, RecallCall, replay
from lab.replay.plan import Plan, plan_of
from lab.replay.receipts import SafetyChecks, block_hash, marks_of
from lab.replay.sources import Sources, open_sources, play_of, prepare, prepared_sources, tools_of
from lab.replay.timeline import RecallPoint
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import table_of, write_table
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, Explains, Recall

if TYPE_CHECKING:
    import pyarrow as pa


class RecordedConversation:
    """One conversation as recorded: its recall points, texts and media of its memories, their supersessions."""

    def __init__(self, plan: Plan, recording: Recording) -> None:
        self.recording = recording
        self.recall_points: dict[str, RecallPoint] = {point.key: point for point in plan.recall_points_of(recording)}
        self.texts = {memory.key: memory.text for memory in recording.memories}
        self.media = {memory.key: line for memory in recording.memories if (line := media_line(memory))}
        self.safety_checks = SafetyChecks(recording)

    def before(self, key: str, most: int) -> list[tuple[str, str]]:
        """Return speaker and text of up to ``most`` turns of the same session before a recall point."""
        point = self.recall_points[key]
        earlier = [turn for turn in self.recording.turns[: point.seq] if turn.session == point.session]
        return [(turn.speaker or turn.role, turn.text) for turn in earlier[-most:]]


UNBORN, FORGOTTEN = "unborn", "forgotten"
_SENTENCES = {UNBORN: "it did not exist yet", FORGOTTEN: "it had been forgotten"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One recall of one arm with the system's explanation, which is empty if the system gives none.

    ``texts`` has the texts of memories that the explanation may mention, by id, and ``media`` a line on the media of
    those that have any (E-99); ``visible`` counts memories in reach by label. ``marks`` say what is wrong or right
    about an injected memory, or would be about a next candidate (:func:`lab.replay.receipts.marks_of`).
    """

    point: RecallPoint
    arm: ArmInfo
    recall: Recall
    ask: Ask
    texts: Mapping[str, str]
    visible: Mapping[str, int]
    explained: Explained = field(default_factory=Explained)
    media: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def misleading(self) -> tuple[str, ...]:
        """The keys of the memories that the golden set forbids here."""
        return tuple(judgement.memory for judgement in self.point.probe.forbidden) if self.point.probe else ()

    @property
    def grades(self) -> Mapping[str, int]:
        """The grades of the relevant memories."""
        return self.point.probe.grades if self.point.probe else {}


def explain(
    run: RunDirectory,
    key: str,
    arm_name: str,
    plan: Plan | None = None,
    detail: Detail | None = None,
    *,
    opened: Sources | None = None,
) -> Explanation:
    """Explain the recall of the arm ``arm_name`` at the turn or probe ``key``.

    ``key`` may be shortened (:func:`lab.base.formatting.is_short_for`), if it then stands for one recall point of the
    run. ``plan`` is the plan of the run; by default it is made again. ``opened`` are its sources, for those who explain
    many recalls. Raises :class:`UnusableInput` if there is no such arm or recall point, or the recording has changed,
    and :class:`CannotMeasure` if the recall fails.
    """
    ((_, explanation),) = explain_all(run, [(key, arm_name)], plan, detail, opened=opened)
    return explanation


def explain_all(
    run: RunDirectory,
    wanted: Sequence[tuple[str, str]],
    plan: Plan | None = None,
    detail: Detail | None = None,
    *,
    opened: Sources | None = None,
) -> Iterator[tuple[tuple[str, str], Explanation]]:
    """Yield the explanation of each recall in ``wanted``, by its key and arm, conversation by conversation.

    Each conversation is replayed once. Takes the same, and raises the same, as :func:`explain`.
    """
    if plan is None:
        # Keys begin with their conversation, unless they are shortened.
        alone = {name for name in run.conversations for key, _ in wanted if key.startswith(name)}
        plan = plan_of(run, alone)
        if alone and not all(_find(plan, key)[0].conversation in alone for key, _ in wanted):
            plan = plan_of(run)
    named = {arm.name: (arm, info) for arm, info in zip(plan.arms, plan.infos, strict=True)}
    found: dict[str, tuple[Recording, dict[tuple[str, str], str]]] = {}
    for key, name in wanted:
        if name not in named:
            raise UnusableInput(f"{run.path}: has no arm {name!r}; {choices(name, run.arms, 'it has')}")
        recording, point = _find(plan, key)
        found.setdefault(recording.conversation, (recording, {}))[1][point.key, name] = key
    # The exact store gives the same answers as LanceDB and opens faster.
    arms, infos = zip(*(named[name] for name in dict.fromkeys(name for _, name in wanted)), strict=True)
    plan = replace(plan, request=replace(plan.request, store="exact"), arms=arms, infos=infos)
    sources = open_sources(plan, opened=opened)
    for recording, open_points in found.values():
        prepare(plan, [recording], sources, lambda _: None)
        play = play_of(plan, recording, tools_of(plan, recording, sources))
        chosen = [arm for arm in arms if any(name == arm.name for _, name in open_points)]
        if not any(named[arm.name][1].stateful for arm in chosen):
            points = {key for key, _ in open_points}
            play = replace(play, recall_points=[point for point in play.recall_points if point.key in points])
        calls: list[RecallCall] = []
        checks = SafetyChecks(recording)
        with closing(replay(play, chosen, on_recall=calls.append)) as answers:
            while open_points:
                answered = next(answers)
                call = calls.pop()
                at = answered.point.key, answered.arm
                if at not in open_points:
                    continue
                if answered.failure:
                    raise CannotMeasure(f"{at[0]}: arm {answered.arm} fails: {answered.failure}")
                key = open_points.pop(at)
                info = named[answered.arm][1]
                explained = explanation_of(play.memories, answered, call, info, detail or Detail())
                yield (key, answered.arm), replace(explained, marks=_marks(explained, answered, play.memories, checks))


def _marks(
    explained: Explanation, answered: Answered, memories: Sequence[Memory], checks: SafetyChecks
) -> dict[str, tuple[str, ...]]:
    """Return what is said of each injected memory, and of each next candidate if it were injected after them.

    A memory that an arm wrote is known to the golden set alone.
    """
    recall, point = answered.recall, answered.point
    scopes = {memory.key: memory.scope for memory in memories} if answered.fed else {}
    keys = [item.id for item in recall.items[: recall.injected]]
    places = [*enumerate(keys), *((len(keys), key) for key in explained.explained.runners_up if key not in keys)]
    return {
        key: marks_of(
            key,
            (explained.misleading, explained.grades),
            (scopes.get(key), answered.scope if point.is_recall_turn else None),
            checks.marks(key, point.seq, (*recall.pinned, *keys[:rank])) if answered.fed else (),
        )
        for rank, key in places
    }


def _find(plan: Plan, key: str) -> tuple[Recording, RecallPoint]:
    # Keys begin with their conversation, so that one is searched first.
    for recording in (recording for recording in plan.recordings if key.startswith(recording.conversation)):
        known = {point.key: point for point in plan.recall_points_of(recording)}
        if key in known:
            return recording, known[key]
    meant: list[tuple[Recording, RecallPoint]] = []
    similar: list[str] = []
    others: list[str] = []
    for recording in plan.recordings:
        known = {point.key: point for point in plan.recall_points_of(recording)}
        if key in known:
            return recording, known[key]
        meant += [(recording, point) for other, point in known.items() if key and is_short_for(key, other)]
        similar += [other for other in known if key and other.startswith(key)]
        others += list(known)[:1]
    if len(meant) == 1:
        return meant[0]
    similar = [point.key for _, point in meant] or similar
    raise UnusableInput(
        f"no recall happened at {key!r}; recall points are, for instance, {', '.join((similar or others)[:3])}"
    )


def explanation_of(
    memories: Sequence[Memory], answered: Answered, call: RecallCall, info: ArmInfo, detail: Detail
) -> Explanation:
    """Explain an answer as soon as the loop yields it; ``call`` is its recall. ``memories`` are the conversation's."""
    point, recall, system = answered.point, answered.recall, call.system
    known = {memory.key: memory for memory in memories}
    relevant = list(point.probe.grades) if point.probe else []
    visible = [key for key in relevant if key in known and known[key].is_visible_at(point.seq)]
    explained = Explained()
    if isinstance(system, Explains):
        explained = system.explain(call.ask, call.candidates, recall, visible, detail)
    unseen = {key: _unseen(known[key], point.seq) for key in relevant if key in known and key not in visible}
    given = {**explained.reasons, **{key: _SENTENCES[cause] for key, cause in unseen.items()}}
    reasons = {key: given[key] for key in relevant if key in given}
    causes = {**explained.causes, **unseen}
    scope = call.ask.scope
    in_reach = [memory for memory in memories if memory.is_visible_at(point.seq) and scope in (None, memory.scope)]
    counts = {label: sum((memory.label or UNKNOWN) == label for memory in in_reach) for label in LABELS}
    texts = {memory.key: memory.text for memory in memories} | {item.id: item.text for item in recall.items}
    media = {memory.key: line for memory in memories if (line := media_line(memory))}
    explained = replace(explained, reasons=reasons, causes=causes)
    return Explanation(point, info, recall, call.ask, texts, counts, explained, media)


def _unseen(memory: Memory, seq: int) -> str:
    """Return the cause for which a memory was not visible."""
    return UNBORN if memory.visible_from > seq else FORGOTTEN


FILE, KIND, VERSION = "missed.parquet", "lab.missed", "1"
UNEXPLAINED, FAILED = "unknown", "failed"
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
    UNEXPLAINED: "the system does not explain its recalls",
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
    with beating(announce, "explaining every recall at a probe") as tell:
        for part in mapped(_conversation, todo, jobs):
            tell(progress.next("conversations"))
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
                    cause if (cause := causes.get(key)) in CAUSES else UNEXPLAINED,
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
