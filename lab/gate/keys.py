"""Every key of a policy: what it may hold, and what it says. Its JSON Schema is made of these, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.shape import json_type


class Form(NamedTuple):
    """What a value may be: in words, as JSON Schema, and as a check."""

    words: str
    schema: Mapping[str, Any]
    holds: Callable[[Any], bool]


class Key(NamedTuple):
    """A key: its form and what it says."""

    form: Form
    about: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _fact(value: Any) -> bool:
    return _plain(value) or (isinstance(value, list) and all(map(_plain, value)))


def _number(words: str, holds: Callable[[float], bool], **schema: Any) -> Form:
    return Form(words, {"type": "number"} | schema, lambda value: _is_number(value) and holds(value))


def _whole(least: int) -> Form:
    return Form(
        f"a whole number from {least} to {MOST}",
        {"type": "integer", "minimum": least, "maximum": MOST},
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST,
    )


def _one_of(*names: str) -> Form:
    return Form(" or ".join(map(repr, names)), {"enum": list(names)}, lambda value: value in names)


TEXT = Form("text", {"type": "string", "pattern": r"\S"}, _is_text)
FLAG = Form("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
# No figure of a run, an audit or a turn comes near these: a bound beyond them would ask nothing.
MOST = 1_000_000
NUMBER = _number(f"a number between -{MOST} and {MOST}", lambda value: abs(value) <= MOST, minimum=-MOST, maximum=MOST)
FROM_0 = _number(f"a number from 0 to {MOST}", lambda value: 0 <= value <= MOST, minimum=0, maximum=MOST)
ABOVE_0 = _number(
    f"a number above 0, at most {MOST}", lambda value: 0 < value <= MOST, exclusiveMinimum=0, maximum=MOST
)
SHARE = _number("a number between 0 and 1", lambda value: 0 < value < 1, exclusiveMinimum=0, exclusiveMaximum=1)
LEVEL = _number("a number between 0 and 0.5", lambda value: 0 < value < 0.5, exclusiveMinimum=0, exclusiveMaximum=0.5)
NAMES = Form(
    "a list of names",
    {"type": "array", "minItems": 1, "items": dict(TEXT.schema)},
    lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
)
_PLAIN = ["string", "number", "boolean"]
FACTS = Form(
    "a table of plain values, or of lists of them",
    {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": [*_PLAIN, "array"], "items": {"type": _PLAIN}},
    },
    lambda value: isinstance(value, Mapping) and bool(value) and all(map(_fact, value.values())),
)

HEAD = {
    "name": Key(TEXT, "How outputs call the policy."),
    "about": Key(TEXT, "What passing means, in a sentence."),
    "rollback": Key(TEXT, "One line: what to do where the verdict is no pass."),
    "minimum_conversations": Key(_whole(2), "Guards and claims decide over as many conversations or more."),
    "minimum_receipts": Key(_whole(1), "Receipts rules pass over as many answered recalls or more."),
    "level": Key(LEVEL, "One-sided level at which something counts as shown; .05."),
    "fail_level": Key(LEVEL, "The level of a fail; as level. A smaller one makes false alarms rare."),
}
# The arms that are compared, where a policy names none.
ARMS = {"baseline": "tier_first_v1", "candidate": "tier_quota_v1"}
_EVERY = {
    "critical": Key(FLAG, "false: told, and decides nothing."),
    "must_have_data": Key(FLAG, "false: nothing to judge by is no fault, and the rule is skipped."),
}
_OF_A_RUN = {
    "only_where": Key(
        FACTS, "Ask only of runs whose manifest resolved these keys to these values; arm.… is of the candidate."
    ),
    **_EVERY,
}
_MEASURE = {"measure": Key(TEXT, "A measure of the run, as lab measures lists them.")}
_DIRECTION = {
    "direction": Key(
        _one_of("higher", "lower"), "Which way is better; the opposite of the measure's own direction is refused."
    )
}
_SLICES = {"slices": Key(NAMES, "Judge every value of these slices, too: exploratory, told.")}
_BOUNDS = {
    "at_most": Key(NUMBER, "What the figure may be at most."),
    "at_least": Key(NUMBER, "What the figure must be at least."),
}
RULES: dict[str, dict[str, Key]] = {
    "guard": {
        **_MEASURE,
        "margin": Key(FROM_0, "How much worse the measure may be."),
        **_DIRECTION,
        **_SLICES,
        **_OF_A_RUN,
    },
    "improve": {
        **_MEASURE,
        "by": Key(NUMBER, "How much better the measure must be, more than this; 0."),
        **_DIRECTION,
        **_SLICES,
        **_OF_A_RUN,
    },
    "limit": {**_MEASURE, **_BOUNDS, **_OF_A_RUN},
    "receipts": {
        "measure": Key(TEXT, "A figure of the audit by its dotted path, as errors.rate."),
        **_BOUNDS,
        "of": Key(TEXT, "What the figure is a share of, by its path: then the exact bound of the share decides."),
        **_EVERY,
    },
    "latency": {
        "stage": Key(TEXT, "A stage of a turn; total, the default, is all of them."),
        "quantile": Key(SHARE, "Which quantile of the warm turns."),
        "at_most_ms": Key(ABOVE_0, "Milliseconds that it may take at most."),
        "at_most_ratio": Key(ABOVE_0, "How many times that of the baseline it may be at most."),
        **_OF_A_RUN,
    },
    "exact": {
        "changed": Key(_one_of("fail", "tell"), "What a turn whose receipt changed makes of the verdict."),
        **_OF_A_RUN,
    },
}
# What a rule cannot do without, and of what it needs one at least.
REQUIRED = {
    "guard": ("measure", "margin"),
    "improve": ("measure",),
    "limit": ("measure",),
    "receipts": ("measure",),
    "latency": ("quantile",),
    "exact": ("changed",),
}
ONE_OF = {
    "limit": ("at_most", "at_least"),
    "receipts": ("at_most", "at_least"),
    "latency": ("at_most_ms", "at_most_ratio"),
}


def checked(value: Mapping[str, Any], keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    """The values of known keys, each of its form; numbers as floats, lists and tables as tuples."""
    found: dict[str, Any] = {}
    for key, one in value.items():
        form = keys[key].form
        if not form.holds(one):
            shown = repr(one) if _plain(one) else json_type(one)
            raise UnusableInput(f"{where}: {key}: expected {form.words}, found {shown}")
        if form.schema.get("type") == "number":
            found[key] = float(one)
        else:
            found[key] = tuple(one) if form is NAMES else _facts(one) if form is FACTS else one
    return found


def _facts(value: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, tuple(one) if isinstance(one, list) else one) for key, one in sorted(value.items()))
