"""The latency charts: measured values with intervals, and a note if n is too small."""

from __future__ import annotations

from typing import Any

import pytest

from lab.report.charts import Bars, Plot, Series
from lab.report.figures_studies import compaction_chart, size_chart, stages_chart
from lab.report.slides import draw, rendered


def quantile(value: float) -> dict[str, float]:
    return {"value": value, "low": value * 0.9, "high": value * 1.2}


def turn(arm: str, memories: int, value: float, store: str = "lancedb", p95: bool = True) -> dict[str, Any]:
    total = {"mean": value, "p50": quantile(value), "p95": quantile(value * 2) if p95 else None}
    search = {"mean": value * 0.8, "p50": quantile(value * 0.8), "p95": None}
    return {"arm": arm, "memories": memories, "store": store, "stages": {"search": search, "recall": total}}


WARM = [turn(arm, size, size**0.5 * 2) for size in (1_000, 10_000) for arm in ("tier_first_v1", "seed_full")]
WAITING = [
    {"arm": "seed_full", "memories": 50, "waiting": rows, "recall": {"p50": quantile(5.0 + rows)}, "compact_ms": spent}
    for rows, spent in ((0, None), (10, 60.0), (100, 90.0))
]
CADENCE = [
    {"arm": "seed_full", "compact_every": every, "append": {"mean": 40.0}, "recall": {"mean": 10.0}}
    for every in (1, 16, "never")
]


def _values(one: Any) -> list[float]:
    assert isinstance(one, Series)
    return [10**value for _, value in one.points]


def _ends(one: Any) -> list[float]:
    return [10**value for value in one.band[0][1:]]


def test_size_chart_has_a_curve_per_arm() -> None:
    chart = size_chart(WARM)
    for panel, factor in zip(chart.panels, (1, 2), strict=True):
        assert isinstance(panel, Plot)
        assert [text for _, text in panel.x.ticks] == ["1,000", "10,000"]
        for one in panel.series:
            assert isinstance(one, Series)
            assert _values(one) == pytest.approx([1_000**0.5 * 2 * factor, 10_000**0.5 * 2 * factor])
            assert _ends(one) == pytest.approx([_values(one)[0] * 0.9, _values(one)[0] * 1.2])
            assert one.has_bars
    assert [key.name for key in chart.key] == ["tier_first_v1", "seed_full"]


def test_size_chart_without_quantiles_says_so() -> None:
    first, second = size_chart([turn("seed_full", 1_000, 9.0, p95=False)]).panels
    assert (first.title, second.title) == ("median turn (p50)", "95th percentile (p95): n too small")


def test_compaction_chart_shows_the_note() -> None:
    assert compaction_chart(WAITING, CADENCE, "Not measured: none.").words.subtitle == "Not measured: none."


def test_stages_chart_fills_the_bar() -> None:
    (panel,) = stages_chart(WARM).panels
    assert isinstance(panel, Bars)
    assert sum(panel.rows[0].parts.values()) == pytest.approx(1)
    assert panel.rows[0].parts["search"] == pytest.approx(0.8)
    assert [(row.label, row.note) for row in panel.rows][:2] == [
        ("tier_first_v1, 1,000", "63.2 ms"),
        ("seed_full, 1,000", "63.2 ms"),
    ]


def test_latency_charts_name_two_stores() -> None:
    both = [*WARM, *(turn("seed_full", size, 1.0, "exact") for size in (1_000, 10_000))]
    assert [key.name for key in size_chart(both).key] == ["tier_first_v1", "seed_full", "seed_full, exact store"]
    (panel,) = stages_chart(both).panels
    assert isinstance(panel, Bars)
    assert panel.rows[-1].label == "seed_full, exact, 10,000"


def test_compaction_chart_has_both_panels() -> None:
    left, right = compaction_chart(WAITING, CADENCE).panels
    assert isinstance(left, Plot)
    assert [text for _, text in left.x.ticks] == ["0", "10", "100"]
    assert _values(left.series[0]) == pytest.approx([5.0, 15.0, 105.0])
    assert _values(left.series[1]) == pytest.approx([60.0, 90.0])
    assert isinstance(right, Bars)
    assert [list(row.parts.values()) for row in right.rows] == [[40.0, 10.0]] * 3
    assert right.rows[-1].label == "seed_full, never rows between compactions"


@pytest.mark.parametrize(("warm", "waiting", "cadence"), [(WARM, WAITING, CADENCE), ([], [], []), (WARM, WAITING, [])])
def test_latency_charts_with_missing_data_are_deterministic(
    warm: list[Any], waiting: list[Any], cadence: list[Any]
) -> None:
    for chart in (size_chart(warm), stages_chart(warm), compaction_chart(waiting, cadence)):
        first, again = (rendered(draw(chart), "svg") for _ in range(2))
        assert first == again
