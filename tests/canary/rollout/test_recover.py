"""What a killed canary leaves, and what recover makes of it, whatever happened meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.canary.rollout import journal
from lab.canary.rollout.journal import STEPS
from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway
from tests.canary.rollout.test_run import as_before
from tests.commands import run_here, started

pytestmark = pytest.mark.slow
Make = Callable[..., Gateway]
SWITCHED = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'").encode()


def killed(gateway: Gateway, out: Path, at: str = "window", *more: str, number: int = signal.SIGKILL) -> None:
    """Kill a canary as soon as its journal names a step, with its guard unless ``more`` says otherwise."""
    words = gateway.words("--write", "--out", out, *(more or ("--no-guard",)))
    words[words.index("--recalls") + 1] = "100000"
    said = out.with_name("said.txt")
    process = started(*words, said=said)
    last = time.monotonic() + 60
    while time.monotonic() < last and process.is_alive():
        try:
            step = json.loads(gateway.state.journal.read_text("utf-8"))["step"]
        except (OSError, ValueError):
            step = ""
        if step and STEPS.index(step) >= STEPS.index(at):
            break
        time.sleep(0.002)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode in (-number, 130), said.read_text("utf-8")


def recovered(gateway: Gateway, *more: str) -> str:
    done = run_here("canary", "recover", gateway.config, "--write", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("step", ["switch", "restart", "window"])
def test_recover_after_a_kill_puts_everything_back(make_gateway: Make, tmp_path: Path, step: str) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out", step)
    looked = run_here("canary", "recover", gateway.config)
    assert looked.returncode == 1
    assert "a canary was left over" in looked.stderr
    again = run_here(*gateway.words("--write", "--out", tmp_path / "again"))
    assert again.returncode == 2
    assert f"lab canary recover {gateway.config} --write" in again.stderr
    assert recovered(gateway).startswith("Recovered:")
    assert as_before(gateway)
    assert recovered(gateway).startswith("Nothing to recover")


def test_guard_recovers_by_itself(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out", "window", "--guard")
    last = time.monotonic() + 60
    while not as_before(gateway) and time.monotonic() < last:
        time.sleep(0.05)
    assert as_before(gateway)


# A canary that a signal ends between its last step and its rollback.
BETWEEN = """
import runpy
from lab.canary.rollout import run

def ended(*given, **named):
    raise KeyboardInterrupt

run._back = ended
runpy.run_module("lab", run_name="__main__")
"""


def test_guard_recovers_what_a_signal_kept_from_the_rollback(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    words = gateway.words("--write", "--out", tmp_path / "out")
    done = subprocess.run([sys.executable, "-c", BETWEEN, *words], env=os.environ, capture_output=True, timeout=120)
    assert done.returncode == 130, done.stderr
    last = time.monotonic() + 60
    while not as_before(gateway) and time.monotonic() < last:
        time.sleep(0.05)
    assert as_before(gateway)


def test_signal_rolls_back_before_the_end(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    # Every signal that ends a command is raised as the same exception (test_signals.py).
    killed(gateway, tmp_path / "out", "window", number=signal.SIGTERM)
    assert as_before(gateway)
    receipt = json.loads((tmp_path / "out" / "canary.json").read_text("utf-8"))
    assert receipt["rolled_back"]
    assert receipt["problem"].startswith("interrupted")


def test_edited_configuration_is_never_overwritten(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    assert gateway.config.read_bytes() == SWITCHED
    edited = SWITCHED.replace(b"0x4967", b"0x4968").replace(b"maxItems: 4.0", b"maxItems: 3")
    gateway.config.write_bytes(edited)
    done = run_here("canary", "recover", gateway.config, "--write")
    assert done.returncode == 4
    assert gateway.config.read_bytes() == edited
    said = done.stderr
    assert "gateway.port, plugins.entries.openclaw-mem-engine.config.autoRecall.maxItems; STILL" in said
    assert "STILL SWITCHED: plugins.slots.memory" in said
    assert said.rstrip().endswith(f"lab canary recover {gateway.config} --write --keep-edits")
    assert "s3cret" not in said
    # The command that goes on sets back the one value, and leaves every other byte of the edit.
    assert "keeps its edits (gateway.port" in recovered(gateway, "--keep-edits")
    assert gateway.config.read_bytes() == edited.replace(f"memory: '{ENTRY}'".encode(), b"memory: 'memory-lancedb'")
    assert gateway.running()["slot"] == "memory-lancedb"
    assert not gateway.state.folder.exists()


def test_configuration_edited_during_a_run_is_reported(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    edit = f"echo '// mine' >>{gateway.config}"
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out", "--golden", edit))
    assert done.returncode == 4
    assert done.stdout.startswith("NOT ROLLED BACK:")
    assert "differs from the backup in comments or blanks alone; STILL SWITCHED: plugins.slots.memory" in done.stdout
    assert gateway.config.read_bytes() == SWITCHED + b"// mine\n"
    recovered(gateway, "--keep-edits")
    assert gateway.config.read_bytes() == CONFIG.encode() + b"// mine\n"


def test_edit_that_is_no_json5_any_more_names_the_way_on(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    edited = SWITCHED.replace(b"entries:", b"entries")
    gateway.config.write_bytes(edited)
    done = run_here("canary", "recover", gateway.config, "--write", "--keep-edits")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "neither JSON nor JSON5" in done.stderr
    assert gateway.config.read_bytes() == edited
    copy_back = f"cp {gateway.state.backup} {gateway.config}, then lab canary recover {gateway.config} --write"
    assert copy_back in done.stderr
    gateway.config.write_bytes(gateway.state.backup.read_bytes())
    recovered(gateway)
    assert as_before(gateway)


def test_edit_that_set_the_value_back_is_kept(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    edited = CONFIG.replace("4.0", "2").encode()
    gateway.config.write_bytes(edited)
    assert "keeps its edits" in recovered(gateway)
    assert gateway.config.read_bytes() == edited
    # It ran switched until then.
    assert gateway.running()["slot"] == "memory-lancedb"


def test_inserted_value_is_removed_again_from_an_edited_file(make_gateway: Make, tmp_path: Path) -> None:
    text = CONFIG.replace("memory: 'memory-lancedb'", "")
    gateway = make_gateway(text)
    killed(gateway, tmp_path / "out")
    switched = gateway.config.read_bytes()
    assert b'"memory": "openclaw-mem-engine"' in switched
    gateway.config.write_bytes(switched.replace(b"0x4967", b"0x4968"))
    recovered(gateway, "--keep-edits")
    assert gateway.config.read_bytes() == text.replace("0x4967", "0x4968").encode()


@pytest.mark.parametrize("damaged", [("backup",), ("restore",), ("backup", "restore")])
def test_changed_backup_is_named_and_the_original_restored(
    make_gateway: Make, tmp_path: Path, damaged: tuple[str, ...]
) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    for name in damaged:
        path = gateway.state.folder / name
        path.write_bytes(path.read_bytes().replace(b"0x4967", b"0x4968"))
    assert "was changed or removed meanwhile" in recovered(gateway)
    assert as_before(gateway)


def test_missing_configuration_is_reported_with_the_backup(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    gateway.config.unlink()
    done = run_here("canary", "recover", gateway.config, "--write")
    assert done.returncode == 4
    assert f"cp {gateway.state.backup} {gateway.config}" in done.stderr
    gateway.config.write_bytes(gateway.state.backup.read_bytes())
    gateway.config.chmod(0o600)
    recovered(gateway)
    assert as_before(gateway)


def test_damaged_journal_changes_nothing(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    killed(gateway, tmp_path / "out")
    for text in ("", "{", '{"schema": "lab.canary.journal.v1"}', "[1]", '{"schema": "x"}'):
        gateway.state.journal.write_text(text, "utf-8")
        done = run_here("canary", "recover", gateway.config, "--write")
        assert done.returncode == 4, text
        assert done.stderr.count("\n") == 1
        assert "the journal was damaged, so nothing is changed" in done.stderr
        assert str(gateway.state.backup) in done.stderr
        assert gateway.config.read_bytes() == SWITCHED
        assert gateway.state.journal.read_text("utf-8") == text


def test_second_canary_and_recover_wait_for_the_first(
    make_gateway: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "GRACE", 0.1)
    gateway = make_gateway()
    with gateway.state.locked():
        for words in (gateway.words("--write", "--out", tmp_path / "out"), ["canary", "recover", gateway.config]):
            done = run_here(*words)
            assert done.returncode == 4
            assert "a canary is going on, or is being rolled back; wait for its end" in done.stderr
    gateway.state.clear()


def test_link_to_a_configuration_stays_a_link(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    link = tmp_path / "link.json"
    link.symlink_to(gateway.config)
    words = gateway.words("--write", "--out", tmp_path / "out")
    words[2] = str(link)
    assert run_here(*words).returncode == 0
    assert link.is_symlink()
    assert as_before(gateway)
