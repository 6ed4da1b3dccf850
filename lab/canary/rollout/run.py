"""Run a canary: switch, wait, judge, and roll back whatever happens (CN-1, seed 001 Stage B).

What its verdict means for a gateway's configuration is a patch, which is never written here (CN-11).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_resolve import resolve_config
from lab.base.config_text import MISSING, at_path, differing, set_value
from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import dump_json, read_json, write_atomically
from lab.base.formatting import Announce, counted, duration, silent
from lab.base.shape import to_json
from lab.canary.agree.logged import whose
from lab.canary.audit.audit import audit as read_logs
from lab.canary.audit.sessions import SCOPE
from lab.canary.audit.waits import waits
from lab.canary.rollout.change import (
    DEFAULT_SELECTION,
    HOST_MEMORY,
    SELECTION,
    SLOT,
    Change,
    edited_lines,
    resolved_host,
)
from lab.canary.rollout.commands import NoRestart, raised, restart_gateway, run_command, undisturbed, unfailing
from lab.canary.rollout.follow import KEPT_LINES, Follower, log_files, watch
from lab.canary.rollout.guard import NoGuard, guarded
from lab.canary.rollout.journal import (
    GUARD_LOG,
    JUDGE,
    RESTART,
    SWITCH,
    WINDOW,
    Journal,
    State,
    begin,
    now,
    read_config,
)
from lab.canary.rollout.recover import SCHEMA, RolledBack, finish, remove_parts, roll_back
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS
from lab.gate.outputs import read_verdict, write_verdict
from lab.gate.policy import Policy
from lab.gate.receipts import CANARY as RECEIPT
from lab.gate.receipts import undone
from lab.gate.rejudge import Stale, judge_again, rejudge
from lab.gate.verdict import Verdict, judge
from lab.runs.directory import AUDIT, VERDICT, open_run
from lab.systems.openclaw.config.file import ENTRY, locate
from lab.systems.openclaw.config.table import PLUGIN
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.openclaw.upstream.host import check_host, host_of

GOLDEN = "golden.txt"
WORDS = {PASS: "GO", FAIL: "NO-GO"}
_STATUS = {0: PASS, 1: FAIL, 3: INCONCLUSIVE}
_CONFIG = SELECTION[:-2]
# The folder in which `lab init` judges live receipts, beside those of the change.
LIVE = "live"
# What the lab resolves for itself, and what decides where memories are and not which are recalled.
_LEFT_OUT = ("lab", "embedding", "dbPath", "tableName")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a canary shall do: the change, the commands of the operator, the window and the policy.

    A decision, ``recalls`` or ``seconds`` end the window, whichever comes first; without ``recalls``, time alone does.
    ``golden`` is a command that runs while the gateway is switched and ends with the exit codes of the lab. ``timeout``
    is for a restart with its check, ``golden_timeout`` for the golden check. What is logged in the first ``settle``
    seconds does not count.
    """

    change: Change
    log: Path
    restart: str
    policy: Policy
    out: Path
    check: str | None = None
    golden: str | None = None
    recalls: int | None = 1000
    seconds: float = 4 * 3600.0
    timeout: float = 600.0
    golden_timeout: float = 3600.0
    keep_edits: bool = False
    guard: bool = True
    settle: float = 0.0

    def steps(self) -> list[str]:
        """Return what would happen, a sentence for each step."""
        change, folder = self.change, State(self.change.config).folder
        check = f" and wait for: {self.check}" if self.check else ""
        guarded = "start a guard that rolls back if this process is killed" if self.guard else "start no guard"
        longest = f"{self.recalls} answered recalls and {duration(self.seconds)}"
        judged = f"audit them, judge by policy {self.policy.label}"
        golden = f"run the golden check: {self.golden}; " if self.golden else ""
        return [
            f"write the journal and the backup to {folder}; {guarded}",
            f"switch {change.sentence}",
            f"restart: {self.restart}{check}",
            f"wait for a decision by the sessions in {self.log}, for at most {longest}",
            f"{golden}{judged}",
            f"roll back {change.name}, whatever the verdict, and restart: {self.restart}",
        ]


@dataclass(slots=True)
class Outcome:
    """How a canary ended. ``problem`` says why it did not get to a verdict, ``stuck`` why it was not rolled back.

    ``is_restart_open``: the configuration is as before, and only the gateway was not restarted.
    """

    started: str
    verdict: Verdict | None = None
    golden: str | None = None
    complete: bool = False
    interrupted: bool = False
    problem: str | None = None
    stuck: str | None = None
    is_restart_open: bool = False
    rolled_back: RolledBack | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Note something once, however often one looks."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def stuck_line(self) -> str:
        """Return what was left open, and the command that goes on."""
        return f"{'NOT RESTARTED' if self.is_restart_open else 'NOT ROLLED BACK'}: {self.stuck}"

    @property
    def status(self) -> str:
        """Return the gravest of the verdict, the golden check, and an error on the way (CN-9)."""
        if self.stuck or self.problem or self.verdict is None:
            return ERROR
        return min([self.verdict.status, *([self.golden] if self.golden else [])], key=GRAVITY.index)

    def as_json(self, plan: Plan) -> dict[str, Any]:
        """Return the receipt of the canary as plain values, with no text of a memory and no key (CN-10)."""
        done = self.rolled_back
        return {
            "schema": SCHEMA,
            "started": self.started,
            "ended": now(),
            "config": str(plan.change.config),
            "path": list(plan.change.path),
            "before": plan.change.before if isinstance(plan.change.before, str) else None,
            "after": plan.change.after,
            "status": self.status,
            "problem": self.problem,
            "complete": self.complete,
            "golden": self.golden,
            "verdict": self.verdict.as_json() if self.verdict else None,
            "rolled_back": done is not None and self.stuck is None,
            "stuck": self.stuck,
            "notes": [*self.notes, *(done.notes if done else ())],
            "out": str(plan.out),
        }


def require_unswitched(state: State, *, held: bool | None = None) -> None:
    """Raise :class:`UnusableInput` if another canary is going on, or ended early and was not recovered.

    ``held`` is whether another process holds the folder, if that is known.
    """
    if state.folder.is_dir() and state.journal.exists():
        held = state.is_held() if held is None else held
        journal = state.read()
        what = "a canary"
        if journal is not None:
            what += f" of {journal.started}, step {journal.step!r}, {state.how(journal, held=held)}"
        raise UnusableInput(f"{state.journal}: {what}; first: {state.command}")


def run_canary(plan: Plan, *, tell: Announce = silent) -> Outcome:
    """Switch, restart, wait, judge; then roll back in any case, also after an error or a signal.

    Raises before anything is switched: :class:`UnusableInput`, :class:`lab.base.errors.InUse` if a canary is going on,
    :class:`lab.canary.rollout.guard.NoGuard` if the guard does not start, and :class:`lab.base.errors.CannotWrite` if
    there is no room for the journal. Later errors are in the outcome. A signal is raised again as KeyboardInterrupt
    after the rollback.
    """
    state, outcome = State(plan.change.config), Outcome(now())
    # A message that cannot be printed, as on a closed terminal, must not prevent the rollback.
    tell = unfailing(tell)
    _make_out(plan.out)
    out = plan.out.absolute()
    with state.locked(tell=tell), raised():
        require_unswitched(state, held=False)
        remove_parts(state.config)
        journal = begin(
            plan.change,
            restart=plan.restart,
            check=plan.check,
            timeout=plan.timeout,
            out=out,
            receipt=out / RECEIPT,
        )
        try:
            with guarded(
                state,
                journal,
                wanted=plan.guard,
                keep_edits=plan.keep_edits,
                tell=tell,
                note=outcome.notes.append,
            ):
                _protected(plan, state, journal, outcome, tell)
        except NoGuard as error:
            # The same command, with the same --out, can be repeated.
            (out / GUARD_LOG).unlink(missing_ok=True)
            state.clear()
            raise NoGuard(f"{error}; nothing was switched; --no-guard runs the canary without one") from None
        except BaseException:
            if not state.journal.exists():
                state.clear()
            raise
    keep(outcome, plan)
    return outcome


def keep(outcome: Outcome, plan: Plan) -> None:
    """Write the receipt of a canary, and its verdict with what was undone; a full disk ends nothing."""
    with suppress(LabError):
        write_atomically(plan.out / RECEIPT, dump_json(outcome.as_json(plan)))
        if outcome.verdict:
            outcome.verdict = replace(outcome.verdict, undone=undone(plan.out))
            write_verdict(outcome.verdict, plan.out)


def _protected(plan: Plan, state: State, journal: Journal, outcome: Outcome, tell: Announce) -> None:
    begun = False
    try:
        state.write(journal)
        begun = True
        state.prepare(plan.change)
        _steps(plan, state, journal, outcome, tell)
    except KeyboardInterrupt as signal:
        outcome.interrupted, outcome.problem = True, f"interrupted by {signal}" if signal.args else "interrupted"
    except (LabError, OSError) as error:
        outcome.problem = str(error)
        if not begun:
            raise
    finally:
        # Nothing may end the rollback: neither a signal nor the error that brought us here.
        with undisturbed():
            if begun:
                _back(plan, state, outcome, tell)
            else:
                state.clear()


def _steps(plan: Plan, state: State, journal: Journal, outcome: Outcome, tell: Announce) -> None:
    journal = state.step(journal, SWITCH)
    if read_config(state.config) != plan.change.original:
        raise CannotMeasure(f"{state.config}: was edited just now; nothing was switched")
    tell(f"switch: {plan.change.sentence}")
    write_atomically(state.config, plan.change.switched, like=state.config.stat())
    journal = state.step(journal, RESTART)
    tell(f"restart: {plan.restart}")
    try:
        restart_gateway(plan.restart, plan.check, plan.timeout, state.restarting)
    except NoRestart as error:
        raise CannotMeasure(f"under the switched configuration {error}") from None
    journal = state.step(journal, WINDOW)
    # Nothing before counts, nor what another policy left to the first recalls.
    time.sleep(plan.settle)
    # What the gateway logged until here is not of the switched configuration: the log is followed from its end.
    log = Follower(log_files(plan.log))
    until = f"a decision, {plan.recalls} recalls or " if plan.recalls else ""
    tell(f"wait: {until}{duration(plan.seconds)}")
    window = watch(
        log,
        plan.out,
        recalls=plan.recalls,
        seconds=plan.seconds,
        tell=tell,
        look=lambda kept, ended: look(kept, ended, state, outcome),
        # Without a number of recalls only time ends the window, because it is one of several that are compared.
        decides=(lambda found: _is_decided(found, plan, state, outcome, tell)) if plan.recalls else None,
    )
    outcome.complete = window.complete
    state.step(journal, JUDGE)
    if plan.golden:
        tell(f"golden check: {plan.golden}")
        outcome.golden = _golden(plan, outcome)
    audit = _timed(window.audit, plan, state, outcome)
    write_atomically(plan.out / AUDIT, dump_json(audit))
    # Until it is rolled back, the switch that was made is what there is to undo.
    judged = judge(plan.policy, audit=audit, audit_file=plan.out / AUDIT)
    outcome.verdict = replace(judged, rollback=state.command)
    write_verdict(outcome.verdict, plan.out)
    if plan.change.path == SELECTION:
        require_effect(plan.change.after, window.audit)


def look(kept: Path, ended: bool, state: State, outcome: Outcome) -> dict[str, Any]:
    """Return the audit of the lines so far, by the sessions of the host's transcripts where it can tell them."""
    found = read_logs([str(kept)], ended=ended)
    if not found["sessions"]["by"][SCOPE]:
        return found
    try:
        names = whose([kept], state.config.parent).sessions
    except LabError as error:
        outcome.note(f"recalls without a session count by scope, and sessions by pauses: {error}")
        return found
    return read_logs([str(kept)], sessions=names, ended=ended)


def _is_decided(found: dict[str, Any], plan: Plan, state: State, outcome: Outcome, tell: Announce) -> bool:
    """Return whether the sessions that are over are enough for a GO or a NO-GO."""
    verdict = judge(plan.policy, audit=_timed(found, plan, state, outcome))
    if verdict.status not in (PASS, FAIL):
        return False
    tell(f"decided: {WORDS[verdict.status]} after {counted(found['sessions']['closed'], 'session')}")
    return True


def _timed(audit: dict[str, Any], plan: Plan, state: State, outcome: Outcome) -> dict[str, Any]:
    """Return the audit of the window with bounds of what recalls took, if the host recorded its turns."""
    try:
        found = waits([str(plan.out / KEPT_LINES)], state.config.parent)
    except LabError as error:
        outcome.note(f"what the recalls took is unknown: {error}")
        return audit
    return audit | {"latency": found} if found["recalls"] else audit


def require_effect(policy: str, audit: Mapping[str, Any]) -> None:
    """Raise :class:`CannotMeasure` if no receipt of the window is of the policy that was switched to."""
    used = {mode: part["count"] for mode, part in audit["selection_mode"].items() if part["count"]}
    if used and policy not in used:
        others = ", ".join(used)
        raise CannotMeasure(
            f"all recalls of the window were selected by {others}: the switch to {policy} had no effect; "
            "does the restart command restart the gateway of this configuration?"
        )


def _golden(plan: Plan, outcome: Outcome) -> str:
    """Run the golden check and return its status."""
    handle = os.open(plan.out / GOLDEN, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(handle, "w+b") as file:
        ended = run_command(str(plan.golden), plan.golden_timeout, file)
    status = ERROR if ended.code is None else _STATUS.get(ended.code, ERROR)
    if status != PASS:
        outcome.notes.append(f"the golden check {ended.why(plan.golden_timeout)}")
    return status


def _back(plan: Plan, state: State, outcome: Outcome, tell: Announce) -> None:
    try:
        journal = state.read()
        if journal is None:
            raise CannotMeasure(f"{state.journal}: is gone; compare {state.config} with {state.backup}")
        outcome.rolled_back, journal = roll_back(state, journal, keep_edits=plan.keep_edits, tell=tell)
        finish(state, journal)
        tell("rolled back")
    except LabError as error:
        outcome.stuck, outcome.is_restart_open = str(error), isinstance(error, NoRestart)
    except OSError as error:
        outcome.stuck = f"{error}; {state.command} tries again"
    if outcome.stuck:
        tell(outcome.stuck_line)


def _make_out(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInput(f"--out {out}: {error.strerror}") from None
    if any(out.iterdir()):
        raise UnusableInput(f"--out {out}: is not empty; choose a new folder")


class Patch(NamedTuple):
    """The values to set, by path, and why there are none if there are none."""

    values: Mapping[tuple[str, ...], Any]
    why: str

    def merge_patch(self) -> dict[str, Any]:
        """Return a JSON merge patch (RFC 7396) of an openclaw.json."""
        patch: dict[str, Any] = {}
        for path, value in self.values.items():
            place = patch
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value
        return patch


class Applied(NamedTuple):
    """What a patch would change in a file.

    ``lines`` shows each changed member, ``already`` are the paths that have their value. ``refused`` is what the host
    would refuse after it, as the keys of profile ``seed`` that the plugin does not have.
    """

    lines: tuple[str, ...]
    already: tuple[str, ...]
    refused: tuple[str, ...]


def verdict_at(path: Path) -> tuple[Verdict, Path]:
    """Return the verdict of a file or a folder, judged again, and its folder.

    Raises :class:`UnusableInput` for a folder without one, and names the newest below it; and :class:`CannotMeasure`
    for a verdict that is stale: nothing follows from it.
    """
    file = path / VERDICT if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        below = sorted(path.glob(f"*/{VERDICT}"), key=lambda each: (each.parent.name != LIVE, each.stat().st_mtime))
        name = f"; name the folder of a verdict, such as {below[-1].parent}" if below else "; lab gate writes one"
        raise UnusableInput(f"{path}: has no {VERDICT}{name}")
    try:
        return rejudge(stored := read_verdict(file), file.parent), file.parent
    except Stale as stale:
        again = judge_again(stored)
        raise CannotMeasure(f"{file}: is stale: {stale}; nothing follows from it: {again}") from None


def patch_of(verdict: Verdict, folder: Path, before: Any = None) -> Patch:
    """Return what a verdict says to set.

    A pass sets what was judged: what a canary switched, or the differences between candidate and baseline of a run.
    Anything else sets back what a canary switched, if the configuration ``before`` still has it, and otherwise nothing.
    Raises :class:`UnusableInput` if the verdict does not say which configuration was judged.
    """
    passed = verdict.status == PASS
    if verdict.run is None:
        return _of_receipts(verdict, folder, before, passed=passed)
    if not passed:
        return Patch({}, f"the verdict is {verdict.status}, so {verdict.baseline} stays")
    run = open_run(Path(verdict.run))
    if verdict.against or verdict.candidate is None or verdict.baseline is None or ":" in verdict.baseline:
        raise UnusableInput(f"{folder / VERDICT}: compares with another run, so it names no change of a configuration")
    candidate, baseline = (_config_of(run.arm(name)) for name in (verdict.candidate, verdict.baseline))
    values = {
        (*_CONFIG, *path): at_path(candidate, path)
        for path in differing(baseline, candidate)
        if path[0] in PLUGIN and path[0] not in _LEFT_OUT and at_path(candidate, path) is not MISSING
    }
    names = f"the candidate {verdict.candidate} passed against {verdict.baseline}"
    return Patch(values, names if values else f"{names}; both have one configuration, so there is nothing to set")


def _of_receipts(verdict: Verdict, folder: Path, before: Any, *, passed: bool) -> Patch:
    if verdict.rollback is None and not (folder / RECEIPT).is_file():
        return Patch({}, f"the verdict is {verdict.status}, and nothing says what was switched, so nothing is set")
    path, old, new = _switched(folder)
    name = ".".join(path)
    if passed:
        return Patch({path: new}, f"the canary passed, so {name} may stay {new!r}")
    why = f"the verdict is {verdict.status}"
    if before is None and verdict.undone:
        return Patch({}, f"{why}; {verdict.undone[0].lower()}{verdict.undone[1:].removesuffix('.')}")
    if before is not None and at_path(before, path) != new:
        return Patch({}, f"{why}, and {name} is not {new!r}, so there is nothing to set back")
    if verdict.status == INCONCLUSIVE:
        return Patch({path: old}, f"{why}: keep the window open, or end it, and then {name} goes back")
    return Patch({path: old}, f"{why}, so {name} goes back")


def _switched(folder: Path) -> tuple[tuple[str, ...], str | None, str]:
    """Return what the canary of a folder switched; without its receipt, the memory slot."""
    file = folder / RECEIPT
    if not file.is_file():
        return SLOT, HOST_MEMORY, ENTRY
    value = read_json(file)
    try:
        path, before, after = tuple(map(str, value["path"])), value["before"], str(value["after"])
    except (KeyError, TypeError):
        raise UnusableInput(f"{file}: not a receipt of lab canary run") from None
    if path not in (SLOT, SELECTION) or (path == SELECTION and after not in POLICIES):
        raise UnusableInput(f"{file}: names a switch that lab canary run does not make: {'.'.join(path)} {after!r}")
    if before is None and path == SELECTION:
        before = DEFAULT_SELECTION
    # Without the key a host takes its own memory.
    return path, HOST_MEMORY if before is None else str(before), after


def _config_of(arm: Any) -> Any:
    config: Any = to_json(arm)["config"]
    if arm.system in POLICIES:
        # Such an arm selects by its name, whatever its configuration says.
        return {**config, "autoRecall": {**config["autoRecall"], "selectionMode": arm.system}}
    if arm.system != "engine":
        raise UnusableInput(f"arm {arm.name} is {arm.system}, which is no configuration of {ENTRY}")
    return config


def applied(config: Path, patch: Patch) -> Applied:
    """Return what a patch would change in a gateway's files; they stay as they are.

    Each value is shown in the file that decides it (HC-8). Raises :class:`UnusableInput` if the file is no
    openclaw.json, or if a value has no place in it.
    """
    resolved = resolved_host(config)
    value = resolved.value
    if any(path[: len(_CONFIG)] == _CONFIG for path in patch.values):
        locate(value, str(config))
    lines, already = [], []
    changed: dict[Path, bytes] = {}
    for path, new in patch.values.items():
        name = ".".join(path)
        if at_path(value, path) == new:
            already.append(name)
            continue
        deciding = resolve_config(config, edited=changed).decides(path)
        if deciding.why_not:
            raise UnusableInput(f"{config}: {name} cannot be set: {deciding.why_not}")
        text = changed.get(deciding.file, resolved.texts[deciding.file]).decode()
        after = set_value(text, deciding.path, new, str(resolved.shown(deciding.file))).apply(text)
        where = "" if deciding.file == resolved.config else f" (in {resolved.shown(deciding.file)})"
        lines += [f"{name}{where}", *edited_lines(text, after, deciding.path)]
        changed[deciding.file] = after.encode()
    result = resolve_config(config, edited=changed).value
    host = host_of(result)
    refused = check_host(result, host, where=config.name).problems if host is not None and lines else ()
    return Applied(tuple(lines), tuple(already), refused)
