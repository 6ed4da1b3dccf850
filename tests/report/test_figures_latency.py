"""The latency charts: measured values with intervals, and a note if n is too small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.report.figures import save
from lab.report.figures_latency import compaction_figure, size_figure, stages_figure


def quantile(value: float) -> dict[str, float]:
    return {"value": value, "low": value * 0.9, "high": value * 1.2}


def turn(arm: str, memories: int, value: float, store: str = "lancedb", p95: bool = True) -> dict[str, Any]:
    total = {"mean": value, "p50": quantile(value), "p95": quantile(value * 2) if p95 else None}
    search = {"mean": value * 0.8, "p50": quantile(value * 0.8), "p95": None}
    return {"arm": arm, "memories": memories, "store": store, "stages": {"search": search, "total": total}}


WARM = [turn(arm, size, size**0.5 * 2) for size in (1_000, 10_000) for arm in ("tier_first_v1", "seed_full")]
WAITING = [
    {"arm": "seed_full", "memories": 50, "waiting": rows, "recall": {"p50": quantile(5.0 + rows)}, "compact_ms": spent}
    for rows, spent in ((0, None), (10, 60.0), (100, 90.0))
]
CADENCE = [
    {"arm": "seed_full", "compact_every": every, "append": {"mean": 40.0}, "recall": {"mean": 10.0}}
    for every in (1, 16, "never")
]


def test_size_figure_draws_a_curve_per_arm() -> None:
    left, right = size_figure(WARM).axes
    for axes, factor in ((left, 1), (right, 2)):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        curves = [container.lines[0] for container in axes.containers]
        assert [list(curve.get_xdata()) for curve in curves] == [[1_000, 10_000]] * 2
        assert [curve.get_ydata()[0] for curve in curves] == pytest.approx([1_000**0.5 * 2 * factor] * 2)
        (bars,) = axes.containers[0].lines[2]
        (_, low), (_, high) = bars.get_segments()[0]
        assert (low, high) == pytest.approx((curves[0].get_ydata()[0] * 0.9, curves[0].get_ydata()[0] * 1.2))
    assert left.get_ylim() == right.get_ylim()


def test_size_figure_without_quantiles_says_so() -> None:
    left, right = size_figure([turn("seed_full", 1_000, 9.0, p95=False)]).axes
    assert [text.get_text() for text in left.texts] == []
    assert [text.get_text() for text in right.texts] == ["n too small"]


def test_compaction_figure_shows_the_note() -> None:
    figure = compaction_figure(WAITING, CADENCE, "Not measured: none.")
    assert [text.get_text() for text in figure.texts if "Not" in text.get_text()] == ["Not measured: none."]
    assert [text.get_text() for text in compaction_figure(WAITING, CADENCE).texts if "Not" in text.get_text()] == []


def test_stages_figure_fills_the_bar() -> None:
    (axes,) = stages_figure(WARM).axes
    widths = [patch.get_width() for patch in axes.patches if patch.get_y() == pytest.approx(-0.4)]
    assert sum(widths) == pytest.approx(1)
    assert max(widths) == pytest.approx(0.8)
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["tier_first_v1, 1,000", "seed_full, 1,000"]
    assert [text.get_text() for text in axes.texts][:2] == ["63.2 ms", "63.2 ms"]


def test_latency_figures_name_two_stores() -> None:
    both = [*WARM, *(turn("seed_full", size, 1.0, "exact") for size in (1_000, 10_000))]
    labels = [text.get_text() for text in size_figure(both).legends[0].get_texts()]
    assert labels == ["tier_first_v1", "seed_full", "seed_full, exact store"]
    assert stages_figure(both).axes[0].get_yticklabels()[-1].get_text() == "seed_full, exact, 10,000"


def test_compaction_figure_draws_both_panels() -> None:
    left, right = compaction_figure(WAITING, CADENCE).axes
    assert list(left.containers[0].lines[0].get_xdata()) == [0, 10, 100]
    assert list(left.lines[-1].get_xdata()) == [10, 100]
    assert [label.get_text() for label in right.get_xticklabels()] == ["1", "16", "never"]
    assert {patch.get_height() for patch in right.patches} == {40.0, 10.0}


@pytest.mark.parametrize(("warm", "waiting", "cadence"), [(WARM, WAITING, CADENCE), ([], [], []), (WARM, WAITING, [])])
def test_latency_figures_with_missing_data_are_deterministic(
    warm: list[Any], waiting: list[Any], cadence: list[Any], tmp_path: Path
) -> None:
    for name, draw in (
        ("size", lambda: size_figure(warm)),
        ("stages", lambda: stages_figure(warm)),
        ("compaction", lambda: compaction_figure(waiting, cadence)),
    ):
        first, again = (save(draw(), tmp_path / part / name) for part in ("a", "b"))
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
