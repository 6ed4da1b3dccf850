"""The waterfall of missed relevant memories."""

from __future__ import annotations

import pytest

from lab.replay.missed import CAUSES, Counts
from lab.report.figures import missed_figure, words_of
from lab.report.figures_missed import NAMES

pytestmark = pytest.mark.process


def test_missed_figure_tells_the_largest_cause() -> None:
    counts = {"old": Counts(100, 20, 0, {"tier": 60, "slot": 20}), "new": Counts(100, 50, 10, {"slot": 30, "todo": 10})}
    figure = missed_figure(counts)
    assert words_of(figure).title == (
        "old misses 80% of the relevant memories, most often: tier not searched (75%); "
        "new misses 40% of the relevant memories, most often: no slot left (75%)"
    )
    panels = [axes for axes in figure.axes if axes.get_visible()]
    # The panels share their axis.
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["relevant", "tier not searched", "no slot left", "stale TODO", "in the prompt"]
    # The bars of the causes end where the bar of what is in the prompt ends.
    for axes, count in zip(panels, counts.values(), strict=True):
        bars = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
        assert bars[-3][0] == count.injected + count.pinned
        assert sum(width for _, width in bars[1:-2]) == count.missed


def test_missed_figure_shows_baseline_candidate_and_control() -> None:
    some = Counts(10, 5, 0, {"slot": 5})
    counts = {"none": Counts(10, 0, 0, {"nothing": 10})}
    counts |= dict.fromkeys(("recency", "hybrid", "random", "tier_quota_v1", "vector", "tier_first_v1"), some)

    def panels(*first: str) -> list[str]:
        return [axes.get_title(loc="left") for axes in missed_figure(counts, "", first).axes if axes.get_visible()]

    assert panels() == ["tier_first_v1", "tier_quota_v1", "hybrid", "recency"]
    assert panels("vector", "random") == ["vector", "random", "tier_first_v1", "tier_quota_v1"]
    assert words_of(missed_figure(counts)).subtitle.endswith("4 of 7 arms.")


def test_missed_figure_names_every_cause() -> None:
    assert set(NAMES) == set(CAUSES)
