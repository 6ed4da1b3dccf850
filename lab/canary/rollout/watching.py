"""Watch a live engine for weeks, and switch it back on an alarm (CN-13 to CN-17, seed 001 Stage C).

What was counted and how far every file was read are saved together, in one file that is replaced atomically. So a watch
that is killed at any time goes on with the line after the last one that it counted.

It compares with limits that are given, or that a canary of Stage B or an earlier watch found (CN-15).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from lab.base.config_resolve import real
from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import dump_json, only_writer, read_json, remove_leftovers, write_atomically
from lab.base.formatting import Announce, silent
from lab.canary.agree.logged import apart, databases_in, read_log
from lab.canary.audit.status import EMPTY, SKIPPED
from lab.canary.rollout.commands import raised
from lab.canary.rollout.downgrade import Downgrade, change_back, downgrade, left_over, slot_of
from lab.canary.rollout.evidence import WINDOW, Evidence, Limits, repeat_limit
from lab.canary.rollout.follow import Databases, Follower, log_files, transcript_files
from lab.canary.rollout.journal import now
from lab.canary.rollout.live_figures import (
    CALLS,
    ERRORS,
    FIGURES,
    LATENCY,
    LATER,
    LOG_MARKS,
    REPEAT,
    TEXT,
    TRANSCRIPT_MARKS,
    TURNS,
    Gateway,
)
from lab.gate.receipts import SCHEMA as AUDIT_SCHEMA
from lab.runs.directory import AUDIT
from lab.systems.openclaw.config.file import ENTRY

# More evidence says nothing new, and its digits are not read.
MOST_TIMES = 1_000_000
OVER = "more than a million times the threshold"
_NAMES = {
    ERRORS: "the error rate",
    CALLS: "the error rate of memory_recall",
    LATENCY: "the latency",
    REPEAT: "the repeat rate",
    TEXT: "the share of recalls without a text hit",
    TURNS: "the share of turns without a recall",
}
_SHOWN = {ERRORS: ("errors", "{:.1%}"), LATENCY: ("p95", "{:,.0f} ms"), REPEAT: ("repeat", "{:.2f}")}
# Causes that are named in one line.
_NAMED = 3
SCHEMA = "lab.watch.v1"
STATE, RECEIPT = "state.json", "watch.json"
# Seconds between two looks at the files, two pages with their receipt, and two lines of progress; a line comes sooner
# if there were recalls since the last one.
PAUSE, PAGE_EVERY, SAY_EVERY, SAY_NEW = 1.0, 15.0, 600.0, 60.0
# Receipts that cannot be read, and their share, from which the watch warns that it sees too little.
DAMAGED_LEAST, DAMAGED = 5, 0.05
# Recalls after which those of another gateway are counted again.
MIXED_EVERY = 20
WATCHING, ENDED, ALARM = "watching", "ended", "alarm"
# Turns with a repeat rate from which a mean is a baseline.
LEAST_TURNS = 100


def why(evidence: Evidence, figure: str) -> str:
    """Return the reason of an alarm: what the last recalls show, and what is allowed."""
    recalls, values, _ = _recent(evidence.windows, {"recalls": evidence.now.recalls, **evidence.now.figures()})
    value, limits = values[figure], evidence.limits
    one = evidence.tested()[figure]
    last = evidence.last
    strength = f"evidence {one.evidence:,.0f}, threshold {one.threshold:,.0f}"
    if one.evidence > MOST_TIMES * one.threshold:
        strength = f"evidence {OVER}"
    if evidence.control and not evidence.by_limit:
        return f"{_NAMES[figure]} of the canary is worse than that of the control ({strength})"
    if figure == TURNS:
        return (
            f"the log got no recall after {evidence.missed + LATER} turns of users in a row: the plugin is dead, or "
            f"its receipts are not logged ({strength})"
        )
    if figure == CALLS:
        return f"calls of memory_recall fail; allowed: {limits.errors:.1%} ({strength})"
    if value is None:
        return f"{_NAMES[figure]} is above what is allowed ({strength})"
    if figure == ERRORS:
        named = causes_of(last.causes)
        said = f"the engine did not work in {value:.1%} of the last {recalls} recalls"
        said += f": {named}" if named else ""
        said += f"; allowed: {limits.errors:.1%}"
    elif figure == TEXT:
        said = f"the text lane found nothing in {value:.1%} of the last recalls; allowed: {limits.text or 0:.1%}"
    elif figure == LATENCY:
        said = f"the last p95 of memory_recall is {value:,.0f} ms; allowed: {limits.latency or 0:,.0f} ms"
    else:
        said = f"the last mean repeat rate is {value:.2f}; allowed: {limits.repeat or 0:.2f}"
    return f"{said} ({strength})"


def causes_of(causes: Mapping[str, int]) -> str:
    """Return what did not work, the most frequent first, such as ``provider_unavailable 113, failed 2``."""
    faults = {name: count for name, count in causes.items() if name not in (*SKIPPED, EMPTY)}
    ordered = sorted(faults.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(f"{name} {count}" for name, count in ordered[:_NAMED]) + more


def _recent(
    windows: Iterable[Mapping[str, Any]], now: Mapping[str, Any], *, least: float = 0
) -> tuple[int, dict[str, float | None], set[str]]:
    """Return the number of the last recalls, the last value of each figure, and the figures with an older one.

    The last recalls are those of the last window and of the one that goes on, over which errors are counted. Other
    figures are taken from the window that goes on only if it has ``least`` recalls, or if there is no other.
    """
    closed = list(windows)
    last = [window for window in (*closed[-1:], now) if window["recalls"]]
    recalls = sum(window["recalls"] for window in last)
    ordered = [*closed, now] if now["recalls"] >= least else [now, *closed]
    values: dict[str, float | None] = {}
    older = set()
    for figure in FIGURES:
        window = next((window for window in reversed(ordered) if window[figure] is not None), None)
        values[figure] = window[figure] if window else None
        if window is not None and not any(window is one for one in (*closed[-1:], now)):
            older.add(figure)
    if last:
        values[ERRORS] = sum(window[ERRORS] * window["recalls"] for window in last) / recalls
    return recalls, values, older


def status_line(receipt: Mapping[str, Any]) -> str:
    """Return a line for the terminal: recalls so far, and each figure of the last ones, with its evidence."""
    least = 0 if receipt["alarm"] else WINDOW / 2
    recalls, values, older = _recent(receipt["windows"], receipt["now"], least=least)
    parts = []
    for figure, (name, form) in _SHOWN.items():
        value = values[figure]
        text = f"{name} {form.format(value) if value is not None else 'none yet'}"
        text += " earlier" if figure in older else ""
        if figure in receipt["figures"]:
            named = causes_of(receipt["recent_causes"]) if figure == ERRORS else ""
            text += f" ({_evidence_share(receipt['figures'][figure])}{'; ' if named else ''}{named})"
        elif figure in receipt["learning"]:
            text += " (learning)"
        parts.append(text)
    if (tested := receipt["figures"].get(TURNS)) and tested["evidence"] >= 1:
        parts.append(f"turns without a recall {receipt['turns_missed']} ({_evidence_share(tested)})")
    last = f"; of the last {recalls}" if recalls < receipt["seen"] else ""
    return f"{receipt['seen']:,} recalls{last}: {'; '.join(parts)}"


def _evidence_share(tested: Mapping[str, Any]) -> str:
    """Return the evidence of a figure as a share of its threshold, or as a multiple."""
    times = tested["evidence"] / tested["threshold"]
    if times > MOST_TIMES:
        return f"evidence {OVER}"
    return f"evidence {times:,.0f} times the threshold" if times >= 10 else f"evidence {times:.0%}"


@dataclass(frozen=True, slots=True)
class Arm:
    """Where the lines of a gateway are: its log, and the folders with its transcripts."""

    log: Path
    transcripts: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What is watched, until when, and what is done on an alarm; it is done only with ``write``.

    ``seconds`` ends the watch without an alarm. ``fresh`` begins a new one. ``words`` are those of the command.
    """

    canary: Arm
    downgrade: Downgrade
    limits: Limits
    recalls: int
    control: Arm | None = None
    seconds: float | None = None
    write: bool = False
    fresh: bool = False
    # Whether every turn of a user should have a receipt: recall and receipts are on, and transcripts are followed.
    turns: bool = False
    words: tuple[str, ...] = ("lab", "canary", "watch")

    @property
    def out(self) -> Path:
        """Return the folder of the watch."""
        return self.downgrade.out

    @property
    def command(self) -> str:
        """Return the command that carries out the downgrade of an alarm that was raised."""
        return " ".join(map(quote, [*self.words, "--write"]))

    def settings(self) -> dict[str, Any]:
        """Return what must stay the same while evidence is collected."""
        control = self.control
        return {
            "config": str(self.downgrade.config.absolute()),
            "log": str(self.canary.log.absolute()),
            "control": str(control.log.absolute()) if control else None,
            "limits": asdict(self.limits),
            "recalls": self.recalls,
        }


class Watched:
    """What a watch has seen and concluded: the tests, and what was read of each gateway."""

    def __init__(self, limits: Limits, *, control: bool, recalls: int) -> None:
        self.evidence = Evidence(replace(limits), control=control, recalls=recalls)
        self.canary, self.control = Gateway(), Gateway()

    def line(self, line: bytes, *, transcript: bool = False, control: bool = False) -> None:
        """Count a line of a log or of a transcript."""
        gateway = self.control if control else self.canary
        for seen in gateway.transcript_line(line) if transcript else gateway.log_line(line):
            self.evidence.add(seen, gateway.last_time, control=control)

    def settle(self) -> None:
        """Count the turns of users that got a receipt and those that did not; the log is read to its end."""
        for seen in self.canary.settle():
            self.evidence.add(seen, self.canary.last_time)

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "evidence": self.evidence.as_json(),
            "canary": self.canary.as_json(),
            "control": self.control.as_json() if self.evidence.control else None,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Watched:
        """Return what :meth:`as_json` returned."""
        one = cls(Limits(), control=False, recalls=1)
        one.evidence = Evidence.restored(state["evidence"])
        one.canary, one.control = Gateway(state["canary"]), Gateway(state["control"])
        return one


class Watch:
    """A watch with its files; see :func:`run_watch`."""

    def __init__(self, plan: WatchPlan) -> None:
        self.plan = plan
        self.state = plan.out / STATE
        # What begins a new watch although there is a state, to be said.
        self.remark: str | None = None
        saved = self._saved()
        self.started: str = saved["started"] if saved else now()
        self.alarm: dict[str, Any] | None = saved["alarm"] if saved else None
        self.done: dict[str, Any] | None = saved["downgrade"] if saved else None
        # When the configuration of an alarm was written, until a downgrade is requested.
        self.config: list[int] | None = saved["config"] if saved else None
        self.status = ALARM if self.alarm else WATCHING
        # What the log said of another gateway, and the number of recalls at which it is read again.
        self._other: str | None = None
        self._mixed_due = 0
        if saved:
            self.watched = Watched.restored(saved["watched"])
        else:
            self.watched = Watched(plan.limits, control=plan.control is not None, recalls=plan.recalls)
            self.watched.canary.since = time.time() if plan.turns else None
            self.watched.canary.databases = databases_in(log_files(plan.canary.log)())[-1:]
        places = saved["places"] if saved else {}
        since = float(saved["saved"]) if saved else 0.0
        self._followed: list[tuple[str, bool, Follower | Databases]] = []
        # The control first: after a pause, it must not seem silent while the rest of the canary's log is read.
        for side, arm in ((1, plan.control), (0, plan.canary)):
            if arm is None:
                continue
            for kind, files in (("log", log_files(arm.log)), ("transcripts", transcript_files(arm.transcripts))):
                name = f"{kind}{side}"
                self._followed.append((name, side == 1, Follower(files, places.get(name), since)))
            name = f"transcripts of databases{side}"
            self._followed.append((name, side == 1, Databases(arm.transcripts, places.get(name))))

    def _saved(self) -> dict[str, Any] | None:
        """Return the state of an earlier process, None if a new watch begins."""
        remove_leftovers(self.plan.out)
        if self.plan.fresh or not self.state.exists():
            return None
        try:
            saved: dict[str, Any] = read_json(self.state)
            settings, given = saved["settings"], self.plan.settings()
            # Whoever switched to the engine again after a downgrade wants a new watch.
            back = self.plan.downgrade
            switched = saved["downgrade"] or (saved["alarm"] and saved["config"] not in (None, _written(back.config)))
            if switched and slot_of(back.config) == ENTRY and not left_over(back):
                self.state.replace(self.state.with_name("state-before.json"))
                self.remark = (
                    f"{back.config} was written after the alarm of {saved['alarm']['raised']}: a new watch begins"
                )
                return None
            Watched.restored(saved["watched"])
        except UnusableInput as error:
            raise UnusableInput(f"{error}; --fresh begins a new watch, and forgets what this one saw") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnusableInput(
                f"{self.state}: is damaged ({type(error).__name__}); --fresh begins a new watch"
            ) from None
        differing = [name for name, value in given.items() if settings.get(name) != value]
        differing += ["schema"] if saved.get("schema") != SCHEMA else []
        if differing:
            raise UnusableInput(
                f"{self.plan.out}: holds a watch with another {', '.join(differing)}; choose another --out, or begin "
                "a new watch with --fresh"
            )
        return saved

    def look(self) -> bool:
        """Count the lines that the files got; return whether there were any. Saves nothing."""
        for name, control, follower in self._followed:
            transcript = name.startswith("transcripts")
            for line in follower.more(*(TRANSCRIPT_MARKS if transcript else LOG_MARKS)):
                self.watched.line(line, transcript=transcript, control=control)
        # While the rest of a log is read, its receipts are not known.
        if not any(follower.moved for name, control, follower in self._followed if name == "log0"):
            self.watched.settle()
        figure = self.watched.evidence.alarm
        if figure is not None and self.alarm is None:
            self.status = ALARM
            self.config = _written(self.plan.downgrade.config)
            self.alarm = {
                "figure": figure,
                "raised": now(),
                "log_time": self.watched.canary.last_time,
                "recalls": self.watched.canary.recalls,
                "why": why(self.watched.evidence, figure),
            }
        return any(follower.moved for _, _, follower in self._followed)

    @property
    def warnings(self) -> list[str]:
        """Return what an operator must know although it is no alarm."""
        canary, said = self.watched.canary, list(self.watched.evidence.warnings)
        if canary.unknown:
            named = ", ".join(f"{name} {count}" for name, count in sorted(canary.unknown.items()))
            said.append(f"receipts have reasons that this version does not know: {named}")
        if len(canary.databases) > 1:
            said.append(self._mixed())
        damaged, sound = canary.counts["damaged"], canary.recalls
        if damaged >= DAMAGED_LEAST and damaged > DAMAGED * (damaged + sound):
            said.append(f"{damaged} of {damaged + sound} receipts cannot be read: does this version know the engine's?")
        return said

    def _mixed(self) -> str:
        """Return what the log says of another gateway; it is read again after so many recalls, as it may be long."""
        canary, plan = self.watched.canary, self.plan
        if canary.recalls >= self._mixed_due:
            self._mixed_due = canary.recalls + MIXED_EVERY
            with suppress(LabError):
                found = apart(read_log(log_files(plan.canary.log)()), real(plan.downgrade.config).parent)
                self._other = found.sentence if found else None
        named = self._other or f"engines started on {', '.join(canary.databases)}"
        return f"{named}: the figures of two gateways are mixed; give each its own logging.file"

    def write(self) -> dict[str, Any]:
        """Replace ``watch.json``, and return what it holds."""
        receipt = self.as_json()
        write_atomically(self.plan.out / RECEIPT, dump_json(receipt))
        return receipt

    def save(self) -> None:
        """Replace the state: what was counted together with how far the files were read."""
        data = {
            "schema": SCHEMA,
            "settings": self.plan.settings(),
            "started": self.started,
            "saved": time.time(),
            "alarm": self.alarm,
            "downgrade": self.done,
            "config": self.config,
            "watched": self.watched.as_json(),
            "places": {name: follower.as_json() for name, _, follower in self._followed},
        }
        write_atomically(self.state, dump_json(data, indent=None), private=True)

    def as_json(self) -> dict[str, Any]:
        """Return the receipt of the watch: figures and decisions, with no text of a memory and no key (CN-10)."""
        evidence, plan = self.watched.evidence, self.plan
        return {
            "schema": SCHEMA,
            "status": self.status,
            "started": self.started,
            "written": now(),
            **plan.settings(),
            "writes": plan.write,
            "limits": asdict(evidence.limits),
            "baseline": evidence.baseline,
            "counts": {name: count for name, count in self.watched.canary.counts.items() if count},
            "seen": self.watched.canary.recalls,
            "causes": dict(self.watched.canary.causes),
            "unknown_reasons": dict(self.watched.canary.unknown),
            "recent_causes": dict(evidence.last.causes),
            "turns_missed": evidence.missed,
            "warnings": self.warnings,
            "last_time": self.watched.canary.last_time,
            "figures": {
                figure: {"evidence": one.evidence, "threshold": one.threshold, "observations": one.observations}
                for figure, one in evidence.tested().items()
            },
            "learning": {figure: len(values) for figure, values in evidence.learned.items() if values},
            "silent": evidence.silent,
            "windows": list(evidence.windows),
            "now": {"recalls": evidence.now.recalls, **evidence.now.figures()},
            "alarm": self.alarm,
            "command": plan.command if self.alarm and not self.done else None,
            "downgrade": self.done,
        }


Draw = Callable[[Mapping[str, Any]], None]


def run_watch(
    plan: WatchPlan,
    *,
    tell: Announce = silent,
    draw: Draw = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Watch until an alarm, a signal or the end of the time; on an alarm downgrade if ``plan.write``.

    Returns the receipt. Raises :class:`UnusableInput` before anything is read, and :class:`CannotMeasure` if a file
    cannot be read or written, or if the downgrade could not be carried out: the alarm is saved then, and the same
    command tries again.
    """
    with only_writer(plan.out):
        watch = Watch(plan)
        if watch.remark:
            tell(watch.remark)
        if not watch.alarm:
            if left_over(plan.downgrade):
                raise UnusableInput(
                    f"{plan.downgrade.config}: a downgrade did not end, and its watch is gone; first: "
                    f"lab canary recover {plan.downgrade.config} --write"
                )
            change_back(plan.downgrade.config, plan.downgrade.slot)
        try:
            with raised():
                _until_alarm(watch, tell, draw, sleep, clock)
        except KeyboardInterrupt:
            # What was counted since the last save is counted again by the next watch.
            tell(f"the watch was ended; it goes on after {watch.plan.out / STATE}")
            watch.status = ENDED if watch.alarm is None else ALARM
        if watch.alarm and not watch.done:
            _respond(watch, tell)
        receipt = watch.write()
        draw(receipt)
    canary = watch.watched.canary
    if watch.status == ENDED and plan.seconds is not None and not (canary.recalls or canary.counts["calls"]):
        raise CannotMeasure(f"{plan.canary.log}: got no recall while it was watched; are receipts enabled?")
    return receipt


def _until_alarm(
    watch: Watch, tell: Announce, draw: Draw, sleep: Callable[[float], None], clock: Callable[[], float]
) -> None:
    plan, begun = watch.plan, clock()
    if watch.alarm:
        return
    if not watch.state.exists():
        # From here on, a kill forgets nothing.
        watch.save()
    drawn = said = -1e9
    seen, quiet, warned = 0, list[str](), set[str]()
    while True:
        if is_new := watch.look():
            watch.save()
        if watch.alarm:
            return
        if (silent := watch.watched.evidence.silent) != quiet:
            quiet = silent
            tell(_silence(silent))
        for warning in watch.warnings:
            # Numbers change with every recall; the warning is the same.
            if (same := re.sub(r"\d+", "", warning)) not in warned:
                warned.add(same)
                tell(f"WARNING: {warning}")
        seconds = clock()
        if seconds - drawn >= PAGE_EVERY:
            drawn = seconds
            draw(watch.write())
            if slot_of(plan.downgrade.config) != ENTRY:
                tell("plugins.slots.memory was switched by hand: there is nothing to watch any more")
                watch.status = ENDED
                return
        recalls = watch.watched.canary.recalls
        if seconds - said >= (SAY_NEW if recalls != seen else SAY_EVERY):
            said, seen = seconds, recalls
            tell(status_line(watch.as_json()))
        if plan.seconds is not None and seconds - begun >= plan.seconds:
            watch.status = ENDED
            return
        if not is_new:
            sleep(PAUSE)


def _silence(figures: list[str]) -> str:
    if not figures:
        return "the control gives observations again: the canary is compared with it"
    return f"WARNING: the control gives no {', '.join(figures)}: the limits apply to the canary until it does"


def _respond(watch: Watch, tell: Announce) -> None:
    """Carry out the downgrade of an alarm, and save that it is done; only print what to do without ``--write``."""
    alarm, plan = watch.alarm or {}, watch.plan
    if not plan.write:
        return
    if watch.config:
        # From here on the downgrade is due, also if the configuration is edited before it succeeds.
        watch.config = None
        watch.save()
    tell(f"an alarm was raised: switching plugins.slots.memory to {plan.downgrade.slot}")
    try:
        done = downgrade(plan.downgrade, tell=tell)
    except LabError as error:
        raise CannotMeasure(f"NOT DOWNGRADED: {error}; alarm: {alarm['why']}; again: {plan.command}") from None
    except OSError as error:
        raise CannotMeasure(f"NOT DOWNGRADED: {error.strerror}; alarm: {alarm['why']}; again: {plan.command}") from None
    watch.done = {"at": now(), "slot": plan.downgrade.slot, **done._asdict()}
    watch.save()


def _written(config: Path) -> list[int] | None:
    """Return what tells whether a configuration was written again, also by a copy that keeps its time."""
    try:
        about = config.stat()
    except OSError:
        return None
    return [about.st_ino, about.st_mtime_ns, about.st_ctime_ns]


def read_baseline(path: Path) -> Limits:
    """Return the limits that an audit or an earlier watch gives; what it does not give is None.

    ``path`` is the folder of a canary or of a watch, or an ``audit.json``. Receipts of automatic recall hold no times,
    so an audit gives no limit of the latency. Raises :class:`UnusableInput`.
    """
    files = [path / AUDIT, path / RECEIPT] if path.is_dir() else [path]
    file = next((one for one in files if one.exists()), files[0])
    value = read_json(file)
    schema = value.get("schema") if isinstance(value, Mapping) else None
    try:
        if schema == AUDIT_SCHEMA:
            return Limits(repeat=_of_audit(value, file))
        if schema == SCHEMA:
            limits = value["limits"]
            return Limits(latency=_limit(limits["latency"], None), repeat=_limit(limits["repeat"], 1.0))
    except (KeyError, TypeError, ValueError):
        raise UnusableInput(f"{file}: is damaged; write it again with lab canary audit") from None
    raise UnusableInput(f"{file}: is neither an audit of receipts nor the receipt of a watch")


def _of_audit(value: Mapping[str, Any], file: Path) -> float:
    repeat = value["repeat"]
    if int(repeat["turns"]) < LEAST_TURNS:
        raise UnusableInput(
            f"{file}: has {repeat['turns']} turns with a repeat rate; a baseline needs {LEAST_TURNS}; without "
            "--baseline the watch learns it"
        )
    return repeat_limit(float(repeat["rate"]))


def _limit(value: object, most: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 or (most and value >= most):
        raise ValueError(value)
    return float(value)
