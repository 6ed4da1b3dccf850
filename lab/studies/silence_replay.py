"""Replay arms for a curve of silence: their answers at every probe, with the signals of the search there.

The signals (:mod:`lab.retrieval.silence`) are computed from the lanes over all memories in scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.progress import Progress
from lab.recordings.model import Recording
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.retrieval.silence import SIGNALS
from lab.runs.request import ReplayRequest
from lab.studies.silence import Answer, halves
from lab.systems.baselines.arm import LANE_DEPTH, Baseline, BaselineArm, Question, Ranking
from lab.systems.openclaw.config.settings import EngineConfig

# Not a name that a user could give an arm: names of arms are not blank at their ends.
_SIGNALS = " signals"


def collect(
    request: ReplayRequest, announce: Callable[[str], None] = lambda _: None, plan: Plan | None = None
) -> list[Answer]:
    """Replay the arms of a request, and return their answers with the signals of every probe.

    ``plan`` is the plan of the request, if it was made already. Raises :class:`UnusableInput` for recordings without
    probes that need nothing or without any that have gold, and for an arm whose answers depend on earlier ones: what it
    injects elsewhere would change with the threshold. Raises :class:`NotComparable` for fewer than two conversations.
    """
    plan = plan or make_plan(request)
    for info in plan.infos:
        if info.stateful or info.writes:
            raise UnusableInput(
                f"arm {info.name}: its earlier answers change later ones, so one replay does not give its curve; sweep "
                "lab.silence.threshold with lab study sweep instead, or name an arm such as hybrid"
            )
    probes = [probe for recording in plan.recordings for probe in plan.probes(recording)]
    if not any(probe.relevant for probe in probes):
        raise UnusableInput(f"{request.shown}: has no probe with gold, so no hit can be lost; use --golden")
    if all(probe.relevant for probe in probes):
        raise UnusableInput(
            f"{request.shown}: no probe needs nothing, so silence is never right and FalseRecall has no value; use a "
            "set that has such probes, as iKAT, BEAM and the shipped ones do"
        )
    halves([recording.conversation for recording in plan.recordings])
    signals: list[tuple[float, ...]] = []
    reader = _reader(signals)
    plan = replace(plan, arms=(*plan.arms, reader), infos=(*plan.infos, reader.describe()))
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, announce)
    answers: list[Answer] = []
    progress = Progress(len(plan.recordings))
    for recording in plan.recordings:
        answers.extend(_conversation(plan, recording, sources, signals))
        announce(progress.next(recording.conversation))
    return answers


def _reader(signals: list[tuple[float, ...]]) -> BaselineArm:
    """Return an arm that injects nothing and appends the signals of each recall point to ``signals``."""

    def rank(question: Question) -> Ranking:
        lanes = question.lanes()
        values = [signal(lanes) for signal in SIGNALS.values()]
        signals.append(tuple(float("inf") if value is None else value for value in values))
        return Ranking([])

    return BaselineArm(_SIGNALS, Baseline(_SIGNALS, rank), EngineConfig(), LANE_DEPTH, 0)


def _conversation(
    plan: Plan, recording: Recording, sources: Sources, signals: list[tuple[float, ...]]
) -> Iterator[Answer]:
    play = replace(play_of(plan, recording, tools_of(plan, recording, sources)), items_only=True)
    waiting: list[Answer] = []
    for answered in replay(play, plan.arms, infos=plan.infos):
        if answered.failure:
            raise CannotMeasure(f"{answered.point.key}: arm {answered.arm} failed: {answered.failure}")
        probe = answered.point.probe
        if answered.arm == _SIGNALS:
            yield from (answer._replace(signals=signals[-1]) for answer in waiting)
            waiting = []
        elif probe is not None:
            injected = {item.id for item in answered.recall.items[: answered.recall.injected]}
            language = probe.slices.get("language") or recording.language
            waiting.append(
                Answer(
                    recording.conversation,
                    language,
                    answered.arm,
                    bool(probe.relevant),
                    not injected.isdisjoint(probe.grades),
                    bool(injected),
                    (),
                )
            )
