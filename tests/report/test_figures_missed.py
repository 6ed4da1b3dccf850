"""The waterfall of missed relevant memories."""

from __future__ import annotations

import pytest

from lab.replay.missed import Counts
from lab.report.figures import missed_figure, words_of

pytestmark = pytest.mark.process


def test_missed_figure_tells_the_largest_cause() -> None:
    counts = {"old": Counts(100, 20, 0, {"tier": 60, "slot": 20}), "new": Counts(100, 50, 10, {"slot": 30, "todo": 10})}
    figure = missed_figure(counts)
    assert words_of(figure).title == (
        "old misses 80% of the relevant memories, 75% of them by tier; "
        "new misses 40% of the relevant memories, 75% of them by slot"
    )
    panels = [axes for axes in figure.axes if axes.get_visible()]
    # The panels share their axis.
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["relevant", "tier", "slot", "todo", "in the prompt"]
    # The bars of the causes end where the bar of what is in the prompt ends.
    for axes, count in zip(panels, counts.values(), strict=True):
        bars = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
        assert bars[-3][0] == count.injected + count.pinned
        assert sum(width for _, width in bars[1:-2]) == count.missed
