"""What a watch refuses, in one line and without a trace: configurations, limits, baselines, states, full disks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure
from lab.canary.rollout import watching
from lab.canary.rollout.evidence import REPEAT_MORE, Limits
from lab.canary.rollout.watching import read_baseline
from tests.canary.conftest import receipt_of
from tests.canary.rollout.conftest import CONFIG, ENTRY
from tests.commands import run_here

LIVE = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
WARNING = "openclaw-mem-engine: autoRecall failed: Error: no table\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of a live engine whose log gets nothing; a look takes no time."""
    monkeypatch.setattr(watching, "PAUSE", 0.01)
    home = tmp_path / ".openclaw"
    home.mkdir()
    (home / "openclaw.json").write_text(LIVE, "utf-8")
    (home / "gateway.log").touch()
    return home


def watch(home: Path, *more: str, code: int, restart: str = "true") -> str:
    words = ["canary", "watch", str(home / "openclaw.json"), "--restart", restart, "--out", str(home / "watch")]
    done = run_here(*words, "--for", "0.2s", "--no-guard", *more)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def audit(turns: int, rate: float | None) -> dict[str, Any]:
    return {"schema": "lab.receipts.audit.v1", "repeat": {"turns": turns, "rate": rate}}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "neither JSON nor JSON5"),
        (CONFIG, "openclaw-mem-engine is not live: nothing to watch"),
        (LIVE.replace("logging:", "other:"), "name the gateway's log with --log"),
        ("{plugins: 1, logging: {file: 'x.log'}}", "plugins.slots.memory is not set"),
    ],
)
def test_configuration_that_cannot_be_watched(home: Path, config: str, said: str) -> None:
    (home / "openclaw.json").write_text(config, "utf-8")
    assert said in watch(home, code=2)
    assert (home / "openclaw.json").read_text("utf-8") == config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", ENTRY), "is the engine that is watched"),
        (("--errors", "0"), "expected a share"),
        (("--p95", "nan"), "expected milliseconds"),
        (("--repeat", "1"), "expected a mean"),
        (("--for", "soon"), "expected a period"),
        (("--log", "/dev/zero"), "is a device"),
        (("--baseline", "nowhere"), "no such file"),
        (("--control-transcripts", "."), "needs --control"),
    ],
)
def test_words_that_are_refused(home: Path, words: tuple[str, ...], said: str) -> None:
    assert said in watch(home, *words, code=2)


def test_no_restart_command(home: Path) -> None:
    assert "needs a command" in watch(home, code=2, restart=" ")


def test_command_of_a_downgrade_repeats_what_was_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[watching.WatchPlan] = []

    def kept(plan: watching.WatchPlan, **named: object) -> None:
        plans.append(plan)
        raise CannotMeasure("enough")

    monkeypatch.setattr(watching, "run_watch", kept)
    watch(home, "--errors", "0.02", "--timeout", "400", code=4)
    given = f"--restart true --to memory-core --errors 0.02 --timeout 400 --out {home / 'watch'} --no-guard"
    assert plans[0].command == f"lab canary watch {home / 'openclaw.json'} {given} --write"


@pytest.mark.parametrize("state", [b"", b"{", b"[]", b"{}", b'{"schema": "lab.watch.v1", "settings": {}}', b"\0\xff"])
def test_damaged_state_is_not_overwritten(home: Path, state: bytes) -> None:
    (home / "watch").mkdir()
    (home / "watch" / "state.json").write_bytes(state)
    assert "--fresh begins a new watch" in watch(home, code=2)
    assert (home / "watch" / "state.json").read_bytes() == state
    watch(home, "--fresh", code=4)


def test_state_of_another_watch(home: Path) -> None:
    watch(home, code=4)
    assert "another limits" in watch(home, "--errors", "0.02", code=2)
    assert "another recalls" in watch(home, "--false-alarm-per", "500", code=2)
    (home / "other.log").touch()
    assert "another log" in watch(home, "--log", str(home / "other.log"), code=2)


def test_no_recall_in_all_the_time_is_no_measurement(home: Path) -> None:
    assert "got no recall" in watch(home, code=4)


def test_canary_that_was_left_over_comes_first(home: Path) -> None:
    folder = home / "openclaw.json.canary"
    folder.mkdir()
    (folder / "journal.json").write_text("{", "utf-8")
    assert "journal" in watch(home, code=4)


def test_watch_under_way_is_not_disturbed(home: Path) -> None:
    from lab.base.files import only_writer

    with only_writer(home / "watch"):
        assert "another process is writing it" in watch(home, code=4)


def test_evidence_from_a_killed_watch_counts_with_the_next(home: Path) -> None:
    watch(home, code=4)
    log = home / "gateway.log"
    # Each run sees too little for an alarm.
    for _ in range(4):
        with log.open("a", encoding="utf-8") as file:
            file.write(3 * WARNING)
        done = run_here(
            *("canary", "watch", str(home / "openclaw.json"), "--restart", "true", "--out", str(home / "watch")),
            *("--for", "0.2s"),
        )
        if done.returncode:
            break
    assert done.returncode == 1
    receipt = json.loads((home / "watch" / "watch.json").read_text("utf-8"))
    assert receipt["counts"]["failed"] in (9, 12)
    assert receipt["figures"]["errors"]["observations"] == receipt["counts"]["failed"]


@pytest.mark.parametrize("alike", [False, True])
def test_control_beside_the_canary(home: Path, alike: bool) -> None:
    control = home / "control.log"
    control.touch()
    watch(home, "--control", str(control), code=4)
    lines = [
        f"2026-03-01T09:{n:02}:00.000Z openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt_of([f'm{n}']))}\n"
        for n in range(40)
    ]
    (home / "gateway.log").write_text(40 * WARNING, "utf-8")
    control.write_text(40 * WARNING if alike else "".join(lines), "utf-8")
    said = " ".join(watch(home, "--control", str(control), code=0 if alike else 1).split())
    assert ("worse than that of the control" in said) is not alike
    assert "--control" in said or alike


def test_control_that_is_dead_warns_and_leaves_the_limits(home: Path) -> None:
    control = home / "control.log"
    control.touch()
    words = ("--control", str(control))
    watch(home, *words, code=4)
    lines = [
        f"2026-03-01T09:{n // 60:02}:{n % 60:02}.000Z openclaw-mem-engine:autoRecall.receipt "
        f"{json.dumps(receipt_of([f'm{n}']))}\n"
        for n in range(120)
    ]
    (home / "gateway.log").write_text("".join(lines), "utf-8")
    assert "WARNING: the control gives no errors, repeat, text: the limits apply" in watch(home, *words, code=0)
    receipt = json.loads((home / "watch" / "watch.json").read_text("utf-8"))
    assert receipt["silent"] == ["errors", "repeat", "text"]
    assert "WARNING: it gives nothing for error rate, repeat rate, recalls without a text hit" in (
        home / "watch" / "watch.html"
    ).read_text("utf-8")
    with (home / "gateway.log").open("a", encoding="utf-8") as file:
        file.write(40 * WARNING)
    said = " ".join(watch(home, *words, code=1).split())
    assert "allowed: 1.0%" in said
    assert "worse than that of the control" not in said


@pytest.mark.process
def test_new_watch_after_the_engine_was_switched_on_again(home: Path) -> None:
    watch(home, code=4)
    with (home / "gateway.log").open("a", encoding="utf-8") as file:
        file.write(20 * WARNING)
    assert "Downgraded" in watch(home, "--write", code=1)
    assert "Downgraded" in watch(home, "--write", code=1)
    (home / "openclaw.json").write_text(LIVE, "utf-8")
    watch(home, "--write", code=4)
    assert (home / "openclaw.json").read_text("utf-8") == LIVE
    assert (home / "watch" / "state-before.json").exists()


def test_operator_who_switched_back_by_hand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(home, code=4)
    with (home / "gateway.log").open("a", encoding="utf-8") as file:
        file.write(20 * WARNING)
    said = " ".join(watch(home, code=1).split())
    assert "Nothing was switched" in said
    assert said.count("100.0% of the last") == 1
    (home / "openclaw.json").write_text(CONFIG, "utf-8")
    assert "was switched back meanwhile" in watch(home, "--write", code=1)
    assert (home / "openclaw.json").read_text("utf-8") == CONFIG
    assert not (home / "openclaw.json.canary").exists()


@pytest.mark.process
@pytest.mark.parametrize("wanted", [False, True])
def test_alarm_before_the_engine_was_switched_on_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    """A new switch begins a new watch, unless a downgrade was wanted and did not succeed."""
    watch(home, code=4)
    with (home / "gateway.log").open("a", encoding="utf-8") as file:
        file.write(20 * WARNING)
    assert "Nothing was switched" in watch(home, code=1)
    assert "Nothing was switched" in watch(home, code=1)
    config = home / "openclaw.json"
    if wanted:

        def fails(*_: object, **__: object) -> None:
            raise CannotMeasure("no room")

        with monkeypatch.context() as patch:
            patch.setattr(watching, "downgrade", fails)
            assert "NOT DOWNGRADED: no room" in watch(home, "--write", code=4)
    # By hand, with a copy that keeps the time.
    times = config.stat()
    for text in (CONFIG, LIVE):
        config.write_text(text, "utf-8")
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))
    said = watch(home, "--write", code=1 if wanted else 4)
    assert ("a new watch begins" in said) is not wanted
    assert (config.read_text("utf-8") == LIVE) is not wanted
    assert (home / "watch" / "state-before.json").exists() is not wanted


def test_state_that_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.base.errors import CannotWrite

    watch(home, code=4)
    before = (home / "watch" / "state.json").read_bytes()
    (home / "gateway.log").write_text(3 * WARNING, "utf-8")

    def full(path: Path, *_: object, **__: object) -> None:
        raise CannotWrite(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(watching, "write_atomically", full)
        assert "No space left" in watch(home, code=4)
    assert (home / "watch" / "state.json").read_bytes() == before
    # What could not be saved is read again.
    run_here(
        "canary",
        "watch",
        str(home / "openclaw.json"),
        *("--restart", "true", "--out", str(home / "watch"), "--for", "0.2s"),
    )
    receipt = json.loads((home / "watch" / "watch.json").read_text("utf-8"))
    assert receipt["counts"]["failed"] == 3


def test_baselines(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(audit(500, 0.4)), "utf-8")
    assert read_baseline(tmp_path) == Limits(repeat=0.4 + REPEAT_MORE)
    file.unlink()
    limits = {"errors": 0.01, "latency": 200.0, "repeat": 0.5}
    (tmp_path / "watch.json").write_text(json.dumps({"schema": watching.SCHEMA, "limits": limits}), "utf-8")
    assert read_baseline(tmp_path) == Limits(latency=200.0, repeat=0.5)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (audit(99, 0.4), "a baseline needs 100"),
        (audit(500, None), "is damaged"),
        ({"schema": watching.SCHEMA, "limits": {"latency": -1, "repeat": None}}, "is damaged"),
        ({"schema": "other"}, "is neither an audit"),
        ([], "is neither an audit"),
    ],
)
def test_baselines_that_are_refused(tmp_path: Path, value: Any, said: str) -> None:
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(value), "utf-8")
    with pytest.raises(Exception, match=said):
        read_baseline(file)
