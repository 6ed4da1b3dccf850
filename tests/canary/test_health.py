"""Lanes, providers, limits, blocks and stale answers: each figure on receipts that differ in one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.canary.check import check_recall
from lab.canary.repeats import Repeats
from lab.canary.tally import Tally
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.budget import Budget, Slot
from lab.systems.openclaw.recall.receipt import prompt_comment
from lab.systems.openclaw.upstream.pack import pack

Make = Callable[..., dict[str, Any]]
SETTINGS = ReceiptSettings(True, "high", 6)


def _tally(*receipts: dict[str, Any], said: str | None = None) -> dict[str, Any]:
    tally = Tally()
    if said:
        tally.health.hear(said)
    for receipt in receipts:
        check_recall(receipt)
        tally.add(receipt, None)
    return tally.as_json(0)


def test_lanes_are_judged_where_something_was_found(receipt: Make) -> None:
    silent = receipt([], candidates=(0, 0, 0)) | {"ftsTop": [], "vecTop": []}
    no_words = receipt(["m1", "n1"]) | {"ftsTop": []}
    found = _tally(receipt(["m1", "n1"]), no_words, no_words, silent)["lanes"]
    assert (found["with_hits"], found["without_fts_share"], found["without_vec_share"]) == (3, 2 / 3, 0.0)
    assert (found["no_fts_rate"], found["no_vec_rate"]) == (3 / 4, 1 / 4)


def test_prompts_without_a_vector_are_counted_by_reason(receipt: Make) -> None:
    def rejected(reason: str) -> dict[str, Any]:
        reasons = [reason, "budget_cap"] if reason.startswith("embedding") else [reason]
        return receipt(["m1"]) | {"rejected": reasons, "vecTop": []}

    found = _tally(
        receipt(["m1"]),
        rejected("provider_unavailable"),
        rejected("embedding_input_too_long"),
        said=" autoRecall enabled but embeddings are unavailable (FTS/docs fail-open)",
    )
    assert found["provider"] == {
        "failed": 2,
        "rate": 2 / 3,
        "worst_window": None,
        "unavailable": 1,
        "too_long": 1,
        "starts_without": 1,
    }
    assert found["lanes"]["without_vec_share"] == 2 / 3


def test_worst_window_shows_a_lane_that_died_amid_the_log(receipt: Make) -> None:
    sound, no_words = receipt(["m1", "n1"]), receipt(["m1", "n1"]) | {"ftsTop": []}
    no_vector = receipt(["m1", "n1"]) | {"vecTop": [], "rejected": ["provider_unavailable"]}
    found = _tally(*[sound] * 150, *[no_words] * 99, *[no_vector] * 20, *[sound] * 150)
    assert found["lanes"]["worst_window_without_fts"] == 0.99
    assert found["lanes"]["worst_window_without_vec"] == 0.2
    assert found["provider"]["worst_window"] == 0.2
    assert (found["stale"]["worst_window"], found["stale"]["vec_worst_window"]) == (1.0, 1.0)
    short = _tally(*[no_words] * 99)
    assert (short["lanes"]["worst_window_without_fts"], short["stale"]["worst_window"]) == (None, None)


def _at_limit(receipt: Make, items: int) -> dict[str, Any]:
    return receipt([f"m{number}" for number in range(items)], candidates=(9, 0, 0), quota=None)


def test_recalls_beyond_the_limit_that_others_name_are_uneven(receipt: Make) -> None:
    few = _at_limit(receipt, 2) | {"rejected": []}
    beyond = _at_limit(receipt, 6) | {"rejected": []}
    found = _tally(*[_at_limit(receipt, 4)] * 5, few, _at_limit(receipt, 5), beyond)["limits"]
    assert (found["items_most"], found["at_limit"], found["uneven"]) == (6, 6, 2)
    assert found["uneven_rate"] == 2 / 8


def test_a_limit_that_changes_with_a_restart_is_kept(receipt: Make) -> None:
    tally = Tally()
    for items in (4, 6):
        tally.health.hear(" registered (db=x, receipts=low/6)")
        for _ in range(3):
            tally.add(_at_limit(receipt, items), None)
    limits = tally.as_json(0)["limits"]
    assert (limits["at_limit"], limits["uneven"], limits["listed_over"]) == (6, 0, 0)


@pytest.mark.parametrize(("said", "over"), [("receipts=low/3", 1), ("receipts=high/6", 0), ("nothing", 0)])
def test_lists_longer_than_the_engine_was_started_with(receipt: Make, said: str, over: int) -> None:
    found = _tally(_at_limit(receipt, 4), _at_limit(receipt, 3), said=f" registered (db=x, {said})")["limits"]
    assert (found["listed_most"], found["listed_over"]) == (4, over)


def test_a_tier_beyond_its_quota_and_the_wildcards(receipt: Make) -> None:
    sound = receipt(["m1", "m2", "n1", "n2"], quota=(2, 2, 1))
    wild = receipt(["m1", "m2", "m3", "n1"], candidates=(3, 1, 0), quota=(2, 2, 1))
    # Three must of two, though two nice ones wait, and no wildcard that took it.
    broken = receipt(["m1", "m2", "m3", "n1"], candidates=(3, 2, 0), quota=(2, 2, 1))
    assert (wild["quota"]["wildcardUsed"], broken["quota"]["wildcardUsed"]) == (1, 0)
    assert _tally(sound, wild)["quota"]["overrun_rate"] == 0.0
    assert _tally(sound, wild, broken)["quota"]["overrun_rate"] == 1 / 3


def test_a_block_over_its_budget(receipt: Make) -> None:
    over = receipt(["m1"])
    over["budget"] |= {"beforeChars": 1801, "afterChars": 1801}
    off = receipt(["m1"])
    off["budget"] |= {"beforeChars": 1801, "afterChars": 1801, "enabled": False}
    assert _tally(receipt(["m1"]), over, off)["budget"]["over"] == 1


@pytest.mark.parametrize(("verbosity", "bare"), [("low", {0}), ("high", {0, 1})])
def test_a_block_is_bare_where_no_text_of_a_memory_is_left(receipt: Make, verbosity: str, bare: set[int]) -> None:
    """Held against the engine's own packing of one long memory, which is protected."""
    made = receipt(["m1"], candidates=(1, 0, 0)) | {"verbosity": verbosity}
    comment = prompt_comment(ReceiptSettings(True, verbosity, 6), made)
    seen = set()
    for most in range(300, 2600, 7):
        packed = pack([Slot("m1", 1.0, "fact", "unknown", "x" * 4000)], Budget(max_chars=most), comment)
        found = _tally(made | {"budget": packed.receipt})["budget"]
        assert (found["cut"], found["bare"]) == (1, "] x" not in packed.context), most
        seen.add(found["bare"])
    assert seen == bare


def test_a_block_whose_every_memory_was_dropped_is_bare(receipt: Make) -> None:
    empty = receipt(["m1"], dropped=1)
    assert empty["injectedCount"] == 0
    assert _tally(receipt(["m1"]), empty)["budget"]["bare_rate"] == 1 / 2


def _hits(*scores: float) -> list[dict[str, Any]]:
    return [{"id": f"m{place}", "score": score, "distance": 1 / score} for place, score in enumerate(scores)]


def test_answers_are_stale_where_scores_do_not_move() -> None:
    repeats = Repeats()
    answers = [
        (_hits(1.5), _hits(0.5, 0.4)),
        # Other words, other vectors: the same ids alone are no sign.
        (_hits(1.25), _hits(0.51, 0.41)),
        (_hits(1.5), _hits(0.5, 0.4)),
        # An embedder that returns one vector for all, and a text lane that works.
        (_hits(0.25), _hits(0.5, 0.4)),
        # A recall that found nothing is no answer.
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
    # Another session begins anew, and what lies further back than the window is forgotten.
    repeats.add("b", "shop", ["m0"], *answers[0])
    for number in range(6):
        repeats.add("a", "shop", ["m0"], _hits(3.0 + number), _hits(0.6 + number / 100))
    repeats.add("a", "shop", ["m0"], *answers[0])
    assert repeats.stale_as_json()["rate"] == 1 / 12


def test_streaks_and_distinct_ids() -> None:
    repeats = Repeats()
    for number in range(100):
        repeats.add("a", "shop", ["always", f"m{number}"] if number != 40 else [f"m{number}"])
    # A second session does not lengthen the streak of the first.
    repeats.add("b", "shop", ["always"])
    found = repeats.as_json()
    assert found["longest_streak"] == 59
    assert found["distinct_share"] == 101 / 199
