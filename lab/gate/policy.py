"""Policies of `lab gate`: TOML files, read and checked completely before anything is measured.

:mod:`lab.gate.keys` has every key, with its allowed values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import digest, read_text, read_toml
from lab.base.formatting import choices
from lab.base.shape import expect, json_type, only_keys, with_keys
from lab.gate.keys import (
    ARMS,
    BASELINE,
    CONTROL,
    CONTROL_ARM,
    FACTS,
    HEAD,
    NAMES,
    ONE_OF,
    OTHER_PAIR,
    REQUIRED,
    RULES,
    TEXT,
    Key,
    is_plain,
)
from lab.gate.shipped import SHIPPED, is_shipped, shipped_policies
from lab.measures.catalogue import direction, entry_of, require_measure
from lab.measures.model import SHARE, TOTAL, YES


def checked(value: Mapping[str, Any], keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    """Return the values of known keys, each checked; numbers become floats, lists and tables tuples."""
    values: dict[str, Any] = {}
    for key, given in value.items():
        form = keys[key].form
        if not form.holds(given):
            shown = repr(given) if is_plain(given) else json_type(given)
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
    exposure: str | None = None
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
    wrong_judgements: int | None = None
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
        for key in ("unmeasured", "wrong_judgements"):
            if values[key] is None:
                del values[key]
        for rule in values["rules"]:
            for name in ("at_most_more_ms", "pass_limit", "exposure"):
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
        ``arms`` has no control, or if the control is one of the pair.
        """
        pair = (candidate or self.candidate, baseline or self.baseline)
        if pair == (self.candidate, self.baseline):
            return self
        policy = replace(self, candidate=pair[0], baseline=pair[1], other_pair=OTHER_PAIR)
        if self.control is None or (self.control.arm in arms and self.control.arm not in pair):
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
