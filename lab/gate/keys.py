"""Every key of a policy, with its allowed values and its description; the JSON Schema is built from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lab.measures.latency import QUANTILES


class Form(NamedTuple):
    """The allowed values: in words, as JSON Schema, and as a check."""

    words: str
    schema: Mapping[str, Any]
    holds: Callable[[Any], bool]


class Key(NamedTuple):
    """A key: its allowed values and its description."""

    form: Form
    about: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_plain(value: Any) -> bool:
    """Return whether a value is neither a list nor a table."""
    return isinstance(value, str | int | float | bool)


def _is_plain_or_list(value: Any) -> bool:
    return is_plain(value) or (isinstance(value, list) and all(map(is_plain, value)))


def _number(words: str, holds: Callable[[float], bool], **schema: Any) -> Form:
    return Form(words, {"type": "number"} | schema, lambda value: _is_number(value) and holds(value))


def _whole_number(least: int) -> Form:
    return Form(
        f"a whole number from {least} to {MOST}",
        {"type": "integer", "minimum": least, "maximum": MOST},
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST,
    )


def _one_of(*names: str) -> Form:
    return Form(" or ".join(map(repr, names)), {"enum": list(names)}, lambda value: value in names)


TEXT = Form("text", {"type": "string", "pattern": r"\S"}, _is_text)
FLAG = Form("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
# No figure of a run, an audit or a turn comes near this: a limit beyond it would have no effect.
MOST = 1_000_000
NUMBER = _number(f"a number between -{MOST} and {MOST}", lambda value: abs(value) <= MOST, minimum=-MOST, maximum=MOST)
FROM_0 = _number(f"a number from 0 to {MOST}", lambda value: 0 <= value <= MOST, minimum=0, maximum=MOST)
ABOVE_0 = _number(
    f"a number above 0, at most {MOST}", lambda value: 0 < value <= MOST, exclusiveMinimum=0, maximum=MOST
)
_SHARE = _number("a number between 0 and 1", lambda value: 0 < value < 1, exclusiveMinimum=0, exclusiveMaximum=1)
QUANTILE = Form("0.5, 0.95 or 0.99", {"enum": [*QUANTILES.values()]}, lambda value: value in QUANTILES.values())
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
    lambda value: isinstance(value, Mapping) and bool(value) and all(map(_is_plain_or_list, value.values())),
)

HEAD = {
    "name": Key(TEXT, "The policy's name in outputs."),
    "about": Key(TEXT, "What passing means, in one sentence."),
    "rollback": Key(TEXT, "One line: what to do unless the verdict is a pass."),
    "rollback_selection": Key(
        TEXT, "One line: what to do for the selection policy alone. Left out if the baseline's policy is already live."
    ),
    "minimum_conversations": Key(_whole_number(2), "Fewest conversations over which guard and improve rules decide."),
    "minimum_receipts": Key(_whole_number(1), "Fewest answered recalls over which receipts rules pass."),
    "maximum_receipts": Key(_whole_number(1), "Most answered recalls that the limits are meant for; more are noted."),
    "level": Key(LEVEL, "One-sided significance level of a pass; default .05."),
    "fail_level": Key(LEVEL, "Significance level of a fail; default: level. A smaller one makes false alarms rarer."),
    "wrong_judgements": Key(_whole_number(1), "The smallest number of wrong judgements that may turn a pass."),
    "unmeasured": Key(
        _one_of("accept"),
        "accept: what the data cannot measure does not prevent a pass. Safety checks are never accepted so.",
    ),
}
# Accepts that the data of a run has no label or opportunity of a measure's kind.
ACCEPT = "accept"
# The arms that are compared if a policy names none.
ARMS = {"baseline": "tier_first_v1", "candidate": "tier_quota_v1"}
# What a label adds if other arms are judged than a policy names.
OTHER_PAIR = "another pair"
# What a rule compares the candidate with.
BASELINE, CONTROL_ARM = "baseline", "control"
CONTROL = {
    "arm": Key(TEXT, "An arm, or DIR:ARM; rules with against = 'control' compare the candidate with it."),
    "claim": Key(TEXT, "What is shown if a worth rule passes and no guard against the control fails: a sentence."),
    "denial": Key(TEXT, "The opposite sentence: what is shown if every worth rule fails."),
}
EQUAL = "equal"
# What a rule without data means.
NO_DATA = ("error", "skip", "inconclusive")
_EVERY = {
    "critical": Key(FLAG, "false: advisory, does not affect the verdict."),
    "without_data": Key(
        _one_of(*NO_DATA),
        "The status of the rule if there is no data; default error. inconclusive names what is missing.",
    ),
    "must_have_data": Key(FLAG, "The older spelling: true is without_data = 'error', false is 'skip'."),
}
_OF_A_RUN = {
    "only_where": Key(
        FACTS, "Apply only to runs whose manifest has these resolved values; arm.… reads the candidate's."
    ),
    **_EVERY,
}
_MEASURE = {"measure": Key(TEXT, "A measure of the run; `lab score --list` lists them.")}
_DIRECTION = {
    "direction": Key(
        _one_of("higher", "lower"),
        "Which direction is better; the opposite of the measure's own direction is an error.",
    )
}
_AGAINST = {
    "against": Key(_one_of(BASELINE, CONTROL_ARM), "Which arm the candidate is compared with; default baseline.")
}
_FAMILY = {
    "family": Key(
        TEXT, "Rules of one family share Holm's correction; default: one family for all guard and improve rules."
    )
}
_EXPOSURE = {
    "exposure": Key(
        _one_of(EQUAL),
        "equal: at each probe, both arms are compared over the same number of injected memories that were judged.",
    )
}
_SLICES = {"slices": Key(NAMES, "Also judge every value of these slices: exploratory, advisory.")}
_BOUNDS = {
    "at_most": Key(NUMBER, "The largest allowed value."),
    "at_least": Key(NUMBER, "The smallest allowed value."),
}
RULES: dict[str, dict[str, Key]] = {
    "guard": {
        **_MEASURE,
        "margin": Key(FROM_0, "How much worse the candidate may be."),
        **_DIRECTION,
        **_AGAINST,
        **_FAMILY,
        **_EXPOSURE,
        **_SLICES,
        **_OF_A_RUN,
    },
    "improve": {
        **_MEASURE,
        "by": Key(NUMBER, "The candidate must be better by more than this; default 0."),
        **_DIRECTION,
        **_AGAINST,
        **_FAMILY,
        **_SLICES,
        **_OF_A_RUN,
    },
    "worth": {
        **_MEASURE,
        "by": Key(
            NUMBER, "The candidate is worth having if it is better than the control by more than this; default 0."
        ),
        **_DIRECTION,
        **{name: key for name, key in _OF_A_RUN.items() if name != "critical"},
    },
    "slice": {
        **_MEASURE,
        "of": Key(TEXT, "The slice of the golden set, such as type: each of its values is a test."),
        "values": Key(NAMES, "Test only these values of the slice; default: all."),
        "margin": Key(FROM_0, "How much worse the candidate may be in each value."),
        **_DIRECTION,
        **_AGAINST,
        **_OF_A_RUN,
    },
    "limit": {**_MEASURE, **_BOUNDS, **_OF_A_RUN},
    "receipts": {
        "measure": Key(TEXT, "A figure of the audit by its dotted path, such as errors.rate."),
        **_BOUNDS,
        "of": Key(
            TEXT, "The path of the count that the figure is a share of; the exact bound of the share then decides."
        ),
        "pass_limit": Key(
            _SHARE, "The limit that a pass must show over sessions, beyond the rule's own; default the rule's own."
        ),
        **_EVERY,
    },
    "latency": {
        "stage": Key(TEXT, "A stage of a turn; default total, the whole turn."),
        "quantile": Key(_SHARE, "The quantile of the warm turns."),
        "at_most_ms": Key(ABOVE_0, "The largest allowed time in milliseconds."),
        "at_most_ratio": Key(ABOVE_0, "The largest allowed ratio to the baseline's quantile."),
        **_OF_A_RUN,
    },
    "wait": {
        "quantile": Key(QUANTILE, "The quantile of what the recalls of a live engine took."),
        "at_most_ratio": Key(ABOVE_0, "The largest allowed multiple of the control's quantile; default 1."),
        "at_most_more_ms": Key(FROM_0, "The milliseconds that are allowed on top of that; default 0."),
        **_EVERY,
    },
    "exact": {
        "changed": Key(_one_of("fail", "tell"), "fail: a changed receipt fails the verdict; tell: it is advisory."),
        **_OF_A_RUN,
    },
}
# The required keys of each rule, and the keys of which it needs at least one.
REQUIRED = {
    "guard": ("measure", "margin"),
    "improve": ("measure",),
    "worth": ("measure",),
    "slice": ("measure", "of", "margin"),
    "limit": ("measure",),
    "receipts": ("measure",),
    "latency": ("quantile",),
    "wait": ("quantile",),
    "exact": ("changed",),
}
ONE_OF = {
    "limit": ("at_most", "at_least"),
    "receipts": ("at_most", "at_least"),
    "latency": ("at_most_ms", "at_most_ratio"),
    "wait": ("at_most_ratio", "at_most_more_ms"),
}
