"""Where an OpenClaw host has its configuration, and the variables that it puts into it (HC-1, HC-5 to HC-7).

The rules are those of the host's own reader. ``environ`` is the environment of the process unless a test gives another.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.regex import regex

CONFIG_NAME, STATE_FOLDER = "openclaw.json", ".openclaw"
# What hosts of an earlier name left; the present name comes first.
CONFIG_NAMES, STATE_FOLDERS = (CONFIG_NAME, "clawdbot.json"), (STATE_FOLDER, ".clawdbot")
CONFIG_PATH, STATE_DIR, HOME_DIR, INCLUDE_ROOTS = (
    *("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_HOME", "OPENCLAW_INCLUDE_ROOTS"),
)
_MOST_DOTENV_BYTES = 1 << 20
_VARIABLE = regex(r"\$(?P<escape>\$)?\{(?P<name>[A-Z_][A-Z0-9_]*)\}")
_PORTABLE = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTENV_LINE = regex(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[\w.-]+)[ \t]*(?:=|:[ \t])[ \t]*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:\\"|[^"])*)"|`(?P<tick>[^`]*)`|(?P<plain>[^\#\r\n]*))""",
    re.MULTILINE | re.VERBOSE,
)
# Keys of the section env that are not variables, and variables that a configuration may not set.
_NO_VARIABLES = ("vars", "shellEnv")
_NOT_SETTABLE = ("OPENCLAW_INCLUDE_ROOTS", "OPENCLAW_CONFIG_READONLY", "PATH", "NODE_OPTIONS", "LD_PRELOAD")
# How names of keys that hold a secret end, in lower case. Counts such as maxTokens are numbers.
_SECRET = (*("key", "token", "secret", "password", "authorization"), *("keys", "tokens", "secrets", "passwords"))
Keys = tuple[str, ...]


class Unset(NamedTuple):
    """A variable that a value names and that is not set, or is blank; ``secret``: the lab does not read the value."""

    path: Keys
    name: str
    secret: bool = False

    def __str__(self) -> str:
        """Return the variable and the key that names it."""
        return f"{self.name} ({'.'.join(self.path)})"


def is_secret(key: object) -> bool:
    """Return whether a text under this key is a secret: it is never read, shown or stored."""
    return str(key).lower().endswith(_SECRET)


def home_of(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that ``~`` stands for: OPENCLAW_HOME, or else the user's home (HC-1)."""
    user = _set(environ, "HOME") or _set(environ, "USERPROFILE") or str(Path.home())
    given = _set(environ, HOME_DIR)
    if given is None:
        return Path(user).absolute()
    return Path(user + given[1:] if given == "~" or given.startswith("~/") else given).absolute()


def state_of(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the host's state folder: OPENCLAW_STATE_DIR, or ``~/.openclaw``, or an earlier name that exists (HC-1)."""
    given = _set(environ, STATE_DIR)
    if given is not None:
        return user_path(given, environ)
    folders = [home_of(environ) / name for name in STATE_FOLDERS]
    return next((folder for folder in folders if folder.exists()), folders[0])


def user_path(text: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return a path of the operator, with ``~`` as :func:`home_of` says."""
    text = text.strip()
    if text == "~" or text.startswith("~/"):
        text = f"{home_of(environ)}{text[1:]}"
    return Path(os.path.normpath(Path(text).absolute()))


def config_of(state: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration of the host with a state folder, existing or not (HC-1).

    A folder that is named has its own file, if there is one. Otherwise, and without a folder, OPENCLAW_CONFIG_PATH
    decides, then the file in the state folder.
    """
    given = _set(environ, CONFIG_PATH)
    own = own_config(state) if state is not None else None
    if own is None and given is not None:
        return user_path(given, environ)
    place = state if state is not None else state_of(environ)
    return own or own_config(place) or place / CONFIG_NAME


def config_named(given: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration that a command is given: a file, the one of a state folder, or the host's own."""
    return given if given is not None and not given.is_dir() else config_of(given, environ)


def config_if_named(given: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration of a command that needs none: the one given, else the one that the environment names."""
    named = any(_set(environ, name) for name in (CONFIG_PATH, STATE_DIR))
    return config_named(given, environ) if given is not None or named else None


def own_config(state: Path) -> Path | None:
    """Return the configuration in a state folder, None if there is none."""
    return next((file for name in CONFIG_NAMES if (file := state / name).exists()), None)


def include_roots(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the folders beside that of the configuration that included files may be in (HC-3)."""
    texts = [text for text in (_set(environ, INCLUDE_ROOTS) or "").split(os.pathsep) if text.strip()]
    return tuple(dict.fromkeys(user_path(text, environ) for text in texts))


def variables(value: Any, state: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of a host: the environment, then its files of variables, then the section env (HC-5).

    The first of them that sets a variable decides. Names that no section may set are left out.
    """
    known = dict(environ)
    for file in dotenv_files(state):
        for name, text in _dotenv(file):
            known.setdefault(name, text)
    for name, text in _env_section(value):
        if not known.get(name, "").strip():
            known[name] = text
    return known


def dotenv_files(state: Path) -> tuple[Path, ...]:
    """Return the files of variables of a state folder: ``.env``, and ``gateway.env`` beside a default one."""
    beside = (state.parent / ".config" / "openclaw" / "gateway.env",) if state.name in STATE_FOLDERS else ()
    return (state / ".env", *beside)


def _env_section(value: Any) -> Iterator[tuple[str, str]]:
    section = value.get("env") if isinstance(value, Mapping) else None
    if not isinstance(section, Mapping):
        return
    given: dict[str, str] = {}
    inner = section.get("vars")
    for name, text in (
        *(inner.items() if isinstance(inner, Mapping) else ()),
        *((name, text) for name, text in section.items() if name not in _NO_VARIABLES),
    ):
        usable = isinstance(text, str) and text.strip() and _PORTABLE.fullmatch(str(name))
        if usable and name.upper() not in _NOT_SETTABLE and not references(text):
            given[name] = text
    yield from given.items()


def _dotenv(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file; nothing for one that is missing, not a file, or too large, as the host does."""
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_DOTENV_BYTES:
            return
        text = file.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return
    for match in _DOTENV_LINE.finditer(text):
        name = match["name"]
        if not _PORTABLE.fullmatch(name):
            continue
        if match["double"] is not None:
            yield name, match["double"].replace("\\n", "\n").replace("\\r", "\r")
        else:
            quoted = match["single"] if match["single"] is not None else match["tick"]
            yield name, quoted if quoted is not None else match["plain"].strip()


def references(text: str) -> tuple[str, ...]:
    """Return the names of the variables that a text names; ``$${NAME}`` names none."""
    return tuple(match["name"] for match in _VARIABLE.finditer(text) if not match["escape"])


def substituted(value: Any, known: Mapping[str, str]) -> tuple[Any, tuple[Unset, ...]]:
    """Return a value with its variables put in, and the variables that are not set (HC-6).

    ``${NAME}`` with a name of capitals, digits and underscores is a variable in any text but keys; ``$${NAME}`` stands
    for the text ``${NAME}``. What is not set stays as it is written. The value of a secret (:func:`is_secret`) stays a
    reference in any case.
    """
    unset: list[Unset] = []

    def visit(part: Any, path: Keys) -> Any:
        if isinstance(part, str):
            return put_in(part, path) if "$" in part else part
        if isinstance(part, dict):
            return {key: visit(member, (*path, str(key))) for key, member in part.items()}
        return [visit(member, (*path, str(at))) for at, member in enumerate(part)] if isinstance(part, list) else part

    def put_in(text: str, path: Keys) -> str:
        secret = is_secret(_last(path))

        def one(match: re.Match[str]) -> str:
            if match["escape"]:
                return match[0][1:]
            found = known.get(match["name"])
            if not found:
                unset.append(Unset(path, match["name"], secret))
            return found if found and not secret else match[0]

        return _VARIABLE.sub(one, text)

    return visit(value, ()), tuple(dict.fromkeys(unset))


def _last(path: Keys) -> str:
    """Return the last key of a path, without positions in lists."""
    return next((key for key in reversed(path) if not key.isdecimal()), "")


def _set(environ: Mapping[str, str], name: str) -> str | None:
    """Return a variable without blanks around it; None if it is not set, blank, or a word for nothing."""
    text = environ.get(name, "").strip()
    return text if text and text not in ("undefined", "null") else None
