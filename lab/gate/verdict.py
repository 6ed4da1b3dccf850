"""From a policy and what it is given to a verdict: pass, fail, inconclusive or error, each rule with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from lab.canary.audit import nothing_found
from lab.compare.equal import equal_notes
from lab.compare.paired import locate
from lab.errors import UnusableInput
from lab.files import digest
from lab.gate.compared import KINDS, evidence, judge_compared
from lab.gate.exact import judge_exact
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS, SKIPPED, Line, lacking, line
from lab.gate.policy import SHIPPED, Policy, Rule
from lab.gate.receipts import judge_receipts
from lab.gate.timed import judge_latency
from lab.replay.embedders import embedder_notes
from lab.runs.directory import RunDirectory
from lab.runs.records import to_json
from lab.runs.trial import trial_of

__all__ = ["ERROR", "EXIT", "FAIL", "GRAVITY", "INCONCLUSIVE", "PASS", "SKIPPED", "Line", "Verdict", "judge", "overall"]

EXIT = {PASS: 0, FAIL: 1, INCONCLUSIVE: 3, ERROR: 4}
SCHEMA = "lab.verdict.v1"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict was made from, as digests: :func:`key_of` the policy, and the content of each run.

    ``others`` are the runs that the judged one was compared with, by path; ``policy_file`` is where a policy that is
    not a shipped one was read.
    """

    policy: str
    run: str | None
    others: Mapping[str, str]
    policy_file: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a policy over a run, an audit, or both.

    ``against`` is the run that the candidate was compared with, where it was not the baseline of its own; ``audit``
    says which live receipts were judged, and what to ask where there were none. ``embedder`` holds notes on arms whose
    configuration names another embedder, and on conversations that count as one; ``trial`` what makes the runs a trial.
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
    evidence: Evidence | None = None

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return EXIT[self.status]

    def as_json(self) -> dict[str, Any]:
        """Plain values, as verdict.json has them."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        evidence = asdict(self.evidence) if self.evidence else None
        first = {"schema": SCHEMA, "trial": list(self.trial)}
        return first | own | {"lines": [asdict(one) for one in self.lines], "evidence": evidence}


def judge(
    policy: Policy,
    run: RunDirectory | None = None,
    *,
    against: RunDirectory | None = None,
    audit: Mapping[str, Any] | None = None,
) -> Verdict:
    """Judge a run, an audit of receipts, or both, by a policy.

    ``against`` is another run, whose arm of the candidate's name takes the place of the baseline. A rule that needs
    what was not given is an error, or skipped where it may lack data. Raises what
    :func:`lab.gate.compared.evidence` raises, and :class:`UnusableInput` where nothing that is asked was given.
    """
    if against is not None and run is None:
        raise UnusableInput(f"policy {policy.name}: a run to compare with was given, and none to judge; name DIR")
    if not any(_given(rule, run, audit) for rule in policy.rules):
        raise UnusableInput(f"policy {policy.name}: nothing that it asks about was given; {_wanted(policy)}")
    if run is not None:
        mine, candidate = locate(run, policy.candidate)
        if mine.arm(candidate).needs_gold:
            raise UnusableInput(f"policy {policy.name}: candidate {candidate} is told what the golden set wants")
    lines: list[Line] = []
    for kinds in (KINDS, ("receipts",), ("latency",), ("exact",)):
        rules = [rule for rule in policy.rules if rule.kind in kinds]
        others = {rule: one for rule in rules if (one := _not_asked(policy, rule, run, against, audit))}
        asked = [rule for rule in rules if rule not in others]
        if asked:
            lines += _judged(policy, asked, run, against, audit)
        lines += others.values()
    baseline = policy.baseline if run and not against else None
    return Verdict(
        policy.name,
        policy.about,
        str(run.path) if run else None,
        f"{against.path}:{policy.candidate}" if against else baseline,
        policy.candidate if run else None,
        overall(lines),
        tuple(lines),
        policy.rollback,
        str(against.path) if against else None,
        _receipts_judged(audit),
        tuple(
            dict.fromkeys(
                note
                for one in (run, against)
                if one
                for note in (*embedder_notes(one.manifest.resolved), *equal_notes(one))
            )
        ),
        trial_of(*_runs(policy, run, against)),
        _evidence(policy, run, against),
    )


def key_of(policy: Policy) -> str:
    """sha256 of what a policy asks, wherever it was read."""
    return digest(asdict(replace(policy, file=None)))


def _runs(policy: Policy, run: RunDirectory | None, against: RunDirectory | None) -> list[RunDirectory]:
    """Every run that is looked at: an arm of a policy may be one of another run."""
    found = [one for one in (run, against) if one is not None]
    if run is not None:
        found += [locate(run, name)[0] for name in (policy.baseline, policy.candidate) if ":" in name]
    return list({one.path.resolve(): one for one in reversed(found)}.values())[::-1]


def _evidence(policy: Policy, run: RunDirectory | None, against: RunDirectory | None) -> Evidence:
    others = {str(one.path): one.content for one in _runs(policy, run, against) if one is not run}
    is_shipped = policy.file is None or Path(policy.file).parent == SHIPPED
    return Evidence(key_of(policy), run.content if run else None, others, None if is_shipped else policy.file)


def overall(lines: Sequence[Line]) -> str:
    """The gravest status among critical lines that were asked; where none was, nothing was measured."""
    return min(
        (one.status for one in lines if one.critical and one.status != SKIPPED), key=GRAVITY.index, default=ERROR
    )


def _judged(
    policy: Policy,
    rules: Sequence[Rule],
    run: RunDirectory | None,
    against: RunDirectory | None,
    audit: Mapping[str, Any] | None,
) -> Iterator[Line]:
    """Lines of rules of one family, which were given what they need."""
    kind = rules[0].kind
    if kind == "receipts" and audit is not None:
        yield from judge_receipts(policy, rules, audit)
    elif kind == "latency" and run is not None:
        yield from judge_latency(policy, rules, run, against)
    elif kind == "exact" and run is not None and against is not None:
        yield from judge_exact(policy, rules, run, against)
    elif run is not None:
        yield from judge_compared(policy, rules, evidence(policy, rules, run, against))


def _given(rule: Rule, run: RunDirectory | None, audit: Mapping[str, Any] | None) -> bool:
    return (audit if rule.kind == "receipts" else run) is not None


def _wanted(policy: Policy) -> str:
    """What it needs, and what it takes where there is some."""
    every = {"--receipts AUDIT" if rule.kind == "receipts" else "DIR" for rule in policy.rules}
    needs = {
        "--receipts AUDIT" if rule.kind == "receipts" else "DIR" for rule in policy.rules if rule.must_have_data
    } or every
    takes = "".join(f", and takes {one} as well" for one in sorted(every - needs))
    return f"it needs {' and '.join(sorted(needs))}{takes}"


def _not_asked(
    policy: Policy,
    rule: Rule,
    run: RunDirectory | None,
    against: RunDirectory | None,
    audit: Mapping[str, Any] | None,
) -> Line | None:
    """The line of a rule that lacks what it needs, or that is not meant for this run."""
    if rule.kind == "receipts":
        return (
            None
            if audit is not None
            else lacking(rule, "asks for an audit of receipts, and none was given: --receipts AUDIT")
        )
    if run is None:
        return lacking(rule, "asks for a run, and none was given: lab gate DIR")
    for key, wanted in rule.only_where:
        found = _resolved(rule, key, run, policy.candidate)
        if found != wanted:
            expected, is_now = (list(one) if isinstance(one, tuple) else one for one in (wanted, found))
            return line(rule, SKIPPED, f"asked only where {key} is {expected!r}, and here it is {is_now!r}")
    if rule.kind == "exact" and against is None:
        return lacking(rule, "asks for a run to compare with, and none was given: --against DIR2")
    return None


def _resolved(rule: Rule, key: str, run: RunDirectory, candidate: str) -> object:
    """What a run resolved a key to, or the arm that is judged: ``arm.config.autoRecall.maxItems``."""
    what, path = "a run", [key]
    found: object = to_json(run.manifest.resolved)
    if key.startswith("arm."):
        mine, name = locate(run, candidate)
        what, path = f"arm {name}", key.split(".")[1:]
        found = to_json(mine.arm(name))
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            known = ", ".join(sorted(found)) if isinstance(found, Mapping) else "no parts"
            raise UnusableInput(f"{rule.kind} {rule.measure}: only_where: {what} has no {key!r}; it has: {known}")
        found = found[part]
    return tuple(found) if isinstance(found, list) else found


def _receipts_judged(audit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if audit is None:
        return None
    recalls = audit["recalls"]
    return {
        "silent": nothing_found(audit),
        "files": [one["file"] for one in audit["files"]],
        "receipts": recalls["receipts"],
        "answered": recalls["answered"],
        "first_time": audit.get("first_time"),
        "last_time": audit.get("last_time"),
    }
