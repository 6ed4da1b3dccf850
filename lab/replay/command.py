"""The ``lab replay`` command of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from shlex import join

from lab.replay.plan import ReplayRequest
from lab.runs.manifest import Manifest

# Arguments whose options are spelt differently.
OPTIONS = {"arms": "--arm", "faults": "--fault"}


def arguments(manifest: Manifest) -> dict[str, object]:
    """Return the arguments of a run, with the haystack in place of the default that chose it."""
    haystack = manifest.resolved.haystack
    return dict(manifest.asked) | ({"haystack": haystack.memories} if haystack else {})


def replay_command(asked: Mapping[str, object], out: str = "DIR") -> str:
    """Return the ``lab replay`` command with these arguments, without options at their defaults."""
    return join(["lab", "replay", str(asked["path"]), *_options(asked), "--out", out])


def _options(asked: Mapping[str, object]) -> Iterator[str]:
    for field in fields(ReplayRequest):
        value = asked.get(field.name)
        default = () if field.default is MISSING else field.default
        if field.name == "path" or value is None or value == default or value == list(_listed(default)):
            continue
        option = OPTIONS.get(field.name, f"--{field.name.replace('_', '-')}")
        for element in _listed(value):
            yield from (option, str(element))


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
