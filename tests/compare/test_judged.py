"""Judged@k beside hits: in scores, comparisons and their first line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.compare.paired import MOST_APART, Comparison, apart, as_json, compare_arms, judged_means
from lab.measures.score import headlines, score_run, unequal_counts, with_judged
from lab.report.comparison import comparison_html, comparison_text
from lab.report.opening import result_sentence
from lab.runs.directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """An arm that is judged better than the others, and one without any item."""
    return make_run("tier_first_v1", "hybrid", "oracle", "none")


@pytest.fixture(scope="module")
def found(run: RunDirectory) -> Comparison:
    return compare_arms(run, "tier_first_v1", "oracle")


def test_judged_means_are_those_of_the_scores(run: RunDirectory) -> None:
    scores = score_run(run)
    values = [one.value for one in scores if (one.arm, one.measure) == ("hybrid", "Judged@6") and one.value is not None]
    assert judged_means(scores, 6)["hybrid"] == pytest.approx(sum(values) / len(values))
    assert judged_means(scores, 7) == {}


def test_apart_only_beyond_the_limit() -> None:
    assert apart({"a": 0.5, "b": 0.5 + MOST_APART}, 6) is None
    assert apart({"a": 0.5}, 6) is None
    said = str(apart({"a": 0.5, "b": 0.551}, 6))
    assert said.startswith("the arms are not judged alike: Judged@6 is a 0.500, b 0.551")
    assert as_json({"a": 0.5, "b": 0.6}, 6)["apart"] is not None


def test_compare_says_first_that_arms_are_not_judged_alike(found: Comparison) -> None:
    assert set(found.judged) == {"tier_first_v1", "oracle"}
    assert found.apart is not None
    text = comparison_text(found, [])
    first = " ".join(text.partition("oracle minus")[0].split())
    assert first.startswith(
        "trial: embedder hashing, which is for tests; the arms are not judged alike: Judged@6 is ti"
    )
    assert re.search(r"oracle minus tier_first_v1 \(Judged@6 \d\.\d{3} and \d\.\d{3}, not judged alike\)", text)
    assert "the arms are not judged alike" in comparison_html(found, []).partition("</p>")[0]
    assert result_sentence(found, "recorded").startswith("oracle against tier_first_v1 (Judged@6 ")
    assert ", not judged alike), " in result_sentence(found, "recorded")
    assert found.as_json()["judged"]["apart"] == found.apart
    same = replace(found, judged=dict.fromkeys(found.judged, 0.5))
    assert "oracle minus tier_first_v1 (Judged@6 0.500 and 0.500)\n" in comparison_text(same, [])
    assert "judged alike" not in comparison_text(same, [])
    assert "Judged@6" not in result_sentence(same, "recorded")


def test_with_judged_stands_after_each_hit() -> None:
    assert with_judged(headlines(6))[:3] == ["Success@6", "Judged@6", "R@6"]
    assert with_judged(["Judged@3", "Success@3", "RepeatRate"]) == ["Judged@3", "Success@3", "RepeatRate"]


def test_unequal_counts_name_the_arms_values(run: RunDirectory) -> None:
    scores = score_run(run)
    counts = unequal_counts(scores, ["Success@6", "RepeatRate"])
    # Every arm has a hit or a miss at every probe; an arm that injects nothing has nothing to repeat.
    assert list(counts) == ["RepeatRate"]
    assert counts["RepeatRate"]["none"] == 0
    assert counts["RepeatRate"]["hybrid"] > 0
