"""Collect the evidence of a watch from its observations: limits, sequential tests, and windows (CN-15).

Without a control, each figure is tested against a limit: errors against the allowed share, latency against the 5 % that
may be above the limit of the 95th percentile, repeats against the largest mean that is allowed. A limit that is not
given is learned from the first stable window; a window in which the engine did not work teaches nothing. With a
control, an observation of the canary meets the next one of the control, and the test is whether the canary is the worse
one more often. Limits apply then as well, to what the canary gives while the control is silent: each observation goes
to one of the two tests, so both together keep the bound.

Each test may be looked at after every observation: each figure has an e-detector (:mod:`lab.compare.anytime`). As long
as the mean of an observation, given everything before it, is at most the limit, its evidence minus the number of
observations is a supermartingale, so

* the mean number of observations until a false alarm is at least the threshold;
* a false alarm within n observations has at most the probability n / threshold.

Nothing else is assumed: neither independence nor a distribution.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import fmean
from typing import Any

from lab.canary.audit.status import EMPTY, SKIPPED
from lab.canary.rollout.live_figures import BLOCK, CALLS, ERRORS, FIGURES, LATENCY, REPEAT, TEXT, TURNS, Observation
from lab.compare.anytime import Detector

# Of the false alarms that are allowed, the share of each figure (CN-16).
SHARES = {ERRORS: 0.78, CALLS: 0.02, LATENCY: 0.16, REPEAT: 0.02, TEXT: 0.01, TURNS: 0.01}
# Observations that one recall can give at most; the first turn of a conversation has no repeat rate.
PER_RECALL = {ERRORS: 1.0, CALLS: 1.0, LATENCY: 1.0, REPEAT: 0.5, TEXT: 1.0, TURNS: 1.0}
# Recalls in which all figures together may give one false alarm: 30 days of 500.
RECALLS = 15_000
# What errors may be, and the share at which the test is fastest, as a multiple.
ERROR_LIMIT, ERROR_TIMES = 0.01, 4.0
# The 95th percentile may be so many times, and the mean repeat rate so much more, than the baseline's.
LATENCY_TIMES, REPEAT_MORE = 1.15, 0.1
ABOVE, ABOVE_FAST = 0.05, 0.12
# Observations from which a limit is learned, and how much the halves of a stable window may differ.
LEARN = {LATENCY: 500, REPEAT: 300 // BLOCK, TEXT: 100}
# The text lane is silent where prompts share no word with a memory. A lane that is silent more often than usual is not
# tested: it looks the same as a dead one.
TEXT_USUAL, TEXT_LIMIT, TEXT_FAST = 0.8, 0.9, 0.995
# Turns that may have no receipt, and the share at which the test is fastest.
TURNS_LIMIT, TURNS_FAST = 0.1, 0.6
# The share of a window's recalls that did not work, and their least number, from which the window teaches nothing.
SICK, SICK_LEAST = 0.05, 3
# The share of the last recalls, and their least number, from which one answer to all of them is a warning.
NEARLY_ALL, NEARLY_LEAST = 0.95, 50
STABLE_TIMES, STABLE_MORE = 2.0, 0.15
# Against a control: equal halves, and the share of worse ones at which the test is fastest.
EQUAL, WORSE = 0.5, 5 / 6
WINDOW, WINDOWS, WAITING = 100, 400, 256
# Observations of the canary without one of the control after which the control is silent: those of 100 recalls.
SILENT = {ERRORS: 100, CALLS: 100, LATENCY: 100, REPEAT: 100 // BLOCK, TEXT: 100}
# Figures that a control is compared in. A dead plugin is no less dead if that of the control is.
COMPARED = tuple(SILENT)


@dataclass(slots=True)
class Limits:
    """What is allowed; None is learned. ``latency`` is a 95th percentile in milliseconds, with the tolerance in it."""

    errors: float = ERROR_LIMIT
    latency: float | None = None
    repeat: float | None = None
    text: float | None = None


@dataclass(slots=True)
class Window:
    """A window of :data:`WINDOW` recalls; the last one may be shorter. Times in seconds since 1970."""

    recalls: int = 0
    failed: int = 0
    calls: int = 0
    failed_calls: int = 0
    latencies: list[float] = field(default_factory=list)
    repeats: list[float] = field(default_factory=list)
    with_hits: int = 0
    without_text: int = 0
    turns: int = 0
    missed: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    ended: float | None = None

    def add(self, seen: Observation) -> None:
        """Count an observation."""
        if seen.figure == ERRORS:
            self.recalls += 1
            self.failed += seen.value > 0
            for cause in seen.causes:
                self.causes[cause] = self.causes.get(cause, 0) + 1
        elif seen.figure == CALLS:
            self.calls += 1
            self.failed_calls += seen.value > 0
        elif seen.figure == TEXT:
            self.with_hits += 1
            self.without_text += seen.value > 0
        elif seen.figure == TURNS:
            self.turns += 1
            self.missed += seen.value > 0
        elif seen.figure == LATENCY:
            # A window may get many calls of the tool between two recalls.
            self.latencies.append(seen.value)
            del self.latencies[: -2 * WINDOW]
        else:
            self.repeats.append(seen.value)
            del self.repeats[: -2 * WINDOW]

    def figures(self) -> dict[str, float | None]:
        """Return the value of each figure over the window."""
        return {
            ERRORS: self.failed / self.recalls if self.recalls else None,
            CALLS: self.failed_calls / self.calls if self.calls else None,
            LATENCY: quantile(self.latencies, 1 - ABOVE) if self.latencies else None,
            REPEAT: fmean(self.repeats) if self.repeats else None,
            TEXT: self.without_text / self.with_hits if self.with_hits else None,
            TURNS: self.missed / self.turns if self.turns else None,
        }

    def is_sick(self, allowed: float) -> bool:
        """Return whether so many recalls, or calls, did not work that nothing can be learned from the window."""
        most = max(SICK, 2 * allowed)
        parts = ((self.failed, self.recalls), (self.failed_calls, self.calls))
        return any(failed >= SICK_LEAST and failed > most * of for failed, of in parts)


class Evidence:
    """The tests of one canary; ``alarm`` is the figure whose evidence reached its threshold first."""

    def __init__(self, limits: Limits, *, control: bool = False, recalls: int = RECALLS) -> None:
        self.limits, self.control, self.recalls = limits, control, recalls
        self.alarm: str | None = None
        # Whether the alarm is that of a limit.
        self.by_limit = False
        self.detectors: dict[str, Detector] = {}
        self._against: dict[str, Detector] = {}
        self.learned: dict[str, list[float]] = {figure: [] for figure in LEARN}
        # How many of these are of the window that goes on.
        self.fresh = dict.fromkeys(LEARN, 0)
        # Turns of users in a row after which no receipt came.
        self.missed = 0
        self.baseline: dict[str, float] = {}
        self.windows: deque[dict[str, Any]] = deque(maxlen=WINDOWS)
        self.now, self.beside = Window(), Window()
        self._waiting = {side: {figure: deque[float](maxlen=WAITING) for figure in FIGURES} for side in (0, 1)}
        # Observations of the canary in a row that met none of the control.
        self.alone = dict.fromkeys(COMPARED, 0)
        self._make()
        if control:
            for figure in COMPARED:
                middle = (REPEAT_MORE + 1) / 2 if figure == REPEAT else EQUAL
                self._against[figure] = Detector(middle, WORSE, self.threshold(figure))

    @property
    def silent(self) -> list[str]:
        """Return the figures of which the control gives nothing, so that the limits apply to them."""
        return [figure for figure in COMPARED if self.control and self.alone[figure] >= SILENT[figure]]

    @property
    def warnings(self) -> list[str]:
        """Return what an operator must know although it is no alarm, a sentence each."""
        said, last = [], self.last
        if last.is_sick(self.limits.errors) and (unknown := [one for one in LEARN if one not in self.detectors]):
            said.append(
                f"cannot learn what is usual ({', '.join(unknown)}): the engine did not work in {last.failed} of "
                f"the last {last.recalls} recalls"
            )
        if TEXT not in self.detectors and len(self.learned[TEXT]) >= NEARLY_LEAST:
            silent = fmean(self.learned[TEXT])
            if silent > TEXT_USUAL:
                said.append(
                    f"the text lane found nothing in {silent:.0%} of the last {len(self.learned[TEXT])} recalls with "
                    "hits, so it is not tested: it is dead, or prompts share no words with memories; "
                    "--text 0.9 tests it"
                )
        if last.recalls >= NEARLY_LEAST:
            for causes, what in (
                ((EMPTY,), "found nothing in any lane: is the store empty?"),
                (SKIPPED, "were skipped"),
            ):
                count = sum(last.causes.get(cause, 0) for cause in causes)
                if count >= NEARLY_ALL * last.recalls:
                    said.append(f"{count} of the last {last.recalls} recalls {what}")
        return said

    @property
    def last(self) -> Window:
        """Return the recalls of the last window and of the one that goes on, and what was wrong with them."""
        joined = Window(self.now.recalls, self.now.failed, causes=dict(self.now.causes))
        for window in list(self.windows)[-1:]:
            joined.recalls += window["recalls"]
            joined.failed += round(window[ERRORS] * window["recalls"])
            for cause, count in window.get("causes", {}).items():
                joined.causes[cause] = joined.causes.get(cause, 0) + count
        return joined

    def tested(self) -> dict[str, Detector]:
        """Return what tests each figure now, or raised the alarm: the control, or the limit once it is known."""
        limited = set(self.silent) - {self.alarm}
        if self.by_limit and self.alarm:
            limited.add(self.alarm)
        by_control = {figure: one for figure, one in self._against.items() if figure not in limited}
        by_limit = {figure: one for figure, one in self.detectors.items() if figure not in by_control}
        return {
            figure: {**by_control, **by_limit}[figure]
            for figure in FIGURES
            if figure in by_control or figure in by_limit
        }

    def threshold(self, figure: str) -> float:
        """Return the evidence that raises the alarm: observations until one false alarm, on average, at least."""
        return self.recalls * PER_RECALL[figure] / SHARES[figure]

    def _make(self) -> None:
        """Make the detectors whose limit is known."""
        for figure in FIGURES:
            if figure in self.detectors:
                continue
            if figure in (ERRORS, CALLS):
                most = min(self.limits.errors * ERROR_TIMES, (1 + self.limits.errors) / 2)
                self.detectors[figure] = Detector(self.limits.errors, most, self.threshold(figure))
            elif figure == TURNS:
                self.detectors[figure] = Detector(TURNS_LIMIT, TURNS_FAST, self.threshold(figure))
            elif figure == TEXT and self.limits.text is not None:
                most = max(TEXT_FAST, (1 + self.limits.text) / 2)
                self.detectors[figure] = Detector(self.limits.text, most, self.threshold(figure))
            elif figure == LATENCY and self.limits.latency is not None:
                self.detectors[figure] = Detector(ABOVE, ABOVE_FAST, self.threshold(figure))
            elif figure == REPEAT and self.limits.repeat is not None:
                limit = self.limits.repeat
                self.detectors[figure] = Detector(limit, limit + 0.75 * (1 - limit), self.threshold(figure))

    def add(self, seen: Observation, time: float | None = None, *, control: bool = False) -> None:
        """Add an observation of the canary, or of the control."""
        if control:
            self.beside.add(seen)
        else:
            self.now.add(seen)
            self.now.ended = time if time is not None else self.now.ended
            if seen.figure == TURNS:
                self.missed = self.missed + 1 if seen.value else 0
        if control and seen.figure not in COMPARED:
            return
        if control:
            self.alone[seen.figure] = 0
            self._meet(seen, 1)
        elif not self.control or seen.figure not in COMPARED:
            self._test(seen)
        else:
            self._beside(seen)
        if self.now.recalls >= WINDOW and seen.figure == ERRORS:
            self._close()

    def _beside(self, seen: Observation) -> None:
        """Compare an observation of the canary with the control, or with the limit while the control is silent."""
        figure = seen.figure
        # Decided before the observation counts: what it shows must not choose its test.
        meets = bool(self._waiting[1][figure])
        if figure not in self.silent:
            if figure not in self.detectors:
                self._learn(figure, seen.value)
            self._meet(seen, 0)
        else:
            # What waited would meet observations of another time.
            self._waiting[0][figure].clear()
            self._test(seen)
        self.alone[figure] = 0 if meets else self.alone[figure] + 1

    def _test(self, seen: Observation) -> None:
        figure, value = seen.figure, seen.value
        detector = self.detectors.get(figure)
        if detector is None:
            self._learn(figure, value)
            return
        if figure == LATENCY:
            value = float(value > (self.limits.latency or 0.0))
        self._raise(figure, detector.add(value), by_limit=True)

    def _meet(self, seen: Observation, side: int) -> None:
        """Compare the next observations of both arms; of errors and latency, only those of which one is worse."""
        self._waiting[side][seen.figure].append(seen.value)
        mine, other = (self._waiting[arm][seen.figure] for arm in (0, 1))
        while mine and other:
            left, right = mine.popleft(), other.popleft()
            if seen.figure == REPEAT:
                value = (left - right + 1) / 2
            elif seen.figure == LATENCY:
                if max(left, right) <= LATENCY_TIMES * min(left, right):
                    continue
                value = float(left > right)
            elif left == right:
                continue
            else:
                value = float(left > right)
            self._raise(seen.figure, self._against[seen.figure].add(value), by_limit=False)

    def _raise(self, figure: str, raised: bool, *, by_limit: bool) -> None:
        if raised and self.alarm is None:
            self.alarm, self.by_limit = figure, by_limit

    def _learn(self, figure: str, value: float) -> None:
        """Learn the limit of a figure from its first stable window; of an unstable one, the later half stays.

        A window in which the engine did not work teaches nothing, whatever its other recalls were.
        """
        if self.now.is_sick(self.limits.errors):
            return
        values = self.learned[figure]
        values.append(value)
        self.fresh[figure] += 1
        if len(values) < LEARN[figure]:
            return
        half = len(values) // 2
        if figure == LATENCY:
            first, last = (quantile(part, 1 - ABOVE) for part in (values[:half], values[half:]))
            stable = max(first, last) <= STABLE_TIMES * min(first, last)
        elif figure == TEXT:
            stable = fmean(values) <= TEXT_USUAL
        else:
            stable = abs(fmean(values[:half]) - fmean(values[half:])) <= STABLE_MORE
        if not stable:
            del values[:half]
            self.fresh[figure] = min(self.fresh[figure], len(values))
            return
        if figure == LATENCY:
            self.baseline[figure] = quantile(values, 1 - ABOVE)
            self.limits.latency = max(LATENCY_TIMES * self.baseline[figure], self.baseline[figure] + 1.0)
        elif figure == TEXT:
            self.baseline[figure], self.limits.text = fmean(values), TEXT_LIMIT
        else:
            self.baseline[figure] = fmean(values)
            self.limits.repeat = repeat_limit(self.baseline[figure])
        values.clear()
        self.fresh[figure] = 0
        self._make()

    def _close(self) -> None:
        """Close the window: its figures are kept, and a new one begins."""
        now, beside = self.now, self.beside
        closed: dict[str, Any] = {"recalls": now.recalls, "ended": now.ended, **now.figures()}
        if now.causes:
            closed["causes"] = dict(now.causes)
        for figure, count in self.fresh.items():
            if count and now.is_sick(self.limits.errors):
                del self.learned[figure][-count:]
            self.fresh[figure] = 0
        if self.control:
            closed["control"] = {"recalls": beside.recalls, **beside.figures()}
        self.windows.append(closed)
        self.now, self.beside = Window(ended=now.ended), Window()

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "limits": asdict(self.limits),
            "control": self.control,
            "recalls": self.recalls,
            "alarm": self.alarm,
            "by_limit": self.by_limit,
            "alone": self.alone,
            "evidence": _kept(self.detectors),
            "against": _kept(self._against),
            "learned": self.learned,
            "fresh": self.fresh,
            "missed": self.missed,
            "baseline": self.baseline,
            "windows": list(self.windows),
            "now": asdict(self.now),
            "beside": asdict(self.beside),
            "waiting": [{figure: list(values) for figure, values in self._waiting[side].items()} for side in (0, 1)],
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Evidence:
        """Return the evidence that :meth:`as_json` returned."""
        one = cls(Limits(**state["limits"]), control=state["control"], recalls=state["recalls"])
        one.alarm, one.by_limit = state["alarm"], state["by_limit"]
        one.learned, one.baseline, one.alone = state["learned"], state["baseline"], state["alone"]
        one.fresh, one.missed = state["fresh"], state["missed"]
        for detectors, name in ((one.detectors, "evidence"), (one._against, "against")):
            for figure, (evidence, observations) in state[name].items():
                detectors[figure].evidence, detectors[figure].observations = evidence, observations
        one.windows.extend(state["windows"])
        one.now, one.beside = (Window(**state[name]) for name in ("now", "beside"))
        for side, waiting in enumerate(state["waiting"]):
            for figure, values in waiting.items():
                one._waiting[side][figure].extend(values)
        return one


def _kept(detectors: Mapping[str, Detector]) -> dict[str, list[float]]:
    return {figure: [one.evidence, one.observations] for figure, one in detectors.items()}


def repeat_limit(baseline: float) -> float:
    """Return the largest mean repeat rate that is allowed above a baseline."""
    return min(baseline + REPEAT_MORE, 0.95)


def quantile(values: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[ceil(share * len(values)) - 1]
