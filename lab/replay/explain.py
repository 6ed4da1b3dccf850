"""Explain one recall: why each memory has its rank, or was not injected.

Runs store no explanations. The recall is repeated, which gives the same result because it is a function of its inputs,
and the system explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from lab.base.errors import CannotMeasure, UnusableInput
from lab.recordings.media import media_line
from lab.recordings.model import LABELS, UNKNOWN, Memory, Recording
from lab.replay.loop import Answered, RecallCall, replay
from lab.replay.plan import Plan, plan_of
from lab.replay.recall_points import RecallPoint
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.runs.directory import RunDirectory
from lab.runs.keys import is_short_for
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, Explains, Recall

UNBORN, FORGOTTEN = "unborn", "forgotten"
_SENTENCES = {UNBORN: "it did not exist yet", FORGOTTEN: "it had been forgotten"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One recall of one arm with the system's explanation, which is empty if the system gives none.

    ``texts`` has the texts of memories that the explanation may mention, by id, and ``media`` a line on the media of
    those that have any (E-99); ``visible`` counts memories in reach by label.
    """

    point: RecallPoint
    arm: ArmInfo
    recall: Recall
    ask: Ask
    texts: Mapping[str, str]
    visible: Mapping[str, int]
    explained: Explained = field(default_factory=Explained)
    media: Mapping[str, str] = field(default_factory=dict)

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

    ``key`` may be shortened (:func:`lab.runs.keys.is_short_for`), if it then stands for one recall point of the run.
    ``plan`` is the plan of the run; by default it is made again. ``opened`` are its sources, for those who explain many
    recalls. Raises :class:`UnusableInput` if there is no such arm or recall point, or the recording has changed, and
    :class:`CannotMeasure` if the recall fails.
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
    plan = plan or plan_of(run)
    named = {arm.name: (arm, info) for arm, info in zip(plan.arms, plan.infos, strict=True)}
    found: dict[str, tuple[Recording, dict[tuple[str, str], str]]] = {}
    for key, name in wanted:
        if name not in named:
            raise UnusableInput(f"{run.path}: has no arm {name!r}; it has: {', '.join(run.arms)}")
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
                yield (key, answered.arm), explanation_of(play.memories, answered, call, info, detail or Detail())


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
