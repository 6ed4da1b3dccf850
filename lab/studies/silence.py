"""Silence: what a threshold on a signal of the search saves in false recalls, and what it costs in hits.

Arms are replayed once without a threshold. At every probe, the signals (:mod:`lab.retrieval.silence`) are computed from
the lanes over all memories in scope. An arm without state that is silent below a threshold injects nothing at the
probes below it and the same as before at all others, so one replay gives the whole curve. A test compares it with
replays of ``lab.silence``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.draw import draw
from lab.base.errors import CannotMeasure, NotComparable, UnusableInput
from lab.base.progress import Progress
from lab.recordings.model import Recording
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.retrieval.silence import SIGNALS
from lab.runs.request import ReplayRequest
from lab.runs.tables import write_table
from lab.systems.baselines.arm import LANE_DEPTH, Baseline, BaselineArm, Question, Ranking
from lab.systems.openclaw.config.settings import EngineConfig

if TYPE_CHECKING:
    import numpy as np

# Not a name that a user could give an arm: names of arms are not blank at their ends.
_SIGNALS = " signals"
EVERY = "all"
FILE = "silence.parquet"


class Answer(NamedTuple):
    """One arm at one probe.

    ``hit``: a relevant memory was injected; ``filled``: anything was. ``needed``: the probe has relevant memories.
    ``signals`` are in the order of :data:`lab.retrieval.silence.SIGNALS`, infinite where a signal has no value, because
    recall then is not silent.
    """

    conversation: str
    language: str
    arm: str
    needed: bool
    hit: bool
    filled: bool
    signals: tuple[float, ...]


class Point(NamedTuple):
    """One threshold: hit rate over probes with gold, and false recall over those without, in a part of the probes."""

    embedder: str
    language: str
    arm: str
    signal: str
    threshold: float
    hit: float
    false_recall: float


class Chosen(NamedTuple):
    """A threshold that was chosen on one half of the conversations, and its effect on the other half.

    ``rule`` is ``cost`` or ``loss``. The values before and after the arrow are without and with the threshold.
    """

    embedder: str
    language: str
    arm: str
    signal: str
    rule: str
    auroc: float
    with_gold: int
    without_gold: int
    threshold: float
    hit: tuple[float, float]
    false_recall: tuple[float, float]


class Terms(NamedTuple):
    """How thresholds are chosen.

    ``cost``: how many false recalls a lost hit costs, both as shares of their probes; the rule ``cost`` minimises the
    sum. ``loss``: how much hit rate the rule ``loss`` may lose; within it, the rule minimises false recall.
    """

    cost: float = 1.0
    loss: float = 0.02


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
        raise UnusableInput(f"{request.path}: has no probe with gold, so no hit can be lost; use --golden")
    if all(probe.relevant for probe in probes):
        raise UnusableInput(
            f"{request.path}: no probe needs nothing, so silence is never right and FalseRecall has no value; use a "
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


def halves(conversations: Sequence[str], seed: int = 0) -> tuple[set[str], set[str]]:
    """Return two halves of the conversations: one for calibration, and one for evaluation.

    Raises :class:`NotComparable` for fewer than two conversations.
    """
    if len(conversations) < 2:
        raise NotComparable(
            "silence: a threshold is chosen on one half of the conversations and evaluated on the other, and there "
            "is only one; add conversations"
        )
    order = sorted(conversations, key=lambda name: (draw(seed, f"silence {name}"), name))
    return set(order[::2]), set(order[1::2])


def auroc(needed: np.ndarray, silent: np.ndarray) -> float:
    """Return the probability that a signal is higher at a probe with gold than at one without; ties count half.

    Source: Hanley and McNeil 1982 (the Mann-Whitney statistic).
    """
    import numpy as np

    below = np.searchsorted(np.sort(silent), needed, "left")
    equal = np.searchsorted(np.sort(silent), needed, "right") - below
    return float((below + equal / 2).sum() / (len(needed) * len(silent)))


class Curve:
    """The answers of one arm as arrays, for one signal: hits and false recalls at any threshold."""

    def __init__(self, answers: Sequence[Answer], signal: str) -> None:
        import numpy as np

        at = list(SIGNALS).index(signal)
        self.values = np.asarray([answer.signals[at] for answer in answers])
        self.needed = np.asarray([answer.needed for answer in answers], bool)
        self._hit = np.asarray([answer.hit for answer in answers], bool)
        self._filled = np.asarray([answer.filled for answer in answers], bool)

    def at(self, threshold: float) -> tuple[float, float]:
        """Return the hit rate and the false recall if recall is silent below a threshold; NaN without such probes."""
        spoken = self.values >= threshold
        return _share((self._hit & spoken)[self.needed]), _share((self._filled & spoken)[~self.needed])

    def thresholds(self) -> list[float]:
        """Return 0 and, for each value of the signal, the threshold just above it."""
        import numpy as np

        known = np.unique(self.values[np.isfinite(self.values) & (self.values > 0)])
        # Recall is silent below a threshold, so only one above a value silences it. Six digits suffice.
        return [0.0, *sorted({round(float(value) + 1e-6, 6) for value in known if value < 1.0})]

    def area(self) -> float:
        """Return the AUROC."""
        return auroc(self.values[self.needed], self.values[~self.needed])


def _share(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def choose(curve: Curve, rule: str, terms: Terms) -> float:
    """Return the threshold that a rule chooses; 0, which never keeps silent, if none is better."""
    before = curve.at(0.0)[0]
    best, value = 0.0, float("inf")
    for threshold in curve.thresholds():
        hit, false = curve.at(threshold)
        lost = before - hit
        price = terms.cost * lost + false
        if rule == "loss":
            price = false if lost <= terms.loss + 1e-9 else float("inf")
        if price < value - 1e-12:
            best, value = threshold, price
    return best


def curves(answers: Sequence[Answer], embedder: str) -> list[Point]:
    """Return every threshold of every signal, arm and language, and of all languages together."""
    return [
        Point(embedder, language, arm, signal, threshold, *curve.at(threshold))
        for language, arm, _, signal, curve in _parts(answers)
        for threshold in curve.thresholds()
    ]


def chosen(answers: Sequence[Answer], embedder: str, terms: Terms, seed: int = 0) -> list[Chosen]:
    """Return the thresholds that each rule chooses on one half of the conversations, and their effect on the other."""
    calibration, evaluation = halves(sorted({answer.conversation for answer in answers}), seed)
    rows: list[Chosen] = []
    for language, arm, part, signal, curve in _parts(answers):
        first = Curve([answer for answer in part if answer.conversation in calibration], signal)
        other = Curve([answer for answer in part if answer.conversation in evaluation], signal)
        if not all(half.needed.any() and not half.needed.all() for half in (first, other)):
            continue
        for rule in ("cost", "loss"):
            threshold = choose(first, rule, terms)
            before, after = other.at(0.0), other.at(threshold)
            n = int(curve.needed.sum())
            rows.append(
                Chosen(
                    embedder,
                    language,
                    arm,
                    signal,
                    rule,
                    curve.area(),
                    n,
                    len(part) - n,
                    threshold,
                    (before[0], after[0]),
                    (before[1], after[1]),
                )
            )
    if not rows:
        raise NotComparable(
            "silence: one half of the conversations has no probe with gold, or none without; add conversations"
        )
    return rows


def _parts(answers: Sequence[Answer]) -> Iterator[tuple[str, str, list[Answer], str, Curve]]:
    languages = sorted({answer.language for answer in answers})
    for language in [EVERY, *languages] if len(languages) > 1 else [languages[0]]:
        for arm in dict.fromkeys(answer.arm for answer in answers):
            part = [answer for answer in answers if answer.arm == arm and language in (EVERY, answer.language)]
            if all(answer.needed for answer in part) or not any(answer.needed for answer in part):
                continue
            for signal in SIGNALS:
                yield language, arm, part, signal, Curve(part, signal)


def write_points(points: Sequence[Point], path: Path) -> None:
    """Write the curves as Parquet, one row per threshold."""
    import pyarrow as pa

    write_table(pa.Table.from_pylist([point._asdict() for point in points]), path)
