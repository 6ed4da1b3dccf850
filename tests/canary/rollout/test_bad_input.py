"""What cannot be switched is refused in one line, before anything is written; a full disk at any step rolls back."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway
from tests.canary.rollout.test_run import as_before
from tests.commands import run_here

pytestmark = pytest.mark.slow
Make = Callable[..., Gateway]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONFIG.replace("{ mode:", "{ mode"), "neither JSON nor JSON5"),
        ("", "is empty"),
        ("[1, 2]", "expected an object, found a list"),
        ("{}", "has no object 'plugins'"),
        ("plugins:\n  slots:\n    memory: memory-lancedb\n", "neither JSON nor JSON5"),
        (CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'"), f"plugins.slots.memory is '{ENTRY}' already"),
        (CONFIG.replace("'memory-lancedb'", "7"), "plugins.slots.memory is not a text"),
        (CONFIG.replace("logging:", "logs:"), "names no logging.file; name the gateway's log with --log"),
        (CONFIG.replace("maxItems: 4.0", "maxItems: 9"), "after the switch the gateway would not start"),
        (CONFIG.replace("memory:", "memory: 'a', memory:"), "found the key 'memory' twice in one object"),
        (CONFIG.replace("'memory-lancedb'", "'\udcff'"), "not UTF-8 text"),
    ],
)
def test_unusable_configuration_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    gateway = Gateway(tmp_path)
    data = text.encode("utf-8", "surrogateescape")
    gateway.config.write_bytes(data)
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out"))
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert gateway.config.read_bytes() == data
    assert not gateway.state.folder.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--for", "4 hours", "expected a period such as 90s, 30m, 4h or 1d"),
        ("--timeout", "0s", "expected a period"),
        ("--slot", " ", "needs the id of a plugin"),
        ("--restart", " ", "needs a command"),
        ("--policy", "stage-x", "stage-x"),
        ("--log", "/dev/zero", "is a device or a socket"),
    ],
)
def test_unusable_option_is_refused_before_anything(tmp_path: Path, option: str, value: str, message: str) -> None:
    gateway = Gateway(tmp_path)
    gateway.config.write_text(CONFIG, "utf-8")
    words = gateway.words("--write", "--out", tmp_path / "out")
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]
    done = run_here(*words)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert gateway.config.read_text("utf-8") == CONFIG
    assert not gateway.state.folder.exists()


def test_slot_and_selection_exclude_each_other(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.config.write_text(CONFIG, "utf-8")
    words = gateway.words("--selection", "tier_quota_v1")
    assert "either --slot PLUGIN or --selection POLICY" in run_here(*words).stderr
    words[words.index("--slot") : words.index("--slot") + 2] = []
    assert "so its selection policy has no effect; switch the slot" in run_here(*words).stderr


def test_misspelt_configuration_has_nothing_to_recover(tmp_path: Path) -> None:
    done = run_here("canary", "recover", tmp_path / "openclaw.jsn", "--write")
    assert done.returncode == 2
    assert "no such file" in done.stderr


# New files of a canary up to its verdict, in order: journal, backup, its copy, journal, configuration, two journals,
# receipts, journal, golden check, audit, verdict in three forms. Later ones are journals and the receipt of the canary,
# without which all is done nevertheless.
FILES = 14


@pytest.mark.parametrize("room", range(FILES + 4))
def test_full_disk_at_any_step_rolls_back(
    make_gateway: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """From one new file on, there is no room for another: on the disk of the configuration and of the output."""
    gateway = make_gateway()
    made, opened, temporary = 0, os.open, tempfile.TemporaryFile

    def limited(path: Any, flags: int, *more: Any, **named: Any) -> int:
        nonlocal made
        if flags & os.O_CREAT:
            made += 1
            if made > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, flags, *more, **named)

    def limited_temporary(*arguments: Any, **named: Any) -> Any:
        if made > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return temporary(*arguments, **named)

    monkeypatch.setattr(os, "open", limited)
    monkeypatch.setattr(tempfile, "TemporaryFile", limited_temporary)
    done = run_here(*gateway.words("--write", "--no-guard", "--out", tmp_path / "out", "--golden", "true"))
    monkeypatch.undo()
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == (4 if room < FILES else 0), said
    assert ("No space left on device" in said) is (room < FILES)
    assert as_before(gateway)
