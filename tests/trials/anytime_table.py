"""How often decisions by sessions err at any look, and when they come, on generated sessions.

python tests/trials/anytime_table.py [--streams 2000] [--sessions 200] [--peers FOLDER]

A session has a geometric number of recalls, 10 on average and 100 at most, whose failures are correlated by a stated
intraclass correlation: each session has a rate of its own from a beta distribution; with correlation 1 it fails as a
whole. The stream is looked at after every session.

* Errors: streams whose mean is exactly at a limit, one rule, and 14 rules that share a level, as those of stage-b.
* Times: the session of the first GO or NO-GO of a rule among 14, the others without a failure, beside the exact bounds
  of the first 300 recalls that decided before.
* The same streams through log, audit and gate: the sessions at which both decide must agree.
* With ``--peers``, a folder into which the wheels of ``retrieval-eval-gate`` 0.2.1 and ``evalsig`` 0.1.2 are unpacked:
  their sequential gates on the same recalls, looked at after every session.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.canary.audit.audit import audit
from lab.compare.anytime import evidence, first_at, since
from lab.gate.line import FAIL, PASS
from lab.gate.policy import Policy, Rule
from lab.gate.receipts import judge_receipts, share_bounds
from tests.canary.conftest import receipt_of

SEED = 20261129
CORRELATIONS = (0.0, 0.1, 0.3, 0.6, 1.0)
LIMIT, PASS_LIMIT, LEVEL, RULES = 0.02, 0.05, 0.05, 14
# The recalls of the fixed window that decided before.
FIXED = 300
NEVER = 10**6
# The sessions without a failure that show the limit of a pass.
CLEAN = 65
Shares = NDArray[np.float64]
Draw = np.random.Generator


class Streams(NamedTuple):
    """Recalls and failures of each session, with the shape (sessions, streams)."""

    recalls: NDArray[np.int64]
    failed: NDArray[np.int64]

    @property
    def shares(self) -> Shares:
        return self.failed / self.recalls


def drawn(draw: Draw, shape: tuple[int, int], mean: Any, correlation: float) -> Streams:
    """Return sessions whose recalls fail at a rate with this mean, a number or one for each session."""
    recalls = np.minimum(draw.geometric(0.1, shape), 100)
    mean = np.broadcast_to(np.asarray(mean, np.float64), shape)
    if correlation == 1:
        rates = (draw.random(shape) < mean).astype(float)
    elif correlation:
        size = (1 - correlation) / correlation
        rates = np.where(
            (mean > 0) & (mean < 1), draw.beta(np.clip(mean, 1e-9, 1) * size, np.clip(1 - mean, 1e-9, 1) * size), mean
        )
    else:
        rates = mean
    return Streams(recalls, draw.binomial(recalls, rates))


def errs(count: int, of: int) -> str:
    """Return a share of streams with its upper 95 % bound."""
    return f"{count / of:.2%} (≤ {share_bounds(count, of, LEVEL)[1]:.2%})"


def error_table(streams: int, sessions: int) -> None:
    """Print how often a rule, and all rules together, err on streams exactly at the limit."""
    print("| correlation | false NO-GO, mean 2 % | of 14 rules together | sound at 0.5 % | false GO, mean 5 % |")
    print("| --- | --- | --- | --- | --- |")
    for correlation in CORRELATIONS:
        draw = np.random.default_rng([SEED, int(100 * correlation)])
        shape = (sessions, streams)
        alone = evidence(drawn(draw, shape, LIMIT, correlation).shares, LIMIT, above=True)
        together = np.zeros(streams, bool)
        for _ in range(RULES):
            found = evidence(drawn(draw, shape, LIMIT, correlation).shares, LIMIT, above=True)
            together |= (found >= RULES / LEVEL).any(axis=0)
        sound = evidence(drawn(draw, shape, 0.005, correlation).shares, LIMIT, above=True)
        low = evidence(drawn(draw, shape, PASS_LIMIT, correlation).shares, PASS_LIMIT, above=False)
        cells = [
            int((alone >= 1 / LEVEL).any(axis=0).sum()),
            int(together.sum()),
            int((sound >= 1 / LEVEL).any(axis=0).sum()),
            int((low >= 1 / LEVEL).any(axis=0).sum()),
        ]
        print(f"| {correlation:g} | {' | '.join(errs(one, streams) for one in cells)} |", flush=True)


def _times(found: Shares, threshold: float) -> NDArray[np.int64]:
    """Return for each stream the session from 1 at which its evidence reaches a threshold."""
    reached = found >= threshold
    return np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, NEVER)


class Damage(NamedTuple):
    """A damage: its limits, and how its sessions are drawn."""

    limit: float
    pass_limit: float
    draw: Callable[[Draw, tuple[int, int]], Streams]


def _whole(draw: Draw, shape: tuple[int, int], is_bad: Callable[[Streams], Any]) -> Streams:
    """Return sessions that fail as a whole where ``is_bad``."""
    made = drawn(draw, shape, 0.0, 0.0)
    return Streams(made.recalls, np.where(is_bad(made), made.recalls, 0))


def _sessions(shape: tuple[int, int]) -> NDArray[np.int64]:
    return np.arange(shape[0])[:, None]


def _text_lane(draw: Draw, shape: tuple[int, int], dies_at: int) -> Streams:
    """Return sessions of a text lane as over the shipped operators, until it dies."""
    made = drawn(draw, shape, 0.3, 0.5)
    return Streams(made.recalls, np.where(_sessions(shape) >= dies_at, made.recalls, made.failed))


DAMAGES = {
    "sound: no failure": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.0, 0.0)),
    "sound: 0.5 % of recalls": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.005, 0.0)),
    "sound: 0.5 % of sessions": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.005, 1.0)),
    "sound: text lane": Damage(0.7, 0.7, lambda draw, shape: _text_lane(draw, shape, NEVER)),
    "dead vector lane, provider down, cut blocks": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 1.0, 0.0)),
    "dead text lane": Damage(0.7, 0.7, lambda draw, shape: _text_lane(draw, shape, 0)),
    "stale answers": Damage(0.2, 0.2, lambda draw, shape: drawn(draw, shape, 0.9, 0.1)),
    "vector lane dies at session 40": Damage(
        0.02, 0.05, lambda draw, shape: drawn(draw, shape, (_sessions(shape) >= 40) * 1.0, 0.0)
    ),
    "text lane dies at session 40": Damage(0.7, 0.7, lambda draw, shape: _text_lane(draw, shape, 40)),
    "new: 1 recall of 10": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.1, 0.0)),
    "new: 1 recall of 10, correlation .3": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.1, 0.3)),
    "new: 1 session of 5": Damage(0.02, 0.05, lambda draw, shape: drawn(draw, shape, 0.2, 1.0)),
    "new: rises by 0.1 % a session": Damage(
        0.02, 0.05, lambda draw, shape: drawn(draw, shape, np.minimum(_sessions(shape) * 0.001, 1.0), 0.0)
    ),
    "new: heals after 10 sessions": Damage(
        0.02, 0.05, lambda draw, shape: drawn(draw, shape, (_sessions(shape) < 10) * 1.0, 0.0)
    ),
    "new: sessions of 20 recalls or more": Damage(
        0.02, 0.05, lambda draw, shape: _whole(draw, shape, lambda made: made.recalls >= 20)
    ),
}


def time_table(streams: int, sessions: int) -> None:
    """Print when each damage is decided, beside the verdict of exact bounds on the first recalls."""
    print("\n| stream | decided | NO-GO | sessions: median, 90 % | recalls: median, 90 % | 300 recalls, once |")
    print("| --- | --- | --- | --- | --- | --- |")
    for number, (name, damage) in enumerate(DAMAGES.items()):
        made = damage.draw(np.random.default_rng([SEED, 1000 + number]), (sessions, streams))
        bad = _times(evidence(made.shares, damage.limit, above=True), RULES / LEVEL)
        shown = evidence(made.shares, damage.pass_limit, above=False)
        # The other rules, without a failure, show their limits no sooner.
        shown[: CLEAN - 1] = 0
        good = _times(shown, 1 / LEVEL)
        at = np.minimum(bad, good)
        is_decided = at < NEVER
        is_bad = is_decided & (bad <= good)
        recalls = np.cumsum(made.recalls, axis=0)[np.minimum(at, sessions) - 1, np.arange(streams)]
        spans = [_span(values, is_decided) for values in (at, recalls)]
        cells = [f"{is_decided.mean():.1%}", f"{is_bad.mean():.1%}", *spans, _fixed(made, damage.limit)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _span(values: NDArray[np.int64], is_decided: NDArray[np.bool_]) -> str:
    """Return the median and the 90 % quantile over all streams; undecided ones are the largest."""
    ordered = np.sort(np.where(is_decided, values, NEVER))
    shown = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9)]
    return ", ".join("never" if value >= NEVER else f"{value:,}" for value in shown)


def _fixed(made: Streams, limit: float) -> str:
    """Return the shares of GO and NO-GO by exact bounds of the first recalls, taken as independent."""
    inside = np.cumsum(made.recalls, axis=0) <= FIXED
    failed, recalls = (made.failed * inside).sum(axis=0), (made.recalls * inside).sum(axis=0)
    found = [share_bounds(float(part), float(of), LEVEL) for part, of in zip(failed, recalls, strict=True)]
    go, no = np.mean([high <= limit for _, high in found]), np.mean([low > limit for low, _ in found])
    return f"GO {go:.0%}, NO-GO {no:.0%}"


def agreement(streams: int) -> None:
    """Judge some streams by log, audit and gate as well; print whether both decide at the same session."""
    rule = Rule("receipts", "errors.rate", of="errors.attempts", at_most=LIMIT, pass_limit=PASS_LIMIT)
    policy = Policy("trial", "errors", "old", "new", 6, (rule,))
    same, receipt = 0, json.dumps(receipt_of(["m1", "n1"], quota=None))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "gateway.log"
        for number in range(streams):
            mean = (0.0, 0.01, 0.05, 0.2)[number % 4]
            made = drawn(np.random.default_rng([SEED, 5000 + number]), (90, 1), mean, 0.3)
            now, lines = datetime(2026, 3, 1, tzinfo=UTC), []
            for recalls, failed in zip(made.recalls[:, 0], made.failed[:, 0], strict=True):
                now += timedelta(minutes=40)
                for place in range(recalls):
                    now += timedelta(seconds=5)
                    what = "autoRecall failed: TypeError" if place < failed else f"autoRecall.receipt {receipt}"
                    mark = "openclaw-mem-engine: " if place < failed else "openclaw-mem-engine:"
                    lines.append(f"{now:%Y-%m-%dT%H:%M:%SZ} {mark}{what}\n")
            log.write_text("".join(lines), "utf-8")
            (line,) = judge_receipts(policy, [rule], audit([str(log)], ended=True))
            shares = made.shares[:, 0]
            bad = first_at(evidence(shares, LIMIT, above=True), 1 / LEVEL)
            good = since(evidence(shares, PASS_LIMIT, above=False), 1 / LEVEL)
            wanted = (FAIL, bad) if bad else (PASS, good) if good else ("inconclusive", None)
            same += (line.status, (line.sequence or {}).get("decided")) == wanted
    print(f"\nBy log, audit and gate: {same} of {streams} streams are decided alike, at the same session.")


def peer_table(folder: Path, streams: int, sessions: int) -> None:
    """Print how often the sequential gates of two packages fail streams at the limit, recall by recall."""
    sys.path.insert(0, str(folder))
    from evalsig.inference.sequential import confidence_sequence
    from rag_eval_gate.sequential import SequentialGate

    print("\n| correlation | by sessions | retrieval-eval-gate 0.2.1 | evalsig 0.1.2 | exact bounds at each look |")
    print("| --- | --- | --- | --- | --- |")
    for correlation in CORRELATIONS:
        made = drawn(
            np.random.default_rng([SEED, 9000 + int(100 * correlation)]), (sessions, streams), LIMIT, correlation
        )
        own = int((evidence(made.shares, LIMIT, above=True) >= 1 / LEVEL).any(axis=0).sum())
        counts = dict.fromkeys(("gate", "evalsig", "exact"), 0)
        for stream in range(streams):
            gate, seen, failed = SequentialGate(LIMIT, alpha=LEVEL), np.zeros(0), 0
            false = dict.fromkeys(counts, False)
            for recalls, bad in zip(made.recalls[:, stream], made.failed[:, stream], strict=True):
                values = np.r_[np.ones(bad), np.zeros(recalls - bad)]
                seen, failed = np.r_[seen, values], failed + bad
                for value in values:
                    gate.update(float(value))
                false["gate"] |= gate.decision == "pass"
                if len(seen) >= 30:
                    false["evalsig"] |= confidence_sequence(seen - LIMIT, alpha=LEVEL).ci[0] > 0
                false["exact"] |= share_bounds(float(failed), float(len(seen)), LEVEL)[0] > LIMIT
            for name, is_false in false.items():
                counts[name] += is_false
        cells = [errs(one, streams) for one in (own, *counts.values())]
        print(f"| {correlation:g} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--peers", type=Path)
    given = parser.parse_args()
    error_table(given.streams, given.sessions)
    time_table(given.streams, given.sessions)
    agreement(40)
    if given.peers:
        peer_table(given.peers, given.streams // 10, given.sessions)


if __name__ == "__main__":
    main()
