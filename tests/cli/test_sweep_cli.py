"""``lab study sweep`` end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

GRID = {"arm": "quota_repeat", "grid": {"autoRecall.repeatPenalty": [0, 0.35], "autoRecall.repeatWindowTurns": [2, 6]}}


@pytest.fixture
def swept(operators: Path, tmp_path: Path, lab: Callable[..., Any]) -> Callable[..., Any]:
    (tmp_path / "grid.json").write_text(json.dumps(GRID))

    def run(*more: str) -> Any:
        return lab(
            "study", "sweep", str(operators), "--format", "lab", "--scope", "recorded", "--grid", "grid.json",
            "--out", "out", "--limit", "2", *more, cwd=tmp_path
        )  # fmt: skip

    return run


def test_sweep_writes_table_and_charts_and_resumes(swept: Callable[..., Any], tmp_path: Path) -> None:
    first = swept("--json")
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    assert [one["knobs"] for one in result["configurations"]][1] == {
        "autoRecall.repeatPenalty": 0,
        "autoRecall.repeatWindowTurns": 6,
    }
    table = parquet.read_table(tmp_path / "out" / "configurations.parquet").to_pylist()
    assert [row["Success"] for row in table] == [one["measures"]["Success"] for one in result["configurations"]]
    assert any(row["on_front"] for row in table)
    page = (tmp_path / "out" / "sweep.html").read_text("utf-8")
    assert ("Pareto front of hits" in page, "Mean over all other knobs" in page) == (True, True)
    best = max(result["configurations"], key=lambda one: one["measures"]["Success"])["measures"]
    title = "The best of 4 configurations hits on {:.0%} of the probes with {:.0%} repeats, hybrid on {:.0%}"
    title = title.format(best["Success"], best["RepeatRate"], result["hybrid"]["Success"]).replace("%", " %")
    assert title in page.replace("\N{NO-BREAK SPACE}", " ")
    assert (result["figures"], (tmp_path / "out" / "figures").exists()) == ([], False)
    parts = sorted((tmp_path / "out" / "parts").iterdir())
    before = {part.name: part.read_bytes() for part in parts}
    parts[0].unlink()
    again = swept("--json")
    assert json.loads(again.stdout) == result
    assert again.stderr.count("4 configurations") == 1
    assert {part.name: part.read_bytes() for part in sorted((tmp_path / "out" / "parts").iterdir())} == before
    other = swept("--hard-rules", "1")
    assert other.returncode == 2
    assert "made with different arguments" in other.stderr
    assert "hard_rules" in other.stderr


def test_sweep_with_slides_draws_the_figures_of_its_page(swept: Callable[..., Any], tmp_path: Path) -> None:
    drawn = json.loads(swept("--json", "--slides", "--limit", "1").stdout)["figures"]
    assert drawn == [f"out/figures/{name}.{kind}" for name in ("front", "heat") for kind in ("svg", "png")]
    assert all((tmp_path / file).stat().st_size > 1000 for file in drawn)


@pytest.mark.process
def test_sweep_with_two_processes_gives_equal_results(
    swept: Callable[..., Any], tmp_path: Path, operators: Path
) -> None:
    one = json.loads(swept("--json").stdout)
    (tmp_path / "out").rename(tmp_path / "first")
    two = json.loads(swept("--json", "--jobs", "2").stdout)
    assert two["configurations"] == one["configurations"]


def test_sweep_of_few_conversations_promises_no_interval(swept: Callable[..., Any]) -> None:
    said = " ".join(swept().stdout.split())
    assert "difference from untiered search; too few conversations for an interval." in said


def test_sweep_table_fits_80_columns(swept: Callable[..., Any]) -> None:
    found = swept()
    assert found.returncode == 0
    assert "hybrid" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--saturated", "--labels", "sampled"), "--saturated samples the labels itself"),
        (("--seeds", "2"), "--seeds needs --saturated"),
        (("--grid", "nothing.json"), "nothing.json: no such file"),
    ],
)
def test_unusable_sweep_is_refused_in_one_line(swept: Callable[..., Any], more: tuple[str, ...], said: str) -> None:
    found = swept(*more)
    assert found.returncode == 2
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_sweep_names_a_refused_configuration(swept: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "grid.json").write_text(json.dumps({"grid": {"autoRecall.repeatPenalti": [0.1]}}))
    found = swept()
    assert found.returncode == 2
    assert "configuration 0 of the grid" in found.stderr
    assert not (tmp_path / "out").exists()


def test_by_draw_shows_one_configuration_per_label_sample(swept: Callable[..., Any]) -> None:
    found = swept("--saturated", "--by-draw", "3", "--hard-rules", "1", "--limit", "1")
    assert found.returncode == 0, found.stderr
    table = found.stdout.partition("#3, by label sample")[2].splitlines()
    drawn = [line for line in table if line.startswith(("distractors ", "independent "))]
    assert len(drawn) > 12
    assert drawn[-1].startswith("independent 1.00")
    assert max(map(len, found.stdout.splitlines())) <= 80
    outside = swept("--by-draw", "4")
    assert (outside.returncode, outside.stderr.count("\n")) == (2, 1)
