"""Compare a run of a nightly set with its baseline, and judge it by the rules of the plan.

Conversations that the snapshot or the baseline lacks are compared apart (IN-10, IN-11): with the first nightly run that
had them since the baseline was approved. They do not decide the verdict, unless the set says ``added = "judge"``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import join
from typing import Any

from lab.base.errors import CannotWrite, LabError, NotARun, NotComparable
from lab.base.files import read_json, remove_leftovers, write_atomically
from lab.base.formatting import Announce, counted, short_keys
from lab.compare.changes import RECALLED, ArmChanges, Changes, cause, changes, foremost
from lab.compare.comparable import Common, common
from lab.gate.line import ADDED, BASELINE_LINE, ERROR, FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.policy import Policy
from lab.gate.verdict import judge
from lab.host.growth import Growth, growth
from lab.host.home import look
from lab.host.snapshot import Snapshot, open_snapshot, snapshots, take
from lab.measures.score import score_run, summarise
from lab.nightly.baselines import Baseline, open_baseline
from lab.nightly.plan import JUDGE, Frozen, NightlySet, Within
from lab.recordings.readers import Library, of_origins, read_library
from lab.replay.memories_from import read_stored, with_stored
from lab.runs.directory import OBJECT, RunDirectory, open_run
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

# How many changed turns are named; the others are only counted.
NAMED = 3
# Columns of the key of such a turn: a host names a session by an id of 36 characters, twice in a key.
KEY_WIDTH = 44
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
    names = read_json(kept.path / OBJECT)
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
            reason = f"{cause(exact.moved, arm.arm)}: {changed} of {arm.turns} receipts changed ({named([arm])})"
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
    """Describe the changes: the first changed turns of some arms, and some columns, first those of what is injected."""
    columns = sorted(dict.fromkeys(name for arm in arms for name in arm.columns), key=lambda name: name not in RECALLED)
    others = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
    turns = foremost(arms)
    shown = short_keys((change.turn for _, change in turns[:NAMED]), KEY_WIDTH)
    first = [f"{shown[change.turn]} of {arm}" for arm, change in turns[:NAMED]]
    more = f" and {len(turns) - NAMED} more" if len(turns) > NAMED else ""
    return f"{', '.join(first)}{more}; in {', '.join(columns[:NAMED])}{others}"


SINCE = "since"
Replay = Callable[[ReplayRequest, Path, str], tuple[RunDirectory, Changes]]


@dataclass(frozen=True, slots=True)
class Apart:
    """What is reported apart: since what, one row for each conversation, and how the rules judge them.

    A row has ``conversation``, ``what`` happened to it, ``turns``, ``recalls``, ``since`` which nightly run it is
    compared, and the ``changed`` receipts by arm since then. ``means`` are those of every measure by arm over these
    conversations alone, ``memories`` counts what changed in the store, and ``run`` is the path of their replay.
    ``copied`` is when the home was copied; None if it equals the snapshot, and for a set without one.
    """

    since: str
    rows: tuple[Mapping[str, Any], ...]
    lines: tuple[Line, ...]
    means: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)
    run: str | None = None
    copied: str | None = None

    @property
    def counts(self) -> str:
        """How many conversations of each kind there are, in words."""
        kinds = Counter(str(row["what"]) for row in self.rows)
        return ", ".join(f"{counted(count, 'conversation')} {what}" for what, count in kinds.items()) or "nothing new"

    @property
    def copy_note(self) -> str | None:
        """When the home was copied, and how to get a new copy, as a sentence; None if there is no copy."""
        if self.copied is None:
            return None
        return (
            f"Copy of the home taken {self.copied}; the same command again on that date uses this copy, and "
            "another --date or --out takes a new one."
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, without the lines, which are in the verdict."""
        return {
            "since": self.since,
            "conversations": [dict(row) for row in self.rows],
            "memories": dict(self.memories),
            "means": {arm: dict(means) for arm, means in self.means.items()},
            "run": self.run,
            "copied": self.copied,
        }


def apart_from_baseline(
    nightly_set: NightlySet,
    policy: Policy,
    run: RunDirectory,
    found: Common,
    earlier: Iterable[tuple[str, RunDirectory]],
) -> Apart | None:
    """Return what the baseline lacks of a run, or has otherwise; None if nothing."""
    if not found.others:
        return None
    rows: list[dict[str, Any]] = [{"conversation": name, "what": "added"} for name in found.added]
    rows += [{"conversation": name, "what": f"changed: {what}"} for name, what in found.changed.items()]
    rows += [{"conversation": name, "what": "removed"} for name in found.removed]
    return _judged(nightly_set, policy, since_of(nightly_set), rows, apart_of(run, found), earlier)


def apart_of(run: RunDirectory, found: Common) -> RunDirectory | None:
    """Return the part of a run that its baseline lacks or has otherwise; None if there is nothing."""
    view = run.of([*found.added, *found.changed])
    return view if view.conversations else None


def since_of(nightly_set: NightlySet) -> str:
    """Return what the conversations that are judged apart come after, in words."""
    return f"the snapshot {nightly_set.frozen.path.name}" if nightly_set.frozen else "the baseline"


def apart_from_snapshot(
    nightly_set: NightlySet,
    policy: Policy,
    frozen: Frozen,
    folder: Path,
    date: str,
    earlier: Iterable[tuple[str, RunDirectory]],
    replayed: Replay,
    announce: Announce,
) -> Apart:
    """Copy the home of a snapshot as it is now, replay what the snapshot lacks, and judge it apart.

    Whatever fails here is reported and leaves the frozen part as it is; only a full disk ends the nightly run.
    """
    since = since_of(nightly_set)
    try:
        before = open_snapshot(frozen.path, check=False)
        now = _tonight(before, frozen, folder / "home", date, announce)
        if now.sha256 == before.sha256:
            return Apart(since, (), ())
        libraries = [_library(snapshot, nightly_set.asked.origin) for snapshot in (before, now)]
        found = growth(*libraries)
        rows, lines = _rows(found), []
        copied = now.created.replace("T", " ").replace("Z", " UTC")
        view = None
        if found.to_replay:
            announce(
                f"{nightly_set.name}: {counted(len(found.to_replay), 'conversation')} since {since}, replayed apart"
            )
            view, again = replayed(_request(nightly_set, now, found), folder, f"{nightly_set.name}, since {since}")
            if again.changed:
                reason = f"{again.changed} of {again.turns} receipts of conversations since {since} differ between two "
                lines.append(_line(nightly_set, "replays", ERROR, f"{reason}replays ({named(_changed(again.arms))})"))
                view = None
        done = _judged(nightly_set, policy, since, rows, view, earlier)
        return replace(done, lines=(*lines, *done.lines), memories=found.memories, copied=copied)
    except CannotWrite:
        raise
    except LabError as error:
        return Apart(since, (), (_line(nightly_set, "measured", ERROR, f"since {since}: {error}"),))


def _tonight(before: Snapshot, frozen: Frozen, root: Path, date: str, announce: Announce) -> Snapshot:
    """Return the copy of the home for this nightly run, which is taken once: a repeated run sees the same home."""
    if taken := snapshots(root):
        announce(f"{root}: the copy of the home of this nightly run is used again")
        return open_snapshot(taken[-1])
    store = Path(before.store_path) if before.store_path and Path(before.store_path).is_dir() else None
    # Its log says nothing about a replay, and may be the largest file.
    home = replace(look(frozen.home, store=store, config=Path(before.config) if before.config else None), log=None)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return take(home, root, date=date, created=created, like=before, sealed=False, announce=announce)


def _library(snapshot: Snapshot, origins: Sequence[str]) -> Library:
    library = of_origins(read_library(snapshot.path, "openclaw"), origins)
    return with_stored(library, read_stored(str(snapshot.store))) if snapshot.store else library


def _request(nightly_set: NightlySet, now: Snapshot, found: Growth) -> ReplayRequest:
    # The golden set judges conversations of the snapshot.
    return replace(
        nightly_set.asked,
        path=str(now.path),
        memories_from=str(now.store) if now.store else None,
        conversation=found.to_replay,
        limit=None,
        golden=None,
    )


def _rows(found: Growth) -> list[dict[str, Any]]:
    rows = []
    for row in found.as_rows():
        before, turns = row.pop("before"), row["turns"]
        rows.append(row | {"turns": f"{before} -> {turns}" if before and turns else f"{before or turns}"})
    return rows


def _judged(
    nightly_set: NightlySet,
    policy: Policy,
    since: str,
    rows: list[dict[str, Any]],
    view: RunDirectory | None,
    earlier: Iterable[tuple[str, RunDirectory]],
) -> Apart:
    """Compare conversations with the first nightly runs that had them, and judge their limits."""
    if view is None:
        return Apart(since, tuple(rows), ())
    first: dict[str, str] = {}
    by_arm: dict[str, list[ArmChanges]] = {}
    moved: dict[str, None] = {}
    for date, difference in _differences(view, earlier):
        first |= dict.fromkeys(difference.common.same, date)
        for arm in difference.arms:
            by_arm.setdefault(arm.arm, []).append(arm)
        if difference.changed:
            moved |= dict.fromkeys(difference.moved)
    changed = Counter(
        (change.conversation, name) for name, arms in by_arm.items() for arm in arms for change in arm.changed
    )
    for row in rows:
        name = row["conversation"]
        if name in view.conversations:
            row["recalls"] = view.manifest.recall_points[name]
        if name in first:
            row |= {"since": first[name], "changed": {arm: changed[name, arm] for arm in by_arm}}
    lines = [_exact_line(nightly_set, since, name, arms, tuple(moved)) for name, arms in by_arm.items()]
    lines += rules_apart(nightly_set, policy, view)
    summary = summarise(score_run(view), read_gold(view), view.arms)["arms"]
    means = {arm: summary[arm]["measures"] for arm in view.arms}
    return Apart(since, tuple(rows), tuple(lines), means, run=str(view.path))


def rules_apart(nightly_set: NightlySet, policy: Policy, view: RunDirectory) -> list[Line]:
    """Return the limits of a policy over the conversations that are judged apart."""
    lines = []
    for name in view.arms:
        for line in judged(policy, view, name, ALONE):
            decides = line.critical and nightly_set.added == JUDGE
            reason = f"conversations since {since_of(nightly_set)}: {line.reason}"
            lines.append(replace(line, measure=f"{line.measure} since", critical=decides, reason=reason))
    return lines


def _differences(view: RunDirectory, earlier: Iterable[tuple[str, RunDirectory]]) -> Iterator[tuple[str, Changes]]:
    """Yield the date of each run, oldest first, and the differences in the conversations that it had first."""
    waiting = list(view.conversations)
    for date, run in earlier:
        if not waiting:
            return
        try:
            same = common(run, view.of(waiting)).same
            if not same:
                continue
            yield date, changes(run.of(same), view.of(same))
        except NotComparable:
            # Another run with other settings or receipts.
            continue
        except LabError:
            # It was removed in part, or damaged.
            continue
        waiting = [name for name in waiting if name not in same]


def _exact_line(
    nightly_set: NightlySet, since: str, name: str, arms: Sequence[ArmChanges], moved: tuple[str, ...]
) -> Line:
    turns, changed = sum(arm.turns for arm in arms), sum(len(arm.changed) for arm in arms)
    what = f"receipts of conversations since {since}"
    reason = f"all {turns} {what} equal those of the first nightly run that had them"
    if changed:
        reason = (
            f"{cause(moved)}: {changed} of {turns} {what} changed since the first nightly run that had them "
            f"({named(_changed(arms))})"
        )
    status = FAIL if changed else PASS
    return _line(nightly_set, f"{name} receipts", status, reason, candidate=float(changed), n=turns)


def _changed(arms: Sequence[ArmChanges]) -> list[ArmChanges]:
    return [arm for arm in arms if arm.changed]


def _line(nightly_set: NightlySet, measure: str, status: str, reason: str, **numbers: Any) -> Line:
    return Line(ADDED, measure, status, nightly_set.added == JUDGE, reason, **numbers)
