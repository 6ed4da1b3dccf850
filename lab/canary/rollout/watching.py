"""Watch a live engine for as long as it serves, and switch it back on an alarm (CN-13 to CN-17, seed 001 Stage C).

What was counted and how far every file was read are saved together, in one file that is replaced atomically. So a watch
that is killed at any time goes on with the line after the last one that it counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import dump_json, only_writer, read_json, remove_leftovers, write_atomically
from lab.base.formatting import Announce, silent
from lab.canary.rollout.downgrade import Downgrade, change_back, downgrade, left_over, slot_of
from lab.canary.rollout.evidence import Evidence, Limits
from lab.canary.rollout.follow import Follower, log_files, transcript_files
from lab.canary.rollout.follow_databases import Databases
from lab.canary.rollout.journal import now
from lab.canary.rollout.live_figures import LOG_MARKS, TRANSCRIPT_MARKS, Gateway
from lab.canary.rollout.signals import raised
from lab.canary.rollout.watch_text import status_line, why
from lab.systems.openclaw.config.file import ENTRY

SCHEMA = "lab.watch.v1"
STATE, RECEIPT = "state.json", "watch.json"
# Seconds between two looks at the files, two pages with their receipt, and two lines of progress; a line comes sooner
# if there were recalls since the last one.
PAUSE, PAGE_EVERY, SAY_EVERY, SAY_NEW = 1.0, 15.0, 600.0, 60.0
# Receipts that cannot be read, and their share, from which the watch warns that it sees too little.
DAMAGED_LEAST, DAMAGED = 5, 0.05
WATCHING, ENDED, ALARM = "watching", "ended", "alarm"


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
        if saved:
            self.watched = Watched.restored(saved["watched"])
        else:
            self.watched = Watched(plan.limits, control=plan.control is not None, recalls=plan.recalls)
            self.watched.canary.since = time.time() if plan.turns else None
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
        damaged, sound = canary.counts["damaged"], canary.recalls
        if damaged >= DAMAGED_LEAST and damaged > DAMAGED * (damaged + sound):
            said.append(f"{damaged} of {damaged + sound} receipts cannot be read: does this version know the engine's?")
        return said

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
