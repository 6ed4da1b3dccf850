"""The jobs of a stage: what overlaps, and what the schedulers read."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from lab.canary.rollout.jobs import Job, Places, cron_fields, free_start, in_utc, jobs_of, moved, overlaps
from tests.commands import run_here

PLACES = Places("~/o.json", "~/store", "~/l.sqlite", "~/o.jsonl", "true", "~")
ROOT = Path(__file__).resolve().parents[3]


def job(name: str, *starts: int, longest: int = 15, weekday: int | None = None, **more: Any) -> Job:
    return Job(name, name, "true", starts, longest, weekday=weekday, **more)


def test_stage_a_has_the_times_of_the_design_document() -> None:
    fields = {one.name: cron_fields(one) for one in jobs_of("A", PLACES)}
    assert fields == {
        "capture": "50 3-23/4 * * *",
        "ledger": "0 */4 * * *",
        "writeback": "20 */4 * * *",
        "nightly": "35 4 * * *",
    }


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (job("a", 60), job("b", 75), []),
        (job("a", 60), job("b", 74), [("a", "b", 60, 74)]),
        (job("b", 74), job("a", 60), [("a", "b", 60, 74)]),
        # Over midnight, and over the end of the week.
        (job("a", 1435), job("b", 5), [("a", "b", 1435, 5)]),
        (job("a", 1435, weekday=6), job("b", 5, weekday=0), [("a", "b", 1435, 5)]),
        (job("a", 1435, weekday=5), job("b", 5, weekday=0), []),
        (job("a", 60, weekday=0), job("b", 60, weekday=1), []),
        # A job that is still running when it shall start again.
        (job("a", 0, 10), job("b", 700), [("a", "a", 0, 10)]),
        (job("a"), job("b", 0), []),
    ],
)
def test_overlaps_of_two_jobs(one: Job, other: Job, expected: list[tuple[str, str, int, int]]) -> None:
    assert [overlap[:4] for overlap in overlaps([one, other])] == expected


def test_overlap_names_what_both_use() -> None:
    (overlap,) = overlaps([job("grade", 0, writes="the ledger"), job("writeback", 10, reads="the ledger")])
    assert str(overlap) == "writeback starts at 00:10 while grade, from 00:00, may still run, and both use the ledger"


def test_proposed_start_overlaps_with_nothing() -> None:
    assert overlaps(jobs_of("C", PLACES)) == []
    jobs = moved(jobs_of("C", PLACES), ["nightly=03:15"])
    nightly = next(one for one in jobs if one.name == "nightly")
    assert overlaps(jobs)
    free = free_start(nightly, jobs)
    assert free == 275
    assert overlaps([one.at(free) if one is nightly else one for one in jobs]) == []


@pytest.mark.parametrize(
    ("starts", "weekday", "zone", "expected"),
    [
        ((0, 240, 480, 720, 960, 1200), None, "Asia/Taipei", "0 */4 * * *"),
        ((20, 260, 500, 740, 980, 1220), None, "Asia/Kolkata", "50 2-23/4 * * *"),
        ((120,), 0, "Asia/Taipei", "0 18 * * 6"),
        ((120,), 0, "UTC", "0 2 * * 0"),
        ((1380,), 6, "America/New_York", "0 4 * * 0"),
        ((0, 600), None, "UTC", "0 0,10 * * *"),
    ],
)
def test_times_in_utc(starts: tuple[int, ...], weekday: int | None, zone: str, expected: str) -> None:
    day = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert cron_fields(in_utc(job("a", *starts, weekday=weekday), ZoneInfo(zone), day)) == expected


@pytest.mark.process
def test_commands_of_the_jobs_exist_with_their_options(tmp_path: Path) -> None:
    places = Places(
        *(str(tmp_path / name) for name in ("o.json", "store", "l.sqlite", "o.jsonl")), "true", str(tmp_path)
    )
    commands = [shlex.split(one.command) for one in jobs_of("C", places)]
    commands = [words[1:] for words in commands if words[0] == ".venv/bin/lab"]
    assert len(commands) == 5
    for words in commands:
        done = run_here(*words)
        # Nothing is there; what is wrong is never the command.
        assert done.returncode in (2, 4), words
        assert str(tmp_path) in done.stderr, done.stderr
        assert "No such option" not in done.stderr
        assert "Usage:" not in done.stderr


def test_jobs_write_while_the_gateway_runs() -> None:
    commands = {one.name: one.command for one in jobs_of("C", PLACES) if one.writes == "the memories"}
    assert sorted(commands) == ["optimize", "writeback"]
    assert all("--despite-gateway" in command for command in commands.values())


def _calendar(text: str) -> list[str]:
    """Return when a timer elapses next, by systemd itself."""
    done = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=2", text], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.process
@pytest.mark.parametrize("stage", ["A", "C"])
def test_units_are_accepted_by_systemd(tmp_path: Path, stage: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    done = run_here("canary", "plan", "--stage", stage, "--as", "systemd", "--folder", str(tmp_path), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    units = sorted(tmp_path.iterdir())
    names = {unit.name for unit in units}
    assert {"lab-writeback.timer", "lab-writeback.service", "lab-recover.service"} <= names
    assert ("lab-watch.service" in names) is (stage == "C")
    for unit in units:
        text = unit.read_text("utf-8")
        if when := [line for line in text.splitlines() if line.startswith("OnCalendar=")]:
            assert _calendar(when[0].removeprefix("OnCalendar="))
    named = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    checked = subprocess.run(["systemd-analyze", "verify", "--user", *units], env=named, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.process
def test_crontab_line_runs_the_job_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    (folder / ".venv" / "bin").mkdir(parents=True)
    stand_in = folder / ".venv" / "bin" / "lab"
    stand_in.write_text(
        '#!/bin/sh\necho "$PWD $*" >>calls\necho "$XDG_RUNTIME_DIR" >bus\n[ "$1" != memory ] || exit 0\ncat "$5"\n',
        "utf-8",
    )
    stand_in.chmod(0o755)
    shutil.copy(ROOT / "docs" / "recipes" / "job.sh", folder)
    (folder / "nightly.env").write_text("SEND='cat >sent'\n", "utf-8")
    plan = run_here("canary", "plan", "~/.openclaw", "--folder", str(folder))
    line = next(text for text in plan.stdout.splitlines() if text.startswith("20 "))
    command = line.split(" ", 5)[5]
    # As cron does it.
    bare = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    assert subprocess.run(["/bin/sh", "-c", command], check=False, env=bare).returncode == 0
    assert (folder / "bus").read_text("utf-8") == f"/run/user/{os.getuid()}\n"
    assert (folder / "calls").read_text("utf-8").startswith(f"{folder} memory ledger writeback ")
    # Silent if it succeeds; else a message made of what it complained about.
    assert not (folder / "sent").exists()
    stand_in.write_text(
        '#!/bin/sh\n[ "$1" = nightly ] && { cat "$5"; exit 0; }\necho "error: is locked" >&2\nexit 4\n', "utf-8"
    )
    assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 4
    assert (folder / "sent").read_text("utf-8") == "error: is locked\n"


@pytest.mark.process
def test_watch_of_a_crontab_is_started_again_only_if_it_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    (folder / ".venv" / "bin").mkdir(parents=True)
    stand_in = folder / ".venv" / "bin" / "lab"
    stand_in.write_text('#!/bin/sh\necho "$2" >>calls\n[ "$1" != nightly ] || exit 0\nexit "$(cat wanted)"\n', "utf-8")
    stand_in.chmod(0o755)
    shutil.copy(ROOT / "docs" / "recipes" / "job.sh", folder)
    (folder / "nightly.env").touch()
    (folder / "wanted").write_text("0", "utf-8")
    plan = run_here("canary", "plan", "~/.openclaw", "--stage", "C", "--folder", str(folder)).stdout.splitlines()
    (boot,) = (line.removeprefix("@reboot ") for line in plan if line.startswith("@reboot"))
    (again,) = (line.split(" ", 5)[5] for line in plan if line.startswith("*/5 "))

    def calls(line: str) -> list[str]:
        (folder / "calls").write_text("", "utf-8")
        subprocess.run(["/bin/sh", "-c", line], check=False)
        return [call for call in (folder / "calls").read_text("utf-8").split() if call in ("recover", "watch")]

    # At the start of the machine it follows the recovery, however it ended before.
    for code in ("4", "1", "0"):
        (folder / "wanted").write_text(code, "utf-8")
        assert calls(boot) == ["recover", "watch"]
    for code, expected in (("0", []), ("1", []), ("2", []), ("4", ["watch"]), ("137", ["watch"])):
        (folder / "wanted").write_text(code, "utf-8")
        calls(boot)
        assert calls(again) == expected, code
    # Killed with the script around it.
    (folder / "watch.code").unlink()
    with (folder / "watch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "cron.log").write_text("", "utf-8")
        assert calls(again) == []
        assert (folder / "cron.log").read_text("utf-8") == ""
    assert calls(again) == ["watch"]


def test_watch_of_systemd_follows_the_recovery() -> None:
    text = run_here("canary", "plan", "--stage", "C", "--as", "systemd").stdout
    assert text.count("After=lab-recover.service") == 1


def test_workflow_starts_each_job_by_its_own_schedule() -> None:
    done = run_here("canary", "plan", "--stage", "C", "--as", "github", "--at", "nightly=04:40")
    assert done.returncode == 0
    assert done.stderr == ""
    workflow = yaml.safe_load(done.stdout)
    # YAML 1.1 reads the key `on` as true.
    times = [entry["cron"] for entry in workflow[True]["schedule"]]
    assert set(workflow["jobs"]) == {"capture", "ledger", "writeback", "nightly", "optimize"}
    for name, one in workflow["jobs"].items():
        assert sum(f"'{time}'" in one["if"] for time in times) == 1, name
        assert one["concurrency"]["group"] == f"lab-{name}"
        assert one["runs-on"] == ["self-hosted", "openclaw"]


def test_plan_writes_its_files_with_json_too(tmp_path: Path) -> None:
    files = json.loads(run_here("canary", "plan", "--as", "systemd", "--json", "--out", tmp_path).stdout)["files"]
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == files


def test_overlaps_are_said_in_words_and_in_json() -> None:
    assert run_here("canary", "plan", "--stage", "C").stderr == ""
    done = run_here("canary", "plan", "--at", "nightly=03:15", "--json")
    value = json.loads(done.stdout)
    assert [entry["second"] for entry in value["overlaps"]] == ["capture", "ledger", "writeback"]
    assert value["remarks"][-1] == "no overlap: --at nightly=04:35"
    assert run_here("canary", "plan", "--at", "nightly=04:35").stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stage", "B"], "Stage B is one window: lab canary run"),
        (["--stage", "D"], "unknown stage; known: A, C"),
        (["--as", "at"], "--as: unknown form 'at'; known: cron, systemd, github"),
        (["--timezone", "Mars/Olympus"], "unknown time zone"),
        (["--at", "nightli=04:35"], "unknown job 'nightli'; known: capture, ledger, writeback, nightly"),
        (["--at", "nightly=24:35"], "expected nightly=HH:MM"),
        (["--folder", "~/my lab"], "--folder '~/my lab': use letters"),
    ],
)
def test_unusable_plans_say_what_is_known(words: list[str], message: str) -> None:
    done = run_here("canary", "plan", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_places_with_blanks_are_quoted_for_the_shell() -> None:
    done = run_here("canary", "plan", "/srv/my claw")
    assert "ingest '/srv/my claw/memory/openclaw-mem.sqlite'" in done.stdout
    assert "capture '/srv/my claw' '/srv/my claw/memory/observations.jsonl'" in done.stdout
