"""The jobs of a stage as lines of cron, units of systemd, or a GitHub workflow (CN-12)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

from lab.base.errors import UnusableInput
from lab.canary.rollout.jobs import Job, clock, cron_fields, free_start, in_utc, overlaps

FORMS = ("cron", "systemd", "github")
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FOLDER = re.compile(r"[\w./~+@%-]+")
NIGHTLY = "nightly"
# When cron looks whether a job that runs all the time was killed.
_AGAIN = "*/5 * * * *"


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
        raise UnusableInput(f"--as: unknown form {form!r}; known: {', '.join(FORMS)}")
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
