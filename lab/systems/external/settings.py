"""The arm's file of an external system: what is started or called, and how long it may take (EX-11)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lab.base.errors import UnusableInput
from lab.base.formatting import without_credentials
from lab.base.regex import regex
from lab.base.shape import expect, only_keys
from lab.embedding.address import is_loopback
from lab.systems.external.protocol import TIMEOUTS
from lab.systems.openclaw.capture.secrets import holds_secret

KEYS = (
    "lab",
    "exec",
    "url",
    "settings",
    "env",
    "key_env",
    "embedder",
    "timeouts",
    "allow_remote",
    "hello",
    "could_see",
)
# Longest time-out in seconds.
LONGEST = 86_400
_VARIABLE = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLAG = regex(
    r"--?(?:[\w-]*[-_])?(?:api-?key|key|token|secret|password|passwd)(?:=(?P<value>.+))?", re.IGNORECASE | re.ASCII
)
# What stands where a key is required and none is used, or for a variable that the host reads.
_NO_KEY = regex(r"none|null|unused|dummy|\$\{[A-Za-z_][A-Za-z0-9_]*\}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How to reach a host, and what it receives.

    Exactly one of ``command`` (words) and ``url`` is given. ``settings`` is passed to the host as it is. ``env`` names
    variables that the process also receives; ``key_env`` names the variable with the key of an endpoint. ``embedder``
    has the model and dimension under which the lab's embedder is offered. ``timeouts`` are seconds by operation.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: tuple[str, ...] = ()
    key_env: str | None = None
    embedder: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=lambda: dict(TIMEOUTS))
    allow_remote: bool = False

    def as_json(self) -> dict[str, object]:
        """Return the keys of the arm's file that make these settings again; time-outs only where they differ."""
        values: dict[str, Any] = asdict(self)
        values = {"exec": list(values.pop("command")), **values, "env": list(self.env)}
        values["timeouts"] = {op: seconds for op, seconds in self.timeouts.items() if seconds != TIMEOUTS[op]}
        return {name: value for name, value in values.items() if value}

    def require_present(self, where: str) -> None:
        """Raise :class:`UnusableInput` if the command or a named variable does not exist on this machine."""
        for name in (*self.env, *([self.key_env] if self.key_env else [])):
            if name not in os.environ:
                raise UnusableInput(f"{where}: the environment variable {name} is not set; set it, or remove it there")
        if self.command and shutil.which(self.command[0]) is None:
            raise UnusableInput(
                f"{where}: command {self.command[0]!r} not found; install it, or give the path of an executable file"
            )
        if self.command and not hasattr(os, "fork"):
            raise UnusableInput(f"{where}: exec needs Linux or macOS; use url with a host that was started otherwise")


def read_settings(config: object, where: str, *, allow_remote: bool = False) -> HostSettings:
    """Return the settings in an arm's file. Raises :class:`UnusableInput`, naming file, key and value."""
    if config is None:
        raise UnusableInput(
            f"{where}: external needs a host: --arm NAME=exec:COMMAND, --arm NAME=http:URL, or --arm NAME=FILE"
        )
    values = expect(config, dict, where)
    only_keys(values, KEYS, where)
    command, url = values.get("exec"), values.get("url")
    if (command is None) == (url is None):
        raise UnusableInput(f'{where}: expected either "exec" (a list of words) or "url"')
    remote = allow_remote or expect(values.get("allow_remote", False), bool, f"{where}: allow_remote")
    settings = expect(values.get("settings", {}), dict, f"{where}: settings")
    for path, text in _strings(settings, "settings"):
        name = path.rpartition(".")[2]
        exposed = holds_secret(text) or without_credentials(text) != text
        if exposed or (not _NO_KEY.fullmatch(text) and holds_secret(f'{name}: "{text}"')):
            raise UnusableInput(
                f"{where}: {path} looks like a password or a key; put it into an environment variable, name that "
                'under "env", and let the host read it'
            )
    key_env = values.get("key_env")
    return HostSettings(
        _words(command, f"{where}: exec") if command is not None else (),
        checked_url(expect(url, str, f"{where}: url"), f"{where}: url", allow_remote=remote) if url is not None else "",
        settings,
        tuple(_variable(name, f"{where}: env") for name in expect(values.get("env", []), list, f"{where}: env")),
        _variable(key_env, f"{where}: key_env") if key_env is not None else None,
        _embedder(values.get("embedder", {}), f"{where}: embedder"),
        TIMEOUTS | _timeouts(values.get("timeouts", {}), f"{where}: timeouts"),
        remote,
    )


def _words(value: object, where: str) -> tuple[str, ...]:
    words = expect(value, list, where)
    if not words or not all(isinstance(word, str) and word and "\0" not in word for word in words):
        raise UnusableInput(f'{where}: expected a list of words such as ["python", "host.py"]')
    following = [*words[1:], ""]
    for word, after in zip(words, following, strict=True):
        flag = _FLAG.fullmatch(word)
        exposed = flag is not None and bool(flag["value"] or (after and not after.startswith("-")))
        if exposed or holds_secret(word) or without_credentials(word) != word:
            raise UnusableInput(
                f"{where}: the command holds what looks like a password or a key, and the run would record it; put it "
                'into an environment variable, name that under "env" in the arm\'s file, and let the host read it'
            )
    return tuple(words)


def _variable(name: object, where: str) -> str:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise UnusableInput(f"{where}: expected the name of an environment variable, never its value")
    return name


def _embedder(value: object, where: str) -> dict[str, Any]:
    given: dict[str, Any] = expect(value, dict, where)
    only_keys(given, ("model", "dimension"), where)
    if "model" in given:
        expect(given["model"], str, f"{where}: model")
    dimension = given.get("dimension")
    if dimension is not None and (type(dimension) is not int or not 1 <= dimension <= 1 << 16):
        raise UnusableInput(f"{where}: dimension: expected a whole number from 1 to {1 << 16}, found {dimension!r}")
    return given


def _timeouts(value: object, where: str) -> dict[str, float]:
    given = expect(value, dict, where)
    only_keys(given, tuple(TIMEOUTS), where)
    for op, seconds in given.items():
        if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST:
            raise UnusableInput(f"{where}: {op}: expected seconds above 0, at most {LONGEST}, found {seconds!r}")
    return {op: float(seconds) for op, seconds in given.items()}


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the strings in a JSON value with their paths."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, content in value.items():
            yield from _strings(content, f"{path}.{name}")
    elif isinstance(value, Sequence):
        for number, element in enumerate(value):
            yield from _strings(element, f"{path}[{number}]")


def checked_url(url: str, where: str, *, allow_remote: bool) -> str:
    """Return the URL of a host; raise :class:`UnusableInput` unless requests to it are allowed (EX-10)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise UnusableInput(f"{where}: {without_credentials(url)!r} is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UnusableInput(f"{where}: {without_credentials(url)!r}: expected http://HOST:PORT/PATH or https://…")
    if without_credentials(url) != url or parts.username is not None or parts.password is not None:
        raise UnusableInput(
            f"{where}: {without_credentials(url)}: holds a password or a key; put it into an environment variable and "
            "name that: with key_env in the arm's file, keyEnv in lab.rerank, or --rerank-key-env"
        )
    if not (allow_remote or is_loopback(host)):
        raise UnusableInput(
            f"{where}: {host} is another machine, and texts would be sent there; allow it with --allow-remote, "
            "or in the arm's file if it has one"
        )
    return url
