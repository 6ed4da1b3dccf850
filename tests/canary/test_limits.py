"""Limits of a host from its own window: a sound small store passes by them, a broken engine does not."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.audit import limits
from lab.canary.audit.audit import audit
from lab.canary.audit.limits import DRAWS, FALSE_ALARMS, _bound, derive, receipts_of
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import read_policy
from lab.gate.receipts import VARIATION
from lab.gate.verdict import Verdict, judge
from tests.commands import run_here

NINE = [f"m{n}" for n in range(3)] + [f"n{n}" for n in range(3)] + [f"u{n}" for n in range(3)]


def log_of(path: Path, receipts: Sequence[dict[str, Any]]) -> str:
    # Sessions of five recalls, 40 minutes apart.
    first = datetime(2026, 3, 1, tzinfo=UTC)
    times = (first + timedelta(minutes=45 * (at // 5) + at % 5) for at in range(len(receipts)))
    lines = (
        f"{at:%Y-%m-%dT%H:%M:%S}Z openclaw-mem-engine:autoRecall.receipt {json.dumps(one)}"
        for at, one in zip(times, receipts, strict=True)
    )
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def recalls(receipt: Callable[..., dict[str, Any]], store: Sequence[str], seed: int, count: int = 400) -> Any:
    """Recalls of five memories, two of each of the first tiers, that depend on the prompt alone."""
    draw = random.Random(seed)
    for _ in range(count):
        ids = [one for tier, most in (("m", 2), ("n", 2), ("u", 1)) for one in _of(draw, store, tier, most)]
        made = receipt(ids, vectors=5)
        yield _with_scores(made, draw)


def _with_scores(made: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a receipt with other scores, as another prompt gives."""
    for lane in ("ftsTop", "vecTop"):
        for hit, score in zip(made[lane], sorted((draw.random() for _ in made[lane]), reverse=True), strict=True):
            hit["score"] = round(score, 6)
    return made


def _of(draw: random.Random, store: Sequence[str], tier: str, most: int) -> list[str]:
    return draw.sample([one for one in store if one[0] == tier], most)


def derived(log: str) -> dict[str, limits.Derived]:
    found = derive(read_policy("stage-b"), receipts_of([log]), audit([log], ended=True))
    return {one.measure: one for one in found}


def judged(log: str, policy: str) -> Verdict:
    return judge(read_policy(policy), audit=audit([log]))


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a tenth of the logs: each is tallied anew."""
    monkeypatch.setattr(limits, "DRAWS", 20)


def test_margin_leaves_out_the_rarest_of_the_drawn_logs() -> None:
    assert math.ceil((1 - FALSE_ALARMS) * DRAWS) < DRAWS
    assert _bound([0.0] * (DRAWS - 2) + [1000.0] * 2, 0.0, 1) < 100


def test_sound_store_of_nine_memories_is_not_refused(receipt: Any, tmp_path: Path) -> None:
    log = log_of(tmp_path / "nine.log", list(recalls(receipt, NINE, 1)))
    verdict = judged(log, "stage-b")
    assert verdict.status == INCONCLUSIVE
    unmeasured = [line for line in verdict.lines if line.unmeasured]
    assert {line.measure for line in unmeasured} <= set(VARIATION)
    assert "repeat.rate" in verdict.unmeasured
    assert "found 9 memories, fewer than 3 recalls of 5 items hold" in unmeasured[0].reason
    assert "lab canary limits" in str(unmeasured[0].settles)


def test_limits_from_a_window_pass_the_next_and_refuse_what_got_worse(receipt: Any, tmp_path: Path) -> None:
    before = log_of(tmp_path / "before.log", list(recalls(receipt, NINE, 1)))
    out = tmp_path / "here.toml"
    done = run_here("canary", "limits", before, "--out", out)
    assert done.returncode == 0, done.stderr
    said = "400 recalls of before.log with 9 different memories, selected by tier_quota_v1."
    assert said in " ".join(done.stdout.split())
    assert judged(log_of(tmp_path / "next.log", list(recalls(receipt, NINE, 2))), str(out)).status == PASS
    # The same store under an engine that injects the same five memories whatever is asked.
    frozen = log_of(tmp_path / "frozen.log", [receipt(["m0", "m1", "n0", "n1", "u0"], vectors=5) for _ in range(400)])
    assert judged(frozen, str(out)).status == FAIL
    # Nothing that exists is replaced, and without --out nothing is written.
    assert run_here("canary", "limits", before, "--out", out).returncode == 2
    assert "Nothing was written" in run_here("canary", "limits", before).stdout


def test_limits_are_loosened_and_never_tightened(receipt: Any, tmp_path: Path) -> None:
    large = [f"{tier}{n}" for tier in "mnu" for n in range(200)]
    for one in derived(log_of(tmp_path / "large.log", list(recalls(receipt, large, 3)))).values():
        assert one.limit == one.shipped, "a store of 600 memories repeats less than stage-b allows"
    found = derived(log_of(tmp_path / "nine.log", list(recalls(receipt, NINE, 1))))
    assert found["repeat.rate"].shipped < found["repeat.rate"].window <= found["repeat.rate"].limit <= 1.0
    # Of three memories every recall injects all: only a limit of 1 would do, which is none.
    three = derived(log_of(tmp_path / "three.log", [receipt(["m0", "n0", "u0"], vectors=3)] * 400))
    assert three["repeat.rate"].limit == three["repeat.rate"].shipped
    low = found["repeat.distinct_share"]
    assert low.limit <= low.window < low.shipped


def test_a_small_store_of_must_memories_in_a_large_one_is_still_refused(receipt: Any, tmp_path: Path) -> None:
    """Twenty must memories in turn after turn are the disease, and no small store."""
    musts = [f"m{n}" for n in range(20)]
    draw = random.Random(4)
    made = []
    for number in range(400):
        one = receipt(draw.sample(musts[number % 14 :][:7], 5), candidates=(20, 0, 0), quota=None, vectors=5)
        made.append(_with_scores(one, draw))
    verdict = judged(log_of(tmp_path / "disease.log", made), "stage-b")
    assert verdict.status == FAIL
    assert {line.measure for line in verdict.lines if line.status == FAIL} >= {"must.share", "repeat.distinct_share"}


def test_too_few_recalls_are_refused(receipt: Any, tmp_path: Path) -> None:
    log = log_of(tmp_path / "short.log", list(recalls(receipt, NINE, 1, 99)))
    with pytest.raises(UnusableInput, match="99 answered recalls; limits need at least 100"):
        receipts_of([log])
