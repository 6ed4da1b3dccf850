"""cron, systemd and messages: the boxes of the page, and nightly.sh as cron and systemd start it."""

from __future__ import annotations

import fcntl
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.recipes.conftest import FILES, Machine

pytestmark = pytest.mark.process
FIELD = re.compile(r"(\*|\d+(-\d+)?)(/\d+)?(,\d+(-\d+)?)*")
# What a sample plan has in place of the recordings of the machine.
BROKEN = 'name = "mine"\n'


def _mail(machine: Machine) -> tuple[str, str]:
    """Return the subject and the text of the letter that was sent last."""
    letter = message_from_bytes((machine.home / "mail").read_bytes(), policy=default)
    body = letter.get_body(("plain",))
    assert body is not None
    return str(letter["Subject"]), str(body.get_content())


@contextmanager
def _webhook() -> Iterator[tuple[str, list[tuple[str | None, bytes]]]]:
    """A webhook at a loopback address; yields its address and what is posted to it."""
    posted: list[tuple[str | None, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", posted
        server.shutdown()
        thread.join()


def _cron(machine: Machine) -> Callable[[], int]:
    """Return what starts the job of the crontab as cron does, and returns its exit code."""
    lines = [line for line in (FILES / "crontab").read_text("utf-8").splitlines() if line and line[0] != "#"]
    named = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    (job,) = (line for line in lines if not re.match(r"\w+=", line))
    *when, command = job.split(None, 5)
    assert all(FIELD.fullmatch(part) for part in when)
    assert "%" not in command, "cron would end the command there"
    assert named["MAILTO"] == '""'
    kept = {name: value for name, value in machine.env.items() if name.startswith("LAB_CACHE")}
    stand_ins = machine.path.partition(":")[0]
    env = kept | {"HOME": str(machine.home), "LOGNAME": "ops", "PATH": f"{stand_ins}:{named['PATH']}"}
    return lambda: subprocess.run([named["SHELL"], "-c", command], cwd=machine.home, env=env).returncode


def test_install_ends_with_a_working_lab(installed_said: str) -> None:
    assert "all-MiniLM-L6-v2" in installed_said


def test_cron_runs_nights_from_the_first_to_a_failure(prepared: Callable[[], Machine], boxes: dict[str, str]) -> None:
    machine = prepared()
    lab = machine.home / "lab"
    machine.stand_in("crontab", f'cp "$1" "{machine.home}/installed"')
    machine.ok(boxes["First run"])
    subject, text = _mail(machine)
    assert subject.startswith("[lab] INCONCLUSIVE: nightly run of ")
    assert "lab nightly baseline approve reports/nightly/" in text
    machine.ok(boxes["Approve"])
    machine.ok(boxes["cron"])
    assert (machine.home / "installed").read_text() == (FILES / "crontab").read_text()
    assert [line.split()[0] for line in machine.called()] == ["sendmail", "crontab"]

    # A second night that passes sends nothing.
    night = _cron(machine)
    assert night() == 0
    assert json.loads((lab / "nightly.json").read_text())["status"] == "pass"
    assert machine.called() == []
    assert (lab / "cron.log").read_text() == ""
    # With ALWAYS, a pass is sent too.
    with (lab / "nightly.env").open("a") as settings:
        settings.write("ALWAYS=yes\n")
    assert night() == 0
    assert _mail(machine)[0].startswith("[lab] PASS: nightly run of ")
    assert machine.called() == ["sendmail -t -i"]

    # A plan that cannot be used has no verdict; the message has the error.
    (lab / "plan.toml").write_text(BROKEN)
    assert night() == 2
    subject, text = _mail(machine)
    assert subject == "[lab] ERROR: the command ended without a verdict"
    assert "plan.toml" in text


def test_night_that_fails_names_the_turns_and_how_to_approve(
    prepared: Callable[[], Machine], boxes: dict[str, str]
) -> None:
    machine = prepared()
    lab = machine.home / "lab"
    machine.ok(boxes["First run"])
    machine.ok(boxes["Approve"])
    # The same arm with a configuration of its own, which injects fewer items.
    plan = (lab / "plan.toml").read_text()
    (lab / "few.json").write_text(json.dumps({"lab": {"arm": "hybrid"}, "autoRecall": {"maxItems": 2}}))
    (lab / "plan.toml").write_text(plan.replace('"hybrid"]', '"hybrid=few.json"]'))
    done = machine.run("cd ~/lab && ./nightly.sh")
    assert done.returncode == 1, done.stderr
    subject, text = _mail(machine)
    assert subject.startswith("[lab] FAIL: nightly run of ")
    assert "receipts changed" in " ".join(text.split())
    assert "approve the run" in " ".join(text.split())


def test_runs_that_overlap_are_kept_apart(prepared: Callable[[], Machine]) -> None:
    machine = prepared()
    with (machine.home / "lab" / "nightly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = machine.run("cd ~/lab && ./nightly.sh")
    assert (done.returncode, done.stdout) == (75, "")
    assert "another run is going on" in done.stderr
    assert machine.called() == []
    assert not (machine.home / "lab" / "nightly.json").exists()


def test_message_that_cannot_be_sent_is_kept(prepared: Callable[[], Machine]) -> None:
    machine = prepared()
    machine.stand_in("sendmail", "exit 69")
    done = machine.run("cd ~/lab && ./nightly.sh")
    assert done.returncode == 3
    assert "the message was not sent" in done.stderr
    assert "Subject: [lab] INCONCLUSIVE" in (machine.home / "lab" / "message.out").read_text()


def test_systemd_units_start_the_same_script(prepared: Callable[[], Machine], boxes: dict[str, str]) -> None:
    machine = prepared()
    for name in ("systemctl", "loginctl"):
        machine.stand_in(name, ":")
    machine.ok(boxes["systemd"])
    machine.ok(boxes["systemd by hand"])
    assert machine.called() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now lab-nightly.timer",
        "loginctl enable-linger",
        "systemctl --user start lab-nightly.service",
    ]
    units = machine.home / ".config" / "systemd" / "user"
    service, timer = (ConfigParser(interpolation=None, strict=True) for _ in range(2))
    for unit in (service, timer):
        unit.optionxform = str  # type: ignore[assignment, method-assign]  # as the library documents
    service.read(units / "lab-nightly.service", "utf-8")
    timer.read(units / "lab-nightly.timer", "utf-8")
    start = service["Service"]
    words = [word.replace("%h", str(machine.home)) for word in shlex.split(start["ExecStart"])]
    done = subprocess.run(
        ["/bin/sh", "-c", f'umask {start["UMask"]}; exec "$@"', "sh", *words],
        cwd=start["WorkingDirectory"].replace("%h", str(machine.home)),
        env=machine.env,
    )
    assert done.returncode == 3
    assert _mail(machine)[0].startswith("[lab] INCONCLUSIVE")
    assert (machine.home / "lab" / "nightly.json").stat().st_mode & 0o077 == 0
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_systemd_accepts_the_units(prepared: Callable[[], Machine], boxes: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    machine = prepared()
    for name in ("systemctl", "loginctl"):
        machine.stand_in(name, ":")
    machine.ok(boxes["systemd"])
    tmp_path.chmod(0o700)
    env = machine.env | {"XDG_RUNTIME_DIR": str(tmp_path)}
    script = "cd ~/.config/systemd/user && systemd-analyze verify --user ./lab-nightly.service ./lab-nightly.timer"
    done = machine.run(script, env)
    assert (done.returncode, done.stderr) == (0, "")
    unit = machine.home / ".config" / "systemd" / "user" / "lab-nightly.timer"
    unit.write_text(unit.read_text("utf-8").replace("03:15", "33:15"), "utf-8")
    assert machine.run(script, env).returncode != 0


def test_messages_are_written_in_every_form(prepared: Callable[[], Machine], boxes: dict[str, str]) -> None:
    machine = prepared()
    machine.ok(boxes["First run"])
    said = machine.ok(boxes["Messages"])
    assert said.startswith("? INCONCLUSIVE: nightly run of ")
    blocks = json.loads((machine.home / "lab" / "slack.json").read_text("utf-8"))["blocks"]
    assert blocks[0]["text"]["text"].startswith("? INCONCLUSIVE: nightly run of ")
    mail = message_from_bytes((machine.home / "lab" / "mail.eml").read_bytes(), policy=default)
    assert mail["To"] == "ops@example.org, Team <team@example.org>"

    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (Path(machine.path.partition(":")[0]) / "curl").unlink(missing_ok=True)
    with _webhook() as (address, posted):
        machine.more["SLACK_WEBHOOK"] = address
        machine.ok(boxes["Send"])
    assert posted == [("application/json", (machine.home / "lab" / "slack.json").read_bytes())]
    assert (machine.home / "mail").read_bytes() == (machine.home / "lab" / "mail.eml").read_bytes()
