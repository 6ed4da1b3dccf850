"""Judge runs and audits of live receipts by a gate policy.

The verdict is pass, fail, inconclusive or error, with a reason for each rule.

**Exact rules** check whether the candidate's receipts equal those of another run, bit for bit.

**Wait rules** compare what recalls of a live engine took with a control (:mod:`lab.gate.waits`).

**Latency rules** limit quantiles of a run's warm turns. The first turn of each conversation is cold, the others are
warm. A rule passes if the upper bound of the quantile is within the limit, fails if the lower bound exceeds it, and is
inconclusive otherwise. The bounds are distribution-free.

**A control** shows whether what the candidate adds is worth having. The claim is shown if the candidate is better
than the control in at least one worth rule, Holm-corrected over them, and no guard against the control fails. The
denial is shown if it is better in none and either a guard against the control fails or every worth rule is shown not to
hold. Anything else is not shown either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from lab.base.errors import LabError, UnusableInput
from lab.base.files import digest
from lab.base.formatting import choices, counted, number
from lab.base.set_registry import golden_beside
from lab.base.shape import json_type, optional, to_json
from lab.compare.comparable import equal_notes, named
from lab.compare.paired import locate
from lab.gate.evidence import evidence
from lab.gate.labels import judged_labels, turning
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS, SKIPPED, Line, deciding, lacking, line
from lab.gate.measures import KINDS, judge_compared
from lab.gate.policy import OF_AUDITS, Policy, Rule
from lab.gate.receipts import gateways, judge_receipts, nothing_found
from lab.gate.record import Inputs, record_of
from lab.gate.scheduled import interference
from lab.gate.shipped import is_shipped
from lab.gate.waits import judge_waits
from lab.golden.judging import aside
from lab.measures.latency import Quantile, least_n, quantile, warm_times
from lab.replay.plan import CATEGORIES, SCOPES
from lab.replay.timeline import RECALL_TURNS
from lab.retrieval.retrievers import STORES
from lab.runs.directory import RunDirectory
from lab.runs.notes import config_notes, trial_of
from lab.runs.scores import read_gold
from lab.systems.openclaw.config.table import PROFILES
from lab.systems.openclaw.select.policies import POLICIES


def judge_exact(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory) -> Iterator[Line]:
    """Yield one line per rule. Raises what :func:`lab.compare.changes.changes` raises."""
    from lab.compare.changes import cause, changes

    difference = changes(against, run)
    candidate = next((arm for arm in difference.arms if arm.arm == policy.candidate), None)
    for rule in rules:
        if candidate is None:
            yield lacking(rule, f"{against.path} has no arm {policy.candidate!r}")
            continue
        changed = len(candidate.changed)
        numbers: dict[str, Any] = {"n": candidate.turns, "candidate": changed, "limit": "0 turns changed"}
        if not changed and difference.common.others:
            yield line(rule, INCONCLUSIVE, f"cannot be compared: {difference.common}", **numbers)
            continue
        if not changed:
            yield line(rule, PASS, f"all {candidate.turns:,} turns equal those of {against.path}", **numbers)
            continue
        columns = ", ".join(
            f"{name} {count}" for name, count in sorted(candidate.columns.items(), key=lambda entry: -entry[1])
        )
        why = (
            f"{cause(difference.moved, policy.candidate)}: {changed:,} of {candidate.turns:,} turns changed against "
            f"{against.path} (columns: {columns})"
        )
        yield line(rule, FAIL, why, "if the change is intended, approve this run as the baseline", **numbers)


Times = Mapping[str, Sequence[float]]  # Durations of warm turns in milliseconds, by stage.


def judge_latency(
    policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None
) -> Iterator[Line]:
    """Yield one line per rule. Raises :class:`UnusableInput` for a stage that no turn has."""
    mine, arm = locate(run, policy.candidate)
    times = warm_times(mine).get(arm, {})
    base: Times = {}
    if any(rule.at_most_ratio is not None for rule in rules):
        other, baseline = locate(against or run, arm if against else policy.baseline)
        base = warm_times(other).get(baseline, {})
    for rule in rules:
        if times and rule.stage not in times:
            raise UnusableInput(f"latency {rule.measure}: no warm turn has this stage; stages: {', '.join(times)}")
        yield _line(rule, times.get(rule.stage, ()), base.get(rule.stage, ()), policy)


def _line(rule: Rule, times: Sequence[float], base: Sequence[float], policy: Policy) -> Line:
    if not times:
        return lacking(rule, "the run has no timings of warm turns")
    judged: list[tuple[str, str]] = []
    result = _quantile(times, rule, policy.level)
    if rule.at_most_ms is not None and result is not None:
        status = _status(result, rule.at_most_ms)
        judged.append((status, f"{_with_bounds(result, 'ms')}; the policy requires at most {rule.at_most_ms:g} ms"))
    ratio = _ratio(times, base, rule, policy.level / 2)
    if rule.at_most_ratio is not None and ratio is not None:
        status = _status(ratio, rule.at_most_ratio)
        judged.append(
            (status, f"{_with_bounds(ratio, 'times the baseline')}; the policy requires at most {rule.at_most_ratio:g}")
        )
    limits = ((rule.at_most_ms, "ms"), (rule.at_most_ratio, "x"))
    limit = " and ".join(f"at most {value:g} {unit}" for value, unit in limits if value is not None)
    limits_set = sum(value is not None for value, _ in limits)
    numbers = {"n": len(times), "limit": limit, "candidate": result.value if result else None}
    problem = settles = None
    if len(judged) < limits_set:
        level = policy.level / 2 if rule.at_most_ratio is not None else policy.level
        need = least_n(rule.quantile, 1 - 2 * level)
        fewest = len(times) if rule.at_most_ratio is None else min(len(times), len(base))
        if fewest < need:
            problem = f"{fewest} warm turns; a bound on this quantile needs {need}"
            settles = f"{counted(need - fewest, 'more warm turn')} in each arm"
        else:
            problem = "the baseline's time is too short to measure, so there is no ratio"
            settles = "a rule on a slower stage, or a limit in milliseconds"
    # One violated limit fails the rule, even if the other limit cannot be judged.
    if problem and FAIL not in {status for status, _ in judged}:
        return line(rule, INCONCLUSIVE, problem, settles, **numbers)
    status = min((status for status, _ in judged), key=GRAVITY.index)
    conclusion = {PASS: "shown to hold", FAIL: "shown to be violated", INCONCLUSIVE: "not shown to hold"}[status]
    words = "; ".join([text for _, text in judged] + ([problem] if problem else []))
    why = f"{words} (over {len(times)} warm turns): {conclusion}"
    settles = "more warm turns, or a less busy machine" if status == INCONCLUSIVE else None
    shown = result if rule.at_most_ms is not None else ratio
    bounds = {"low": shown.low, "high": shown.high, "confidence": 1 - 2 * policy.level} if shown else {}
    return line(rule, status, why, settles, **numbers, **bounds)


def _quantile(times: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    return quantile(times, rule.quantile, 1 - 2 * level) if times else None


def _ratio(times: Sequence[float], base: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    """Return the quantile divided by the baseline's; its bounds combine both, each at half the level (Bonferroni)."""
    mine, theirs = _quantile(times, rule, level), _quantile(base, rule, level)
    if mine is None or theirs is None or theirs.low <= 0:
        return None
    return Quantile(mine.value / theirs.value, mine.low / theirs.high, mine.high / theirs.low)


def _status(value: Quantile, most: float) -> str:
    return PASS if value.high <= most else FAIL if value.low > most else INCONCLUSIVE


def _with_bounds(value: Quantile, unit: str) -> str:
    return f"{value.value:.3g} {unit} (bounds {value.low:.3g} and {value.high:.3g})"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: ``status`` is pass for the claim, fail for the denial, else inconclusive; ``sentence`` says why."""

    arm: str
    status: str
    sentence: str


def answer_of(policy: Policy, lines: Sequence[Line]) -> Answer | None:
    """Return the answer; None if the policy has no control or no rule against it was judged."""
    if policy.control is None:
        return None
    lines = [line for line in lines if line.against == policy.control.arm and line.difference is not None]
    worth = [line for line in lines if line.kind == "worth"]
    if not worth:
        return None
    better = [line for line in worth if line.status == PASS]
    worse = [line for line in lines if line.kind in ("guard", "slice") and line.critical and line.status == FAIL]
    arm = policy.control.arm
    if better and not worse:
        return Answer(arm, PASS, f"{policy.control.claim}: better than {arm} in {_beside_control(better)}")
    if better:
        why = f"better than {arm} in {_beside_control(better)}, but worse in {_beside_control(worse)}"
        return Answer(arm, INCONCLUSIVE, f"it is not shown that {policy.control.claim}: {why}")
    if worse:
        return Answer(
            arm, FAIL, f"{policy.control.denial}: worse than {arm} in {_beside_control(worse)}, and better in nothing"
        )
    if all(line.status == FAIL for line in worth):
        return Answer(arm, FAIL, f"{policy.control.denial}: {arm} does as well in {_beside_control(worth)}")
    measured = [line for line in worth if line.low is not None]
    why = f"not shown to be better than {arm} in {_beside_control(measured)}"
    if not measured:
        most = max(line.conversations or 0 for line in worth)
        why = f"{counted(most, 'conversation')} {'is' if most == 1 else 'are'} too few to compare it with {arm}"
    return Answer(arm, INCONCLUSIVE, f"it is not shown that {policy.control.claim}: {why}")


def _beside_control(lines: Sequence[Line]) -> str:
    return ", ".join(
        f"{line.measure}{f' [{line.slice}]' if line.slice else ''} "
        f"({number(line.candidate)} against {number(line.baseline)})"
        for line in lines
    )


__all__ = ["ERROR", "EXIT", "FAIL", "GRAVITY", "INCONCLUSIVE", "PASS", "SKIPPED", "Line", "Verdict", "judge", "overall"]

EXIT = {PASS: 0, FAIL: 1, INCONCLUSIVE: 3, ERROR: 4}
SCHEMA = "lab.verdict.v1"
READS_GOLD = "reads the golden set"
# Why a rule on live receipts was not judged, and what to add.
NO_AUDIT = "needs an audit of receipts", "add AUDIT"
NOT_JUDGED = "to judge are not judged yet"

# What settings are one of, by the last part of their key; rules may name them in only_where.
NAMES_OF = {
    "scope": (*SCOPES,),
    "store": (*STORES,),
    "categories": CATEGORIES,
    "recall_turns": (*RECALL_TURNS,),
    "profile": PROFILES,
    "selectionMode": (*POLICIES,),
}

# The kinds of rules, by what judges them together; every kind of a policy stands here.
JUDGED = (KINDS, ("receipts",), ("wait",), ("latency",), ("exact",))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a policy on a run, an audit, or both.

    ``policy`` is its label (:attr:`Policy.label`), not what it calls itself. ``against`` is the path of the other run
    that the candidate was compared with, if any. ``audit`` describes the live
    receipts that were judged; if there were none, its ``silent`` says what to check. ``embedder`` holds notes on arms
    configured for another embedder than the run's, on copies of a conversation, which count once, and on the audit.
    ``trial`` holds the reasons why the results are not evidence. ``control`` answers whether the candidate is worth
    having beside the policy's control. ``judged`` has Judged@k of the compared arms: ``k``, ``shares`` and, if they
    differ, ``apart``. ``undone`` says that the judged canary was rolled back, so that nothing is left to roll back.
    ``turns`` says by how many wrong judgements the verdict turns, if that was to be found.
    """

    policy: str
    about: str
    run: str | None
    baseline: str | None
    candidate: str | None
    status: str
    lines: tuple[Line, ...]
    rollback: str | None = None
    against: str | None = None
    audit: Mapping[str, Any] | None = None
    embedder: tuple[str, ...] = ()
    trial: tuple[str, ...] = ()
    evidence: Inputs | None = None
    control: Answer | None = None
    judged: Mapping[str, Any] | None = None
    undone: str | None = None
    turns: Mapping[str, Any] | None = None

    @property
    def unmeasured(self) -> list[str]:
        """Return the measures of critical rules that the data cannot have, each once."""
        return list(dict.fromkeys(line.measure for line in self.lines if line.critical and line.unmeasured))

    @property
    def passes_measured(self) -> bool:
        """Return whether some critical rules could not be measured, and all others pass."""
        return bool(self.unmeasured) and overall([line for line in self.lines if not line.unmeasured]) == PASS

    @property
    def on_what(self) -> str:
        """Return what follows the word of the verdict if only what was measured passes."""
        if not self.passes_measured:
            return ""
        return " on what was measured" if self.status == PASS else " (pass on what was measured)"

    @property
    def turning(self) -> str:
        """Return the sentence on how many wrong judgements turn this verdict; empty if none is known."""
        return self.turns["sentence"] if self.turns and self.turns["status"] == self.status else ""

    @property
    def exit_code(self) -> int:
        """Return the exit code: 0 pass, 1 fail, 3 inconclusive, 4 error."""
        return EXIT[self.status]

    def as_json(self) -> dict[str, Any]:
        """Return the content of verdict.json as plain values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        first = {"schema": SCHEMA, "trial": list(self.trial)}
        last = {
            "lines": [asdict(line) for line in self.lines],
            "evidence": asdict(self.evidence) if self.evidence else None,
            "control": asdict(self.control) if self.control else None,
        }
        return first | values | last


def on_what(verdicts: Iterable[Verdict]) -> str:
    """Return what follows the word of several verdicts if all pass, some of them only on what was measured."""
    found = list(verdicts)
    passing = all(verdict.status == PASS for verdict in found)
    return next((verdict.on_what for verdict in found if passing and verdict.on_what), "")


def judge(
    policy: Policy,
    run: RunDirectory | None = None,
    *,
    against: RunDirectory | None = None,
    audit: Mapping[str, Any] | None = None,
    audit_file: Path | None = None,
    control: Mapping[str, Any] | None = None,
    control_file: Path | None = None,
    turns: bool = False,
) -> Verdict:
    """Judge a run, an audit of receipts, or both, by a policy.

    ``against`` is another run; its arm with the candidate's name replaces the baseline. ``control`` is another audit,
    with which wait rules compare. ``audit_file`` and ``control_file`` are where the audits are, for the verdict to
    name. ``turns`` looks for the wrong judgements that turn the verdict. If the input of a rule is missing, the rule's
    status is as ``without_data`` says. Raises what :func:`lab.gate.measures.evidence` raises, and
    :class:`UnusableInput` if the input of every rule is missing.
    """
    if against is not None and run is None:
        raise UnusableInput(f"policy {policy.name}: there is a run to compare with, but none to judge; add DIR")
    if not any(_given(rule, run, audit) for rule in policy.rules):
        raise UnusableInput(f"policy {policy.name}: the input of every rule is missing; {_needs(policy)}")
    if run is not None:
        for rule in policy.rules:
            _require_facts(rule, run, policy.candidate)
    lines: list[Line] = []
    judged_shares: Mapping[str, Any] | None = None
    measured: list[Rule] = []
    for kinds in JUDGED:
        rules = [rule for rule in policy.rules if rule.kind in kinds]
        without_input = {rule: result for rule in rules if (result := _unjudged(policy, rule, run, against, audit))}
        judged = [rule for rule in rules if rule not in without_input]
        if judged and kinds is KINDS and run is not None:
            data = evidence(policy, judged, run, against)
            judged_shares, measured = data.judged, judged
            lines += judge_compared(policy, judged, data)
        elif judged:
            lines += _judged(policy, judged, run, against, audit, control)
        lines += without_input.values()
    turning_it = None
    if run is not None and measured and (turns or policy.wrong_judgements):
        turning_it = turning(policy, measured, run, against, lines)
        if (labels := judged_labels(policy, turning_it)) is not None:
            lines.append(labels)
    baseline = policy.baseline if run and not against else None
    return Verdict(
        policy.label,
        policy.about,
        str(run.path) if run else None,
        f"{against.path}:{policy.candidate}" if against else baseline,
        policy.candidate if run else None,
        overall(lines),
        tuple(lines),
        _rollback(policy, audit),
        str(against.path) if against else None,
        _receipts_judged(audit),
        tuple(
            dict.fromkeys(
                note
                for judged_run in (run, against)
                if judged_run
                for note in (
                    *judged_run.manifest.notes,
                    *config_notes(judged_run.manifest.resolved),
                    *equal_notes(judged_run.manifest.resolved.equal_conversations),
                    *_open_turns(judged_run),
                )
            )
        )
        + _of_audit(policy, audit),
        (*_oracles(policy, run), *trial_of(*_runs(policy, run, against))),
        _inputs(policy, run, against, audit, audit_file, control, control_file),
        answer_of(policy, lines),
        judged_shares,
        turns=turning_it.as_json() if turning_it else None,
    )


def _oracles(policy: Policy, run: RunDirectory | None) -> Iterator[str]:
    """Yield why a verdict on an arm that reads the golden set is a bound, and no evidence for switching to it."""
    if run is not None:
        mine, candidate = locate(run, policy.candidate)
        if mine.arm(candidate).needs_gold:
            yield f"{candidate} {READS_GOLD}"


def _open_turns(run: RunDirectory) -> Iterator[str]:
    """Yield a note on the turns that were drawn to judge and are not judged yet, by the side file of the golden set."""
    asked = run.manifest.asked
    golden = asked.get("golden") or golden_beside(Path(str(asked["path"])))
    if not golden:
        return
    try:
        waiting = aside(Path(str(golden))).open
    except LabError:
        # A judge may be writing it.
        return
    judged = read_gold(run)
    if left := [turn for turn in waiting if turn not in judged]:
        yield (
            f"{len(left)} of {counted(len(left) + len(judged), 'turn')} {NOT_JUDGED}: {named(left)}; "
            "`lab golden judge` continues, and a replay takes what is judged then"
        )


def _of_audit(policy: Policy, audit: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return notes on more recalls than the policy's limits are meant for, on shared captures, and on mixed logs."""
    if audit is None:
        return ()
    answered, most = audit["recalls"]["answered"], policy.maximum_receipts
    long = (
        f"{answered:,} answered recalls: the policy is meant for at most {most:,} at a time; audit a shorter window"
        if most is not None and answered > most
        else None
    )
    return tuple(note for note in (long, interference(audit), gateways(audit)) if note)


def _rollback(policy: Policy, audit: Mapping[str, Any] | None) -> str | None:
    """Return what to do unless the verdict is a pass.

    Nothing can be rolled back if the audit says that nothing was switched. The selection policy alone cannot be if
    every audited recall already used that of the baseline.
    """
    if audit is not None and audit.get("switched") is False:
        return None
    if policy.rollback is None or policy.rollback_selection is None:
        return policy.rollback
    modes = optional(dict(audit or {}), "selection_mode", dict, {}, "audit")
    if {mode for mode, used in modes.items() if optional(used, "count", int, 0, "audit")} == {policy.baseline}:
        return policy.rollback
    return f"{policy.rollback}; for the selection policy alone, {policy.rollback_selection}"


def _runs(policy: Policy, run: RunDirectory | None, against: RunDirectory | None) -> list[RunDirectory]:
    """Return every run of the verdict once; the policy may name arms of other runs (``DIR:ARM``)."""
    runs = [given for given in (run, against) if given is not None]
    names = (policy.baseline, policy.candidate, *([policy.control.arm] if policy.control else ()))
    if run is not None:
        runs += [locate(run, name)[0] for name in names if ":" in name]
    return list({each.path.resolve(): each for each in reversed(runs)}.values())[::-1]


def _inputs(
    policy: Policy,
    run: RunDirectory | None,
    against: RunDirectory | None,
    audit: Mapping[str, Any] | None,
    audit_file: Path | None,
    control: Mapping[str, Any] | None,
    control_file: Path | None,
) -> Inputs:
    others = {str(other.path): other.content for other in _runs(policy, run, against) if other is not run}
    if control is not None and any(rule.kind in OF_AUDITS for rule in policy.rules):
        others[str(control_file)] = digest(control)
    return Inputs(
        policy.key,
        run.content if run else None,
        others,
        None if is_shipped(policy.file) else policy.file,
        digest(audit) if audit is not None else None,
        str(audit_file) if audit_file else None,
        record_of(run) if run else None,
    )


def overall(lines: Sequence[Line]) -> str:
    """Return the most severe status of the critical lines that were evaluated; error if there are none."""
    return min((line.status for line in deciding(lines)), key=GRAVITY.index, default=ERROR)


def _judged(
    policy: Policy,
    rules: Sequence[Rule],
    run: RunDirectory | None,
    against: RunDirectory | None,
    audit: Mapping[str, Any] | None,
    control: Mapping[str, Any] | None,
) -> Iterator[Line]:
    """Yield the lines of rules that are judged together and whose inputs are present."""
    kind = rules[0].kind
    if kind == "receipts" and audit is not None:
        yield from judge_receipts(policy, rules, audit, control)
    elif kind == "wait" and audit is not None:
        yield from judge_waits(policy, rules, audit, control)
    elif kind == "latency" and run is not None:
        yield from judge_latency(policy, rules, run, against)
    elif kind == "exact" and run is not None and against is not None:
        yield from judge_exact(policy, rules, run, against)


def _given(rule: Rule, run: RunDirectory | None, audit: Mapping[str, Any] | None) -> bool:
    return (audit if rule.kind in OF_AUDITS else run) is not None


def _needs(policy: Policy) -> str:
    """Describe the required and the optional inputs of a policy."""
    every = {"AUDIT" if rule.kind in OF_AUDITS else "DIR" for rule in policy.rules}
    needs = {"AUDIT" if rule.kind in OF_AUDITS else "DIR" for rule in policy.rules if rule.must_have_data} or every
    takes = "".join(f", and can use {extra}" for extra in sorted(every - needs))
    return f"it needs {' and '.join(sorted(needs))}{takes}"


def _unjudged(
    policy: Policy,
    rule: Rule,
    run: RunDirectory | None,
    against: RunDirectory | None,
    audit: Mapping[str, Any] | None,
) -> Line | None:
    """Return the line of a rule that lacks its input or does not apply to this run; None if it can be judged."""
    if rule.kind in OF_AUDITS:
        return None if audit is not None else _ungiven(policy, rule, *NO_AUDIT)
    if run is None:
        return _ungiven(policy, rule, "needs a run", "name it: lab gate DIR")
    for key, expected in rule.only_where:
        actual = _resolved(rule, key, run, policy.candidate)
        if actual != expected:
            shown, shown_actual = (list(value) if isinstance(value, tuple) else value for value in (expected, actual))
            return line(rule, SKIPPED, f"applies only if {key} is {shown!r}; here it is {shown_actual!r}")
    if rule.kind == "exact" and against is None:
        return lacking(rule, "needs a run to compare with", "add --against DIR2")
    return None


def _ungiven(policy: Policy, rule: Rule, why: str, remedy: str) -> Line:
    """Return the line of a rule whose input was not given.

    All rules on that input have one cause and so one status: that of the most severe ``without_data`` among them. A
    rule's own ``without_data`` is about data that its input lacks.
    """
    of_audits = rule.kind in OF_AUDITS
    severity = ("skip", "inconclusive", "error")
    without = max(
        (other.without_data for other in policy.rules if (other.kind in OF_AUDITS) == of_audits), key=severity.index
    )
    return lacking(replace(rule, without_data=without), why, remedy)


def _resolved(rule: Rule, key: str, run: RunDirectory, candidate: str) -> object:
    """Return the resolved value of a key of the run, or of the candidate arm if the key begins with ``arm.``.

    An example is ``arm.config.autoRecall.maxItems``. Raises :class:`UnusableInput` for an unknown key.
    """
    owner, path = "a run", [key]
    value: object = to_json(run.manifest.resolved)
    if key.startswith("arm."):
        mine, name = locate(run, candidate)
        owner, path = f"arm {name}", key.split(".")[1:]
        value = to_json(mine.arm(name))
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            names = ", ".join(sorted(value)) if isinstance(value, Mapping) else "no keys"
            raise UnusableInput(f"{rule.kind} {rule.measure}: only_where: {owner} has no {key!r}; it has: {names}")
        value = value[part]
    return tuple(value) if isinstance(value, list) else value


def _require_facts(rule: Rule, run: RunDirectory, candidate: str) -> None:
    """Raise :class:`UnusableInput` for a condition that no run can meet: another type, or a name that is none."""
    for key, expected in rule.only_where:
        actual = _resolved(rule, key, run, candidate)
        where = f"{rule.kind} {rule.measure}: only_where: {key}"
        if actual is not None and json_type(expected) != json_type(actual):
            raise UnusableInput(f"{where}: is {json_type(actual)}, such as {actual!r}, and never {expected!r}")
        names = NAMES_OF.get(key.rpartition(".")[2] if key.startswith("arm.config.") else key, ())
        if actual in names and isinstance(expected, str) and expected not in names:
            raise UnusableInput(f"{where}: unknown value {expected!r}; {choices(expected, names)}")


def _receipts_judged(audit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if audit is None:
        return None
    recalls = audit["recalls"]
    return {
        "silent": nothing_found(audit),
        "files": [entry["file"] for entry in audit["files"]],
        "receipts": recalls["receipts"],
        "answered": recalls["answered"],
        "first_time": audit.get("first_time"),
        "last_time": audit.get("last_time"),
    }
