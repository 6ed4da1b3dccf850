"""Roll a canary back: at its end, after an error, and after a kill at any time (CN-5).

What is done follows from the digests of the configuration and not from the step at which a canary ended, so it can be
repeated: a kill during a rollback needs nothing but another one.
"""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.config_edit import MISSING, Edit, at_path, differing, read_edited, remove_value, set_value
from lab.errors import CannotMeasure, LabError, UnusableInput
from lab.files import leftovers, sha256_bytes, write_atomically
from lab.formatting import Announce, silent
from lab.rollout.change import host_copies, read_config, real
from lab.rollout.commands import NoRestart, await_orphan, restart_gateway
from lab.rollout.journal import DONE, PREPARE, RESTART_BACK, ROLLBACK, SWITCH, Journal, State
from lab.rollout.signals import undisturbed

# Seconds in which a gateway that was restarted may replace its copy of the configuration.
COPIES_SECONDS = 5.0
# Paths that are named when a configuration was edited.
MOST_NAMED = 5


class Edited(CannotMeasure):
    """Somebody edited the configuration while it was switched."""


class RolledBack(NamedTuple):
    """What a rollback did: whether it wrote the configuration and restarted the gateway, and remarks on both."""

    wrote: bool
    restarted: bool
    notes: tuple[str, ...] = ()


class Found(NamedTuple):
    """What a journal and a configuration say.

    ``state`` is ``original``, ``switched``, ``back`` (edited, but not switched any more), or ``edited``; ``differs``
    are the paths at which it was edited; ``restarts``: whether the gateway must be restarted.
    """

    journal: Journal
    state: str
    differs: tuple[str, ...]
    restarts: bool


def find(config: Path) -> Found | None:
    """Return what an earlier canary left beside a configuration, None if nothing; change nothing."""
    state = State(real(config))
    journal = state.read()
    return None if journal is None or journal.step == DONE else _found(state, journal)


def _found(state: State, journal: Journal) -> Found:
    try:
        data = read_config(state.config)
    except UnusableInput as error:
        raise Edited(
            f"{error}; the gateway's configuration was there before the canary: put it back with "
            f"{_copy_back(state)}, then {state.command}"
        ) from None
    known = sha256_bytes(data)
    differs: tuple[str, ...] = ()
    if known == journal.original:
        name = "original"
    elif known == journal.switched:
        name = "switched"
    else:
        name, differs = _edited(state, journal, data)
    untouched = journal.step == PREPARE or (journal.step == SWITCH and name == "original")
    restarts = not untouched if journal.restarts is None else journal.restarts
    return Found(journal, name, differs, restarts)


def _edited(state: State, journal: Journal, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return whether an edited configuration is switched still, and the other paths at which the backup differs."""
    try:
        _, value = read_edited(data, str(state.config))
    except UnusableInput as error:
        raise Edited(
            f"{error}; it was edited while it was switched, so it was not overwritten: mend it, or "
            f"{_copy_back(state)}, then {state.command} --keep-edits"
        ) from None
    try:
        _, before = read_edited(state.backup.read_bytes(), str(state.backup))
    except (OSError, UnusableInput):
        before = {}
    # Not the value itself, nor the objects that were made for it.
    others = [path for path in differing(before, value) if before and path != journal.path[: len(path)]]
    paths = tuple(map(".".join, others)) or ("comments or blanks alone",)
    original = MISSING if journal.before is None else journal.before
    return ("back" if at_path(value, journal.path) == original else "edited"), paths


def roll_back(
    state: State, journal: Journal, *, keep_edits: bool = False, tell: Announce = silent
) -> tuple[RolledBack, Journal]:
    """Put the configuration back and restart the gateway; the lock must be held.

    Raises :class:`Edited` if somebody edited the configuration, :class:`NoRestart` if it is as before but the gateway
    could not be restarted, and :class:`CannotMeasure` if it could not be written. Each message has the command that
    goes on. A journal that cannot be written, because the disk is full, stops no rollback.
    """
    found = _found(state, journal)
    notes = []
    if found.state == "edited" and not keep_edits:
        raise Edited(_refusal(state, journal, found))
    journal = _step(state, journal, ROLLBACK, restarts=found.restarts)
    if found.state == "switched":
        tell(f"roll back: {journal.changed}")
        note = state.restore(journal)
        notes += [note] if note else []
    elif found.state == "edited":
        tell(f"roll back: {journal.changed} alone; the edits stay")
        _put_back(state, journal)
    if found.state in ("edited", "back"):
        listed = _listed(found.differs)
        notes.append(f"the configuration was edited meanwhile and keeps its edits ({listed})")
    if found.restarts:
        journal = _step(state, journal, RESTART_BACK)
        tell(f"restart: {journal.restart}")
        try:
            await_orphan(state.restarting, journal.timeout)
            restart_gateway(journal.restart, journal.check, journal.timeout, state.restarting)
        except NoRestart as error:
            raise NoRestart(
                f"{error}; the configuration is as before, but the gateway may be down or still switched: "
                f"{state.command} tries again"
            ) from None
    if note := _copies_note(state, journal, restarted=found.restarts):
        notes.append(note)
    return RolledBack(found.state in ("switched", "edited"), found.restarts, tuple(notes)), journal


def _copies_note(state: State, journal: Journal, *, restarted: bool) -> str | None:
    """Return which copies of the host are still switched, None if none is.

    They are not changed: the host restores from ``.last-good`` only while its content has the sha256 that the host has
    noted, so an edited copy would be of no use to it. It replaces the copy itself at the end of a start that succeeds.
    """
    until = time.monotonic() + (COPIES_SECONDS if restarted else 0.0)
    while (copies := host_copies(state.config, journal.path, journal.after)) and time.monotonic() < until:
        time.sleep(0.2)
    if not copies:
        return None
    return (
        f'{", ".join(copies)}: the host\'s own copies still have {journal.changed} "{journal.after}", and were not '
        f"changed; the host replaces .last-good once it has started, and restores from a copy if {state.config.name} "
        "is damaged: check the value after that"
    )


def finish(state: State, journal: Journal) -> None:
    """Say in the journal that all is done, and remove it with its folder."""
    _step(state, journal, DONE, restarts=False)
    state.clear()


def recover(config: Path, *, keep_edits: bool = False, tell: Announce = silent) -> RolledBack | None:
    """Roll back the canary that ended early; return None if there is none. See :func:`roll_back`.

    Raises :class:`lab.errors.InUse` if a canary is going on.
    """
    config = real(config)
    state = State(config)
    if not state.folder.is_dir():
        return None
    with state.locked(), undisturbed():
        remove_parts(config)
        journal = state.read()
        if journal is None or journal.step == DONE:
            # Killed before the first journal, or while it was removed.
            state.clear()
            return None
        done, journal = roll_back(state, journal, keep_edits=keep_edits, tell=tell)
        finish(state, journal)
        return done


def remove_parts(config: Path) -> None:
    """Remove the temporary files of killed writers of this configuration, which hold its keys."""
    for part in leftovers(config.parent):
        if part.name.startswith(f".{config.name}."):
            with suppress(OSError):
                part.unlink()


def _step(state: State, journal: Journal, step: str, restarts: bool | None = None) -> Journal:
    stepped = replace(journal, step=step, restarts=journal.restarts if restarts is None else restarts)
    with suppress(LabError):
        state.write(stepped)
    return stepped


def _put_back(state: State, journal: Journal) -> None:
    """Set the one value back in an edited configuration; every other byte of it stays."""
    data = read_config(state.config)
    text, _ = read_edited(data, str(state.config))
    edit: Edit | None
    if journal.before is None:
        edit = remove_value(text, journal.path)
    else:
        edit = set_value(text, journal.path, journal.before, str(state.config))
    if edit is None:
        return
    changed = edit.apply(text)
    if at_path(read_edited(changed.encode(), str(state.config))[1], journal.path) != (
        MISSING if journal.before is None else journal.before
    ):
        raise CannotMeasure(f"{state.config}: {journal.changed} cannot be set back; change it by hand")
    if read_config(state.config) != data:
        raise Edited(f"{state.config}: is being edited; repeat: {state.command} --keep-edits")
    write_atomically(state.config, changed.encode(), like=state.config.stat())


def _refusal(state: State, journal: Journal, found: Found) -> str:
    return (
        f"{state.config}: was edited while it was switched, so it was not overwritten; it differs from the backup in "
        f"{_listed(found.differs)}; STILL SWITCHED: {journal.changed}; to set back this value and keep the edits: "
        f"{state.command} --keep-edits"
    )


def _copy_back(state: State) -> str:
    return shlex.join(["cp", str(state.backup), str(state.config)])


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
