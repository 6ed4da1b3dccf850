"""Named faults: edits of the engine's source, as TOML has them.

::

    [[fault]]
    name = "nice-floor-dropped"
    about = "No place is kept for nice memories."
    file = "systems/openclaw/select/tier_quota.py"      # in the package
    before = 'min(quota.nice_min, limit, size.get("nice", 0))'      # stands there exactly once
    after = "0"

A fault of several edits has ``edits = [{file = …, before = …, after = …}, …]`` instead. ``equivalent`` says why a
fault that changes nothing on the shipped sets changes nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import lab
from lab.errors import UnusableInput
from lab.files import read_toml, write_atomically
from lab.shape import named, only_keys

PACKAGE = Path(lab.__file__).resolve().parent
SHIPPED = Path(__file__).parent / "faults"
_EDIT = ("file", "before", "after")
_FAULT = ("name", "about", "edits", "equivalent", *_EDIT)


class Edit(NamedTuple):
    """A text of one file of the package, and what takes its place; an empty ``before`` makes a new file."""

    file: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its name, what it does, its edits, its group, and why it would change nothing if it does not."""

    name: str
    about: str
    edits: tuple[Edit, ...]
    group: str = ""
    equivalent: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it edits, each once."""
        return tuple(dict.fromkeys(edit.file for edit in self.edits))


def shipped_faults() -> tuple[Fault, ...]:
    """Every fault that comes with the lab, group by group."""
    return tuple(fault for path in sorted(SHIPPED.glob("*.toml")) for fault in read_faults(path))


def read_faults(path: Path) -> tuple[Fault, ...]:
    """The faults of a file; raises :class:`UnusableInput` naming what is wrong and where."""
    value = read_toml(path)
    given = value.get("fault")
    if not isinstance(given, list) or not given or set(value) != {"fault"}:
        raise UnusableInput(f"{path}: expected [[fault]] tables and nothing else")
    found = tuple(_fault(one, f"{path}: fault {number}", path.stem) for number, one in enumerate(given, 1))
    require_distinct(found)
    return found


def require_distinct(faults: Sequence[Fault]) -> None:
    """Refuse two faults of one name."""
    seen: set[str] = set()
    for fault in faults:
        if fault.name in seen:
            raise UnusableInput(f"two faults are named {fault.name!r}; give one of them another name")
        seen.add(fault.name)


def edited(package: Path, fault: Fault) -> dict[str, str]:
    """The files of a package as a fault leaves them, by their names in it.

    Raises :class:`UnusableInput` where an edit does not apply: its text must stand in its file exactly once.
    """
    texts: dict[str, str] = {}
    for edit in fault.edits:
        path = _inside(package, edit.file, fault)
        if not edit.before:
            if path.exists() or edit.file in texts:
                raise UnusableInput(f"fault {fault.name!r}: {edit.file} is to be a new file, and is there already")
            texts[edit.file] = edit.after
            continue
        if edit.file not in texts and not path.is_file():
            raise UnusableInput(f"fault {fault.name!r}: the package has no file {edit.file}")
        text = texts.get(edit.file) or path.read_text("utf-8")
        count = text.count(edit.before)
        if count != 1:
            raise UnusableInput(
                f"fault {fault.name!r} does not apply: {edit.file} has its text {count} times, and must have it once: "
                f"{edit.before.strip().splitlines()[0]}"
            )
        texts[edit.file] = text.replace(edit.before, edit.after)
    return texts


def apply(package: Path, fault: Fault) -> None:
    """Edit a copy of the package. The lab's own is refused."""
    if package.resolve() == PACKAGE:
        raise UnusableInput(f"{package}: is the lab itself; faults are applied to copies alone")
    for name, text in edited(package, fault).items():
        write_atomically(package / name, text.encode())
        # Compiled code is found by size and second of its source, and an edit may change neither.
        for compiled in (package / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
            compiled.unlink()


def _inside(package: Path, file: str, fault: Fault) -> Path:
    pure = PurePosixPath(file)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise UnusableInput(f"fault {fault.name!r}: {file}: is no path inside the package")
    return package / pure


def _fault(value: Any, where: str, group: str) -> Fault:
    if not isinstance(value, Mapping):
        raise UnusableInput(f"{where}: expected a table, found {named(value)}")
    only_keys(value, _FAULT, where)
    several = value.get("edits")
    if several is not None and any(key in value for key in _EDIT):
        raise UnusableInput(f"{where}: has edits, and {', '.join(_EDIT)} beside them; say it one way")
    if several is not None and (not isinstance(several, list) or not several):
        raise UnusableInput(f"{where}: edits: expected a list of tables, found {named(several)}")
    edits = [_edit(one, where) for one in several or [{key: value[key] for key in _EDIT if key in value}]]
    why = value.get("equivalent")
    if why is not None and not isinstance(why, str):
        raise UnusableInput(f"{where}: equivalent: expected text, found {named(why)}")
    return Fault(_text(value, "name", where), _text(value, "about", where), tuple(edits), group, why)


def _edit(value: Any, where: str) -> Edit:
    if not isinstance(value, Mapping):
        raise UnusableInput(f"{where}: expected a table, found {named(value)}")
    only_keys(value, _EDIT, where)
    after = value.get("after")
    if not isinstance(after, str):
        raise UnusableInput(f"{where}: after: expected text, found {named(after)}")
    before = _text(value, "before", where)
    if before == after:
        raise UnusableInput(f"{where}: before and after are the same")
    return Edit(_text(value, "file", where), before, after)


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or not found.strip():
        raise UnusableInput(f"{where}: {key}: expected text, found {named(found)}")
    return found
