"""Judge the inputs of a stored verdict again, and name what differs.

A stored verdict is an output, and nothing follows from its words.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure, LabError
from lab.base.files import digest
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.gate.line import Line
from lab.gate.policy import Policy, read_policy
from lab.gate.receipts import read_audit, undone
from lab.gate.record import Inputs
from lab.gate.shipped import shipped_policies
from lab.gate.verdict import NOT_JUDGED, Verdict, judge, overall
from lab.runs.directory import AUDIT, RunDirectory, open_run


class Stale(CannotMeasure):
    """A stored verdict is not what its run, its audit and its policy give; the message says why, as a clause."""


class Unchecked(Stale):
    """What a stored verdict was made of is not there, so that it cannot be judged again."""


def rejudge(verdict: Verdict, folder: Path, run: RunDirectory | None = None) -> Verdict:
    """Return what the inputs of a stored verdict give when they are judged again: the same verdict, in fresh words.

    A stored verdict is an output, and nothing follows from its words. Its status must be that of its lines, its inputs
    must have the digests that it records, and its lines must be what they give. ``folder`` is where the verdict is, and
    ``run`` the run that it judges, if that is open. Raises :class:`Stale` if one of these does not hold, and
    :class:`Unchecked` if an input is not there.
    """

    def stale(problem: str) -> None:
        raise Stale(problem)

    try:
        again = judged_again(verdict, folder, run, stale)
    except Stale:
        raise
    except (LabError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Stale(f"it cannot be judged again: {error}") from None
    for problem in differences(verdict, again):
        stale(problem)
    return replace(again, evidence=verdict.evidence)


def judge_again(verdict: Verdict) -> str:
    """Return what mends a stale verdict: to run the gate again, by the file of its policy if it has one."""
    file = verdict.evidence.policy_file if verdict.evidence else None
    return "run lab gate again" + (f" with --policy {shlex.quote(file)}" if file else "")


def _recovers(rollback: str | None) -> bool:
    """Return whether a rollback is the command that recovers a canary, and nothing else."""
    try:
        words = shlex.split(rollback or "")
    except ValueError:
        return False
    return [*words[:3], *words[4:]] == ["lab", "canary", "recover", "--write"] and shlex.join(words) == rollback


def judged_again(verdict: Verdict, folder: Path, run: RunDirectory | None, changed: Callable[[str], None]) -> Verdict:
    """Return what the inputs of a stored verdict give; ``changed`` is given what has another digest than recorded.

    Raises :class:`Unchecked` if an input is not there, and :class:`Stale` if an audit has changed.
    """
    known = verdict.evidence
    if verdict.status != (derived := overall(verdict.lines)):
        changed(f"its status {verdict.status} does not follow from its rules, which say {derived}")
    if known is None:
        raise Unchecked("it does not record its policy and runs")
    judged = (run or _run_of(verdict, folder)) if verdict.run else None
    policies = _policies_of(verdict, known, folder, judged)
    policy = next((policy for policy in policies if policy.key == known.policy), None)
    if policy is None:
        changed(f"policy {verdict.policy} has changed since")
    if judged and judged.content != known.run:
        changed("the run has changed since")
    control = None
    for path, content in known.others.items():
        # A run is a folder.
        audits = [place for place in (Path(path), folder / Path(path).name) if place.is_file()]
        if audits:
            control = _control_of(audits[0], content)
        elif _compared_with(path).content != content:
            changed(f"{path}, the run that it was compared with, has changed since")
    against = _compared_with(verdict.against) if verdict.against else None
    audit = _audit_of(known, folder) if verdict.audit is not None else None
    again = judge(
        policy or policies[-1],
        judged,
        against=against,
        audit=audit,
        control=control,
        turns=verdict.turns is not None,
    )
    if verdict.audit is None:
        return again
    # What a canary did is beside its verdict, with the command that undoes it.
    back = verdict.rollback if _recovers(verdict.rollback) else again.rollback
    return replace(again, rollback=back, undone=undone(folder))


def _policies_of(verdict: Verdict, known: Inputs, folder: Path, run: RunDirectory | None) -> list[Policy]:
    """Return what may be the policy of a verdict, from where its file was and from beside the verdict."""
    name = verdict.policy.partition(" (")[0]
    names = [name] if known.policy_file is None and name in shipped_policies() else []
    if known.policy_file is not None:
        file = Path(known.policy_file)
        places = (file, folder / file.name, folder.parent / file.name)
        names = [str(place.absolute()) for place in places if place.is_file()]
    if not names:
        raise Unchecked(f"its policy {known.policy_file or verdict.policy} is not there")
    pair = (verdict.candidate, None if verdict.against else verdict.baseline, run.arms if run else ())
    return [one for policy in map(read_policy, names) for one in (policy, policy.of_pair(*pair))]


def _run_of(verdict: Verdict, folder: Path) -> RunDirectory:
    """Return the judged run: where the verdict is, or where it was."""
    for path in (folder, Path(str(verdict.run))):
        with suppress(LabError):
            return open_run(path)
    raise Unchecked(f"the judged run {verdict.run} is not there any more")


def _compared_with(path: str) -> RunDirectory:
    try:
        return open_run(Path(path))
    except LabError:
        raise Unchecked(f"{path}, the run that it was compared with, is not there any more") from None


def _audit_of(known: Inputs, folder: Path) -> Mapping[str, Any]:
    """Return the audit of a verdict, from beside the verdict or from where it was."""
    if known.audit is None:
        raise Unchecked("it does not record its audit")
    file = Path(known.audit_file or AUDIT)
    places = [place for place in (folder / AUDIT, folder / file.name, file) if place.is_file()]
    if not places:
        raise Unchecked(f"its audit {file} is not there")
    found = [audit for audit in map(read_audit, places) if digest(audit) == known.audit]
    if not found:
        raise Stale("its audit has changed since")
    return found[0]


def _control_of(place: Path, content: str) -> Mapping[str, Any]:
    """Return the audit that was the control of a verdict, if it has the digest that the verdict records."""
    control = read_audit(place)
    if digest(control) != content:
        raise Stale(f"{place}, its control, has changed since")
    return control


# Words name paths, and digits that other machines may round otherwise.
_WORDS = ("reason", "settles")
# What depends on where a verdict was made, or is compared by itself.
_APART = ("run", "against", "undone", "evidence", "lines")
_NUMBER = regex(r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?")
_MOST_VALUE = 120


def differences(verdict: Verdict, again: Verdict, *, words: bool = False) -> Iterator[str]:
    """Yield each thing in which a stored verdict is not what its inputs give, as a clause: one for each rule.

    With ``words``, its sentences are compared too; their numbers may differ in the last digit shown.
    """
    names = [field.name for field in fields(Verdict)] if words else ["policy", "candidate", "rollback"]
    left_out = (*_APART, "baseline") if verdict.against else _APART
    for name in names:
        one, other = (getattr(each, name) for each in (verdict, again))
        if name == "embedder":
            # A judge goes on after a verdict.
            one, other = ([note for note in notes if NOT_JUDGED not in note] for notes in (one, other))
        if name not in left_out and not _equal(one, other, words=name == "control"):
            yield f"its {name} is {_short(one)}, and its inputs give {_short(other)}"
    yield from differing(verdict.lines, again.lines, words=words)


def differing(lines: Sequence[Line], again: Sequence[Line], *, words: bool = False) -> Iterator[str]:
    """Yield each thing in which the lines of a stored verdict are not what its inputs give; see :func:`differences`."""
    if len(lines) != len(again):
        yield f"it has {counted(len(lines), 'rule')}, and its inputs give {len(again)}"
        names = {line.name for line in lines}
        yield from (f"it lacks rule {now.name}" for now in again if now.name not in names)
    known = {now.name: now for now in again}
    others = again if len(lines) == len(again) else [known.get(line.name) for line in lines]
    for line, now in zip(lines, others, strict=True):
        if now is None:
            yield f"it has rule {line.name}, and its inputs do not"
            continue
        differs = [
            name
            for name in (field.name for field in fields(Line))
            if (words or name not in _WORDS)
            and not _equal(getattr(line, name), getattr(now, name), words=name in _WORDS)
        ]
        if differs:
            one, other = (_short(getattr(each, differs[0])) for each in (line, now))
            more = f" ({', '.join(differs[1:])} as well)" if differs[1:] else ""
            yield f"its rule {now.name} has {differs[0]} {one}, and its inputs give {other}{more}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}…"


def _equal(one: object, other: object, *, words: bool = False) -> bool:
    """Return whether two values are equal but for the last bits of numbers, with ``words`` also as texts show them."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if words and isinstance(one, str) and isinstance(other, str):
        return _says_the_same(one, other)
    if is_dataclass(one) and is_dataclass(other) and not isinstance(one, type) and not isinstance(other, type):
        return _equal(asdict(one), asdict(other), words=words)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[name], other[name], words=words) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_equal(*pair, words=words) for pair in zip(one, other, strict=True))
    return one == other


def _says_the_same(one: str, other: str) -> bool:
    """Return whether two texts are equal but for at most one in the last digit of each number."""
    if _NUMBER.split(one) != _NUMBER.split(other):
        return False
    for left, right in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True):
        digits, _, power = left.replace(",", "").partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        apart = abs(float(left.replace(",", "")) - float(right.replace(",", "")))
        if left != right and ("." not in digits or apart > 1.01 * unit):
            return False
    return True
