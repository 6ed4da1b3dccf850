"""The journal of a canary: what is under way, written before every step, beside the configuration (CN-4).

The folder ``openclaw.json.canary`` holds ``journal.json``, ``backup`` (the bytes of the configuration) and ``restore``,
a second copy with the mode and the owner of the configuration. The rollback renames ``restore`` over the configuration,
which takes no room on the disk. All of them are in the same folder as the configuration, so on the same disk.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.config_edit import MISSING, Edit
from lab.errors import CannotMeasure, InUse, LabError, UnusableInput
from lab.files import cannot_write, dump_json, flush_folder, only_writer, read_json, sha256_bytes, write_atomically
from lab.rollout.change import Change, read_config
from lab.shape import expect, field, optional

SCHEMA = "lab.canary.journal.v1"
SUFFIX = ".canary"
JOURNAL, BACKUP, RESTORE, RESTARTING = "journal.json", "backup", "restore", "restarting"
# In their order. Before SWITCH nothing of the gateway has changed.
PREPARE, SWITCH, RESTART, WINDOW, JUDGE, ROLLBACK, RESTART_BACK, DONE = STEPS = (
    *("prepare", "switch", "restart", "window", "judge", "roll back", "restart after the rollback", "done"),
)


@dataclass(frozen=True, slots=True)
class Journal:
    """The content of a journal.

    ``original`` and ``switched`` are the sha256 of the configuration before and after the switch; ``at``, ``removed``
    and ``inserted`` are the edit between them. ``restarts`` says whether the gateway must be restarted after the
    rollback, once that is known.
    """

    step: str
    started: str
    config: str
    path: tuple[str, ...]
    before: str | None
    after: str
    at: int
    removed: str
    inserted: str
    original: str
    switched: str
    restart: str
    check: str | None
    timeout: float
    out: str
    restarts: bool | None = None

    @property
    def edit(self) -> Edit:
        """Return the edit that switched the configuration."""
        return Edit(self.at, self.removed, self.inserted)

    @property
    def changed(self) -> str:
        """Return the path of the changed value with dots."""
        return ".".join(self.path)


def now() -> str:
    """Return the time, to the second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(change: Change, *, restart: str, check: str | None, timeout: float, out: Path) -> Journal:
    """Return the journal of a canary that begins now."""
    return Journal(
        PREPARE,
        now(),
        str(change.config),
        change.path,
        None if change.before is MISSING else change.before,
        change.after,
        *change.edit,
        sha256_bytes(change.original),
        sha256_bytes(change.switched),
        restart,
        check,
        timeout,
        str(out),
    )


class State:
    """The folder of a canary beside a configuration."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.folder = config.with_name(config.name + SUFFIX)
        self.journal, self.backup, self.staged = (self.folder / name for name in (JOURNAL, BACKUP, RESTORE))
        # Holds the process id of a restart command.
        self.restarting = self.folder / RESTARTING

    @property
    def command(self) -> str:
        """Return the command that recovers, as the shell reads it."""
        return f"lab canary recover {shlex.quote(str(self.config))} --write"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; raise :class:`lab.errors.InUse` if a canary is going on."""
        try:
            lock = ExitStack()
            lock.enter_context(only_writer(self.folder))
        except InUse:
            raise InUse(f"{self.config}: a canary is going on, or is being rolled back; wait for its end") from None
        with lock:
            yield

    def read(self) -> Journal | None:
        """Return the journal, or None if there is none. Raises :class:`UnusableInput` if it is damaged."""
        if not self.journal.exists():
            return None
        try:
            return _journal(read_json(self.journal), str(self.journal))
        except UnusableInput as error:
            hint = f"; compare {self.config} with {self.backup} and put back what differs" if self._has_backup() else ""
            raise CannotMeasure(f"{error}; the journal was damaged, so nothing is changed{hint}") from None

    def write(self, journal: Journal) -> None:
        """Write the journal; the next step may begin only after that. Raises :class:`lab.errors.CannotWrite`."""
        data = {"schema": SCHEMA, "written": now(), **asdict(journal)}
        write_atomically(self.journal, dump_json(data), private=True)

    def step(self, journal: Journal, step: str, **changes: Any) -> Journal:
        """Write the journal with its next step; return it."""
        stepped = replace(journal, step=step, **changes)
        self.write(stepped)
        return stepped

    def prepare(self, change: Change) -> None:
        """Write the backup, and the copy that the rollback will rename over the configuration."""
        write_atomically(self.backup, change.original, private=True)
        try:
            like = change.config.stat()
        except OSError as error:
            raise cannot_write(change.config, error) from error
        write_atomically(self.staged, change.original, like=like)

    def restore(self, journal: Journal) -> str | None:
        """Put the original bytes back by one rename; return a note if a copy had been changed.

        The rollback does not depend on the backup: the journal holds the edit, and its reversal must have the sha256
        that the configuration had. Raises :class:`CannotMeasure` if no copy has it.
        """
        copies = {path: _bytes(path) for path in (self.staged, self.backup)}
        sound = {path for path, data in copies.items() if data is not None and sha256_bytes(data) == journal.original}
        note = None
        if self.staged not in sound or self.backup not in sound:
            changed = self.backup if self.backup not in sound else self.staged
            note = f"{changed} was changed or removed meanwhile; the original was restored by its sha256"
        if self.staged in sound:
            # Whoever may read the copy may read the configuration, and no more.
            _replace(self.staged, self.config)
        else:
            data = copies[self.backup] if self.backup in sound else self._reversed(journal)
            if data is None or sha256_bytes(data) != journal.original:
                raise CannotMeasure(
                    f"{self.backup}: was changed meanwhile, and the journal does not give the original either; "
                    f"{self.config} is still switched: set {journal.changed} back by hand, then {self.command}"
                )
            write_atomically(self.config, data, like=self.config.stat())
        return note

    def _reversed(self, journal: Journal) -> bytes | None:
        try:
            return journal.edit.undo(read_config(self.config).decode()).encode()
        except (ValueError, LabError):
            return None

    def _has_backup(self) -> bool:
        return self.backup.is_file()

    def clear(self) -> None:
        """Remove the folder; the journal last, so that a kill leaves a journal that says that all is done."""
        for path in sorted(self.folder.glob(".*.part")):
            path.unlink(missing_ok=True)
        for path in (self.restarting, self.staged, self.backup, self.journal):
            path.unlink(missing_ok=True)
        # Something of somebody else may be in it.
        with suppress(OSError):
            self.folder.rmdir()


def _replace(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
        flush_folder(target.parent)
    except OSError as error:
        raise cannot_write(target, error, "; it is still switched") from error


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _journal(value: Any, where: str) -> Journal:
    if field(value, "schema", str, where) != SCHEMA:
        raise UnusableInput(f"{where}: not a journal of this version")
    texts = ("step", "started", "config", "after", "removed", "inserted", "original", "switched", "restart", "out")
    named: dict[str, Any] = {name: field(value, name, str, where) for name in texts}
    if named["step"] not in STEPS:
        raise UnusableInput(f"{where}: unknown step {named['step']!r}")
    for name, kind in (("before", str), ("check", str), ("restarts", bool)):
        named[name] = None if value.get(name) is None else optional(value, name, kind, None, where)
    path = field(value, "path", list, where)
    named["path"] = tuple(expect(key, str, f"{where}: path") for key in path)
    timeout = value.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise UnusableInput(f"{where}: timeout: expected a number")
    return Journal(at=field(value, "at", int, where), timeout=timeout, **named)
