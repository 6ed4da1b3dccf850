"""Silence: what a threshold on a signal of the search saves in false recalls, and what it costs in hits.

:mod:`lab.studies.silence_replay` replays the arms once without a threshold. An arm without state that is silent below a
threshold injects nothing at the probes below it and the same as before at all others, so one replay gives the whole
curve. A test compares it with replays of ``lab.silence``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.base.draw import draw
from lab.base.errors import NotComparable
from lab.retrieval.silence import SIGNALS
from lab.studies.points import Chosen, SilencePoint

if TYPE_CHECKING:
    import numpy as np

EVERY = "all"


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


class Terms(NamedTuple):
    """How thresholds are chosen.

    ``cost``: how many false recalls a lost hit costs, both as shares of their probes; the rule ``cost`` minimises the
    sum. ``loss``: how much hit rate the rule ``loss`` may lose; within it, the rule minimises false recall.
    """

    cost: float = 1.0
    loss: float = 0.02


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


def curves(answers: Sequence[Answer], embedder: str) -> list[SilencePoint]:
    """Return every threshold of every signal, arm and language, and of all languages together."""
    return [
        SilencePoint(embedder, language, arm, signal, threshold, *curve.at(threshold))
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
