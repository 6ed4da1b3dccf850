"""List the jobs of Stage A and Stage C: when each runs, how long it may take, and which of them overlap (CN-12).

They are written as lines of cron, units of systemd, or a GitHub workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.base.regex import regex

DAY, WEEK = 1440, 7 * 1440
STAGES = ("A", "C")
_TIME = regex(r"([01]?\d|2[0-3]):([0-5]\d)")
FORMS = ("cron", "systemd", "github")
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FOLDER = regex(r"[\w./~+@%-]+")
NIGHTLY = "nightly"
# When cron looks whether a job that runs all the time was killed.
_AGAIN = "*/5 * * * *"


@dataclass(frozen=True, slots=True)
class Job:
    """A job: the minutes of the day at which it starts, on one day of the week (0 is Sunday) or on all of them.

    ``longest`` is the number of minutes after which it is ended. ``command`` is what the shell runs in the folder of
    the lab; ``writes`` names what it changes and ``reads`` what it reads. A job without ``starts`` runs all the time.
    """

    name: str
    about: str
    command: str
    starts: tuple[int, ...]
    longest: int
    writes: str | None = None
    reads: str | None = None
    weekday: int | None = None

    def at(self, minute: int) -> Job:
        """Return the job with its first start at a minute of the day; further starts keep their distance."""
        shift = minute - self.starts[0]
        return replace(self, starts=tuple(sorted((start + shift) % DAY for start in self.starts)))

    def spans(self) -> list[tuple[int, int]]:
        """Return when it runs in a week, as minutes from Sunday 00:00."""
        days = range(7) if self.weekday is None else [self.weekday]
        return [(day * DAY + start, day * DAY + start + self.longest) for day in days for start in self.starts]


class Overlap(NamedTuple):
    """Two jobs of which one may start while the other runs; ``clash`` says what both of them touch, if anything."""

    first: str
    second: str
    from_minute: int
    at_minute: int
    clash: str | None

    def __str__(self) -> str:
        """Return the overlap as a sentence."""
        both = f", and both use {self.clash}" if self.clash else ""
        begun, at = clock(self.from_minute), clock(self.at_minute)
        return f"{self.second} starts at {at} while {self.first}, from {begun}, may still run{both}"


class Places(NamedTuple):
    """Where things are, as the shell spells them: quoted if they must be."""

    config: str
    store: str
    ledger: str
    observations: str
    restart: str
    home: str


def jobs_of(stage: str, places: Places) -> list[Job]:
    """Return the jobs of a stage. The times of Stage A are those of the design document (seed 001).

    The gateway runs all the time, so the jobs write despite it; LanceDB keeps its commits apart.
    """
    every_4_hours = tuple(range(0, DAY, 240))
    capture = Job(
        "capture",
        "what tools returned is appended to the log of observations",
        f".venv/bin/lab memory ledger capture {places.home} {places.observations} --write",
        tuple(sorted((start - 10) % DAY for start in every_4_hours)),
        10,
        writes="the observations",
    )
    ledger = Job(
        "ledger",
        "what was captured is ingested and graded",
        f".venv/bin/lab memory ledger ingest {places.ledger} {places.observations} --grade --write",
        every_4_hours,
        15,
        writes="the ledger",
        reads="the observations",
    )
    writeback = Job(
        "writeback",
        "grades of the ledger are written into the memories",
        f".venv/bin/lab memory ledger writeback {places.ledger} {places.store} --limit 1000 --despite-gateway --quiet "
        "--write",
        tuple(start + 20 for start in every_4_hours),
        15,
        writes="the memories",
        reads="the ledger",
    )
    # After the writeback of 04:20, and before the capture of 07:50: between them it meets no other job.
    nightly = Job("nightly", "the nightly run of docs/recipes.md", "./nightly.sh", (275,), 120)
    if stage == "A":
        return [capture, ledger, writeback, nightly]
    optimize = Job(
        "optimize",
        "files and indexes of the memories are merged",
        f".venv/bin/lab memory index optimize {places.store} --write --despite-gateway --keep 30",
        (120,),
        60,
        writes="the memories",
        weekday=0,
    )
    watch = Job(
        "watch",
        "the live log is followed; the slot is switched back if recalls fail",
        f".venv/bin/lab canary watch {places.config} --restart {places.restart} --write",
        (),
        0,
    )
    return [capture, ledger, writeback, nightly, optimize, watch]


def require_stage(stage: str) -> str:
    """Return the stage in upper case; raise :class:`UnusableInput` for another one."""
    if stage.upper() not in STAGES:
        hint = "; Stage B is one window: lab canary run" if stage.upper() == "B" else ""
        raise UnusableInput(f"--stage {stage!r}: unknown stage; {choices(stage, STAGES)}{hint}")
    return stage.upper()


def moved(jobs: Sequence[Job], given: Iterable[str]) -> list[Job]:
    """Return the jobs with some moved: ``NAME=HH:MM``. Raises :class:`UnusableInput`."""
    by_name = {job.name: job for job in jobs}
    for text in given:
        name, _, time = text.partition("=")
        match = _TIME.fullmatch(time)
        if name not in by_name or not by_name[name].starts:
            known = ", ".join(job.name for job in jobs if job.starts)
            raise UnusableInput(f"--at {text!r}: unknown job {name!r}; known: {known}")
        if match is None:
            raise UnusableInput(f"--at {text!r}: expected {name}=HH:MM")
        by_name[name] = by_name[name].at(60 * int(match[1]) + int(match[2]))
    return list(by_name.values())


def overlaps(jobs: Sequence[Job]) -> list[Overlap]:
    """Return the pairs of jobs that may run at once, each at its first overlap of the week."""
    pairs = [(one, other) for index, one in enumerate(jobs) for other in jobs[index:]]
    return [overlap for one, other in pairs if (overlap := _first_overlap(one, other)) is not None]


def _first_overlap(one: Job, other: Job) -> Overlap | None:
    for begun, end in one.spans():
        for start, last in other.spans():
            if one is other and start == begun:
                continue
            for again in (0, WEEK):
                if begun <= start + again < end:
                    return Overlap(one.name, other.name, begun % DAY, start % DAY, _clash(one, other))
                if start <= begun + again < last:
                    return Overlap(other.name, one.name, start % DAY, begun % DAY, _clash(one, other))
    return None


def _clash(one: Job, other: Job) -> str | None:
    for first, second in ((one, other), (other, one)):
        if first.writes and first.writes in (second.writes, second.reads):
            return first.writes
    return None


def free_start(job: Job, jobs: Sequence[Job]) -> int | None:
    """Return the next minute of the day from which a job overlaps with no other; None if there is none."""
    others = [other for other in jobs if other.name != job.name]
    for later in range(5, DAY, 5):
        tried = job.at((job.starts[0] + later) % DAY)
        if not overlaps([tried]) and not any(_first_overlap(tried, other) for other in others):
            return (job.starts[0] + later) % DAY
    return None


def clock(minute: int) -> str:
    """Return a minute of the day as HH:MM."""
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def in_utc(job: Job, zone: ZoneInfo, day: datetime) -> Job:
    """Return a job in UTC, by the offset of its time zone on a day."""
    offset = day.astimezone(zone).utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset is not None else 0
    shifted = [start - minutes for start in job.starts]
    weekday = job.weekday
    if weekday is not None and shifted:
        # A job of one day has one start.
        weekday = (weekday + shifted[0] // DAY) % 7
    return replace(job, starts=tuple(sorted(start % DAY for start in shifted)), weekday=weekday)


def cron_fields(job: Job) -> str:
    """Return the five fields of a crontab for the starts of a job, which share their minute."""
    minutes = {start % 60 for start in job.starts}
    hours = [start // 60 for start in job.starts]
    if len(minutes) != 1:
        raise UnusableInput(f"job {job.name}: its starts differ in their minute, which one line of cron cannot say")
    steps = {later - earlier for earlier, later in pairwise(hours)}
    (minute,) = minutes
    day = "*" if job.weekday is None else str(job.weekday)
    step = steps.pop() if len(steps) == 1 else 0
    if step and len(hours) * step == 24:
        hour = f"*/{step}" if hours[0] == 0 else f"{hours[0]}-23/{step}"
    else:
        hour = ",".join(map(str, hours))
    return f"{minute} {hour} * * {day}"


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone; raise :class:`UnusableInput` for an unknown one."""
    if name not in available_timezones():
        raise UnusableInput(f"--timezone {name!r}: unknown time zone; give a name such as Asia/Taipei or UTC")
    return ZoneInfo(name)


def remarks(jobs: Sequence[Job]) -> list[str]:
    """Return each overlap as a sentence, then where a job could move so that it has none."""
    found = overlaps(jobs)
    said = [f"overlap: {overlap}" for overlap in found]
    by_name = {job.name: job for job in jobs}
    # The job that overlaps most is the one to move.
    named = [name for overlap in found for name in {overlap.first, overlap.second}]
    if named:
        most = max(sorted(set(named)), key=named.count)
        free = free_start(by_name[most], jobs)
        if free is not None:
            said.append(f"no overlap: --at {most}={clock(free)}")
    return said


def written(
    form: str, jobs: Sequence[Job], *, folder: str, zone: ZoneInfo, stage: str, config: str, runner: str
) -> dict[str, str]:
    """Return the files of a plan by name. ``folder`` is the folder of the lab on the host, with ``~`` for the home.

    Raises :class:`UnusableInput` for an unknown form, and for a folder that a crontab or a unit would misread.
    """
    if form not in FORMS:
        raise UnusableInput(f"--as: unknown form {form!r}; {choices(form, FORMS)}")
    if not _FOLDER.fullmatch(folder) or "%" in folder:
        raise UnusableInput(f"--folder {folder!r}: use letters, digits and ./~+@_- alone, which every scheduler reads")
    head = [f"Stage {stage}, times in {zone.key}. Written by lab canary plan.", *remarks(jobs)]
    if form == "cron":
        return {"crontab": _cron(jobs, head, folder, zone, config)}
    if form == "systemd":
        return _systemd(jobs, head, folder, zone, config)
    return {"lab-stage.yml": _github(jobs, head, zone, folder, runner)}


def job_command(job: Job) -> str:
    """Return what a scheduler starts in the folder of the lab: a job sends a message only if it does not succeed."""
    if job.name == NIGHTLY:
        return job.command
    # Within job.sh, so that a job that took too long sends a message as well.
    limit = f"timeout {job.longest}m " if job.longest else ""
    return f"./job.sh {job.name} {limit}{job.command}"


def recover_command(config: str) -> str:
    """Return what a scheduler starts when the machine starts."""
    return f"./job.sh recover .venv/bin/lab canary recover {config} --write"


def _cron(jobs: Sequence[Job], head: Sequence[str], folder: str, zone: ZoneInfo, config: str) -> str:
    home = folder.replace("~", "$HOME", 1)
    lines = [f"# {line}" for line in head]
    lines += [
        "# Every job is under a lock of its own, silent if it succeeds, and sends a message if it does not (job.sh).",
        "# cron of Debian ignores CRON_TZ: there, set the time zone of the machine.",
        f"CRON_TZ={zone.key}",
        "SHELL=/bin/sh",
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        'MAILTO=""',
    ]
    recover = recover_command(config).replace("%", "\\%")
    boot = [f"{recover} >>cron.log 2>&1"]
    for job in jobs:
        command = job_command(job).replace("%", "\\%")
        if job.starts:
            lines += [f"# {job.name}: {job.about}", f'{cron_fields(job)} cd "{home}" && {command} >>cron.log 2>&1']
            continue
        lines += [f"# {job.name}: {job.about}; started again if it was killed"]
        lines += [f'{_AGAIN} cd "{home}" && {command.replace("./job.sh", "./job.sh --again", 1)} >>cron.log 2>&1']
        boot.append(f"{command} >>cron.log 2>&1")
    # One line, because cron starts all lines of @reboot at once.
    lines += ["# A canary that a power failure ended is rolled back, before anything else starts"]
    lines += [f'@reboot cd "{home}" && {{ {"; ".join(boot)}; }}']
    return "\n".join(lines) + "\n"


def _systemd(jobs: Sequence[Job], head: Sequence[str], folder: str, zone: ZoneInfo, config: str) -> dict[str, str]:
    home = folder.replace("~", "%h", 1)
    files = {}
    comment = "".join(f"# {line}\n" for line in head)
    for job in jobs:
        unit = f"{comment}[Unit]\nDescription=Recall lab: {job.about}\n\n[Service]\n"
        common = f"WorkingDirectory={home}\nExecStart=/bin/sh -c {_unit_quoted(f'exec {job_command(job)}')}\n"
        common += "UMask=0077\nNoNewPrivileges=yes\n"
        if not job.starts:
            # An alarm and unusable input are for people: a restart would only repeat them.
            again = "Restart=on-failure\nRestartPreventExitStatus=1 2\nRestartSec=30\n"
            unit = unit.replace("\n\n[Service]", "\nAfter=lab-recover.service\n\n[Service]")
            files[f"lab-{job.name}.service"] = f"{unit}Type=exec\n{common}{again}\n[Install]\nWantedBy=default.target\n"
            continue
        files[f"lab-{job.name}.service"] = (
            f"{unit}Type=oneshot\n{common}Nice=10\nTimeoutStartSec={job.longest + 1}min\n"
        )
        times = ",".join(f"{start // 60:02}" for start in job.starts)
        day = "" if job.weekday is None else f"{_DAYS[job.weekday]} "
        when = f"{day}*-*-* {times}:{job.starts[0] % 60:02}:00 {zone.key}"
        files[f"lab-{job.name}.timer"] = (
            f"{comment}[Unit]\nDescription=Recall lab: {job.about}\n\n[Timer]\nOnCalendar={when}\n"
            "Persistent=true\n\n[Install]\nWantedBy=timers.target\n"
        )
    recover = _unit_quoted(f"exec {recover_command(config)}")
    files["lab-recover.service"] = (
        f"{comment}[Unit]\nDescription=Recall lab: roll back a canary that was ended by a power failure\n\n[Service]\n"
        f"Type=oneshot\nWorkingDirectory={home}\nExecStart=/bin/sh -c {recover}\nUMask=0077\n\n"
        "[Install]\nWantedBy=default.target\n"
    )
    return files


def _unit_quoted(command: str) -> str:
    """Return a word of a unit file: in double quotes, with what systemd would expand escaped."""
    for mark, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        command = command.replace(mark, escaped)
    return f'"{command}"'


def _github(jobs: Sequence[Job], head: Sequence[str], zone: ZoneInfo, folder: str, runner: str) -> str:
    today = datetime.now(UTC)
    timed = [(job, cron_fields(in_utc(job, zone, today))) for job in jobs if job.starts]
    lines = [f"# {line}" for line in head]
    lines += ["# GitHub reads times in UTC: where clocks change, write the plan again. It needs a runner on the host."]
    lines += [f"# Not in a workflow, which ends: {job.name} ({job.command})" for job in jobs if not job.starts]
    lines += ["name: lab stage", "", "on:", "  schedule:"]
    for job, when in timed:
        lines += [f"    # {job.name}, {clock(job.starts[0])} {zone.key}", f'    - cron: "{when}"']
    lines += ["  workflow_dispatch:", "", "permissions:", "  contents: read", "", "jobs:"]
    home = folder.replace("~", "$HOME", 1)
    for job, when in timed:
        lines += [
            f"  {job.name}:",
            f"    # {job.about}",
            f"    if: github.event_name == 'workflow_dispatch' || github.event.schedule == '{when}'",
            f"    runs-on: [{runner}]",
            f"    timeout-minutes: {job.longest + 1}",
            "    # A second run waits for the first.",
            "    concurrency:",
            f"      group: lab-{job.name}",
            "      cancel-in-progress: false",
            "    steps:",
            "      - run: |",
            f'          cd "{home}"',
            f"          {job_command(job)}",
        ]
    return "\n".join(lines) + "\n"
