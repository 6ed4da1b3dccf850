"""The configuration that a host uses: its file with what it includes, and then with its variables (HC-2 to HC-8).

Every command that reads an operator's configuration reads it here. The order is the host's: the files of ``$include``,
then the variables in ``${NAME}``. A :class:`Resolved` knows for every key which file decides it, so a command that
edits a value edits that file.

A file with the key ``lab`` at its top is the lab's own and is taken as it is written (HC-4).
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import (
    STATE_DIR,
    Keys,
    Unset,
    dotenv_files,
    include_roots,
    references,
    substituted,
    user_path,
    variables,
)
from lab.base.config_text import MISSING, at_path, member_text, parse_config, parse_json
from lab.base.errors import UnusableInput
from lab.base.files import reading, require_finite
from lab.base.formatting import free_of_credentials
from lab.base.shape import json_type

INCLUDE = "$include"
MAX_DEPTH, MAX_BYTES, MAX_PATH = 10, 2 << 20, 4096
# Names that the host drops when it merges objects.
_DROPPED = ("__proto__", "prototype", "constructor")


class Place(NamedTuple):
    """A value in the text of a file: the file as the configuration names it, and the keys inside it."""

    file: Path
    path: Keys


@dataclass(frozen=True, slots=True)
class Node:
    """A value after its includes. ``places``: where it comes from; of an object, the last file that has it decides."""

    places: tuple[Place, ...]
    value: Any = None
    members: Mapping[str, Node] | None = None

    def plain(self) -> Any:
        """Return the value without its places."""
        if self.members is None:
            return self.value
        return {key: member.plain() for key, member in self.members.items()}


class Deciding(NamedTuple):
    """Where the value of a key stands, or would have to be inserted: the file and the keys inside it.

    ``written`` is the value as the file has it, :data:`lab.base.config_text.MISSING` if no file sets it. ``why_not``
    says why an edit of this file cannot set it; blank if one can.
    """

    file: Path
    path: Keys
    written: Any
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration as its host uses it.

    ``value`` has variables put in, but for those of secrets, which stay references, and those that are not set
    (``unset``), which stay as they are written. ``texts`` are the files that were read, with their bytes; the first is
    the configuration itself, ``name`` its name in messages. ``state`` is the folder whose ``.env`` was read.
    """

    name: Path
    config: Path
    state: Path
    value: Any
    root: Node
    texts: Mapping[Path, bytes]
    unset: tuple[Unset, ...] = ()
    times: Mapping[Path, int] = field(default_factory=dict)

    @property
    def included(self) -> tuple[Path, ...]:
        """The files that were included."""
        return tuple(file for file in self.texts if file != self.config)

    def require_set(self, *prefixes: Keys) -> None:
        """Raise :class:`UnusableInput` if values below these keys name variables that are not set; name all (HC-7)."""
        missing = [each for each in self.unset if any(each.path[: len(prefix)] == prefix for prefix in prefixes)]
        # A secret is not read, so it may be missing.
        if any(not each.secret for each in missing):
            raise UnusableInput(f"{self.name}: {self.unset_sentence(missing)}")

    def unset_sentence(self, missing: Iterable[Unset] | None = None) -> str:
        """Return which variables are not set, which keys name them, and where they can be set."""
        named = list(self.unset if missing is None else missing)
        listed = ", ".join(map(str, named))
        them = "it" if len(named) == 1 else "them"
        shell = at_path(self.value, ("env", "shellEnv", "enabled")) is True
        asked = (
            f"; the host would ask a login shell for {them} (env.shellEnv), which the lab does not start"
            if shell
            else ""
        )
        where = f"in the environment or in {dotenv_files(self.state)[0]}"
        return f"not set: {listed}; set {them} as the gateway has {them}, {where}{asked}"

    def shown(self, file: Path) -> Path:
        """Return the name of a file in messages: as the configuration was named."""
        return _shown(file, self.name, self.config)

    def place(self, path: Sequence[str]) -> str:
        """Return the file and line of a key, or of the deepest key on its way that there is."""
        node, found = self.root, self.root.places[-1]
        for key in path:
            if node.members is None or key not in node.members:
                break
            node = node.members[key]
            found = node.places[-1]
        line = member_text(self.texts[found.file].decode("utf-8", "replace"), found.path) if found.path else None
        return f"{self.shown(found.file)}:{line[0] if line else 1}"

    def decides(self, path: Keys) -> Deciding:
        """Return where a key is decided (HC-8).

        A key that no file sets would be inserted where the last of the files that make up its object has it. Raises
        :class:`UnusableInput` if a key on the way is no object.
        """
        node = self.root
        for depth, key in enumerate(path):
            if node.members is None:
                raise UnusableInput(f"{self.name}: {'.'.join(path[:depth])}: expected an object, found {_kind(node)}")
            if key not in node.members:
                place = node.places[-1]
                return Deciding(
                    place.file, (*place.path, *path[depth:]), MISSING, self._why_not(node.places[-1:], None)
                )
            node = node.members[key]
        place = node.places[-1]
        return Deciding(place.file, place.path, node.plain(), self._why_not(node.places, node.value))

    def _why_not(self, places: tuple[Place, ...], value: Any) -> str:
        place = places[-1]
        if isinstance(value, list) and len(places) > 1:
            return f"it is joined from the lists of {_names(place.file for place in places)}"
        if isinstance(value, str) and (named := references(value)):
            word = "variable" if len(named) == 1 else "variables"
            return f"it comes from the {word} {', '.join(named)}; change that of the gateway, or write the value out"
        folder = self.config.parent
        inside = place.file.is_relative_to(folder) and real(place.file).is_relative_to(real(folder))
        if place.file != self.config and not inside:
            return f"{place.file} is outside of {self.name.parent}, so another host may use it; change it by hand"
        if (times := self.times.get(place.file, 0)) > 1:
            return f"{self.shown(place.file)} is included {times} times, so more would change; change it by hand"
        if any(key.isdecimal() for key in place.path):
            return f"it stands in a list of {self.shown(place.file)}; change it by hand"
        return ""


def resolve_config(
    config: Path,
    *,
    state: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    edited: Mapping[Path, bytes] | None = None,
) -> Resolved:
    """Return a configuration as its host uses it (HC-2, HC-3); ``edited`` has bytes to take instead of those of a file.

    ``state`` is the host's state folder; without it, OPENCLAW_STATE_DIR or the folder of the file. Raises
    :class:`UnusableInput`, in one line, for a file that is missing, no file, or not JSON5, for an include that the host
    refuses, and for a cycle.
    """
    reader = _Reader(config, include_roots(environ), dict(edited or {}))
    text = _decoded(reader.main(), config)
    return reader.resolved(parse_config(text.removeprefix("\ufeff"), str(config)), state, environ)


def resolve_value(value: Any, where: Path, *, environ: Mapping[str, str] = os.environ) -> Resolved:
    """Return a parsed configuration that stands in no file, such as standard input, as its host uses it.

    ``where`` is the file that it is read as: what it includes is looked for beside that.
    """
    reader = _Reader(where, include_roots(environ), {})
    reader.texts[reader.config] = b""
    return reader.resolved(value, None, environ)


class _Reader:
    def __init__(self, name: Path, roots: tuple[Path, ...], edited: dict[Path, bytes]) -> None:
        self.name = name
        self.config = Path(os.path.normpath(name.absolute()))
        self.roots = (self.config.parent, *roots)
        self.edited = {real(file): data for file, data in edited.items()}
        self.texts: dict[Path, bytes] = {}
        self.times: Counter[Path] = Counter()

    def main(self) -> bytes:
        """Return the bytes of the configuration."""
        require_finite(self.name)
        self.texts[self.config] = data = self._bytes(self.config, str(self.name))
        return data

    def resolved(self, value: Any, state: Path | None, environ: Mapping[str, str]) -> Resolved:
        """Return the resolved configuration of a parsed one."""
        chain = (self.config,)
        given = environ.get(STATE_DIR, "").strip()
        folder = state or (user_path(given, environ) if given else self.config.parent)
        if isinstance(value, Mapping) and "lab" in value:
            return Resolved(
                self.name, self.config, folder, value, _as_written(value, Place(self.config, ())), self.texts
            )
        try:
            root = self._node(value, Place(self.config, ()), chain)
            plain = root.plain()
        except RecursionError:
            raise UnusableInput(f"{self.name}: is nested too deeply") from None
        known = variables(plain, folder, environ)
        filled, unset = substituted(plain, known)
        # A variable may have put a password into a URI.
        return Resolved(
            self.name, self.config, folder, free_of_credentials(filled), root, self.texts, unset, dict(self.times)
        )

    def _node(self, value: Any, place: Place, chain: tuple[Path, ...]) -> Node:
        if isinstance(value, list):
            items = [
                self._node(item, Place(place.file, (*place.path, str(at))), chain).plain()
                for at, item in enumerate(value)
            ]
            return Node((place,), items)
        if not isinstance(value, Mapping):
            return Node((place,), value)
        own = {
            key: self._node(member, Place(place.file, (*place.path, key)), chain)
            for key, member in value.items()
            if key != INCLUDE
        }
        if INCLUDE not in value:
            return Node((place,), members=own)
        included = self._included(value[INCLUDE], place, chain)
        if not own:
            return included
        if included.members is None:
            raise self._refused(
                place, f"{INCLUDE} beside other keys needs a file with an object, found {_kind(included)}"
            )
        return _merged(included, Node((place,), members=own))

    def _included(self, named: Any, place: Place, chain: tuple[Path, ...]) -> Node:
        if isinstance(named, str):
            return self._file(named, place, chain)
        if not isinstance(named, list):
            raise self._refused(place, f"{INCLUDE}: expected a file or a list of files, found {json_type(named)}")
        node: Node | None = None
        for name in named:
            if not isinstance(name, str):
                raise self._refused(place, f"{INCLUDE}: expected names of files, found {json_type(name)}")
            read = self._file(name, place, chain)
            node = read if node is None else _merged(node, read)
        return Node((place,), members={}) if node is None else node

    def _file(self, name: str, place: Place, chain: tuple[Path, ...]) -> Node:
        said = f"{INCLUDE} {name[:80]!r}"
        if "\0" in name or len(name) >= MAX_PATH:
            raise self._refused(place, f"{said}: is no name of a file")
        file = Path(os.path.normpath(place.file.parent / name))
        if not any(file.is_relative_to(root) for root in self.roots):
            raise self._refused(
                place,
                f"{said}: is outside of {self.name.parent}, which the host refuses unless OPENCLAW_INCLUDE_ROOTS "
                "names its folder",
            )
        if not any(real(file).is_relative_to(real(root)) for root in self.roots):
            raise self._refused(place, f"{said}: is a link to {real(file)}, outside of {self.name.parent}")
        if file in chain:
            names = " -> ".join(one.name for one in (*chain[chain.index(file) :], file))
            raise self._refused(place, f"{said}: includes itself: {names}")
        if len(chain) > MAX_DEPTH:
            raise self._refused(place, f"{said}: more than {MAX_DEPTH} files include one another")
        data = self._checked(file, place, said)
        self.times[file] += 1
        self.texts[file] = data
        return self._node(
            parse_json(_decoded(data, self.shown(file)).removeprefix("\ufeff"), str(file)),
            Place(file, ()),
            (*chain, file),
        )

    def _checked(self, file: Path, place: Place, said: str) -> bytes:
        """Return the bytes of an included file that the host would read."""
        shown = self.shown(file)
        try:
            about = file.stat()
        except FileNotFoundError:
            raise self._refused(place, f"{said}: {shown}: no such file") from None
        except OSError as error:
            raise self._refused(place, f"{said}: {shown}: cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(about.st_mode):
            raise self._refused(place, f"{said}: {shown}: is {_what(about.st_mode)}, not a file")
        if about.st_size > MAX_BYTES:
            raise self._refused(
                place, f"{said}: {shown}: {about.st_size:,} bytes; the host reads at most {MAX_BYTES:,}"
            )
        if about.st_nlink > 1:
            raise self._refused(place, f"{said}: {shown}: has several names (hard links), which the host refuses")
        return self._bytes(file, f"{self.shown(place.file)}: {said}: {shown}")

    def _bytes(self, file: Path, where: str) -> bytes:
        known = self.edited.get(real(file))
        if known is not None:
            return known
        with reading(where):
            return file.read_bytes()

    def _refused(self, place: Place, what: str) -> UnusableInput:
        at = f"{'.'.join(place.path)}: " if place.path else ""
        return UnusableInput(f"{self.shown(place.file)}: {at}{what}")

    def shown(self, file: Path) -> Path:
        """Return the name of a file in messages."""
        return _shown(file, self.name, self.config)


def _shown(file: Path, name: Path, config: Path) -> Path:
    if file == config:
        return name
    return name.parent / file.relative_to(config.parent) if file.is_relative_to(config.parent) else file


def _merged(first: Node, second: Node) -> Node:
    """Return two values merged as the host does: objects by key, lists joined, and of anything else the second."""
    if first.members is not None and second.members is not None:
        members = {key: member for key, member in first.members.items() if key not in _DROPPED}
        for key, member in second.members.items():
            if key not in _DROPPED:
                members[key] = _merged(members[key], member) if key in members else member
        return Node((*first.places, *second.places), members=members)
    if isinstance(first.value, list) and isinstance(second.value, list):
        return Node((*first.places, *second.places), [*first.value, *second.value])
    return second


def _as_written(value: Any, place: Place) -> Node:
    if not isinstance(value, Mapping):
        return Node((place,), value)
    members = {key: _as_written(member, Place(place.file, (*place.path, key))) for key, member in value.items()}
    return Node((place,), members=members)


def _decoded(data: bytes, file: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{file}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def real(path: Path) -> Path:
    """Return the file behind symbolic links, so that a link is never replaced by a file."""
    return Path(os.path.realpath(path))


def _kind(node: Node) -> str:
    return "an object" if node.members is not None else json_type(node.value)


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"


def _names(files: Iterator[Path]) -> str:
    return " and ".join(dict.fromkeys(file.name for file in files))
