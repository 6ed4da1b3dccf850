"""The ``lab replay`` command of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import join

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.base.set_registry import golden_beside, shown_path
from lab.replay.plan import Plan
from lab.runs.manifest import Manifest
from lab.runs.request import arguments as options

# The folders of an absolute path, at the start of an argument or after the name in NAME=PATH.
_FOLDERS = regex(r"(^|=)(?:~[^/\\]*|[A-Za-z]:)?[/\\](?:[^=]*[/\\])?(?=[^/\\=]+[/\\]?$)")
# Conversations that a message names.
MOST_NAMED = 4
NO_GOLD = (
    "has no probe with relevant memories, so there is nothing to score; name a golden set with --golden (of a set "
    "in a league: SET:golden=PATH), or use a set with probes, such as shipped:operators"
)


def arguments(manifest: Manifest) -> dict[str, object]:
    """Return the arguments of a run, with the haystack in place of the default that chose it."""
    haystack = manifest.resolved.haystack
    return dict(manifest.asked) | ({"haystack": haystack.memories} if haystack else {})


def replay_command(asked: Mapping[str, object], out: str = "DIR") -> str:
    """Return the ``lab replay`` command with these arguments, without options at their defaults."""
    return join(["lab", "replay", shown_path(str(asked["path"])), *_options(asked), "--out", out])


def portable(asked: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a run without folders of this machine, for a command that others read.

    A shipped set becomes ``shipped:NAME``, an absolute path its last part; a relative path stays.
    """
    path = str(asked["path"])
    beside = golden_beside(Path(path))
    short = {name: _short(value) for name, value in asked.items()}
    if asked.get("golden") == str(beside):
        short["golden"] = None
    return short | {"path": _short(shown_path(path))}


def _short(value: object) -> object:
    if isinstance(value, str):
        return _FOLDERS.sub(r"\1", value)
    return [_short(element) for element in value] if isinstance(value, list | tuple) else value


def command_with(manifest: Manifest, arms: Iterable[str], out: str) -> str:
    """Return the command that replays a run with other arms, for a message: a long choice of conversations is left out.

    Without that choice it replays all conversations, and says so.
    """
    asked = arguments(manifest) | {"arms": list(arms)}
    chosen = _listed(asked.get("conversation") or ())
    if len(chosen) <= MOST_NAMED:
        return replay_command(asked, out)
    command = replay_command(asked | {"conversation": ()}, out)
    return f"{command} (it replays all conversations; this run has {len(chosen)}, chosen with --conversation)"


def require_gold(plan: Plan) -> int:
    """Return how many probes have relevant memories; raise :class:`UnusableInput` if none has."""
    probes = sum(bool(probe.relevant) for recording in plan.recordings for probe in plan.probes(recording))
    if not probes:
        raise UnusableInput(f"{plan.request.shown}: {NO_GOLD}")
    return probes


def _options(asked: Mapping[str, object]) -> Iterator[str]:
    for name, argument in options().items():
        value = asked.get(name)
        if name == "golden" and value == str(golden_beside(Path(str(asked["path"])))):
            continue
        if name == "path" or value is None or _listed(value) == _listed(argument.default):
            continue
        if value is True:
            yield argument.flag
            continue
        for element in _listed(value):
            yield from (argument.flag, str(element))


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
