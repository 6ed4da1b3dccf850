"""The one thing to do next, and why: what a page or a message says beside the word of a verdict.

Both follow from the lines of the verdict alone. What a policy hopes for (``about``) is never said here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import NamedTuple

from lab.base.formatting import counted
from lab.base.regex import regex
from lab.gate.evidence import NO_GOLD
from lab.gate.keys import ACCEPT, OTHER_PAIR
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, NOT_HERE, PASS, Line, deciding
from lab.gate.outputs import finding, rollback
from lab.gate.policy import DIFFERENCES, OF_AUDITS
from lab.gate.verdict import READS_GOLD, Verdict
from lab.replay.command import portable, replay_command

# Findings, and names of rules, in one sentence.
MOST_FINDINGS, MOST_NAMES = 2, 4
_COMMAND = regex(r"`(lab [^`]+)`")
_ASIDE = regex(r" \(`[^)]*\)")
_ADD = regex(r"\badd (--[a-z-]+ [A-Z0-9]+|AUDIT\b)")
_MORE = regex(r"(\d[\d,]*) more conversation")
# Hard rules to sample per conversation where a rule needs some and the recording has none.
HARD_RULES = "3"
# Its reasons name this command without its arguments.
POOL = "lab golden pool"
POOLED = f"{POOL} RECORDINGS --format FORMAT --out POOL.jsonl"
AUDIT = "lab canary audit LOG --out AUDIT"


class Action(NamedTuple):
    """What to do, as a sentence, and the command that does it, if there is one."""

    sentence: str
    command: str | None = None


def why(verdict: Verdict, words: Callable[[Line], str] = finding) -> str:
    """Return in one clause, without a full stop, what the verdict follows from.

    ``words`` returns the finding of a failing rule as a clause.
    """
    own = deciding(verdict.lines, verdict.status)
    if not own:
        return "no critical rule was evaluated"
    if verdict.status == FAIL:
        more = len(own) - MOST_FINDINGS
        parts = [words(line) for line in own[:MOST_FINDINGS]]
        return "; ".join([*parts, *([f"and {counted(more, 'more rule')} {FAIL}"] if more > 0 else [])])
    if verdict.passes_measured:
        return (
            f"{_holds(deciding(verdict.lines, PASS), ' that was measured')}; {NOT_HERE}: {_listed(verdict.unmeasured)}"
        )
    if verdict.status == PASS:
        return _holds(own)
    group, cause = _largest(own)
    what = "open" if verdict.status == INCONCLUSIVE else "not measured"
    share = f"{len(own)} of {counted(len(deciding(verdict.lines)), 'critical rule')} {'is' if len(own) == 1 else 'are'}"
    some = f", {len(group)} of them for one reason" if len(group) < len(own) else ""
    return f"{share} {what}{some}: {cause}"


def _holds(lines: Sequence[Line], which: str = "") -> str:
    """Return what the passing rules show, by kind; ``which`` says which rules these are."""
    by_kind = {
        "better in": [line for line in lines if line.kind == "improve"],
        "shown to be no worse in": [line for line in lines if line.kind == "guard"],
        "within the limits of": [line for line in lines if line.kind in ("limit", *OF_AUDITS, "latency")],
        "unchanged in": [line for line in lines if line.kind == "exact"],
    }
    shown = [f"{words} {_names(group)}" for words, group in by_kind.items() if group]
    every = f"the only critical rule{which} holds"
    if len(lines) > 1:
        every = f"all {len(lines)} critical rules{which.replace('was', 'were')} hold"
    return f"{every}: {'; '.join(shown)}" if shown else every


def _names(lines: Sequence[Line]) -> str:
    names = [f"{line.measure}{f' against {line.against}' if line.against else ''}" for line in lines]
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _largest(lines: Sequence[Line]) -> tuple[list[Line], str]:
    """Return the largest group of rules with one cause, and that cause."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(_cause(line), []).append(line)
    cause, group = max(groups.items(), key=lambda entry: len(entry[1]))
    undecided = {
        "worse": "may be worse than the policy allows",
        "better": "not shown to be better",
    }
    return group, f"{_names(group)} {undecided[cause]}" if cause in undecided else cause


def _cause(line: Line) -> str:
    """Return why a rule is undecided, without the rule's name and without what would settle it."""
    if line.low is not None and line.difference is not None:
        return "better" if line.kind == "improve" else "worse"
    cause = line.reason.removeprefix(f"{line.label}: ").removeprefix(f"{line.measure}: ").partition("; add ")[0]
    return _ASIDE.sub("", cause.removeprefix("not measured; "))


def action_of(
    verdict: Verdict,
    asked: Mapping[str, object] | None = None,
    turn: str | None = None,
    folder: str = "DIR",
    shown: Callable[[Mapping[str, object]], Mapping[str, object]] = portable,
) -> Action:
    """Return what to do after a verdict.

    ``asked`` are the arguments of the run (:func:`lab.replay.command.arguments`), ``turn`` is one at which the first
    failing rule became worse. Commands name the run ``folder``, and no path of this machine: a page is read elsewhere.
    With ``shown=dict`` they keep the paths, so that they can be run as printed.
    """
    if verdict.undone:
        if verdict.status != PASS:
            return Action(verdict.undone)
        return Action(f"{verdict.undone} To switch for good:", join(["lab", "canary", "apply", folder]))
    if any(reason.endswith(READS_GOLD) for reason in verdict.trial):
        return Action("This is what the best engine could reach, and nothing to switch to.")
    if verdict.status == PASS:
        return _after_pass(verdict, folder)
    if (back := rollback(verdict)) is not None:
        return Action(back if back.endswith(".") else f"{back}.", _command_of(verdict, folder))
    if verdict.status == FAIL and not verdict.run:
        # Without a rollback, nothing was switched.
        return Action(
            "Mend the engine that wrote these receipts, as the rules that fail say.", judge_command(verdict, folder)
        )
    if verdict.status == FAIL:
        keep = (
            f"Keep {verdict.baseline}." if verdict.baseline and not verdict.against else "Do not roll this change out."
        )
        failing = deciding(verdict.lines, FAIL)
        if failing and all(line.against for line in failing):
            keep = f"Do not roll {verdict.candidate} out: {failing[0].against} is better."
        if turn and verdict.candidate:
            seen = join(["lab", "explain", folder, turn, "--arm", verdict.candidate, "--with-text"])
            return Action(f"{keep} Then look at a turn that became worse.", seen)
        return _turns_of(keep, verdict, failing, folder)
    if verdict.status == INCONCLUSIVE:
        return _after_inconclusive(verdict, asked, folder, shown)
    return Action("Give the gate what it lacks; the reasons say what.", _command_of(verdict, folder))


def _turns_of(keep: str, verdict: Verdict, failing: Sequence[Line], folder: str) -> Action:
    """Return how to see the turns at which a failing rule became worse, or what changed since another run."""
    is_shown = any(line.kind in DIFFERENCES and line.slice is None for line in failing)
    if not is_shown or not verdict.candidate or not verdict.baseline:
        return Action(f"{keep} Then look at the rules that fail.", judge_command(verdict, folder))
    if verdict.against:
        arms = ["--baseline", f"DIR2:{verdict.candidate}", "--candidate", verdict.candidate, "--all"]
        return Action(f"{keep} Then look at what changed.", join(["lab", "compare", folder, *arms]))
    arms = ["--baseline", verdict.baseline, "--candidate", verdict.candidate]
    return Action(f"{keep} Then look at the turns that became worse.", join(["lab", "report", folder, *arms]))


def _after_pass(verdict: Verdict, folder: str) -> Action:
    if verdict.against:
        name = verdict.candidate or "NAME"
        return Action("Nothing has to be done. To approve this run as the baseline:", _approve(name, folder))
    if verdict.audit is not None:
        return Action("Leave the engine as it is, and audit the next window.", _audit_command(verdict))
    return Action(
        f"Try {verdict.candidate} on a live engine for a limited time, and judge its receipts.",
        "lab gate AUDIT --policy stage-b",
    )


def _approve(name: str, folder: str) -> str:
    return join(["lab", "nightly", "baseline", "approve", folder, "--name", name])


def _after_inconclusive(
    verdict: Verdict,
    asked: Mapping[str, object] | None,
    folder: str,
    shown: Callable[[Mapping[str, object]], Mapping[str, object]],
) -> Action:
    if any(NO_GOLD.why in line.reason for line in verdict.lines):
        return Action("No probe has relevant memories. Judge some turns, and replay with --golden.", POOLED)
    if verdict.passes_measured:
        return Action(
            "Give the data what it lacks, as the reasons say; or accept the verdict without it: write "
            f'`unmeasured = "{ACCEPT}"` into a copy of the policy.',
            _copied(verdict),
        )
    lines = deciding(verdict.lines, INCONCLUSIVE)
    needs = [int(found[1].replace(",", "")) for line in lines if (found := _MORE.search(line.settles or ""))]
    if needs:
        return Action(_more(lines, needs), _more_of(asked, shown) if asked else None)
    if asked and any("--hard-rules" in (line.settles or "") for line in lines):
        sampled = replay_command(shown({**asked, "hard_rules": HARD_RULES}), folder)
        return Action("Replay with sampled hard rules, so that HardRules can be measured.", sampled)
    return Action("Each open rule says what would settle it.", _command_of(verdict, folder))


def _copied(verdict: Verdict) -> str | None:
    """Return the command that prints a shipped policy."""
    is_shipped = verdict.evidence is not None and verdict.evidence.policy_file is None
    return join(["lab", "gate", "policies", "--show", verdict.policy.partition(" (")[0]]) if is_shipped else None


def _more(lines: Sequence[Line], needs: Sequence[int]) -> str:
    """Return how many more conversations open rules need, and which rules need something else."""
    least, most = min(needs), max(needs)
    span = f"{least:,}" if least == most else f"{least:,} to about {most:,}"
    others = {line.measure: replace(line, against=None) for line in lines if not _MORE.search(line.settles or "")}
    if not others:
        return f"Replay more conversations: the open {'rule needs' if len(lines) == 1 else 'rules need'} {span} more."
    return (
        f"Replay more conversations: {len(needs)} of {len(lines)} open rules {'needs' if len(needs) == 1 else 'need'} "
        f"{span} more. They do not settle {_names(list(others.values()))}; the reasons say what does."
    )


def _more_of(asked: Mapping[str, object], shown: Callable[[Mapping[str, object]], Mapping[str, object]]) -> str:
    """Return the command that replays all conversations of a run that chose some, or else other recordings."""
    if asked.get("conversation") or asked.get("limit"):
        return replay_command(shown({**asked, "conversation": (), "limit": None}), "DIR2")
    golden = {"golden": "MORE_GOLDEN"} if asked.get("golden") else {}
    return replay_command({**shown(asked), "path": "MORE", **golden}, "DIR2")


def _command_of(verdict: Verdict, folder: str) -> str | None:
    """Return the command that the most frequent cause names, or the gate's with what it lacks.

    The gate's without anything new would give the same verdict again.
    """
    lines = deciding(verdict.lines, verdict.status)
    if verdict.status not in (ERROR, INCONCLUSIVE) or not lines:
        return None
    group, _ = _largest(lines)
    text = f"{group[0].reason} {group[0].settles or ''}"
    if found := _ADD.search(text):
        return f"{judge_command(verdict, folder)} {found[1]}"
    if verdict.audit is not None and not verdict.run:
        # The log of a live engine goes on, so a later audit has more receipts.
        return f"{_audit_command(verdict)} && {judge_command(verdict, folder)}"
    named = _COMMAND.search(text)
    if named and named[1] == POOL:
        return POOLED
    return named[1] if named else None


def judge_command(verdict: Verdict, folder: str) -> str:
    """Return the command that gives this verdict."""
    file = verdict.evidence.policy_file if verdict.evidence else None
    judged = [folder] if verdict.run else ["AUDIT"]
    policy = ["--policy", Path(file).name if file else verdict.policy.partition(" (")[0]]
    if OTHER_PAIR in verdict.policy:
        policy += ["--candidate", str(verdict.candidate)]
        policy += [] if verdict.against else ["--baseline", str(verdict.baseline)]
    return join(["lab", "gate", *judged, *policy, *(["--control", "AUDIT2"] if _has_waits(verdict) else [])])


def _audit_command(verdict: Verdict) -> str:
    """Return the command that audits the log again, with the bounds of what recalls took if the verdict needs them."""
    return AUDIT.replace(" LOG ", " LOG --home HOME ") if _has_waits(verdict) else AUDIT


def _has_waits(verdict: Verdict) -> bool:
    """Return whether rules compared what recalls took with a control."""
    return any(line.kind == "wait" and line.limit is not None for line in verdict.lines)
