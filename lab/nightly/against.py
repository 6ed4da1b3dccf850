"""Compare a run of a nightly set with its baseline, and judge it by the rules of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join

from lab.base.errors import NotARun, NotComparable
from lab.base.files import read_json, remove_leftovers, write_atomically
from lab.compare.changes import ArmChanges, Changes, changes, foremost
from lab.gate.line import BASELINE_LINE, FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.policy import Policy
from lab.gate.verdict import judge
from lab.nightly.baselines import Baseline, open_baseline
from lab.nightly.plan import NightlySet, Within
from lab.runs.directory import RunDirectory, open_run

# How many changed turns are named; the others are only counted.
NAMED = 3
# Kinds of rules for an arm whose receipts equal the baseline's: all differences are zero and need no test.
ALWAYS = ("limit", "latency")
# Kinds of rules for a set without a baseline: the person who approves the run must know the limits it breaks.
ALONE = ("limit",)


def compare(
    lines: list[Line], nightly_set: NightlySet, run: RunDirectory, baseline: Baseline | None, out: Path, folder: Path
) -> Changes | None:
    """Compare a run with the baseline; if that is impossible, append the reason to ``lines`` and return None."""
    command = approve(run.path, folder, nightly_set.baseline)
    if baseline is None:
        reason = f"there is no baseline {nightly_set.baseline!r} in {folder} to compare with"
        lines.append(Line(BASELINE_LINE, nightly_set.baseline, INCONCLUSIVE, True, reason, command))
        return None
    try:
        return changes(_copied(baseline, out / "baselines" / baseline.now.object[:16]), run)
    except (NotComparable, NotARun) as error:
        # NotARun: another version of the lab wrote the baseline, and this version cannot read its manifest.
        reason = f"not comparable with baseline {nightly_set.baseline!r}: {error}"
        lines.append(
            Line(
                BASELINE_LINE,
                nightly_set.baseline,
                INCONCLUSIVE,
                True,
                reason,
                f"{command} (if the change is intended)",
            )
        )
        return None


def approve(path: Path, folder: Path, name: str | None = None) -> str:
    """Return the command that approves one run, or a whole nightly run, as a baseline."""
    options = ["--name", name] if name else []
    return join(["lab", "nightly", "baseline", "approve", str(path), *options, "--baselines", str(folder)])


def _copied(baseline: Baseline, folder: Path) -> RunDirectory:
    """Copy the baseline into the folder of the nightly run, because its name may refer to another run later."""
    kept = open_baseline(baseline)
    names = read_json(kept.path / "object.json")
    for subfolder in (folder, folder / "receipts"):
        remove_leftovers(subfolder)
    # Copy the manifest last, so that an interrupted copy is not mistaken for a run.
    for name in sorted(names, key=lambda name: name == "manifest.json"):
        if not (folder / name).is_file():
            write_atomically(folder / name, (kept.path / name).read_bytes())
    return open_run(folder)


def against(policy: Policy, run: RunDirectory, exact: Changes | None, baseline: str, command: str) -> Iterator[Line]:
    """Compare every arm with the baseline exactly, then judge it by the rules of the policy.

    Both only in the conversations that are the same in the baseline, whose name is ``baseline`` (IN-9).
    """
    if exact is None:
        for name in run.arms:
            yield from judged(policy, run, name, ALONE)
        return
    # The policy's exact rules say whether a change fails or is advisory.
    critical = any(rule.kind == "exact" and rule.critical for rule in policy.rules)
    found = exact.common
    run, before = run.of(found.same), open_run(Path(exact.before)).of(found.same)
    intended = f"{command} (if the change is intended)"
    if lost := str(found._replace(added=())):
        reason = f"not all of baseline {baseline!r} can be compared: {lost}"
        yield Line(BASELINE_LINE, baseline, INCONCLUSIVE, True, reason, intended)
    for arm in exact.arms:
        changed = len(arm.changed)
        reason = f"all {arm.turns} receipts equal the baseline's"
        if changed:
            moved = "; ".join(exact.moved) or "none"
            reason = f"{changed} of {arm.turns} receipts changed ({named([arm])}); manifest differences: {moved}"
        yield Line(
            "exact",
            f"{arm.arm} receipts",
            FAIL if changed else PASS,
            critical or not changed,
            reason,
            intended if changed else None,
            candidate=float(changed),
            n=arm.turns,
        )
        kinds = ALWAYS if not changed else tuple({rule.kind for rule in policy.rules} - {"exact"})
        yield from judged(policy, run, arm.arm, kinds, before)
    for arms, where in ((exact.only_after, "is not in the baseline"), (exact.only_before, "is only in the baseline")):
        for name in arms:
            yield Line("exact", f"{name} receipts", INCONCLUSIVE, True, f"arm {name} {where}", intended)


def judged(
    policy: Policy, run: RunDirectory, arm: str, kinds: Sequence[str], against: RunDirectory | None = None
) -> Iterator[Line]:
    """Judge one arm by the rules of some kinds."""
    rules = tuple(rule for rule in policy.rules if rule.kind in kinds)
    if rules:
        for line in judge(replace(policy, candidate=arm, rules=rules), run, against=against).lines:
            yield replace(line, measure=f"{arm} {line.measure}", reason=f"{arm}: {line.reason}")


def within(asked: Within, run: RunDirectory) -> Iterator[Line]:
    """Judge two arms of a run by the policy of the plan for them."""
    policy = replace(asked.policy, baseline=asked.baseline, candidate=asked.candidate)
    for line in judge(policy, run).lines:
        pair = f"{asked.candidate} against {asked.baseline}"
        yield replace(
            line,
            measure=f"{pair} {line.measure}",
            critical=line.critical and asked.critical,
            reason=f"{pair}: {line.reason}",
        )


def named(arms: Sequence[ArmChanges]) -> str:
    """Describe the changes: the first changed turns of some arms, and all columns that changed."""
    columns = ", ".join(dict.fromkeys(name for arm in arms for name in arm.columns))
    turns = [f"{change.turn} of {arm}" for arm, change in foremost(arms)]
    more = f" and {len(turns) - NAMED} more" if len(turns) > NAMED else ""
    return f"{', '.join(turns[:NAMED])}{more}; in {columns}"
