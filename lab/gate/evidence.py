"""The values of a scored run that the rules of a policy are judged by, and why a measure has none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.compare.comparable import equal_in, require_comparable
from lab.compare.judgements import Arm, Exposed, Reading, pairs_at_equal_exposure
from lab.compare.paired import Pairs, as_json, judged_means, locate, pairs_by_measure
from lab.gate.keys import BASELINE, CONTROL_ARM
from lab.gate.policy import DIFFERENCES, Policy, Rule
from lab.gate.shipped import is_shipped
from lab.measures.catalogue import entry_of
from lab.measures.score import more_measures, score_run
from lab.replay.command import command_with
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores, read_gold


class Lack(NamedTuple):
    """Why a measure has no values, and what would give it some, if that is known.

    ``of_data`` says that the data has no label or opportunity of its kind: no arm could have a value.
    """

    why: str
    remedy: str | None
    of_data: bool = True


NO_GOLD = Lack("no probe has relevant memories", "a golden set does that (`lab golden pool` starts one)")
NO_TURN = Lack(
    "no turn recalls, because the questions come after the sessions",
    "questions within the sessions, or a replay with --recall-turns all",
)
ONE_TURN = Lack("no conversation has two turns that recall, so nothing can repeat", "longer conversations")
NO_SCOPES = Lack("scopes are not enforced", "replay with `--scope recorded`, or tags")
NOTHING_MISLEADS = Lack(
    "no memory is judged misleading", "judge some as misleading in the golden set (`lab golden judge`, key f)"
)
NOTHING_SILENT = Lack("no probe needs nothing", "judge silent turns (type needs_nothing) in the golden set")
NO_MUST = Lack("no must_remember memory was injected", "see `lab replay --labels` and `--categories`", of_data=False)
# By the name of the measure without its cutoff.
GIVES_VALUES = {
    "HardRules": Lack("no memory is a hard rule", "`lab replay --hard-rules N` samples N per conversation"),
    "StaleRecall": Lack("no memory is superseded", "record what replaced a memory (field `supersedes`)"),
    "Forbidden": NOTHING_MISLEADS,
    "NetBenefit": NOTHING_MISLEADS,
    "FalseRecall": NOTHING_SILENT,
    "FalseItems": NOTHING_SILENT,
    "GoldNice": Lack("no relevant memory is labelled nice_to_have", "see `lab replay --labels`"),
    "BackboneDuplication": Lack(
        "no arm has a Working Set with lines",
        "enable it in an arm's configuration (workingSet.enabled); add `--categories detected` if none is recorded",
        of_data=False,
    ),
    "WrongScope": NO_SCOPES,
    "AnyWrongScope": NO_SCOPES,
    "MustRepeat": NO_MUST,
    "MustStreak": NO_MUST,
}
# Safety checks: that the data has nothing to check is never accepted.
SAFETY = ("WrongScope", "AnyWrongScope", "Unescaped", "Duplicates", "Future", "Leaks")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of a scored run that the rules are judged by.

    ``candidate`` holds the candidate's values and ``pairs`` the paired values of baseline and candidate, by measure;
    ``control`` those of the policy's control and the candidate. ``slices`` holds the slices of each probe; ``depth``
    the length of the shortest ranking of the arms. ``judged`` has Judged@k of the arms that are compared, as
    :func:`lab.compare.paired.as_json` gives it; None where nothing was judged. ``valued`` has the measures with a value
    in any of these arms, ``turns`` the largest number of recall turns of a conversation, ``policy`` the file to
    edit, and ``off`` the arms that their host does not run, by what a rule compares the candidate with. ``exposed`` has
    the pairs at equal exposure, by measure and by what is compared; without them, a rule compares arms as they are.
    """

    candidate: Mapping[str, Sequence[float]]
    pairs: Mapping[str, Pairs]
    slices: Mapping[str, Mapping[str, str]]
    depth: float = math.inf
    control: Mapping[str, Pairs] = field(default_factory=dict)
    judged: Mapping[str, Any] | None = None
    valued: frozenset[str] = frozenset()
    turns: int = 0
    policy: str = "the policy"
    off: Mapping[str, str] = field(default_factory=dict)
    exposed: Mapping[tuple[str, str], Exposed] = field(default_factory=dict)

    def paired(self, rule: Rule) -> Pairs | None:
        """Return the pairs that a rule judges, if its measure has values."""
        if found := self.exposed.get((rule.measure, rule.against)) if rule.exposure else None:
            return found.pairs
        return (self.control if rule.against == CONTROL_ARM else self.pairs).get(rule.measure)

    def why_nothing(self, rule: Rule) -> Lack:
        """Return why the measure of a rule has no values, in an arm or in all."""
        measure = rule.measure
        stem, _, cutoff = measure.partition("@")
        # A smaller cutoff helps only where one has values.
        is_cut = cutoff.isdigit() and any(name.startswith(f"{stem}@") for name in self.valued)
        if is_cut and int(cutoff) > self.depth:
            why = f"the arm returns at most {self.depth} items, so there is no value at {cutoff}"
            return Lack(why, f"use @{self.depth} in {self.policy}", of_data=False)
        if measure in self.valued:
            if measure in self.candidate and rule.against in self.off:
                return Lack(f"arm {self.off[rule.against]} injects nothing, as on its host", "an arm that does")
            return Lack("one of the arms has no value", None, of_data=False)
        if stem == "GoldNice" and "Success@1" not in self.valued:
            # Labels settle nothing before a memory is relevant.
            return NO_GOLD
        if stem in GIVES_VALUES:
            return GIVES_VALUES[stem]
        unit = entry.unit if (entry := entry_of(measure)) else None
        if unit == "probe" and "Success@1" not in self.valued:
            return NO_GOLD
        if unit == "turn" and self.turns < 2:
            return ONE_TURN if self.turns else NO_TURN
        return Lack("not measured", None, of_data=False)


def evidence(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None) -> Evidence:
    """Score a run and what it is compared with: its baseline arm, or the candidate's arm in the run ``against``.

    Raises :class:`NotComparable` if the two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an arm that is missing, with the command that adds it.
    """
    mine, arm = locate(run, policy.candidate)
    uses_slices = any(rule.slices or rule.kind == "slice" for rule in rules)
    slices = {probe: gold.slices for probe, gold in read_gold(mine).items()} if uses_slices else {}
    _require_slices(rules, slices)
    measures = tuple(dict.fromkeys(rule.measure for rule in rules))
    # The rules need few of all measures; the other values would only be paired in vain. Some say why one is missing.
    needed = {*measures, *(f"{stem}@1" for stem, at, _ in (name.partition("@") for name in measures) if at)}
    extra = more_measures(sorted(needed), mine.max_items.values())
    needed |= {"Success@1", "InjectedItems", *(f"Judged@{most}" for most in range(1, max(mine.max_items.values()) + 1))}
    scores = score_run(mine, extra).only(needed)
    depth = mine.depths[arm]
    sides: dict[str, dict[str, Pairs]] = {}
    off: dict[str, str] = {}
    arms = {policy.candidate: (mine, arm, scores)}
    arms_of: dict[str, tuple[Arm, Arm]] = {}
    for side in dict.fromkeys(rule.against for rule in rules if rule.kind in DIFFERENCES):
        name = policy.control.arm if side == CONTROL_ARM and policy.control else policy.baseline
        if side == CONTROL_ARM or against is None:
            theirs, base = locate_arm(run, name, f"{policy.where}: {side}")
        else:
            name = f"{against.path}:{arm}"
            theirs, base = locate(against, arm)
        if (theirs.path.resolve(), base) == (mine.path.resolve(), arm):
            raise UnusableInput(f"{side} and candidate are both {arm!r} of {run.path}; name two different arms")
        require_comparable(theirs, mine)
        others: Scores = scores if theirs is mine else score_run(theirs, extra).only(needed)
        depth = min(depth, theirs.depths[base])
        arms[name] = (theirs, base, others)
        arms_of[side] = (Arm(theirs, base, -1.0), Arm(mine, arm, 1.0))
        if theirs.arm(base).off:
            off[side] = base
        sides[side] = {pair.measure: pair for pair in pairs_by_measure(others, base, scores, arm, equal_in(mine))[0]}
    exposed = {
        (rule.measure, rule.against): found
        for rule in rules
        if rule.exposure is not None
        and (found := pairs_at_equal_exposure(*arms_of[rule.against], rule.measure, Reading())) is not None
    }
    values = {name: series.value for name, series in scores.of_arm(arm).items()}
    cutoff = min(where.max_items[each] for where, each, _ in arms.values())
    shares = {name: share for name, (_, each, of) in arms.items() if (share := judged_means(of, cutoff).get(each))}
    return Evidence(
        values,
        sides.get(BASELINE, {}),
        slices,
        depth,
        sides.get(CONTROL_ARM, {}),
        as_json(shares, cutoff) if shares else None,
        frozenset(name for _, each, of in arms.values() for name in of.of_arm(each)),
        _most_turns(scores, arm),
        _named_file(policy),
        off,
        exposed,
    )


def _require_slices(rules: Sequence[Rule], slices: Mapping[str, Mapping[str, str]]) -> None:
    """Raise :class:`UnusableInput` for a slice, or a value of one, that is nearly one of the run: it is mistyped."""
    known: dict[str, set[str]] = {}
    for probe in slices.values():
        for key, value in probe.items():
            known.setdefault(key, set()).add(value)
    for rule in rules:
        named = [("of" if rule.of else "slices", key, sorted(known)) for key in (rule.of, *rule.slices) if key]
        named += [("values", value, sorted(known.get(str(rule.of), ()))) for value in rule.values]
        for key, name, names in named:
            if name not in names and get_close_matches(name.lower(), names, 1, 0.7):
                where = f"{rule.kind} {rule.measure}: {key}"
                raise UnusableInput(f"{where}: no probe has {name!r}; {choices(name, names, 'probes have')}")


def _named_file(policy: Policy) -> str:
    """Return the file in which a policy can be edited; of a shipped one, a copy."""
    if policy.label == policy.name or is_shipped(policy.file):
        return f"a copy of policy {policy.name} (`lab gate policies --show {policy.name}`)"
    return Path(policy.where).name


def _most_turns(scores: Scores, arm: str) -> int:
    """Return the number of recall turns of the conversation with most of them."""
    recalls = scores.all_of_arm(arm).get("InjectedItems")
    return max(Counter(recalls.conversation).values(), default=0) if recalls else 0


def locate_arm(run: RunDirectory, name: str, where: str) -> tuple[RunDirectory, str]:
    """Return the run and name of an arm; for one that is missing, raise :class:`UnusableInput` with the command."""
    if name in run.arms or ":" in name:
        return locate(run, name)
    given = run.manifest.asked.get("arms")
    arms = [*(given if isinstance(given, list | tuple) else ()), name]
    out = Path(run.path).with_name(f"{Path(run.path).name}-{name}")
    raise UnusableInput(
        f"{where}: {run.path} has no arm {name!r}; {choices(name, run.arms, 'it has')}. A run with it: "
        f"{command_with(run.manifest, arms, str(out))}"
    )
