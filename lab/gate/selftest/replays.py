"""What a self-test replays: sets, arms and settings, as ``replays.toml`` has them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lab.files import read_toml
from lab.gate.selftest.faults import Fault
from lab.replay.plan import ReplayRequest
from lab.set_registry import shipped

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay of a shipped set. ``only``: it is run for faults of files that match one of these patterns."""

    name: str
    about: str
    asked: ReplayRequest
    only: tuple[str, ...] = ()

    def wanted(self, fault: Fault) -> bool:
        """Whether a fault could show in it and in no other."""
        return not self.only or any(fnmatchcase(file, pattern) for file in fault.files for pattern in self.only)


def shipped_replays(embedder: str | None = None) -> tuple[Replay, ...]:
    """The replays that come with the lab; with ``embedder`` in place of the default model."""
    given = read_toml(HERE / "replays.toml")["replay"]
    return tuple(_replay(one, embedder) for one in given)


def _replay(value: dict[str, Any], embedder: str | None) -> Replay:
    name = value["set"]
    given = {
        "path": str(shipped("datasets", name)),
        "format": "lab",
        "arms": [_arm(arm) for arm in value["arms"]],
        "golden": str(shipped("golden", name)),
    }
    chosen = {"embedder": embedder} if embedder else {}
    asked = ReplayRequest.of_manifest(given | chosen | value.get("settings", {}))
    return Replay(value["name"], value["about"], asked, tuple(value.get("only", ())))


def _arm(text: str) -> str:
    """``NAME``, or ``NAME=FILE`` with a file of the folder ``arms``."""
    name, _, file = text.partition("=")
    return f"{name}={HERE / 'arms' / file}" if file else name
