"""Grids of configurations: the values of each knob, and the arms of their combinations.

A grid file is JSON (comments allowed) or TOML::

    {"arm": "quota_repeat",
     "config": {"budget": {"maxChars": 12000}},
     "grid": {"autoRecall.repeatPenalty": [0, 0.15, 0.35],
              "autoRecall.quotas": [{"mustMax": 1, "niceMin": 3}, {"mustMax": 2, "niceMin": 2}]}}

``arm`` is any system, ``config`` the configuration that all share, ``grid`` the paths within it that vary. A value may
be an object, so that knobs vary together. Every combination is one configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from lab.base.config_text import parse_config
from lab.base.errors import UnusableInput
from lab.base.files import read_text, read_toml
from lab.base.formatting import choices, free_of_credentials
from lab.base.shape import deep_merge, expect, json_type
from lab.systems.registry import config_in, systems
from lab.systems.spec import ArmSpec

MOST = 20_000
DEFAULT: dict[str, Any] = {
    "arm": "quota_repeat",
    "grid": {
        "autoRecall.repeatPenalty": [0, 0.1, 0.2, 0.35, 0.6],
        "autoRecall.repeatWindowTurns": [2, 4, 6, 10],
        "autoRecall.quotas": [
            {"mustMax": 1, "niceMin": 2, "unknownMax": 1},
            {"mustMax": 1, "niceMin": 3, "unknownMax": 1},
            {"mustMax": 2, "niceMin": 2, "unknownMax": 1},
            {"mustMax": 3, "niceMin": 1, "unknownMax": 1},
            {"mustMax": 2, "niceMin": 2, "unknownMax": 1, "caps": "reservation"},
        ],
        "autoRecall.maxItems": [4, 6],
    },
}


@dataclass(frozen=True, slots=True)
class Grid:
    """An arm, the shared configuration, and the values of each path that varies.

    ``around`` is the host's file if ``config`` was given inside one, else None.
    """

    arm: str
    config: Mapping[str, Any]
    axes: Mapping[str, Sequence[Any]]
    around: Any = field(default=None, compare=False)

    def __len__(self) -> int:
        count = 1
        for values in self.axes.values():
            count *= len(values)
        return count

    def points(self) -> list[dict[str, Any]]:
        """Return every combination as values by path; the last path varies fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    def specs(self) -> list[ArmSpec]:
        """Return the arms, named by their number."""
        merges = (merged(self.config, point) for point in self.points())
        return [
            ArmSpec(
                f"{self.arm}#{number}",
                self.arm,
                config,
                f"configuration {number} of the grid",
                config if self.around is None else self.around,
            )
            for number, config in enumerate(merges)
        ]

    def describe(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "arm": self.arm,
            "config": dict(self.config),
            "grid": {key: list(values) for key, values in self.axes.items()},
        }


def read_grid(path: Path | None) -> Grid:
    """Return the grid in a file, or the default one.

    Raises :class:`UnusableInput` for an invalid grid; the configurations are checked later, when the arms are made.
    """
    if path is None:
        return grid_of(DEFAULT, "the default grid")
    value = free_of_credentials(read_toml(path)) if path.suffix == ".toml" else parse_config(read_text(path), str(path))
    return grid_of(value, str(path))


def grid_of(value: Any, where: str) -> Grid:
    """Return a grid from parsed values."""
    expect(value, Mapping, where, "an object with 'grid'")
    unknown = sorted(set(value) - {"arm", "config", "grid"})
    if unknown:
        raise UnusableInput(f"{where}: unknown key {unknown[0]!r}; known: arm, config, grid")
    arm = value.get("arm", DEFAULT["arm"])
    if arm not in systems():
        raise UnusableInput(f"{where}: arm: unknown system {arm!r}; {choices(arm, systems())}")
    shared = value.get("config", {})
    config = config_in(shared, f"{where}: config")
    expect(config, Mapping, f"{where}: config")
    axes = value.get("grid")
    if not isinstance(axes, Mapping) or not axes:
        raise UnusableInput(f"{where}: grid: expected an object of paths and lists of values, found {json_type(axes)}")
    for path, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UnusableInput(f"{where}: grid: {path}: expected a list of values, found {json_type(values)}")
        texts = [json.dumps(element, sort_keys=True) for element in values]
        duplicate = next((element for element in texts if texts.count(element) > 1), None)
        if duplicate:
            raise UnusableInput(f"{where}: grid: {path}: {duplicate} is given twice")
    grid = Grid(arm, config, axes, None if config is shared else shared)
    if len(grid) > MOST:
        raise UnusableInput(f"{where}: grid: {len(grid)} configurations, more than {MOST}; remove some values")
    return grid


def merged(config: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with a point's values set at their paths; objects are merged."""
    result = dict(config)
    for path, value in point.items():
        *above, last = path.split(".")
        parent: Any = result
        for key in above:
            parent = parent.get(key, {})
            if not isinstance(parent, Mapping):
                raise UnusableInput(f"grid: {path}: {key} is {json_type(parent)} in config, not an object")
        nested: dict[str, Any] = {last: value}
        for key in reversed(above):
            nested = {key: nested}
        result = deep_merge(result, nested)
    return result


def flat(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point with nested objects flattened: one entry per knob, under its full path."""
    entries: dict[str, Any] = {}
    for path, value in point.items():
        if isinstance(value, Mapping):
            entries |= flat({f"{path}.{key}": inner for key, inner in value.items()})
        else:
            entries[path] = value
    return entries


def knobs_of(points: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the paths of all knobs that any point sets, in the order of the grid."""
    return list(dict.fromkeys(path for point in points for path in flat(point)))
