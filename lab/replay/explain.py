"""Why one memory has its place in one turn, or lost it: the turn is recalled once more, and its system is asked.

Nothing of this is stored in a run. A recall is a function of its inputs, so the turn that is recalled here is the
turn that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from lab.errors import CannotMeasure, UnusableInput
from lab.recordings.model import LABELS, UNKNOWN, Memory, Recording
from lab.replay.loop import Answered, Heard, replay
from lab.replay.plan import Plan, plan_of
from lab.replay.recall_points import RecallPoint
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.runs.directory import RunDirectory
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, Explains, Recall


@dataclass(frozen=True, slots=True)
class Explanation:
    """One turn of one arm, as its system explains it; ``told`` is empty where the system explains nothing.

    ``texts`` are the memories that the explanation may speak of, by id; ``visible`` is how many are in reach by label.
    """

    point: RecallPoint
    arm: ArmInfo
    recall: Recall
    ask: Ask
    texts: Mapping[str, str]
    visible: Mapping[str, int]
    told: Explained = field(default_factory=Explained)

    @property
    def grades(self) -> Mapping[str, int]:
        """What is wanted at this turn."""
        return self.point.probe.grades if self.point.probe else {}


def explain(
    run: RunDirectory, key: str, arm_name: str, plan: Plan | None = None, detail: Detail | None = None
) -> Explanation:
    """Explain the recall of ``arm_name`` at a turn or probe; ``plan`` is what the run was asked to do, if at hand.

    Raises :class:`UnusableInput` where there is none, or the recording has changed; :class:`CannotMeasure` where the
    recall fails.
    """
    plan = plan or plan_of(run)
    arm, info = next(
        ((arm, info) for arm, info in zip(plan.arms, plan.infos, strict=True) if arm.name == arm_name), (None, None)
    )
    if arm is None or info is None:
        raise UnusableInput(f"{run.path}: has no arm {arm_name!r}; it has: {', '.join(run.arms)}")
    recording, point = _find(plan, key)
    # The exact store answers as LanceDB does and is here at once.
    plan = replace(plan, asked=replace(plan.asked, store="exact"), arms=(arm,), infos=(info,))
    sources = open_sources(plan)
    prepare(plan, [recording], sources, lambda _: None)
    play = play_of(plan, recording, tools_of(plan, recording, sources))
    if not info.stateful:
        play = replace(play, recall_points=[point])
    heard: list[Heard] = []
    with closing(replay(play, [arm], heard=heard.append)) as answers:
        answered = next(one for one in answers if one.point.key == key)
        if answered.failure:
            raise CannotMeasure(f"{key}: arm {arm_name} fails: {answered.failure}")
        return _tell(play.memories, answered, heard[-1], info, detail or Detail())


def _find(plan: Plan, key: str) -> tuple[Recording, RecallPoint]:
    # A key begins with its conversation: that one is looked through before all the others are.
    for recording in (one for one in plan.recordings if key.startswith(one.conversation)):
        known = {point.key: point for point in plan.recall_points_of(recording)}
        if key in known:
            return recording, known[key]
    alike: list[str] = []
    others: list[str] = []
    for recording in plan.recordings:
        known = {point.key: point for point in plan.recall_points_of(recording)}
        if key in known:
            return recording, known[key]
        alike += [other for other in known if key and other.startswith(key)]
        others += list(known)[:1]
    raise UnusableInput(
        f"no recall happened at {key!r}; there was one for instance at {', '.join((alike or others)[:3])}"
    )


def _tell(memories: Sequence[Memory], answered: Answered, heard: Heard, info: ArmInfo, detail: Detail) -> Explanation:
    point, recall, system = answered.point, answered.recall, heard.system
    known = {memory.key: memory for memory in memories}
    wanted = list(point.probe.grades) if point.probe else []
    there = [key for key in wanted if key in known and known[key].is_visible_at(point.seq)]
    told = Explained()
    if isinstance(system, Explains):
        told = system.explain(heard.ask, heard.found, recall, there, detail)
    unseen = {key: _unseen(known[key], point.seq) for key in wanted if key in known and key not in there}
    reasons = {key: (unseen.get(key) or told.reasons[key]) for key in wanted if key in told.reasons or key in unseen}
    scope = heard.ask.scope
    reachable = [one for one in memories if one.is_visible_at(point.seq) and (scope is None or one.scope == scope)]
    visible = {label: sum((one.label or UNKNOWN) == label for one in reachable) for label in LABELS}
    texts = {memory.key: memory.text for memory in memories} | {item.id: item.text for item in recall.items}
    return Explanation(point, info, recall, heard.ask, texts, visible, replace(told, reasons=reasons))


def _unseen(memory: Memory, seq: int) -> str:
    """Why a memory was not there at a moment."""
    return "it did not exist yet" if memory.visible_from > seq else "it had been forgotten"
