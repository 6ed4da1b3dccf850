"""The values that the criteria are tested on, and the one test that all of them use."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from lab.compare.comparable import equal_in
from lab.compare.fragility import Conclusion
from lab.compare.judgements import Arm, Reading, Turns, what_turns
from lab.compare.paired import Pairs
from lab.compare.statistics import LEVEL
from lab.gate.evidence import Evidence
from lab.gate.keys import BASELINE, CONTROL_ARM
from lab.gate.line import FAIL, PASS, Line
from lab.gate.measures import judge_compared
from lab.gate.policy import Control, Policy, Rule
from lab.golden.model import is_added
from lab.measures.catalogue import entry_of
from lab.measures.score import score_run
from lab.recordings.model import MUST
from lab.replay.plan import Plan, plan_of
from lab.runs.directory import RunDirectory
from lab.runs.receipts import read_receipts
from lab.runs.scores import Values
from lab.systems.openclaw.seed.exact_hit import exact_hit

# What a candidate is compared with: a constant, or arms with their weights in a mean.
Reference = float | Mapping[str, float]
# Categories of the memories that seed 001 requires: decisions and preferences.
SOUGHT = ("decision", "preference")


class Measured:
    """The scores and receipts of a finished run, and its recordings."""

    def __init__(self, run: RunDirectory, plan: Plan | None = None) -> None:
        """``plan`` is the plan of the run; by default it is made again when it is needed."""
        self.run = run
        self.k = run.cutoff
        self._given = plan
        self._equal = equal_in(run)
        self._values: dict[str, dict[str, Values]] = {}
        self._reading = Reading()

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Values]]:
        """All values by arm and measure."""
        scores = score_run(self.run)
        return {arm: scores.all_of_arm(arm) for arm in self.run.arms}

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run, with its recordings."""
        return self._given or plan_of(self.run)

    def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
        """Return cluster and value of an arm by probe, turn or conversation, without missing values."""
        values = self.scores[arm].get(measure)
        if values is None:
            return {}
        return {
            at: (self._equal.get(conversation, conversation), value)
            for at, conversation, value in zip(*values, strict=True)
            if not math.isnan(value)
        }

    def mean(self, arm: str, measure: str) -> float | None:
        """Return the mean of an arm; None without values."""
        values = [value for _, value in self.known(arm, measure).values()]
        return math.fsum(values) / len(values) if values else None

    def pairs(
        self, measure: str, candidate: str, reference: Reference, only: Collection[str] | None = None
    ) -> Pairs | None:
        """Return the candidate's values with those of the reference, as a weighted mean of its arms; None without any.

        A value that is missing in one arm and present in another counts as the measure's value for missing ones; if
        there is none, the unit is left out. ``only`` restricts the units.
        """
        arms = {} if isinstance(reference, float) else dict(reference)
        columns = {arm: self.known(arm, measure) for arm in (candidate, *arms)}
        entry = entry_of(measure)
        missing = entry.missing if entry else None
        pairs = Pairs(measure, [], [], [], [])
        units = {at: cluster for column in columns.values() for at, (cluster, _) in column.items()}
        for at, cluster in units.items():
            present = {arm: column[at][1] for arm, column in columns.items() if at in column}
            if (only is not None and at not in only) or (missing is None and len(present) < len(columns)):
                continue
            value = {arm: present.get(arm, missing or 0.0) for arm in columns}
            pairs.at.append(at)
            pairs.conversation.append(cluster)
            pairs.candidate.append(value[candidate])
            pairs.baseline.append(
                reference if isinstance(reference, float) else sum(weight * value[arm] for arm, weight in arms.items())
            )
        if not pairs.at:
            return None
        known = {arm: set(column) for arm, column in columns.items()}
        complete = set.intersection(*(known[arm] for arm in arms)) if arms else set(pairs.at)
        return pairs._replace(
            filled_baseline=sum(at not in complete for at in pairs.at),
            filled_candidate=sum(at not in known[candidate] for at in pairs.at),
        )

    def turns(
        self, line: Line, candidate: str, reference: Reference, better: str, only: Collection[str] | None = None
    ) -> Turns | None:
        """Return what turns the line of a test (:func:`shown`); None if nothing is shown, or no judgement does."""
        if line.status not in (PASS, FAIL):
            return None
        weight = (1.0 if line.status == PASS else -1.0) * (-1.0 if better == "lower" else 1.0)
        others = {} if isinstance(reference, float) else reference
        arms = [Arm(self.run, candidate, weight)]
        arms += [Arm(self.run, name, -weight * share) for name, share in others.items()]
        shift = -weight * reference if isinstance(reference, float) else 0.0
        conclusion = Conclusion(LEVEL, False, LEVEL, True)
        return what_turns(arms, line.measure, conclusion, self._reading, shift=shift, probes=only)

    def must_items(self, arm: str) -> float:
        """Return the mean number of must_remember items per recall turn that may not repeat."""
        turns = items = 0
        for conversation in self.run.conversations:
            receipts = read_receipts(self.run, conversation)
            rows = receipts.rows_of(arm)
            rows = rows[receipts.is_recall_turn[rows]]
            turns += len(rows)
            items += int(receipts.injected_of(rows).must.sum())
        return items / turns if turns else 0.0

    def must_pool(self, arm: str) -> float:
        """Return the mean number of must_remember memories that an arm can inject at a recall turn.

        Those that its Working Set holds are no items, so they do not count.
        """
        return self._pool(arm, lambda _: True)

    def smaller_haystack(self, arm: str, pool: float) -> int | None:
        """Return a smaller haystack, of one significant digit, that leaves about ``pool`` must memories to inject.

        None without a haystack, or if no smaller one does.
        """
        haystack = self.run.manifest.resolved.haystack
        own = self._pool(arm, lambda key: not is_added(key))
        added = self.must_pool(arm) - own
        if haystack is None or added <= 0:
            return None
        size = int(haystack.memories * (pool - own) / added)
        size = round(size, 1 - len(str(size)))
        return size if 0 < size < haystack.memories else None

    def _pool(self, arm: str, counts: Callable[[str], bool]) -> float:
        turns = pool = 0
        for recording in self.plan.recordings:
            must = {memory.key: memory for memory in self.plan.memories_of(recording) if memory.label == MUST}
            must = {key: memory for key, memory in must.items() if counts(key)}
            for point in self.plan.recall_points_of(recording):
                everywhere = self.plan.request.scope == "none" or point.scope is None
                if point.is_recall_turn:
                    turns += 1
                    pool += sum(
                        memory.is_visible_at(point.seq) and (everywhere or memory.scope == point.scope)
                        for memory in must.values()
                    )
            receipts = read_receipts(self.run, recording.conversation)
            rows = receipts.rows_of(arm)
            rows = rows[receipts.is_recall_turn[rows]]
            pool -= sum(key in must for keys in receipts.pinned_keys_of(rows) for key in keys)
        return pool / turns if turns else 0.0

    def concept_probes(self) -> tuple[set[str], int]:
        """Return the probes that need decisions or preferences by concept, and how many need them at all.

        A probe needs them if one of its relevant memories has such a category, and by concept if no relevant memory
        is an exact hit of its prompt: a name, code or quoted phrase needs no concept.
        """
        probes: set[str] = set()
        asking = 0
        for recording in self.plan.recordings:
            memories = {memory.key: memory for memory in self.plan.memories_of(recording)}
            for point in self.plan.recall_points_of(recording):
                relevant = [memories[key] for key in (point.probe.grades if point.probe else ()) if key in memories]
                if any(memory.category in SOUGHT for memory in relevant):
                    asking += 1
                    if all(exact_hit(point.text, memory.text, None) is None for memory in relevant):
                        probes.add(point.key)
        return probes, asking


def named(reference: Reference) -> str | None:
    """Return the name of a reference; None for a constant."""
    if isinstance(reference, float):
        return None
    return next(iter(reference)) if len(reference) == 1 else f"the mean of {' and '.join(reference)}"


def shown(pairs: Pairs, better: str, reference: str | None = None) -> Line:
    """Test whether the candidate is better than the reference, by an improve rule of the gate.

    ``better`` is the direction, ``reference`` the name of the reference; None for a constant. One-sided at 5 %,
    clustered by conversation, with a sign-flip test by conversation.
    """
    side = CONTROL_ARM if reference else BASELINE
    rule = Rule("improve", pairs.measure, direction=better, against=side)
    control = Control(reference, "", "") if reference else None
    policy = Policy("acceptance", "", "reference", "candidate", 0, (rule,), control=control)
    of_measure = {pairs.measure: pairs}
    (line,) = judge_compared(policy, [rule], Evidence({}, of_measure, {}, control=of_measure))
    return line


def share_of(pairs: Pairs, limit: float) -> Pairs:
    """Return pairs whose candidate values are 1 where a value is at most the limit, else 0."""
    return pairs._replace(candidate=[float(value <= limit) for value in pairs.candidate])
