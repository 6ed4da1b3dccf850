"""The history of nightly runs: series, steps, and manifest differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.cli.nightly import trend
from lab.compare.steps import Step
from lab.nightly.trend import Point, _moved, append, history, read_store, step_record
from lab.report.charts import Plot, Series
from lab.report.nightly import trend_chart

FIRST = Point(
    *("2026-03-01", "p", "s", "quota", "Success@6", True, 0.5, 60, 6, 0.02, "pass"),
    *("0.1.0", "a" * 40, "c" * 64),
    *("numpy 2.3.1; torch 2.13.0", "arm", "k"),
)


def _nights(store: Path, means: list[float | None], **changes: object) -> None:
    """Return one nightly run per mean, of two measures; none for a missing mean."""
    for day, mean in enumerate(means, 1):
        if mean is not None:
            date = f"2026-03-{day:02}"
            point = FIRST._replace(date=date, mean=mean, **changes)
            append(store, [point, point._replace(measure="Jaccard", primary=False, mean=0.25, standard_error=None)])


def test_read_store_returns_appended_points_once(tmp_path: Path) -> None:
    _nights(tmp_path, [0.5, 0.6])
    _nights(tmp_path, [0.5, 0.7])
    points = read_store(tmp_path)
    assert [(one.date, one.measure, one.mean) for one in points] == [
        ("2026-03-01", "Success@6", 0.5),
        ("2026-03-01", "Jaccard", 0.25),
        ("2026-03-02", "Success@6", 0.7),
        ("2026-03-02", "Jaccard", 0.25),
    ]
    assert points[0] == FIRST
    assert points[1].standard_error is None


def test_step_record_has_dates_levels_and_differences(tmp_path: Path) -> None:
    # A nightly run is missing; the code changed with the step, the recordings later and without one.
    _nights(tmp_path, [0.5, 0.5, 0.5, None, 0.5])
    after = [None] * 5 + [0.4] * 4
    _nights(tmp_path, after, commit="b" * 40, code="d" * 64)
    _nights(tmp_path, [None] * 9 + [0.4], commit="b" * 40, code="d" * 64, comparable_key="other")
    (one,) = history(read_store(tmp_path))
    assert (one.set, one.arm, one.measure, len(one.points)) == ("s", "quota", "Success@6", 9)
    (step,) = one.steps
    assert step_record(one, step) == {
        "set": "s",
        "arm": "quota",
        "measure": "Success@6",
        "last": "2026-03-05",
        "first": "2026-03-06",
        "before": 0.5,
        "after": 0.4,
        "moved": [f"commit {'a' * 12} -> {'b' * 12}", f"code {'c' * 12} -> {'d' * 12}"],
    }
    _nights(tmp_path, [None] * 10 + [0.6] * 3, comparable_key="other", commit="b" * 40, code="d" * 64)
    (one,) = history(read_store(tmp_path))
    assert [step.at for step in one.steps] == [4, 9]
    _nights(tmp_path, [None] * 13 + [0.7], comparable_key="new", commit="b" * 40, code="d" * 64)
    (one,) = history(read_store(tmp_path))
    assert step_record(one, one.steps[-1])["moved"] == ["recordings, gold or labels"]
    _nights(
        tmp_path,
        [None] * 14 + [0.8],
        comparable_key="new",
        commit="b" * 40,
        code="d" * 64,
        arm_key="x",
        versions="numpy 2.3.2; torch 2.13.0",
    )
    (one,) = history(read_store(tmp_path))
    assert step_record(one, one.steps[-1])["moved"] == ["numpy 2.3.1 -> numpy 2.3.2", "the arm's configuration"]


def test_change_without_an_arrow_names_its_arm_and_set() -> None:
    other = FIRST._replace(arm="first")
    after = [one._replace(commit="b" * 40, arm_key="x") for one in (FIRST, other)]
    assert _moved([FIRST, other], after) == [
        f"commit {'a' * 12} -> {'b' * 12}",
        "the arm's configuration (quota in s)",
        "the arm's configuration (first in s)",
    ]


def test_history_separates_plans_with_equal_set_names(tmp_path: Path) -> None:
    _nights(tmp_path, [0.5, 0.5, 0.5])
    _nights(tmp_path, [0.7, 0.7, 0.7], plan="q")
    _nights(tmp_path, [0.7, 0.7, 0.7], plan="q", set="own")
    found = {one.set: one for one in history(read_store(tmp_path), sets=["s"])}
    assert {name: ([point.mean for point in one.points], one.steps) for name, one in found.items()} == {
        "p/s": ([0.5] * 3, ()),
        "q/s": ([0.7] * 3, ()),
    }
    assert [one.set for one in history(read_store(tmp_path), sets=["own"])] == ["own"]


def test_steps_can_be_found_in_the_second_nightly_run(tmp_path: Path) -> None:
    _nights(tmp_path, [0.5, 0.4])
    (one,) = history(read_store(tmp_path))
    assert one.steps == (Step(1, 0.5, 0.4),)


def test_history_selects_arms(tmp_path: Path) -> None:
    append(tmp_path, [FIRST, FIRST._replace(arm="first")])
    assert [one.arm for one in history(read_store(tmp_path))] == ["quota", "first"]
    assert [one.arm for one in history(read_store(tmp_path), arms=["first"])] == ["first"]


def test_history_unchanged_has_no_step(tmp_path: Path) -> None:
    _nights(tmp_path, [1 / 3] * 28)
    for sets in ([], ["s"]):
        series = history(read_store(tmp_path), measures=["Success@6", "Jaccard"], sets=sets, arms=["quota"])
        assert [(one.measure, one.steps) for one in series] == [("Success@6", ()), ("Jaccard", ())]
    for what, wanted in (("measures", "nDCG@6"), ("arms", "first"), ("sets", "t")):
        with pytest.raises(UnusableInput, match=f"no {what.removesuffix('s')} '{wanted}' in this history; it has"):
            history(read_store(tmp_path), **{what: [wanted]})


def test_read_store_empty_or_damaged_raises(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="holds no nightly runs"):
        read_store(tmp_path)
    _nights(tmp_path, [0.5])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CannotMeasure, match=path.name):
        read_store(tmp_path)


def test_trend_chart_marks_each_step(tmp_path: Path) -> None:
    _nights(tmp_path / "store", [0.5] * 6 + [0.7] * 6)
    series = history(read_store(tmp_path / "store"), measures=["Success@6", "Jaccard"])
    chart = trend_chart(series)
    # A dotted line marks the step, and only the step.
    panels = [
        [one for one in panel.series if isinstance(one, Series)] for panel in chart.panels if isinstance(panel, Plot)
    ]
    assert [[one.dash for one in panel] for panel in panels] == [["-", ":"], ["-"]]
    assert [at for at, _ in panels[0][1].points] == [5.5, 5.5]
    assert trend_chart([]).panels == []


def test_trend_of_a_set_and_an_arm_that_never_met_says_so(tmp_path: Path) -> None:
    append(tmp_path, [FIRST])
    append(tmp_path, [FIRST._replace(set="other", arm="first")])
    with pytest.raises(UnusableInput, match="no nightly runs to draw: the history has no such series"):
        trend(tmp_path, which=["other"], arm=["quota"])
    assert not (tmp_path / "trend.html").exists()


def test_trend_writes_a_page_and_with_slides_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _nights(tmp_path / "store", [0.5] * 6 + [0.7] * 6)
    trend(tmp_path / "store", out=tmp_path / "out", slides=True).show()
    said = capsys.readouterr().out
    assert "2026-03-07 (after 2026-03-06): Success@6 of quota in s 0.5 -> 0.7; " in said
    assert f"Page: {tmp_path}/out/trend.html" in said
    assert sorted(file.name for file in (tmp_path / "out" / "figures").iterdir()) == ["trend.png", "trend.svg"]
    page = (tmp_path / "out" / "trend.html").read_text("utf-8")
    assert ("Success@6 in s" in page, 'href="figures/trend.svg"' in page) == (True, True)
