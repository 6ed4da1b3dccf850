"""What a gate asks: a policy in TOML, read and checked whole before anything is measured.

::

    name = "rollout"
    about = "one sentence on what passing means"
    minimum_conversations = 6

    [comparison]
    baseline = "tier_first_v1"
    candidate = "tier_quota_v1"

    [[guard]]                  # the candidate must be shown not to be worse by more than the margin
    measure = "Success@6"
    margin = 0.02

    [[improve]]                # the candidate must be shown to be better by more than this
    measure = "GoldNice@6"
    by = 0.0

    [[limit]]                  # a mean of the candidate within hard bounds, no statistics
    measure = "WrongScope"
    at_most = 0.0

Every rule may say ``critical = false`` (it is told, and decides nothing), ``must_have_data = false`` (nothing to
measure is no fault) and ``direction = "higher"`` or ``"lower"`` where the measure's own is not meant.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import read_text
from lab.measures.catalogue import BY_NAME
from lab.shape import named

KINDS = ("guard", "improve", "limit")
DIRECTIONS = ("higher", "lower")
_TOP = ("name", "about", "minimum_conversations", "comparison", *KINDS)
_RULE = ("measure", "critical", "must_have_data", "direction")
_OWN = {"guard": ("margin",), "improve": ("by",), "limit": ("at_most", "at_least")}
SHIPPED = Path(__file__).parent / "policies"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a policy.

    ``margin`` is how much worse a guarded measure may be, ``by`` how much better an improved one must be, ``at_most``
    and ``at_least`` the bounds of a limit.
    """

    kind: str
    measure: str
    critical: bool = True
    must_have_data: bool = True
    direction: str = "higher"
    margin: float = 0.0
    by: float = 0.0
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: which arms, how many conversations at least, and the rules in the order of the file."""

    name: str
    about: str
    baseline: str
    candidate: str
    minimum_conversations: int
    rules: tuple[Rule, ...]


def shipped_policies() -> list[str]:
    """The names of the policies that come with the lab."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_policy(name: str) -> Policy:
    """A shipped policy by name, or one in a file; raises :class:`UnusableInput` naming what is wrong and where."""
    path = SHIPPED / f"{name}.toml" if name in shipped_policies() else Path(name)
    if name not in shipped_policies() and not path.is_file():
        raise UnusableInput(
            f"{name}: no such file, and no policy of that name; there are: {', '.join(shipped_policies())}"
        )
    try:
        value = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UnusableInput(f"{path}: not TOML: {error}") from None
    return _policy(value, str(path))


def _policy(value: Mapping[str, Any], where: str) -> Policy:
    _known(value, _TOP, where)
    arms = value.get("comparison", {})
    if not isinstance(arms, Mapping):
        raise UnusableInput(f"{where}: comparison: expected a table, found {named(arms)}")
    _known(arms, ("baseline", "candidate"), f"{where}: comparison")
    least = value.get("minimum_conversations", 6)
    if isinstance(least, bool) or not isinstance(least, int) or least < 2:
        raise UnusableInput(f"{where}: minimum_conversations: expected a whole number from 2, found {least!r}")
    rules: list[Rule] = []
    for kind in KINDS:
        given = value.get(kind, [])
        if not isinstance(given, list):
            raise UnusableInput(f"{where}: {kind}: expected [[{kind}]] tables, found {named(given)}")
        rules += [_rule(kind, one, f"{where}: {kind} {number}") for number, one in enumerate(given, 1)]
    if not rules:
        raise UnusableInput(f"{where}: has no rule; a gate that asks nothing passes everything")
    if not any(rule.critical for rule in rules):
        raise UnusableInput(f"{where}: no rule is critical; a gate that cannot fail is none")
    return Policy(
        _text(value, "name", where),
        _text(value, "about", where),
        str(arms.get("baseline", "tier_first_v1")),
        str(arms.get("candidate", "tier_quota_v1")),
        least,
        tuple(rules),
    )


def _rule(kind: str, value: Any, where: str) -> Rule:
    if not isinstance(value, Mapping):
        raise UnusableInput(f"{where}: expected a table, found {named(value)}")
    _known(value, (*_RULE, *_OWN[kind]), where)
    measure = _text(value, "measure", where)
    known = BY_NAME.get(measure.partition("@")[0])
    own = known.better if known else "higher"
    direction = value.get("direction", "higher" if kind == "limit" else own)
    if direction == "neither" and "direction" not in value:
        raise UnusableInput(f"{where}: {measure} is better neither high nor low; say which is meant: direction")
    if direction not in DIRECTIONS:
        raise UnusableInput(f"{where}: direction: {direction!r} is neither 'higher' nor 'lower'")
    numbers = {key: _number(value[key], f"{where}: {key}") for key in _OWN[kind] if key in value}
    if kind == "limit" and not numbers:
        raise UnusableInput(f"{where}: needs at_most, at_least or both")
    if kind == "guard" and numbers.get("margin", -1.0) < 0:
        raise UnusableInput(f"{where}: needs a margin from 0: how much worse {measure} may be")
    return Rule(
        kind,
        measure,
        _flag(value.get("critical", True), f"{where}: critical"),
        _flag(value.get("must_have_data", True), f"{where}: must_have_data"),
        direction,
        numbers.get("margin", 0.0),
        numbers.get("by", 0.0),
        numbers.get("at_most"),
        numbers.get("at_least"),
    )


def _known(value: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise UnusableInput(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(known)}")


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or not found.strip():
        raise UnusableInput(f"{where}: {key}: expected text, found {named(found)}")
    return found


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise UnusableInput(f"{where}: expected a number, found {named(value)}")
    return float(value)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UnusableInput(f"{where}: expected true or false, found {named(value)}")
    return value
