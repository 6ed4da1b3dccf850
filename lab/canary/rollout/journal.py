"""Keep the journal of a canary: a file beside the configuration that names each step before it is taken (CN-4).

The folder ``openclaw.json.canary`` holds ``journal.json``, ``backup`` (the bytes of the configuration) and ``restore``,
a second copy with the mode and the owner of the configuration. The rollback renames ``restore`` over the configuration,
which takes no room on the disk. All of them are in the same folder as the configuration, so on the same disk. A guard
that rolls back adds ``guard.log``.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lab.base.config_text import MISSING, Edit
from lab.base.errors import CannotMeasure, InUse, LabError, UnusableInput
from lab.base.files import (
    cannot_write,
    dump_json,
    flush_folder,
    lock,
    only_writer,
    read_json,
    reading,
    require_finite,
    sha256_bytes,
    write_atomically,
)
from lab.base.formatting import Announce, silent
from lab.base.shape import expect, field, optional
from lab.canary.rollout.commands import identity, is_running

if TYPE_CHECKING:
    from lab.canary.rollout.change import Change

SCHEMA = "lab.canary.journal.v1"
SUFFIX = ".canary"
JOURNAL, BACKUP, RESTORE, RESTARTING = "journal.json", "backup", "restore", "restarting"
GUARD_LOG, FAILED = "guard.log", "FAILED: "
# Seconds for which the lock of a canary that runs is tried: a killed process holds its locks until its memory is freed.
GRACE = 2.0
# A rollback waits for a restart command and then restarts, each for the time limit of the journal; twice, if a guard
# tries again. This is what it may take beside that.
BESIDE = 60.0
# In their order. Before SWITCH nothing of the gateway has changed.
PREPARE, SWITCH, RESTART, WINDOW, JUDGE, ROLLBACK, RESTART_BACK, DONE = STEPS = (
    *("prepare", "switch", "restart", "window", "judge", "roll back", "restart after the rollback", "done"),
)


@dataclass(frozen=True, slots=True)
class Journal:
    """The content of a journal.

    ``original`` and ``switched`` are the sha256 of the configuration before and after the switch; ``at``, ``removed``
    and ``inserted`` are the edit between them. ``restarts`` says whether the gateway must be restarted after the
    rollback, once that is known. ``token`` names this canary and no other, ``process`` the process that runs it
    (:func:`lab.canary.rollout.commands.identity`), ``folder`` where its commands run, and ``receipt`` the file that
    says how it ended; a watch writes its own. Journals of an older version lack the last four.
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
    token: str | None = None
    process: str | None = None
    folder: str | None = None
    receipt: str | None = None

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


def read_config(config: Path) -> bytes:
    """Return the bytes of a gateway's configuration. Raises :class:`UnusableInput` if it cannot be read."""
    require_finite(config)
    with reading(config):
        return config.read_bytes()


def begin(
    change: Change, *, restart: str, check: str | None, timeout: float, out: Path, receipt: Path | None = None
) -> Journal:
    """Return the journal of a canary of this process that begins now."""
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
        token=uuid4().hex,
        process=identity(os.getpid()),
        folder=_current_folder(),
        receipt=str(receipt) if receipt else None,
    )


def _current_folder() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None


class State:
    """The folder of a canary beside a configuration."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.folder = config.with_name(config.name + SUFFIX)
        self.journal, self.backup, self.staged = (self.folder / name for name in (JOURNAL, BACKUP, RESTORE))
        # Holds the identity of a restart command.
        self.restarting = self.folder / RESTARTING
        # Holds what a guard did since the canary ended.
        self.guard_log = self.folder / GUARD_LOG

    @property
    def command(self) -> str:
        """Return the command that recovers, as the shell reads it."""
        return f"lab canary recover {shlex.quote(str(self.config))} --write"

    @contextmanager
    def locked(self, *, tell: Announce = silent, ended: str | None = None) -> Iterator[None]:
        """Hold the folder; raise :class:`lab.base.errors.InUse` if a canary is going on.

        Waits for a process that ends just now, and for one that rolls back, no longer than that may take. ``ended`` is
        the token of a canary that is known to have ended.
        """
        begun, is_told = time.monotonic(), False
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(only_writer(self.folder))
                    break
                except InUse:
                    waited, journal = time.monotonic() - begun, self._peek()
                    is_over = ended is not None and (journal is None or journal.token in (None, ended))
                    if waited >= GRACE and not is_over and (journal is None or is_running(journal.process or "")):
                        who = f" (process {journal.process.partition(' ')[0]})" if journal and journal.process else ""
                        raise InUse(
                            f"{self.config}: a canary is going on{who}, or is being rolled back; wait for its end"
                        ) from None
                    if waited >= 4 * (journal.timeout if journal else 0.0) + BESIDE:
                        raise InUse(
                            f"{self.folder}: another process has held it for {waited:.0f} s; end that process, then "
                            f"{self.command}"
                        ) from None
                if waited >= GRACE and not is_told:
                    is_told = True
                    tell(f"wait: another process rolls back {self.config}")
                time.sleep(0.05)
            yield

    def is_held(self) -> bool:
        """Return whether another process holds the folder: a canary, a watch that downgrades, or a rollback."""
        try:
            handle = os.open(self.folder, os.O_RDONLY)
        except OSError:
            return False
        try:
            return lock(handle) is False
        finally:
            os.close(handle)

    def how(self, journal: Journal, *, held: bool) -> str:
        """Return how a canary that left a journal stands, as the rest of a sentence; ``held``: see :meth:`is_held`."""
        if held:
            if is_running(journal.process or ""):
                number = str(journal.process).partition(" ")[0]
                return f"is going on: kill {number} ends it, and it rolls back"
            return "ended early, and another process is rolling it back: wait for its end"
        said = self.guard_said()
        if said is None:
            return "did not end, and no guard rolled it back: it had none, or the guard was killed as well"
        at, _, text = said.partition(" ")
        if text.startswith(FAILED):
            return f"did not end, and its guard failed at {at}: {text.removeprefix(FAILED)}"
        return f"did not end, and its guard was killed after {at}, while it rolled back"

    def guard_said(self) -> str | None:
        """Return the last line of a guard since the canary ended: the time and the text; None if there is none."""
        try:
            lines = self.guard_log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return None
        at, _, rest = lines[-1].partition(" ") if lines else ("", "", "")
        return f"{at} {rest.partition(': ')[2]}" if lines else None

    def _peek(self) -> Journal | None:
        with suppress(LabError):
            return self.read()
        return None

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
        """Write the journal; the next step may begin only after that. Raises :class:`lab.base.errors.CannotWrite`."""
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
        for path in (self.restarting, self.guard_log, self.staged, self.backup, self.journal):
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
    kinds = {**dict.fromkeys(("before", "check", "token", "process", "folder", "receipt"), str), "restarts": bool}
    for name, kind in kinds.items():
        named[name] = None if value.get(name) is None else optional(value, name, kind, None, where)
    path = field(value, "path", list, where)
    named["path"] = tuple(expect(key, str, f"{where}: path") for key in path)
    timeout = value.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise UnusableInput(f"{where}: timeout: expected a number")
    return Journal(at=field(value, "at", int, where), timeout=timeout, **named)
