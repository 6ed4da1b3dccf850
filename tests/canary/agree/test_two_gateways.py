"""Two gateways that write one log: the recalls of the other one are counted, named and left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.agree.logged import Log, apart, leave_own, read_log, require_own, whose
from lab.canary.audit.waits import AFTER, BEFORE
from lab.canary.rollout.downgrade import Downgrade
from lab.canary.rollout.evidence import Limits
from lab.canary.rollout.live_figures import Gateway
from lab.canary.rollout.watching import Arm, Watch, WatchPlan
from tests.canary.rollout.conftest import CONFIG
from tests.commands import run_here

START = 1_772_355_600_000
TURNS = 12


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def written(ms: int, text: str, trace: str | None = None) -> str:
    line = {"0": '{"subsystem":"plugins"}', "1": text, "time": iso(ms)} | ({"traceId": trace} if trace else {})
    return json.dumps(line, separators=(",", ":")) + "\n"


def started(ms: int, home: str) -> str:
    return written(ms, f"openclaw-mem-engine: registered (db=/{home}/lancedb, table=memories, model=one, x=1)")


@pytest.fixture
def two(tmp_path: Path, receipt: Callable[..., dict[str, Any]]) -> Path:
    """A folder with the homes x and y, and their log: each has a recall every two seconds, y 100 ms after x."""
    lines = [started(START, "x"), started(START + 1, "y")]
    for name, memory, shift in (("x", "m1", 0), ("y", "n1", 100)):
        sessions = tmp_path / name / "agents" / "main" / "sessions"
        sessions.mkdir(parents=True)
        (sessions / "s.jsonl").write_text('{"type":"session","version":4,"id":"s"}\n', "utf-8")
        (tmp_path / name / "openclaw.json").write_text(CONFIG.replace("memory-lancedb", "openclaw-mem-engine"), "utf-8")
        events = []
        for turn in range(TURNS):
            ms, trace, run = START + 1_007 + 2_000 * turn + shift, f"{name}{turn:031x}", f"chatcmpl_{name}-{turn}"
            found = receipt([memory], quota=None if name == "x" else (2, 2, 1))
            lines.append(written(ms, f"openclaw-mem-engine:autoRecall.receipt {json.dumps(found)}", trace))
            lines.append(written(ms + 500, f"[agent] run {run} ended with stopReason=stop", trace))
            about = {"sessionId": "s", "runId": run}
            events += [{"type": kind, "ts": iso(ms + by)} | about for kind, by in ((BEFORE, -50), (AFTER, 300))]
        text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        (sessions / "s.trajectory.jsonl").write_text(text, "utf-8")
    lines.sort(key=lambda line: str(json.loads(line)["time"]))
    (tmp_path / "gateway.log").write_text("".join(lines), "utf-8")
    return tmp_path


def read(two: Path) -> Log:
    return read_log([two / "gateway.log"])


@pytest.mark.parametrize(("name", "memory"), [("x", "m1"), ("y", "n1")])
def test_recalls_of_the_other_gateway_are_counted_and_left_out(two: Path, name: str, memory: str) -> None:
    log = read(two)
    leave_own(log, two / name, Path(f"/{name}/lancedb"))
    assert [one.receipt["whyTheseIds"][0]["id"] for one in log.recalls] == [memory] * TURNS
    assert {one.session for one in log.recalls} == {"s"}
    assert [names[0] for _, _, names in log.engines] == [f"/{name}/lancedb"]
    (note,) = log.notes
    assert note.startswith("another gateway writes this log: 12 of 24 recalls are not this host's (engines started on ")
    assert note.endswith("/x/lancedb, /y/lancedb): left out")


def test_recalls_of_overlapping_turns_have_the_session_of_their_run(
    tmp_path: Path, receipt: Callable[..., dict[str, Any]]
) -> None:
    """The message of the second recall is stored first, as by two processes on one home of 2026.6.11."""
    sessions = tmp_path / "x" / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    lines = []
    for at, (name, stored) in enumerate((("s", 200), ("t", 100))):
        ms, trace = START + 7 + 50 * at, f"{at:032x}"
        message = {"role": "user", "content": [{"type": "text", "text": "Where is the kiln?"}]}
        header = {"type": "session", "version": 4, "id": name, "timestamp": iso(ms)}
        turn = {"type": "message", "id": "m", "parentId": None, "timestamp": iso(START + stored), "message": message}
        (sessions / f"{name}.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(turn)}\n", "utf-8")
        event = {"type": BEFORE, "ts": iso(ms - 5), "sessionId": name, "runId": f"run-{name}"}
        (sessions / f"{name}.trajectory.jsonl").write_text(json.dumps(event, separators=(",", ":")) + "\n", "utf-8")
        lines.append(written(ms, f"openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt(['m1']))}", trace))
        lines.append(written(ms + 900, f"[agent] run run-{name} ended with stopReason=stop", trace))
    log = tmp_path / "gateway.log"
    log.write_text("".join(lines), "utf-8")
    found = whose([log], tmp_path / "x").sessions
    assert {where: name.partition("/")[0] for where, name in found.items()} == {f"{log}:1": "s", f"{log}:3": "t"}
    # Without its run, a recall has the turn that was stored first.
    log.write_text("".join(line for line in lines if "[agent]" not in line), "utf-8")
    found = whose([log], tmp_path / "x").sessions
    assert {where: name.partition("/")[0] for where, name in found.items()} == {f"{log}:1": "t", f"{log}:2": "s"}


def test_a_store_that_moved_and_runs_that_a_host_forgot_are_no_second_gateway(two: Path) -> None:
    log = two / "gateway.log"
    text = log.read_text("utf-8")
    # One engine, and a run that the trajectory no longer has.
    log.write_text("".join(line for line in text.splitlines(keepends=True) if "/y/" not in line), "utf-8")
    assert apart(read(two), two / "x") is None
    # Another database, and every run is one of the host.
    lines = [line for line in text.splitlines(keepends=True) if "n1" not in line and "chatcmpl_y" not in line]
    log.write_text("".join(lines), "utf-8")
    assert apart(read(two), two / "x") is None
    assert require_own(log, [log], two / "x") is None
    # Nothing tells whose they are.
    log.write_text("".join(line for line in text.splitlines(keepends=True) if "[agent]" not in line), "utf-8")
    said = require_own(log, [log], two / "x")
    assert said == f"{log}: engines started on /x/lancedb, /y/lancedb, and nothing tells their recalls apart"


def test_audit_counts_and_names_the_other_gateway(two: Path) -> None:
    done = run_here("canary", "audit", "gateway.log", "--home", "x", "--out", "x.json", cwd=two)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    starts = "/x/lancedb (1 start), /y/lancedb (1 start)"
    assert f"note: 12 recalls of another gateway left out, which writes this log: {starts}" in shown
    found = json.loads((two / "x.json").read_text("utf-8"))
    assert (found["recalls"]["answered"], found["elsewhere"], found["latency"]["recalls"]) == (12, {"recalls": 12}, 12)
    assert found["sessions"]["by"] == {"session": 0, "transcript": 12, "scope": 0}
    modes = {mode: used["count"] for mode, used in found["selection_mode"].items()}
    assert modes == {"tier_first_v1": 12, "tier_quota_v1": 0}
    mixed = run_here("canary", "audit", "gateway.log", "--out", "both.json", cwd=two)
    assert f"note: engines of several databases write this log: {starts}. If" in " ".join(mixed.stdout.split())
    assert json.loads((two / "both.json").read_text("utf-8"))["recalls"]["answered"] == 24
    judged = run_here("gate", "both.json", "--policy", "stage-b", cwd=two)
    assert "engines of several databases write this log" in " ".join(judged.stdout.split())


@pytest.mark.parametrize("words", [["watch"], ["run", "--selection", "tier_quota_v1"]])
def test_watch_and_run_refuse_a_log_that_another_gateway_writes(two: Path, words: list[str]) -> None:
    config = two / "x" / "openclaw.json"
    done = run_here("canary", *words, config, "--restart", "true", "--log", two / "gateway.log", "--out", two / "out")
    assert done.returncode == 2
    assert "another gateway writes this log: 12 of 24 recalls are not this host's" in done.stderr
    assert "give each gateway its own logging.file" in done.stderr
    assert not (two / "out").exists()


def test_watch_counts_and_names_a_gateway_that_starts_later(two: Path) -> None:
    config, log, out = two / "x" / "openclaw.json", two / "gateway.log", two / "out"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0])
    watch = Watch(WatchPlan(Arm(log), Downgrade(config, "memory-core", "true", out), Limits(), 15_000))
    assert not watch.warnings
    with log.open("ab") as more:
        more.writelines(lines[1:])
    watch.look()
    (said,) = watch.warnings
    assert said.startswith("another gateway writes this log: 12 of 24 recalls are not this host's (engines started on ")
    assert watch.as_json()["warnings"] == [said]


def test_databases_of_engines_are_part_of_a_watch_state() -> None:
    gateway = Gateway({"databases": ["/x/lancedb"]})
    for name in ("x", "y", "y"):
        assert not gateway.log_line(started(START, name).encode())
    assert Gateway(gateway.as_json()).databases == ["/x/lancedb", "/y/lancedb"]


def test_a_home_with_none_of_the_runs_is_refused(two: Path) -> None:
    (two / "x" / "agents" / "main" / "sessions" / "s.trajectory.jsonl").unlink()
    with pytest.raises(UnusableInput, match="24 of 24 recalls are not this host's"):
        leave_own(read(two), two / "x", Path("/x/lancedb"))
    done = run_here("canary", "audit", "gateway.log", "--home", "x", "--strict", cwd=two)
    assert done.returncode == 1
    assert "24 recalls of another gateway left out" in done.stderr
