"""Whether a running OpenClaw gateway uses a LanceDB folder (E-96).

LanceDB has no lock, and keeps no file open between two searches, so a folder does not show who uses it. There are
three signs, all on this machine:

* a lock file that a gateway keeps in the folder for temporary files, ``openclaw-UID/gateway.*.lock``. It names a
  process and a configuration;
* a process whose title or command line is that of a gateway. Its environment names its state folder;
* a process of OpenClaw, Node.js or Bun that has a file of the folder open now.

A gateway uses a folder that lies in its state folder, or that its configuration names as ``dbPath``. Nothing is
detected of a gateway on another machine or in another container, of one that another user runs, and, where there is no
``/proc``, of one without a lock file.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_resolve import resolve_config
from lab.base.errors import UnusableInput
from lab.base.files import alive

PROC = Path("/proc")
STATE_FOLDER, CONFIG_NAME = ".openclaw", "openclaw.json"
_RUNTIMES = ("node", "bun", "openclaw")
_GATEWAY = re.compile(rb"(^|/)openclaw(\.mjs|-gateway)?(\0|$)|openclaw-gateway")


class _Process(NamedTuple):
    """A process that can be inspected: its id, its name and its command line."""

    id: int
    name: str
    command: bytes

    def variable(self, name: str) -> str | None:
        """Return a variable of the environment that the process was started with; None if it cannot be read."""
        with suppress(OSError):
            for pair in (PROC / str(self.id) / "environ").read_bytes().split(b"\0"):
                key, _, value = pair.partition(b"=")
                if key == name.encode():
                    return os.fsdecode(value)
        return None

    @property
    def is_gateway(self) -> bool:
        """Whether this is a gateway: OpenClaw sets the title ``openclaw-gateway``, or is started with ``gateway``."""
        words = self.command.split(b"\0")
        titled = self.command.startswith(b"openclaw-gateway") or self.name.startswith("openclaw-gatewa")
        return titled or (_GATEWAY.search(self.command) is not None and b"gateway" in words)


def gateway_using(folder: Path) -> str | None:
    """Return which running gateway uses a folder and how that is known; None if none is detected."""
    folder = folder.resolve()
    return next(_signs(folder), None)


def _signs(folder: Path) -> Iterator[str]:
    for path, about in _lock_files():
        config = Path(str(about.get("configPath") or "")).expanduser()
        state = str(about.get("stateDir") or "") or str(config.parent)
        if alive(about["pid"]) and _uses(config, Path(state).expanduser(), folder):
            yield f"process {about['pid']}, by the lock file {path}"
    for process in _processes():
        if process.is_gateway and _uses(*_state_of(process), folder):
            yield f"process {process.id} ({process.name}), a running gateway"
        if process.name.startswith(_RUNTIMES) and (name := _open_file(process, folder)):
            yield f"process {process.id} ({process.name}), which has {name} open"


def _lock_files() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the lock files of gateways, with what they say."""
    for base in dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))):  # noqa: S108 - a gateway's folder, only read
        with suppress(OSError):
            for path in sorted(base.glob("openclaw*/gateway.*.lock")):
                with suppress(OSError, ValueError):
                    about = json.loads(path.read_bytes())
                    if isinstance(about, dict) and type(about.get("pid")) is int and about["pid"] > 0:
                        yield path, about


def _processes() -> Iterator[_Process]:
    """Yield the other processes of this machine, as far as this user may inspect them."""
    with suppress(OSError):
        for entry in sorted(PROC.iterdir()):
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    name = (entry / "comm").read_text("utf-8", "replace").strip()
                    yield _Process(int(entry.name), name, (entry / "cmdline").read_bytes())


def _state_of(process: _Process) -> tuple[Path, Path]:
    """Return the configuration and the state folder of a gateway, from its environment."""
    home = process.variable("OPENCLAW_HOME") or process.variable("HOME") or str(Path.home())
    given = process.variable("OPENCLAW_STATE_DIR")
    state = Path(given.replace("~", home, 1) if given else f"{home}/{STATE_FOLDER}")
    config = process.variable("OPENCLAW_CONFIG_PATH")
    return Path(config.replace("~", home, 1)) if config else state / CONFIG_NAME, state


def _uses(config: Path, state: Path, folder: Path) -> bool:
    """Return whether a gateway uses a folder: it lies in its state folder, or the configuration names it."""
    if state != Path() and state.is_absolute() and folder.is_relative_to(state.resolve()):
        return True
    try:
        # A variable that is not set here hides no other store that the file names.
        value = resolve_config(config, state=state if state.is_absolute() else None).value
    except (OSError, UnusableInput):
        return False
    return any((config.parent / Path(name).expanduser()).resolve() == folder for name in _paths_in(value))


def _paths_in(value: Any) -> Iterator[str]:
    """Yield every text under a key ``dbPath``, however deep."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "dbPath" and isinstance(part, str) and part and "://" not in part:
                yield part
            yield from _paths_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _paths_in(part)


def _open_file(process: _Process, folder: Path) -> str | None:
    """Return the name of a file of the folder that a process has open; None if there is none."""
    with suppress(OSError):
        for handle in (PROC / str(process.id) / "fd").iterdir():
            with suppress(OSError, ValueError):
                return Path(os.readlink(handle)).relative_to(folder).as_posix()
    return None
