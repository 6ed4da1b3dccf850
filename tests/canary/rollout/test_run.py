"""A canary on a gateway that is a real process with a real file and a real log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway
from tests.commands import run_here

LABEL = r"policy\d*\.toml \(sha256 \w{8}, not a shipped policy\)"
pytestmark = pytest.mark.slow
Make = Callable[..., Gateway]


def as_before(gateway: Gateway) -> bool:
    """Whether file, mode and gateway are as before, and nothing is left beside the file."""
    mode = gateway.config.stat().st_mode & 0o777
    left = [path.name for path in gateway.home.iterdir() if "canary" in path.name or path.name.endswith(".part")]
    return (
        gateway.config.read_bytes() == CONFIG.encode()
        and mode == 0o600
        and left == []
        and gateway.running().get("slot") == "memory-lancedb"
    )


def test_run_that_passes_rolls_back_byte_for_byte(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(rf"GO: {LABEL}\nRolled back:", done.stdout)
    assert "is as before" in done.stdout
    assert as_before(gateway)
    receipt = json.loads((tmp_path / "out" / "canary.json").read_text("utf-8"))
    assert (receipt["status"], receipt["rolled_back"], receipt["complete"]) == ("pass", True, True)
    audit = json.loads((tmp_path / "out" / "audit.json").read_text("utf-8"))
    assert audit["recalls"]["answered"] >= 25
    assert "<!-- canary page of lab gate -->" in (tmp_path / "out" / "canary.html").read_text("utf-8")
    # No key of the configuration is in what is kept.
    for path in (tmp_path / "out").iterdir():
        assert b"s3cret" not in path.read_bytes()
        assert b"sk-key" not in path.read_bytes()


@pytest.mark.parametrize(("most", "code"), [(4, 0), (2, 1)])
def test_run_ends_as_soon_as_its_sessions_decide(make_gateway: Make, tmp_path: Path, most: int, code: int) -> None:
    gateway = make_gateway()
    (gateway.home / "hours").touch()
    words = gateway.words("--write", "--out", tmp_path / "out", most=most)
    words[words.index("--recalls") + 1] = "100000"
    done = run_here(*words)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.search(r"decided: (NO-)?GO after \d+ sessions?", done.stderr)
    assert as_before(gateway)
    receipt = json.loads((tmp_path / "out" / "canary.json").read_text("utf-8"))
    assert (receipt["complete"], receipt["notes"]) == (True, [receipt["notes"][0]])
    assert receipt["notes"][0].startswith("recalls without a session count by scope, and sessions by pauses: ")
    audit = json.loads((tmp_path / "out" / "audit.json").read_text("utf-8"))
    assert 10 <= audit["recalls"]["answered"] < 10000
    # The session that was open when it ended does not count.
    assert audit["sessions"]["open"] == 1


def test_dry_run_is_the_default_and_changes_nothing(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    before = gateway.running()
    done = run_here(*gateway.words("--out", tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Nothing was written or restarted. With --write:")
    assert "    6 - memory: 'memory-lancedb'\n    6 + memory: 'openclaw-mem-engine'\n" in done.stdout
    assert as_before(gateway)
    assert gateway.running() == before
    assert not (tmp_path / "out").exists()


def test_failing_gate_rolls_back_and_ends_with_1(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out", most=2))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.match(rf"NO-GO \(fail\): {LABEL}\nRolled back:", done.stdout)
    assert "- fail: limits.items_most: 3; the policy requires at most 2." in done.stdout
    assert as_before(gateway)
    # Nothing is left to do, so nothing orders it; nor after the same audit was judged again.
    out = tmp_path / "out"
    for _ in range(2):
        for name in ("canary.html", "verdict.xml", "verdict.json"):
            text = (out / name).read_text("utf-8")
            assert "Roll back" not in text, name
            assert "the selection policy alone" not in text
        assert "Rolled back: plugins.slots.memory is memory-lancedb again." in (out / "canary.html").read_text("utf-8")
        again = run_here("gate", out / "audit.json", "--policy", gateway.policy(2))
        assert again.returncode == 1
        assert "Rolled back: plugins.slots.memory is memory-lancedb again." in " ".join(again.stdout.split())
        assert "Roll back" not in again.stdout


@pytest.mark.parametrize(("code", "status"), [(0, "pass"), (1, "fail"), (3, "inconclusive"), (2, "error")])
def test_golden_check_runs_while_switched_and_counts(
    make_gateway: Make, tmp_path: Path, code: int, status: str
) -> None:
    gateway = make_gateway()
    check = f'grep -o \'"slot": "[a-z-]*"\' {gateway.home}/running.json; exit {code}'
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out", "--golden", check))
    assert done.returncode == {"pass": 0, "fail": 1, "inconclusive": 3, "error": 4}[status], done.stdout
    assert f"Golden check: {status}." in done.stdout
    assert (tmp_path / "out" / "golden.txt").read_text("utf-8") == f'"slot": "{ENTRY}"\n'
    assert as_before(gateway)


def test_selection_is_switched_where_the_engine_has_the_slot(make_gateway: Make, tmp_path: Path) -> None:
    text = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
    gateway = make_gateway(text)
    words = gateway.words("--write", "--out", tmp_path / "out")
    words[words.index("--slot") : words.index("--slot") + 2] = ["--selection", "tier_quota_v1"]
    done = run_here(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert gateway.config.read_bytes() == text.encode()
    audit = json.loads((tmp_path / "out" / "audit.json").read_text("utf-8"))
    # What the gateway logged before the restart is not of the window.
    assert {mode: part["count"] > 0 for mode, part in audit["selection_mode"].items() if part["count"]} == {
        "tier_quota_v1": True
    }
    assert gateway.running()["mode"] == "tier_first_v1"


def test_restart_that_restarts_nothing_is_no_verdict(make_gateway: Make, tmp_path: Path) -> None:
    text = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
    gateway = make_gateway(text)
    words = gateway.words("--write", "--out", tmp_path / "out")
    words[words.index("--slot") : words.index("--slot") + 2] = ["--selection", "tier_quota_v1"]
    words[words.index("--restart") + 1] = "true"
    done = run_here(*words)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "the switch to tier_quota_v1 had no effect" in " ".join(done.stdout.split())
    assert gateway.config.read_bytes() == text.encode()


def test_gateway_that_does_not_start_switched_is_started_as_before(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    (gateway.home / "broken").write_text(ENTRY, "utf-8")
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out"))
    assert done.returncode == 4
    said = " ".join(done.stdout.split())
    assert f"exit code 1: plugin {ENTRY} cannot be loaded" in said
    assert said.index("No verdict") < said.index("Rolled back")
    assert as_before(gateway)


def test_gateway_that_never_restarts_again_is_reported_with_the_command(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    check = f"touch {gateway.home}/no-restart"
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out", "--golden", check))
    assert done.returncode == 4
    assert done.stdout.startswith("NOT RESTARTED: the restart command ended with exit code 5: the service manager")
    assert f"lab canary recover {gateway.config} --write tries again" in " ".join(done.stdout.split())
    # The file is as before; only the restart is open.
    assert gateway.config.read_bytes() == CONFIG.encode()
    assert gateway.running()["slot"] == ENTRY
    # The order names what was left open, and not the switches that the policy speaks of.
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text("utf-8"))
    assert verdict["undone"] is None
    assert verdict["rollback"] == f"lab canary recover {gateway.config} --write"
    left = run_here("canary", "recover", gateway.config)
    assert left.returncode == 1
    assert "step 'restart after the rollback'" in left.stdout
    (gateway.home / "no-restart").unlink()
    assert run_here("canary", "recover", gateway.config, "--write").returncode == 0
    assert as_before(gateway)
    assert run_here("canary", "recover", gateway.config, "--write").stdout.startswith("Nothing to recover")


def test_check_decides_when_the_gateway_is_up(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    words = gateway.words(
        "--write", "--out", tmp_path / "out", "--check", f"grep -q lancedb {gateway.home}/running.json"
    )
    words[words.index("--timeout") + 1] = "2s"
    done = run_here(*words)
    assert done.returncode == 4
    assert "was restarted, but the check ended with exit code 1" in " ".join(done.stdout.split())
    assert as_before(gateway)
