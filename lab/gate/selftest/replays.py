"""The replays of a self-test: sets, arms and settings, read from ``replays.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lab.base.files import read_toml
from lab.base.set_registry import shipped
from lab.gate.selftest.faults import Fault
from lab.replay.plan import ReplayRequest

HERE = Path(__file__).parent
# Settings that are paths in this folder.
_PATHS = ("golden", "memories_from")


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay of a shipped set; with ``only``, it runs only for faults in files that match one of these patterns."""

    name: str
    about: str
    asked: ReplayRequest
    only: tuple[str, ...] = ()

    def applies_to(self, fault: Fault) -> bool:
        """Return whether the replay runs for a fault."""
        return not self.only or any(fnmatchcase(file, pattern) for file in fault.files for pattern in self.only)


def shipped_replays(embedder: str | None = None) -> tuple[Replay, ...]:
    """Return the shipped replays, with ``embedder`` instead of the default model if given."""
    tables = read_toml(HERE / "replays.toml")["replay"]
    return tuple(_replay(table, embedder) for table in tables)


def _replay(value: dict[str, Any], embedder: str | None) -> Replay:
    name = value["set"]
    given = {
        "path": str(shipped("datasets", name)),
        "format": "lab",
        "arms": [_arm(arm) for arm in value["arms"]],
        "golden": str(shipped("golden", name)),
        # A fault is caught by the recordings' own memories; more of them would only take longer.
        "haystack": 0,
    }
    chosen = {"embedder": embedder} if embedder else {}
    settings = value.get("settings", {})
    paths = {key: str(HERE / settings[key]) for key in _PATHS if key in settings}
    asked = ReplayRequest.of_manifest(given | chosen | settings | paths)
    return Replay(value["name"], value["about"], asked, tuple(value.get("only", ())))


def _arm(text: str) -> str:
    """Return ``NAME``, or ``NAME=FILE`` with the path of a file in the folder ``arms``."""
    name, _, file = text.partition("=")
    return f"{name}={HERE / 'arms' / file}" if file else name
