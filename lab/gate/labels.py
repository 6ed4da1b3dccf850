"""How many wrong judgements turn a verdict: a pass that is none any more, or a failure that is none.

A pass turns if one critical rule that passes does; a failure turns if all rules that fail do, so the bounds of single
rules (:mod:`lab.compare.judgements`) bound the verdict: the smallest of the passing ones, the largest of the failing
ones. What is named is judged again by the whole policy, with those judgements turned round. A slice that would begin to
fail counts where it is judged again, and not in the lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.base.formatting import counted
from lab.compare.fragility import Conclusion
from lab.compare.judgements import (
    Arm,
    Judgement,
    Reading,
    Turns,
    at_random,
    shares,
    turned_by,
    turned_lines,
    what_turns,
)
from lab.compare.paired import locate
from lab.compare.statistics import holm
from lab.gate.evidence import evidence, locate_arm
from lab.gate.keys import CONTROL_ARM
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, Line, deciding
from lab.gate.measures import (
    CLAIMS,
    Tested,
    decisive_of,
    is_beyond,
    judge_compared,
    members_of,
    p_of,
    tests_of,
    threshold_of,
)
from lab.gate.policy import Policy, Rule
from lab.runs.directory import GOLDEN, RunDirectory
from lab.runs.scores import read_gold

# The kind and the name of the line of a policy's `wrong_judgements`.
LABELS, WRONG = "labels", "wrong judgements"
# How often what is named is judged again and added to, before nothing is claimed.
ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Turning:
    """What turns a verdict: so many of its judgements if they are wrong, or unjudged memories if they are relevant.

    ``least`` and ``most`` bound the number, ``named`` are ``most`` that turn it together; None if none were found.
    ``rules`` has the bounds of each rule that decides it, ``fixed`` those that no judgement turns. ``drawn`` has the
    share of draws that turn it, by the share of judgements that are wrong at random.
    """

    status: str
    judgements: int
    least: int
    most: int | None
    rules: Mapping[str, str]
    fixed: tuple[str, ...]
    named: tuple[Judgement, ...]
    drawn: Mapping[str, float]
    unjudged: int
    found: int | None

    @property
    def sentence(self) -> str:
        """Return the sentence that stands beside the verdict."""
        name = self.status.upper()
        if self.fixed:
            said = f"No wrong judgement turns this {name}: {self.fixed[0]} does not rest on them"
            return "; ".join((said, *(f"{rule} alone takes {bounds}" for rule, bounds in self.rules.items()))) + "."
        said = f"This {name} turns {turned_by(self.least, self.most, self.judgements)}"
        if self.drawn:
            said += f"; {at_random(self.drawn)}"
        if self.found is not None:
            said += f"; or if {self.found} of {counted(self.unjudged, 'unjudged memory')} were relevant"
        return f"{said}."

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with keys and no texts."""
        return {
            "sentence": self.sentence,
            "status": self.status,
            "judgements": self.judgements,
            "wrong": {"least": self.least, "most": self.most, "named": [one.as_json() for one in self.named]},
            "at_random": dict(self.drawn),
            "unjudged": {"memories": self.unjudged, "most": self.found},
            "rules": dict(self.rules),
            "fixed": list(self.fixed),
        }


def turning(
    policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None, lines: Sequence[Line]
) -> Turning | None:
    """Return what turns the verdict that these lines give; None for one that is neither a pass nor a failure.

    ``rules`` are those on measures that were judged.
    """
    status = FAIL if deciding(lines, FAIL) else PASS
    if deciding(lines, ERROR) or (status == PASS and len(deciding(lines, PASS)) < len(deciding(lines))):
        return None
    judged = _Judged(policy, rules, run, against)
    judgements = sum(len(gold.judged) for gold in read_gold(run).values())
    turns = {line.label: judged.turns(line, random=True) for line in deciding(lines, status)}
    rules_of = {name: found.bounds for name, found in turns.items() if found is not None}
    fixed = tuple(name for name, found in turns.items() if found is None)
    known = [found for found in turns.values() if found is not None]
    if not judgements or not known or (status == FAIL and fixed):
        of_all = fixed if status == FAIL or not known else ()
        return Turning(status, judgements, 0, None, rules_of, of_all, (), {}, 0, None)
    each = [found.wrong.least for found in known]
    together = all if status == FAIL else any
    drawn = shares([together(draw) for draw in zip(*(found.wrong.drawn for found in known), strict=True)])
    wrong = judged.turned(status, lines, [*turns.values()])
    least = max(each) if status == FAIL else min(each)
    more = judged.turned(status, lines, [*turns.values()], unjudged=True)
    return Turning(
        status,
        judgements,
        min(least, len(wrong)) if wrong else least,
        len(wrong) if wrong else None,
        rules_of,
        (),
        wrong or (),
        drawn,
        max(found.unjudged.labels if found.unjudged else 0 for found in known),
        len(more) if more else None,
    )


class _Judged:
    """The measures of a run as a policy judges them."""

    def __init__(self, policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None) -> None:
        self.policy, self.rules, self.run, self.against = policy, rules, run, against
        self._reading = Reading()
        data = evidence(policy, rules, run, against)
        self._tests = [test for rule in rules if rule.critical for test in tests_of(rule, data)]
        self._decisive = decisive_of(self._tests, policy)
        self.lines = tuple(judge_compared(policy, rules, data))

    def turns(self, line: Line, *, random: bool = False) -> Turns | None:
        """Return what turns a line that passes or fails; None if no judgement does. ``random`` adds draws."""
        test = next((test for test in self._tests if self._is_of(test, line)), None)
        if test is None:
            return None
        rule, part = test.rule, test.slice
        probes = None
        if part is not None:
            slices = {probe: gold.slices for probe, gold in self._reading.gold(self.run).items()}
            probes = members_of(str(rule.of), slices)[part.partition("=")[2]]
        side = 1.0 if line.status == PASS else -1.0
        weight = -side if rule.direction == "lower" else side
        return what_turns(
            self._arms(rule, weight),
            rule.measure,
            self._conclusion(test, side),
            self._reading,
            shift=-side * threshold_of(rule),
            probes=probes,
            random=random,
            equal=rule.exposure is not None,
        )

    def _is_of(self, test: Tested, line: Line) -> bool:
        rule = test.rule
        arm = self.policy.control.arm if rule.against == CONTROL_ARM and self.policy.control else None
        return (rule.kind, rule.measure, test.slice, arm) == (line.kind, line.measure, line.slice, line.against)

    def _conclusion(self, test: Tested, side: float) -> Conclusion:
        """Return when a test passes (``side`` 1) or fails (-1); the other tests of its family are as they are."""
        policy, rule = self.policy, test.rule
        family = [other for other in self._decisive if other.rule.family == rule.family and other is not test]
        if side < 0:
            beyond = [other for other in family if is_beyond(other.rule, other.result, policy)]
            others = [p_of(other.rule, other.result, side) for other in beyond] + [1.0] * (len(family) - len(beyond))
            return Conclusion(policy.fail_level, False, policy.fail_level, True, partial(_adjusted, others))
        if rule.kind not in CLAIMS:
            return Conclusion(policy.level, True, None)
        others = [p_of(other.rule, other.result, side) for other in family if other.rule.kind in CLAIMS]
        return Conclusion(policy.level, False, policy.level, True, partial(_adjusted, others))

    def _arms(self, rule: Rule, weight: float) -> tuple[Arm, Arm]:
        run, name = locate(self.run, self.policy.candidate)
        if rule.against == CONTROL_ARM and self.policy.control:
            other = locate_arm(self.run, self.policy.control.arm, self.policy.where)
        elif self.against is not None:
            other = locate(self.against, name)
        else:
            other = locate_arm(self.run, self.policy.baseline, self.policy.where)
        return Arm(run, name, weight), Arm(*other, -weight)

    def turned(
        self, status: str, lines: Sequence[Line], found: Sequence[Turns | None], *, unjudged: bool = False
    ) -> tuple[Judgement, ...] | None:
        """Return judgements that turn the verdict together, judged again with them; None if none were found.

        ``found`` is what turns each of the ``lines`` that decide it.
        """
        path = self.run.path / GOLDEN
        gold = path.read_bytes() if self.run.gold is None else self.run.gold
        known = [json.loads(line) for line in gold.splitlines() if line.strip()]
        now: _Judged = self
        chosen: dict[tuple[str, str, bool], Judgement] = {}
        compared = {line.name for line in self.lines}
        elsewhere = [line for line in deciding(lines) if line.name not in compared]
        for _ in range(ROUNDS):
            these = deciding([*now.lines, *elsewhere])
            holds = any(line.status == FAIL for line in these) == (status == FAIL)
            if status == PASS:
                holds = all(line.status == PASS for line in these)
            if not holds:
                return tuple(chosen.values())
            if now is not self:
                found = [now.turns(line) for line in deciding(now.lines, status)]
            sets = [(one.found if unjudged else one.named) for one in found if one is not None]
            sets = sorted((one for one in sets if one), key=lambda one: len(one))
            if not sets or (status == FAIL and len(sets) < len(found)):
                return None
            for one in sets[0] if status == PASS else sets[-1]:
                key = one.probe, one.memory, one.is_mark
                # What was turned round before is turned back.
                if chosen.pop(key, None) is None:
                    chosen[key] = one
            turned = turned_lines(known, tuple(chosen.values()))
            other = self.against.judged_by(turned) if self.against else None
            now = _Judged(self.policy, self.rules, self.run.judged_by(turned), other)
        return None


def judged_labels(policy: Policy, found: Turning | None) -> Line | None:
    """Return the line of a policy's ``wrong_judgements``: whether a pass holds with fewer wrong than that.

    None if the policy has none, or there is no pass to turn.
    """
    most = policy.wrong_judgements
    if most is None or found is None or found.status != PASS:
        return None
    numbers: dict[str, Any] = {"n": found.judgements, "limit": f"at least {most}", "candidate": found.least}
    why = (
        f"{WRONG}: what passes turns {turned_by(found.least, found.most, found.judgements)}; the policy requires at "
        f"least {most}"
    )
    if not found.judgements or found.least >= most:
        return Line(LABELS, WRONG, PASS, True, why, **numbers)
    settles = "a second judge of those that `turns` in verdict.json names"
    return Line(LABELS, WRONG, INCONCLUSIVE, True, why, settles, **numbers)


def _adjusted(others: Sequence[float], p: float) -> float:
    """Return p adjusted by Holm's method beside those of the other tests of its family."""
    return holm({"own": p} | {f"other {number}": other for number, other in enumerate(others)})["own"]
