"""How often a watch raises a false alarm, and how soon it finds a change (docs/canary-watch.md).

    python -m tests.trials.watch_simulations FOLDER [--months 200] [--jumps 500] [--lines 5] [--figure NAME] [--seed N]

The traffic is that of a real replay, which is made in FOLDER: whole sessions of the shipped operators under both
selection policies, three at a time in turn, so that turns of a session are as dependent as they were. Sessions are
drawn such that the mean repeat rate is the wanted one (exponential tilting of their own means). A recall takes the time
that the replay measured for it, scaled so that the median is 50 ms, as memory_recall takes on a live host. Failures
take the place of receipts: each recall by itself, or ``clustered``, where one session in ten has eleven times the
failures of the others.

Receipts, tool receipts and failures go through the reader and the tests of ``lab canary watch``. To save time their
lines are parsed once; the first simulations (``--lines``) are repeated from the bytes of log and transcript, and must
be equal.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lab.canary.rollout.evidence import LATENCY_TIMES, Evidence, Limits, quantile
from lab.canary.rollout.live_figures import CALLS, ERRORS, LATENCY, REPEAT, Observation
from lab.canary.rollout.watching import Watched
from lab.gate.receipts import share_bounds
from lab.runs.directory import open_run
from lab.runs.tables import read_table
from tests.trials.canary_logs import RECEIPT, replayed

DAY, MONTH, AT_ONCE, MINUTES = 500, 30, 3, 2.88
# Recalls before a change: the limits are learned from the first 500.
BEFORE = 1000
GOOD, BAD, SLOWER, NORMAL, WORSE = 0.01, 0.05, 2.0, 0.45, 0.8
FAILURE = "openclaw-mem-engine: autoRecall failed: Error: table is missing"
WITHIN = {ERRORS: 200, LATENCY: 300, REPEAT: 300}


class Turn(NamedTuple):
    """One recall: its receipt, the line of it, the milliseconds that it took."""

    receipt: dict[str, Any]
    line: str
    milliseconds: float


class Traffic(NamedTuple):
    """Sessions, and the mean repeat rate of each."""

    sessions: Sequence[Sequence[Turn]]
    means: Sequence[float]

    def weights(self, wanted: float) -> list[float]:
        """Return how often to draw each session so that the mean repeat rate is the wanted one."""
        low, high, weights = -60.0, 60.0, [1.0] * len(self.means)
        for _ in range(50):
            middle = (low + high) / 2
            weights = [math.exp(middle * (mean - wanted)) for mean in self.means]
            mean = sum(weight * mean for weight, mean in zip(weights, self.means, strict=True)) / sum(weights)
            low, high = (middle, high) if mean < wanted else (low, middle)
        return weights


def traffic_of(folder: Path, conversations: int | None = None) -> Traffic:
    """Return the traffic of a replay, which is made in a folder if it is not there."""
    replayed(folder, "sound", conversations=conversations)
    run = open_run(folder / "sound" / "run")
    sessions: dict[tuple[str, str], list[Turn]] = {}
    for conversation in run.conversations:
        took = Counter[tuple[str, str]]()
        for row in read_table(run.latency(conversation), ("arm", "turn", "stage", "ns")).to_pylist():
            took[row["arm"], row["turn"]] += row["ns"]
        for row in read_table(run.receipts(conversation), ("arm", "turn", "receipt")).to_pylist():
            receipt = json.loads(row["receipt"])
            if not receipt["skipped"]:
                turn = Turn(receipt, RECEIPT + row["receipt"], took[row["arm"], row["turn"]] / 1e6)
                sessions.setdefault((row["arm"], row["turn"].rpartition("/")[0]), []).append(turn)
    middle = median(turn.milliseconds for session in sessions.values() for turn in session)
    kept, means = [], []
    for session in sessions.values():
        gateway = Watched(Limits(), control=False, recalls=1).canary
        seen = [one.value for turn in session for one in gateway.recall(turn.receipt, "s") if one.figure == REPEAT]
        # What is in the block that is not full yet, which ends when the session does.
        seen += [one.total / one.count for one in gateway._open.values() if one.count]
        if seen:
            kept.append([turn._replace(milliseconds=50 * turn.milliseconds / middle) for turn in session])
            means.append(sum(seen) / len(seen))
    return Traffic(kept, means)


class Stream:
    """A gateway's recalls, with errors, times and repeats as they are set now."""

    def __init__(self, traffic: Traffic, draw: random.Random, *, clustered: bool = False) -> None:
        self.errors, self.times = GOOD, 1.0
        self._traffic, self._draw, self._clustered = traffic, draw, clustered
        self._running: list[tuple[str, Iterator[Turn], float]] = []
        self._begun = 0
        self.repeat(NORMAL)

    def repeat(self, wanted: float) -> None:
        """Draw the sessions that begin from now on such that their mean repeat rate is the wanted one."""
        self._weights = self._traffic.weights(wanted)

    def next(self) -> tuple[Turn, str, bool]:
        """Return the next recall, the name of its session, and whether it fails."""
        while True:
            while len(self._running) < AT_ONCE:
                (session,) = self._draw.choices(self._traffic.sessions, self._weights)
                self._begun += 1
                share = 1.0 if not self._clustered else 5.5 if self._draw.random() < 0.1 else 0.5
                self._running.append((f"s{self._begun}", iter(session), share))
            name, turns, share = self._running.pop(0)
            for turn in turns:
                self._running.append((name, turns, share))
                return turn, name, self._draw.random() < self.errors * share


def feed(watched: Watched, stream: Stream, number: int, *, lines: bool) -> None:
    """Let a watch see the next recall and its tool receipt: from their bytes, or from what was parsed."""
    turn, session, fails = stream.next()
    took = turn.milliseconds * stream.times
    if lines:
        second = int(60 * MINUTES * number)
        day, rest = divmod(second, 86400)
        stamp = f"2026-{3 + day // 28:02}-{1 + day % 28:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.000Z"
        text = FAILURE if fails else turn.line
        watched.line(f"{stamp} [plugins] session={session} {text}".encode())
        if not fails:
            details = {"receipt": {"latencyMs": took}}
            message = {"role": "toolResult", "toolName": "memory_recall", "toolCallId": f"c{number}"}
            watched.line(json.dumps({"message": {**message, "details": details}}).encode(), transcript=True)
        return
    watched.canary.counts["warnings"] += fails
    for seen in watched.canary.failure() if fails else watched.canary.recall(turn.receipt, session):
        watched.evidence.add(seen)
    if not fails:
        watched.evidence.add(Observation(CALLS, 0.0))
        watched.evidence.add(Observation(LATENCY, took))


def month(traffic: Traffic, seed: int, *, clustered: bool = False, lines: bool = False) -> list[tuple[int, str]]:
    """Return the alarms of a month without a change: after how many recalls, and of which figure."""
    stream = Stream(traffic, random.Random(seed), clustered=clustered)
    watched, alarms = Watched(Limits(), control=False, recalls=DAY * MONTH), []
    for number in range(DAY * MONTH):
        feed(watched, stream, number, lines=lines)
        if watched.evidence.alarm:
            alarms.append((number, watched.evidence.alarm))
            # Whoever switches to the engine again goes on with what was learned.
            watched.evidence = Evidence(watched.evidence.limits, recalls=DAY * MONTH)
    return alarms


def jump(traffic: Traffic, seed: int, figure: str, *, lines: bool = False) -> tuple[int, str]:
    """Return how many recalls after a change the alarm was raised, and by which figure; below 0 for a false one."""
    stream = Stream(traffic, random.Random(seed))
    watched = Watched(Limits(), control=False, recalls=DAY * MONTH)
    for number in range(BEFORE + 2 * WITHIN[figure]):
        if number == BEFORE:
            stream.errors = BAD if figure == ERRORS else GOOD
            stream.times = SLOWER if figure == LATENCY else 1.0
            stream.repeat(WORSE if figure == REPEAT else NORMAL)
        feed(watched, stream, number, lines=lines)
        if watched.evidence.alarm:
            return number + 1 - BEFORE, watched.evidence.alarm
    return 2 * WITHIN[figure] + 1, "none"


def within(traffic: Traffic, figure: str, seeds: Sequence[int]) -> tuple[int, list[int]]:
    """Return how many simulations had an alarm before the change, and the recalls to the alarm in the others."""
    found = [jump(traffic, seed, figure)[0] for seed in seeds]
    return sum(recalls <= 0 for recalls in found), [recalls for recalls in found if recalls > 0]


def require_equal(traffic: Traffic, seeds: Sequence[int]) -> None:
    """Raise AssertionError unless the bytes of the lines give what their parsed content gave."""
    for seed in seeds:
        for figure in WITHIN:
            assert jump(traffic, seed, figure) == jump(traffic, seed, figure, lines=True), (seed, figure)


def main() -> None:
    """Simulate, and print rates with 95 % bounds."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--months", type=int, default=200)
    parser.add_argument("--jumps", type=int, default=500)
    parser.add_argument("--lines", type=int, default=5)
    parser.add_argument("--figure", choices=list(WITHIN))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    traffic = traffic_of(asked.folder)
    times = sorted(turn.milliseconds for session in traffic.sessions for turn in session)
    p95 = quantile(times, 0.95)
    above = sum(SLOWER * time > LATENCY_TIMES * p95 for time in times) / len(times)
    size = f"{len(traffic.sessions)} sessions, {len(times)} recalls"
    print(f"{size}, p95 {p95:.0f} ms; of the doubled times {above:.1%} are above the limit")
    require_equal(traffic, range(asked.seed, asked.seed + asked.lines))
    print(f"{asked.lines * len(WITHIN)} simulations from lines: equal", flush=True)
    for figure, recalls in WITHIN.items():
        if asked.figure not in (None, figure):
            continue
        early, found = within(traffic, figure, range(asked.seed, asked.seed + asked.jumps))
        soon = sum(one <= recalls for one in found)
        low, high = share_bounds(soon, len(found), 0.025)
        print(
            f"{figure}: found within {recalls} recalls in {soon} of {len(found)} ({soon / len(found):.1%}, "
            f"{low:.1%} to {high:.1%}), median {median(found):.0f}; {early} alarms before",
            flush=True,
        )
    for clustered in (False, True) if asked.months else ():
        months = [month(traffic, asked.seed + number, clustered=clustered) for number in range(asked.months)]
        figures = Counter(figure for alarms in months for _, figure in alarms)
        some = sum(map(bool, months))
        low, high = share_bounds(some, len(months), 0.025)
        most = sum(len(alarms) <= 1 for alarms in months)
        print(
            f"1 % errors{', clustered' * clustered}, {len(months)} months of {MONTH * DAY} recalls: "
            f"{sum(figures.values()) / len(months):.2f} false alarms a month ({dict(figures)}); at least one in "
            f"{some / len(months):.1%} ({low:.1%} to {high:.1%}), at most one in {most / len(months):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
