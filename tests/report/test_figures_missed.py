"""The waterfall of missed relevant memories."""

from __future__ import annotations

from lab.replay.explain import CAUSES, Counts
from lab.report.charts import Bars
from lab.report.figures_arms import NAMES, missed_chart


def test_missed_chart_tells_the_largest_cause() -> None:
    counts = {"old": Counts(100, 20, 0, {"tier": 60, "slot": 20}), "new": Counts(100, 50, 10, {"slot": 30, "todo": 10})}
    chart = missed_chart(counts)
    assert chart.words.title == (
        "old misses 80% of the relevant memories, most often: tier not searched (75%); "
        "new misses 40% of the relevant memories, most often: no slot left (75%)"
    )
    panels = [panel for panel in chart.panels if isinstance(panel, Bars)]
    assert [row.label for row in panels[0].rows] == ["relevant", "tier not searched", "no slot left", "in the prompt"]
    # The bars of the causes end where the bar of what is in the prompt ends.
    for panel, count in zip(panels, counts.values(), strict=True):
        *_, last, prompt = panel.rows
        assert last.start == sum(prompt.parts.values()) == count.injected + count.pinned
        assert sum(row.parts.get("missed", 0) for row in panel.rows) == count.missed


def test_missed_chart_shows_baseline_candidate_and_control() -> None:
    some = Counts(10, 5, 0, {"slot": 5})
    counts = {"none": Counts(10, 0, 0, {"nothing": 10})}
    counts |= dict.fromkeys(("recency", "hybrid", "random", "tier_quota_v1", "vector", "tier_first_v1"), some)

    def panels(*first: str) -> list[str]:
        return [panel.title for panel in missed_chart(counts, first).panels]

    assert panels() == ["tier_first_v1", "tier_quota_v1", "hybrid", "recency"]
    assert panels("vector", "random") == ["vector", "random", "tier_first_v1", "tier_quota_v1"]
    assert missed_chart(counts).words.subtitle.endswith("4 of 7 arms.")


def test_missed_chart_names_every_cause() -> None:
    assert set(NAMES) == set(CAUSES)
