"""Tests of the health figures (lanes, provider, limits, blocks, stale answers) on receipts that differ in one field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.canary.audit.check import check_recall
from lab.canary.audit.tally import Repeats, Tally
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.block import Budget, Slot, pack
from lab.systems.openclaw.recall.receipt import prompt_comment

Make = Callable[..., dict[str, Any]]


def _tally(*receipts: dict[str, Any], message: str | None = None) -> dict[str, Any]:
    tally = Tally()
    if message:
        tally.health.add_message(message)
    for receipt in receipts:
        check_recall(receipt)
        tally.add(receipt, None)
    return tally.as_json(0)


def test_lanes_shares_cover_recalls_with_hits(receipt: Make) -> None:
    silent = receipt([], candidates=(0, 0, 0)) | {"ftsTop": [], "vecTop": []}
    no_words = receipt(["m1", "n1"]) | {"ftsTop": []}
    result = _tally(receipt(["m1", "n1"]), no_words, no_words, silent)["lanes"]
    assert (result["with_hits"], result["without_fts_share"], result["without_vec_share"]) == (3, 2 / 3, 0.0)
    assert (result["no_fts_rate"], result["no_vec_rate"]) == (3 / 4, 1 / 4)


def test_provider_failures_are_counted_by_reason(receipt: Make) -> None:
    def rejected(reason: str) -> dict[str, Any]:
        reasons = [reason, "budget_cap"] if reason.startswith("embedding") else [reason]
        return receipt(["m1"]) | {"rejected": reasons, "vecTop": []}

    result = _tally(
        receipt(["m1"]),
        rejected("provider_unavailable"),
        rejected("embedding_input_too_long"),
        message=" autoRecall enabled but embeddings are unavailable (FTS/docs fail-open)",
    )
    assert result["provider"] == {
        "failed": 2,
        "rate": 2 / 3,
        "worst_window": None,
        "unavailable": 1,
        "too_long": 1,
        "starts_without": 1,
    }
    assert result["lanes"]["without_vec_share"] == 2 / 3


def test_worst_window_shows_a_temporary_failure(receipt: Make) -> None:
    sound, no_words = receipt(["m1", "n1"]), receipt(["m1", "n1"]) | {"ftsTop": []}
    no_vector = receipt(["m1", "n1"]) | {"vecTop": [], "rejected": ["provider_unavailable"]}
    result = _tally(*[sound] * 150, *[no_words] * 99, *[no_vector] * 20, *[sound] * 150)
    assert result["lanes"]["worst_window_without_fts"] == 0.99
    assert result["lanes"]["worst_window_without_vec"] == 0.2
    assert result["provider"]["worst_window"] == 0.2
    assert (result["stale"]["worst_window"], result["stale"]["vec_worst_window"]) == (1.0, 1.0)
    short = _tally(*[no_words] * 99)
    assert (short["lanes"]["worst_window_without_fts"], short["stale"]["worst_window"]) == (None, None)


def _at_limit(receipt: Make, items: int) -> dict[str, Any]:
    return receipt([f"m{number}" for number in range(items)], candidates=(9, 0, 0), quota=None)


def test_limits_recalls_beyond_the_usual_limit_are_uneven(receipt: Make) -> None:
    few = _at_limit(receipt, 2) | {"rejected": []}
    beyond = _at_limit(receipt, 6) | {"rejected": []}
    result = _tally(*[_at_limit(receipt, 4)] * 5, few, _at_limit(receipt, 5), beyond)["limits"]
    assert (result["items_most"], result["at_limit"], result["uneven"]) == (6, 6, 2)
    assert result["uneven_rate"] == 2 / 8


def test_limits_may_change_with_a_restart(receipt: Make) -> None:
    tally = Tally()
    for items in (4, 6):
        tally.health.add_message(" registered (db=x, receipts=low/6)")
        for _ in range(3):
            tally.add(_at_limit(receipt, items), None)
    limits = tally.as_json(0)["limits"]
    assert (limits["at_limit"], limits["uneven"], limits["listed_over"]) == (6, 0, 0)


@pytest.mark.parametrize(("message", "over"), [("receipts=low/3", 1), ("receipts=high/6", 0), ("nothing", 0)])
def test_limits_lists_longer_than_configured_are_counted(receipt: Make, message: str, over: int) -> None:
    result = _tally(_at_limit(receipt, 4), _at_limit(receipt, 3), message=f" registered (db=x, {message})")["limits"]
    assert (result["listed_most"], result["listed_over"]) == (4, over)


def test_quota_overrun_counts_tier_above_quota(receipt: Make) -> None:
    sound = receipt(["m1", "m2", "n1", "n2"], quota=(2, 2, 1))
    wild = receipt(["m1", "m2", "m3", "n1"], candidates=(3, 1, 0), quota=(2, 2, 1))
    # Three must items with a quota of two, although two nice items are available and no wildcard was used.
    broken = receipt(["m1", "m2", "m3", "n1"], candidates=(3, 2, 0), quota=(2, 2, 1))
    assert (wild["quota"]["wildcardUsed"], broken["quota"]["wildcardUsed"]) == (1, 0)
    assert _tally(sound, wild)["quota"]["overrun_rate"] == 0.0
    assert _tally(sound, wild, broken)["quota"]["overrun_rate"] == 1 / 3


def test_blocks_over_budget_are_counted(receipt: Make) -> None:
    over = receipt(["m1"])
    over["budget"] |= {"beforeChars": 1801, "afterChars": 1801}
    off = receipt(["m1"])
    off["budget"] |= {"beforeChars": 1801, "afterChars": 1801, "enabled": False}
    assert _tally(receipt(["m1"]), over, off)["budget"]["over"] == 1


@pytest.mark.parametrize(("verbosity", "bare"), [("low", {0}), ("high", {0, 1})])
def test_blocks_without_memory_text_are_bare(receipt: Make, verbosity: str, bare: set[int]) -> None:
    """Compare with the engine's packing of one long, protected memory."""
    made = receipt(["m1"], candidates=(1, 0, 0)) | {"verbosity": verbosity}
    comment = prompt_comment(ReceiptSettings(True, verbosity, 6), made)
    seen = set()
    for most in range(300, 2600, 7):
        packed = pack([Slot("m1", 1.0, "fact", "unknown", "x" * 4000)], Budget(max_chars=most), comment)
        result = _tally(made | {"budget": packed.receipt})["budget"]
        assert (result["cut"], result["bare"]) == (1, "] x" not in packed.context), most
        seen.add(result["bare"])
    assert seen == bare


def test_blocks_with_all_memories_dropped_are_bare(receipt: Make) -> None:
    empty = receipt(["m1"], dropped=1)
    assert empty["injectedCount"] == 0
    assert _tally(receipt(["m1"]), empty)["budget"]["bare_rate"] == 1 / 2


def _hits(*scores: float) -> list[dict[str, Any]]:
    return [{"id": f"m{number}", "score": score, "distance": 1 / score} for number, score in enumerate(scores)]


def test_repeats_equal_scores_are_stale() -> None:
    repeats = Repeats()
    answers = [
        (_hits(1.5), _hits(0.5, 0.4)),
        # Other words and vectors: equal ids alone are not stale.
        (_hits(1.25), _hits(0.51, 0.41)),
        (_hits(1.5), _hits(0.5, 0.4)),
        # A constant embedder with a working text lane.
        (_hits(0.25), _hits(0.5, 0.4)),
        # A recall without hits is not an answer.
        ([], []),
    ]
    for fts, vec in answers:
        repeats.add("a", "shop", ["m0"], fts, vec)
    assert repeats.stale_as_json() == {
        "rate": 1 / 4,
        "recalls": 4,
        "vec_rate": 2 / 4,
        "vec_recalls": 4,
        "worst_window": None,
        "vec_worst_window": None,
        "window": 6,
    }
    # Another session starts without history, and answers older than the window are forgotten.
    repeats.add("b", "shop", ["m0"], *answers[0])
    for number in range(6):
        repeats.add("a", "shop", ["m0"], _hits(3.0 + number), _hits(0.6 + number / 100))
    repeats.add("a", "shop", ["m0"], *answers[0])
    assert repeats.stale_as_json()["rate"] == 1 / 12


def test_repeats_streaks_and_distinct_share() -> None:
    repeats = Repeats()
    for number in range(100):
        repeats.add("a", "shop", ["always", f"m{number}"] if number != 40 else [f"m{number}"])
    # A second session does not lengthen the streak of the first.
    repeats.add("b", "shop", ["always"])
    result = repeats.as_json()
    assert result["longest_streak"] == 59
    assert result["distinct_share"] == 101 / 199
