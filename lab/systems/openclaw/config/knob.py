"""The types of the table of configuration keys: a key with a value (:class:`Knob`) or an object (:class:`Section`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

SEED, UPSTREAM = PROFILES = ("seed", "upstream")
Kind = Literal[
    "flag",
    "whole",
    "number",
    "positive",
    "choice",
    "word",
    "text",
    "secret",
    "texts",
    "args",
    "scope",
    "scopes",
    "map",
    "any",
    "true",
    "time",
]


class Knob(NamedTuple):
    """One key with a value.

    ``default`` and ``high`` are the plugin's, ``seed`` and ``seed_high`` those of profile ``seed`` if they differ. For
    lists, ``high`` is the maximum length. ``refill``: an empty list becomes the default. ``only_seed``: the plugin has
    no such key. ``manifest``: the range in the plugin's manifest, which hosts enforce, if it differs. ``here``: whether
    the lab reads the key (None: as its section); ``absent``: values that require a recall which the lab does not
    implement.
    """

    kind: Kind
    default: Any = None
    low: float = 0
    high: float = math.inf
    choices: tuple[str, ...] = ()
    seed: Any = None
    seed_high: float | None = None
    refill: bool = False
    only_seed: bool = False
    manifest: tuple[int, int] | None = None
    here: bool | None = None
    absent: tuple[Any, ...] = ()

    def default_in(self, profile: str) -> Any:
        """Return the default in a profile; None if there is none."""
        return self.seed if profile == SEED and self.seed is not None else self.default

    def high_in(self, profile: str) -> float:
        """Return the largest value, or the maximum length of a list."""
        return self.seed_high if profile == SEED and self.seed_high is not None else self.high


class Section(NamedTuple):
    """A key with an object.

    ``wrong``: the plugin's error message for another type, with ``{}`` for the path; if empty, the plugin uses the
    defaults. ``boolean``: a boolean is accepted: false switches the section off, true means the defaults, or also
    switches it on (``true_is_on``). ``only_object``: the plugin's manifest accepts no boolean. ``closed``: the plugin
    refuses unknown keys. ``presets``: names that stand for an object. ``here``: False for a feature that the lab does
    not implement.
    """

    keys: Mapping[str, Knob | Section]
    wrong: str = "{} must be a boolean or object"
    boolean: bool = True
    true_is_on: bool = False
    closed: bool = True
    only_seed: bool = False
    only_object: bool = False
    presets: Mapping[str, Mapping[str, Any]] = {}
    here: bool = True


def flag(default: bool, *, only_seed: bool = False) -> Knob:
    """Return a key with a boolean."""
    return Knob("flag", default, only_seed=only_seed)


def whole(
    default: int,
    low: int,
    high: int,
    *,
    seed: int | None = None,
    seed_high: int | None = None,
    only_seed: bool = False,
    manifest: tuple[int, int] | None = None,
) -> Knob:
    """Return a key with a whole number."""
    return Knob("whole", default, low, high, seed=seed, seed_high=seed_high, only_seed=only_seed, manifest=manifest)


def number(default: float, low: float, high: float, *, only_seed: bool = False) -> Knob:
    """Return a key with a number."""
    return Knob("number", default, low, high, only_seed=only_seed)


def choice(*choices: str, seed: str | None = None, only_seed: bool = False) -> Knob:
    """Return a key with a fixed set of values, the first of which is the default."""
    return Knob("choice", choices[0], choices=choices, seed=seed, only_seed=only_seed)


def text(default: str | None = None) -> Knob:
    """Return a key with a text."""
    return Knob("text", default)


def texts(*default: str, most: int = 64, refill: bool = False) -> Knob:
    """Return a key with a list of texts."""
    return Knob("texts", default, high=most, refill=refill)
