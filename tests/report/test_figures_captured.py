"""Tests of figures of runs in which arms capture: empty at first, and with keys of their own."""

from __future__ import annotations

import pytest

from lab.report.figures import tiers_figure, timeline_figure, words_of


@pytest.mark.parametrize(
    ("shares", "title"),
    [
        ({"first": [{}, {}]}, "Nothing was injected"),
        (
            {"first": [{}, {"must": 0.8, "nice": 0.2}, {"must": 1.0}], "quota": [{}]},
            "The must_remember share goes from 80% to 100% under first; nothing was injected under quota",
        ),
    ],
)
def test_tiers_figure_title_leaves_out_empty_parts(shares: dict[str, list[dict[str, float]]], title: str) -> None:
    assert words_of(tiers_figure(shares)).title == title


def test_timeline_figure_colours_a_key_by_arm() -> None:
    labels = {"engine": {"a": "must"}, "verbatim": {"a": "unknown"}}
    figure = timeline_figure({"engine": [["a"]], "verbatim": [["a"]]}, labels)
    assert [[line.get_label() for line in axes.lines] for axes in figure.axes] == [["must"], ["unknown"]]
