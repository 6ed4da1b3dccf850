"""Grid files: reading them, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.studies.sweep.grid import DEFAULT, flat, grid_of, merged, read_grid
from lab.systems.registry import make_arm


def test_default_grid_has_200_valid_configurations() -> None:
    grid = read_grid(None)
    arms = [make_arm(spec) for spec in grid.specs()]
    assert len(arms) == len(grid) == 200
    assert len({str(arm.describe().config) for arm in arms}) == 200
    paths = {path for point in grid.points() for path in flat(point)}
    assert {"autoRecall.repeatPenalty", "autoRecall.repeatWindowTurns", "autoRecall.maxItems"} < paths
    assert {"autoRecall.quotas.mustMax", "autoRecall.quotas.niceMin", "autoRecall.quotas.caps"} < paths


def test_read_grid_of_json_and_toml_are_equal(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"arm": "engine", // a comment\n "grid": {"autoRecall.maxItems": [2, 3]},}')
    (tmp_path / "a.toml").write_text('arm = "engine"\n[grid]\n"autoRecall.maxItems" = [2, 3]\n')
    assert read_grid(tmp_path / "a.json") == read_grid(tmp_path / "a.toml")


def test_merged_sets_only_the_values_of_the_point() -> None:
    shared = {"autoRecall": {"quotas": {"mustMax": 3, "caps": "strict"}, "maxItems": 6}}
    found = merged(shared, {"autoRecall.quotas": {"mustMax": 1}, "budget.maxChars": 900})
    assert found == {
        "autoRecall": {"quotas": {"mustMax": 1, "caps": "strict"}, "maxItems": 6},
        "budget": {"maxChars": 900},
    }
    assert shared["autoRecall"]["quotas"]["mustMax"] == 3


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "expected an object with 'grid', found a list"),
        ({"grid": {}, "grids": {}}, "unknown key 'grids'"),
        (
            {"arm": "hybird", "grid": {"a": [1]}},
            "arm: unknown system 'hybird'; did you mean 'hybrid'? known: tier_first_v1",
        ),
        ({"grid": {}}, "expected an object of paths"),
        ({"grid": {"autoRecall.maxItems": 3}}, "grid: autoRecall.maxItems: expected a list of values"),
        ({"grid": {"autoRecall.maxItems": []}}, "grid: autoRecall.maxItems: expected a list of values"),
        ({"grid": {"autoRecall.maxItems": [3, 3]}}, "3 is given twice"),
        ({"grid": {"a": list(range(200)), "b": list(range(200))}}, "40000 configurations, more than 20000"),
        ({"config": [], "grid": {"a": [1]}}, "config: expected an object"),
    ],
)
def test_grid_of_invalid_value_is_refused(value: object, said: str) -> None:
    with pytest.raises(UnusableInput, match=r"my\.json") as caught:
        grid_of(value, "my.json")
    assert said in str(caught.value)


def test_merged_path_through_a_number_is_refused() -> None:
    with pytest.raises(UnusableInput, match="maxItems is a number in config"):
        merged({"autoRecall": {"maxItems": 3}}, {"autoRecall.maxItems.deep": 1})


def test_sweep_unknown_knob_names_its_configuration() -> None:
    grid = grid_of({"grid": {"autoRecall.repeatPenalti": [0.1]}}, "my.json")
    with pytest.raises(UnusableInput, match=r"configuration 0 of the grid.*repeatPenalti"):
        make_arm(grid.specs()[0])


def test_the_default_is_written_as_a_user_would() -> None:
    assert grid_of(DEFAULT, "default").describe() == {**DEFAULT, "config": {}}
