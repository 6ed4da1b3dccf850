"""Probes and turns where one arm has no value: one denominator, and every omission is reported."""

from __future__ import annotations

import numpy as np
import pytest

from lab.compare.paired import paired_differences
from lab.measures.catalogue import CATALOGUE
from lab.measures.score import Block, Builder
from lab.runs.scores import Scores

NAN = float("nan")


def scored(measure: str, base: list[float], cand: list[float]) -> Scores:
    """Two arms in two conversations, each with half of the values."""
    builder, half = Builder(), len(base) // 2
    for conversation, part in (("a", slice(None, half)), ("b", slice(half, None))):
        count = len(base[part])
        first = builder.add_units([f"{conversation}/{place}" for place in range(count)])
        for arm, values in (("base", base), ("cand", cand)):
            builder.add(arm, conversation, first, Block(np.arange(count), {measure: np.array(values[part])}))
    return builder.scores()


@pytest.mark.parametrize(
    ("measure", "counts_as"),
    [("RepeatRate", 0.0), ("WrongScope", 0.0), ("GoldNice@6", 0.0), ("HardRules", 1.0), ("BudgetEvictions", 0.0)],
)
def test_pairs_fill_missing_values_by_the_catalogue(measure: str, counts_as: float) -> None:
    base, cand = [0.5, NAN, 0.25, NAN, 1.0, 0.5], [NAN, 0.5, 0.25, NAN, NAN, 0.5]
    one = paired_differences(scored(measure, base, cand), "base", "cand", (measure,))[measure]
    # A probe without a value in both arms is ignored.
    assert (one.n, one.filled_baseline, one.filled_candidate, one.left_out) == (5, 1, 2, 0)
    assert one.baseline == pytest.approx((0.5 + counts_as + 0.25 + 1.0 + 0.5) / 5)
    assert one.candidate == pytest.approx((counts_as + 0.5 + 0.25 + counts_as + 0.5) / 5)
    assert one.estimate.mean == pytest.approx(one.candidate - one.baseline)


def test_compare_counts_skipped_probes_as_misses() -> None:
    # If missing values were dropped, the candidate would equal the baseline.
    base, cand = [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, NAN, NAN]
    one = paired_differences(scored("GoldNice@6", base, cand), "base", "cand", ())["GoldNice@6"]
    assert (one.n, one.estimate.mean, one.losses) == (4, -0.5, 2)


@pytest.mark.parametrize("measure", ["Rprec", "Judged@6", "Success@6", "Stranger"])
def test_ratios_count_failed_measurements(measure: str) -> None:
    one = paired_differences(scored(measure, [0.5, NAN, 1.0, 0.0], [NAN, 0.5, 0.5, 0.0]), "base", "cand", ())[measure]
    assert (one.n, one.filled_baseline, one.filled_candidate, one.left_out) == (2, 0, 0, 2)
    assert one.estimate.mean == pytest.approx(-0.25)


def test_measure_missing_in_one_arm_is_not_compared() -> None:
    assert paired_differences(scored("RepeatRate", [0.5, 1.0], [NAN, NAN]), "base", "cand", ()) == {}
    assert paired_differences(scored("Rprec", [0.5, NAN], [NAN, 0.5]), "base", "cand", ()) == {}


def test_every_measure_declares_its_value_for_missing() -> None:
    by_name = {one.name: one.missing for one in CATALOGUE}
    assert {name for name, missing in by_name.items() if missing == 1.0} == {"HardRules"}
    assert {name for name, missing in by_name.items() if missing is None} == {
        *("Success", "R", "AllGold", "P", "nDCG", "RR", "AP", "Judged", "Rprec"),
        # Writes: an arm that captures nothing has no writes to compare.
        *("Stored", "StoreSize", "StoreGrowth", "EchoShare", "Leaks", "GoldKept"),
        *("CaptureP", "CaptureR", "CaptureJudged", "CaptureDuplicates"),
        # Every arm has the same questions with answers.
        "AnswerRecall@block",
        # Every arm has the same probes of a family; of a correction, each has those after it won.
        *("CollateralLoss", "UptakeDelay", "Resurrection"),
        # Receipts: an arm without receipts has none to compare.
        *("Explained", "ReceiptBytes", "ReceiptLines"),
    }
