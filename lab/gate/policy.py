"""Policies of `lab gate`: TOML files, read and checked completely before anything is measured.

Every key of a policy has its allowed values and its description here. The JSON Schema of policies is built from them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import digest, read_text, read_toml
from lab.base.formatting import choices
from lab.base.shape import expect, json_type, only_keys, with_keys
from lab.gate.shipped import SHIPPED, is_shipped, shipped_policies
from lab.measures.catalogue import direction, entry_of, require_measure
from lab.measures.latency import QUANTILES
from lab.measures.model import SHARE, TOTAL, YES


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


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_plain_or_list(value: Any) -> bool:
    return _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value)))


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
    "wrong_labels": Key(_whole_number(1), "A pass must take at least so many wrong judgements to turn."),
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


def checked(value: Mapping[str, Any], keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    """Return the values of known keys, each checked; numbers become floats, lists and tables tuples."""
    values: dict[str, Any] = {}
    for key, given in value.items():
        form = keys[key].form
        if not form.holds(given):
            shown = repr(given) if _is_plain(given) else json_type(given)
            raise UnusableInput(f"{where}: {key}: expected {form.words}, found {shown}")
        if form.schema.get("type") == "number":
            values[key] = float(given)
        else:
            values[key] = tuple(given) if form is NAMES else _facts(given) if form is FACTS else given
    return values


def _facts(value: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (key, tuple(setting) if isinstance(setting, list) else setting) for key, setting in sorted(value.items())
    )


# The rules on audits of live receipts.
OF_AUDITS = ("receipts", "wait")
# The rules on measures of a scored run.
OF_MEASURES = ("guard", "improve", "worth", "slice", "limit")
# Those that judge a difference of two arms, and those that compare with the control if they say nothing else.
DIFFERENCES = OF_MEASURES[:-1]
OF_CONTROL = ("worth",)
# The families of tests of rules that name none.
FAMILIES = {"worth": "worth", "slice": "slices"}
FAMILY = "rules"
# The largest margin for a measure between 0 and 1; a larger one would ignore a change of half of all recalls.
MOST_MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy; :mod:`lab.gate.policy` documents its fields."""

    kind: str
    measure: str
    critical: bool = True
    without_data: str = "error"
    direction: str = "higher"
    against: str = BASELINE
    family: str = FAMILY
    margin: float = 0.0
    by: float = 0.0
    at_most: float | None = None
    at_least: float | None = None
    of: str | None = None
    pass_limit: float | None = None
    values: tuple[str, ...] = ()
    stage: str = TOTAL
    quantile: float = 0.95
    at_most_ms: float | None = None
    at_most_ratio: float | None = None
    at_most_more_ms: float | None = None
    slices: tuple[str, ...] = ()
    only_where: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> tuple[str, str, str, str | None]:
        """Return the rule's kind, measure, compared arm and slice, critical or not."""
        return self.kind, self.measure, self.against, self.of if self.kind == "slice" else None

    @property
    def must_have_data(self) -> bool:
        """Return whether missing data is an error."""
        return self.without_data == "error"

    @property
    def identity(self) -> tuple[str, str, str, str | None, bool]:
        """Return what is unique to a rule within its policy."""
        return *self.name, self.critical


@dataclass(frozen=True, slots=True)
class Control:
    """A second arm that the candidate is compared with; ``claim`` and ``denial`` say what the comparison may show."""

    arm: str
    claim: str
    denial: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: the arms to compare, the minimum of evidence, and the rules by kind in the order of the file.

    ``level`` is the one-sided significance level of a pass, ``fail_level`` that of a fail. ``rollback`` tells the
    operator what to do unless the verdict is a pass, ``rollback_selection`` what to do for the selection policy alone;
    ``file`` is the file of the policy. With more than ``maximum_receipts`` answered recalls, the verdict says so.
    ``unmeasured`` is :data:`ACCEPT` if what the data cannot measure does not prevent a pass. ``other_pair`` is what a
    label adds if its arms are not its own (:meth:`of_pair`).
    """

    name: str
    about: str
    baseline: str
    candidate: str
    minimum_conversations: int
    rules: tuple[Rule, ...]
    minimum_receipts: int = 1
    maximum_receipts: int | None = None
    level: float = 0.05
    fail_level: float = 0.05
    rollback: str | None = None
    rollback_selection: str | None = None
    file: str | None = None
    control: Control | None = None
    unmeasured: str | None = None
    wrong_labels: int | None = None
    other_pair: str = ""

    @property
    def where(self) -> str:
        """Return what an error message names: the file, else the policy."""
        return self.file or f"policy {self.name}"

    @property
    def key(self) -> str:
        """Return the sha256 of the content, independent of the file."""
        values = asdict(replace(self, file=None))
        del values["other_pair"]  # It follows from the arms.
        # So that policies from before these keys keep their digest.
        for key in ("unmeasured", "wrong_labels"):
            if values[key] is None:
                del values[key]
        for rule in values["rules"]:
            for name in ("at_most_more_ms", "pass_limit"):
                if rule[name] is None:
                    del rule[name]
        return digest(values)

    @property
    def label(self) -> str:
        """Return what a verdict calls the policy: a shipped one by its name, any other by its file and digest.

        A policy is a shipped one only if its content is exactly that: every policy can give itself any name.
        """
        if self.name in shipped_policies() and read_policy(self.name).key == self.key:
            return self.name
        if self.other_pair and is_shipped(self.file):
            return f"{self.name} ({self.other_pair})"
        known = Path(self.file).name if self.file else self.name
        other = f", {self.other_pair}" if self.other_pair else ""
        return f"{known} (sha256 {self.key[:8]}, not a shipped policy{other})"

    def of_pair(self, candidate: str | None, baseline: str | None, arms: Collection[str]) -> Policy:
        """Return the policy for another pair; None keeps an arm.

        The rules on the control, which answer a question about the policy's own pair, are left out if a run with these
        ``arms`` has no control.
        """
        pair = (candidate or self.candidate, baseline or self.baseline)
        if pair == (self.candidate, self.baseline):
            return self
        policy = replace(self, candidate=pair[0], baseline=pair[1], other_pair=OTHER_PAIR)
        if self.control is None or self.control.arm in arms:
            return policy
        rules = tuple(rule for rule in self.rules if rule.kind not in OF_CONTROL and rule.against != CONTROL_ARM)
        without = f"{OTHER_PAIR}, without {self.control.arm}"
        return replace(policy, control=None, rules=rules, other_pair=without)


def read_policy(name: str) -> Policy:
    """Return a shipped policy by name, or one from a file; :class:`UnusableInput` says what is wrong and where."""
    path = SHIPPED / f"{name}.toml" if name in shipped_policies() else Path(name)
    if name not in shipped_policies() and not path.is_file():
        raise UnusableInput(
            f"{name}: no such file or shipped policy; {choices(name, shipped_policies(), 'shipped policies')}"
        )
    policy = _policy(read_toml(path), str(path))
    _require_own_direction(policy, path)
    return policy


def _policy(value: Mapping[str, Any], where: str) -> Policy:
    only_keys(value, (*HEAD, "comparison", CONTROL_ARM, *RULES), where)
    kept = checked({key: setting for key, setting in value.items() if key in HEAD}, HEAD, where)
    for key in ("name", "about"):
        if key not in kept:
            raise UnusableInput(f"{where}: needs {key}: {HEAD[key].about}")
    arms = _table(value, "comparison", tuple(ARMS), where)
    control = _control(value, where)
    rules: list[Rule] = []
    for kind in RULES:
        given = value.get(kind, [])
        if not isinstance(given, list):
            raise UnusableInput(f"{where}: {kind}: expected [[{kind}]] tables, found {json_type(given)}")
        for number, table in enumerate(given, 1):
            rule = _rule(kind, table, f"{where}: {kind} {number}")
            if rule.identity in {before.identity for before in rules}:
                raise UnusableInput(
                    f"{where}: {kind} {number}: a second rule on {rule.measure}; set critical = false in one of them"
                )
            # Slices are advisory, critical rule or not, so outputs could not tell two lines of one slice apart.
            slices = [name for before in (*rules, rule) if before.name == rule.name for name in before.slices]
            duplicate = next((name for name in slices if slices.count(name) > 1), None)
            if duplicate is not None:
                raise UnusableInput(f"{where}: {kind} {number}: slices: {duplicate!r} of {rule.measure} is given twice")
            rules.append(rule)
    lost = next((rule for rule in rules if rule.against == CONTROL_ARM and control is None), None)
    if lost is not None:
        raise UnusableInput(f"{where}: {lost.kind} {lost.measure}: there is no [control] to compare with; add one")
    if not rules:
        raise UnusableInput(f"{where}: has no rule, so it would pass everything; add a rule")
    if not any(rule.critical and rule.kind not in OF_CONTROL for rule in rules):
        raise UnusableInput(f"{where}: no rule is critical, so it cannot fail; make one critical")
    for key in ("rollback", "rollback_selection"):
        if "\n" in kept.get(key, ""):
            raise UnusableInput(f"{where}: {key}: has several lines; write one line")
    named_arms = checked(arms, dict.fromkeys(ARMS, Key(TEXT, "")), f"{where}: comparison")
    levels = {"fail_level": kept.get("level", 0.05)}
    return Policy(
        **{"minimum_conversations": 6} | ARMS | named_arms | levels | kept,
        rules=tuple(rules),
        file=where,
        control=control,
    )


def _table(value: Mapping[str, Any], name: str, keys: tuple[str, ...], where: str) -> Mapping[str, Any]:
    return with_keys(value.get(name, {}), keys, f"{where}: {name}", "a table")


def _control(value: Mapping[str, Any], where: str) -> Control | None:
    if CONTROL_ARM not in value:
        return None
    place = f"{where}: {CONTROL_ARM}"
    kept = checked(_table(value, CONTROL_ARM, tuple(CONTROL), where), CONTROL, place)
    for key, entry in CONTROL.items():
        if key not in kept:
            raise UnusableInput(f"{place}: needs {key}: {entry.about}")
    return Control(**kept)


def _rule(kind: str, value: Any, where: str) -> Rule:
    expect(value, Mapping, where, "a table")
    keys = RULES[kind]
    only_keys(value, tuple(keys), where)
    kept = checked(value, keys, where)
    for key in REQUIRED[kind]:
        if key not in kept:
            raise UnusableInput(f"{where}: needs {key}: {keys[key].about[0].lower()}{keys[key].about[1:-1]}")
    alternatives = ONE_OF.get(kind, ())
    if alternatives and not kept.keys() & set(alternatives):
        raise UnusableInput(f"{where}: needs {' or '.join(alternatives)}, or both")
    if "must_have_data" in kept:
        if "without_data" in kept:
            raise UnusableInput(f"{where}: must_have_data and without_data say the same; remove must_have_data")
        kept["without_data"] = "error" if kept.pop("must_have_data") else "skip"
    if kind in OF_CONTROL:
        kept["against"] = CONTROL_ARM
    if kind in FAMILIES:
        kept["family"] = FAMILIES[kind]
    if kind in OF_MEASURES:
        require_measure(kept["measure"], where)
        _within_range(kept, where)
    if kind == "wait":
        kept["measure"] = f"p{100 * kept['quantile']:g} of recalls in ms"
    elif kind == "latency":
        kept["measure"] = f"p{100 * kept['quantile']:g} {kept.get('stage', TOTAL)}"
    elif kind == "exact":
        is_advisory = kept.pop("changed") == "tell"
        kept |= {"measure": "receipts", "critical": kept.get("critical", True) and not is_advisory}
    elif kind in DIFFERENCES:
        kept["direction"] = _direction(kept, where)
    else:
        _within(kept, where)
    return Rule(kind, **kept)


def _within_range(kept: Mapping[str, Any], where: str) -> None:
    """Raise :class:`UnusableInput` for a limit outside the measure's range: such a rule could not decide anything."""
    entry = entry_of(kept["measure"])
    if entry is None or entry.range not in (SHARE, YES):
        return
    for key, least, most in (("margin", 0, MOST_MARGIN), ("by", -MOST_MARGIN, MOST_MARGIN)):
        if key in kept and not least <= kept[key] <= most:
            raise UnusableInput(
                f"{where}: {key} {kept[key]:g}: {kept['measure']} lies between 0 and 1; "
                f"choose {key} between {least:g} and {most:g}"
            )
    for key in ("at_most", "at_least"):
        if key in kept and not 0 <= kept[key] <= 1:
            raise UnusableInput(f"{where}: {key} {kept[key]:g}: {kept['measure']} lies between 0 and 1")


def _direction(kept: Mapping[str, Any], where: str) -> str:
    """Return the direction that the rule states, else that of its measure."""
    default = direction(kept["measure"])
    if "direction" not in kept and default == "neither":
        raise UnusableInput(
            f'{where}: {kept["measure"]} has no better direction of its own; add direction = "higher" or "lower"'
        )
    return str(kept.get("direction", default))


def _require_own_direction(policy: Policy, path: Path) -> None:
    """Raise :class:`UnusableInput` for a rule whose direction is the opposite of its measure's own.

    Such a guard would pass a candidate for being worse.
    """
    for kind in DIFFERENCES:
        for number, rule in enumerate((rule for rule in policy.rules if rule.kind == kind), 1):
            own = direction(rule.measure)
            if own not in ("neither", rule.direction):
                line = _line_of(path, kind, number, "direction")
                where = f"{path}:{line}" if line else str(path)
                raise UnusableInput(
                    f"{where}: {kind} {number}: direction {rule.direction!r}: {rule.measure} is better when {own}; "
                    "remove the direction"
                )


def _line_of(path: Path, kind: str, number: int, key: str) -> int | None:
    """Return the line, from 1, on which a rule sets a key; None if there is no such line, as in an inline table."""
    lines = read_text(path).split("\n")
    for count, line in enumerate(lines, 1):
        if key not in line:
            continue
        try:
            rules = tomllib.loads("\n".join(lines[:count])).get(kind, [])
        except tomllib.TOMLDecodeError:
            # The line ends inside a multi-line value.
            continue
        if len(rules) == number and key in rules[-1]:
            return count
    return None


def _within(kept: Mapping[str, Any], where: str) -> None:
    high, low = kept.get("at_most"), kept.get("at_least")
    if high is not None and low is not None and high < low:
        raise UnusableInput(f"{where}: at_most {high:g} is below at_least {low:g}; no value satisfies both")
    shown, one = kept.get("pass_limit"), high if low is None else low
    if shown is not None and ((high is None) == (low is None) or (shown - one) * (1 if low is None else -1) < 0):
        raise UnusableInput(
            f"{where}: pass_limit {shown:g}: needs either at_most or at_least, and may not be stricter than it"
        )
    if "of" in kept and not all(0 < bound < 1 for bound in (high, low) if bound is not None):
        raise UnusableInput(
            f"{where}: no number of receipts can show that a share is 0 or 1; remove `of` for a limit without "
            "statistics, or choose a limit between 0 and 1"
        )
