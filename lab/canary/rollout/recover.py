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
from typing import Any, NamedTuple

from lab.base.config_resolve import real
from lab.base.config_text import MISSING, Edit, at_path, differing, read_edited, remove_value, set_value
from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import dump_json, leftovers, read_json, sha256_bytes, write_atomically
from lab.base.formatting import Announce, silent
from lab.base.regex import regex
from lab.canary.rollout.commands import NoRestart, await_orphan, restart_gateway, undisturbed, unfailing
from lab.canary.rollout.journal import (
    DONE,
    PREPARE,
    RESTART_BACK,
    ROLLBACK,
    SWITCH,
    Journal,
    State,
    now,
    read_config,
)

# The receipt of a canary.
SCHEMA = "lab.canary.v1"

# Seconds in which a gateway that was restarted may replace its copy of the configuration.
COPIES_SECONDS = 5.0
# Names of the copies from which the host may restore, after that of the configuration.
COPY_NAME = regex(r"\.last-good|\.bak(?:\.\d+)?")
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
            restart_gateway(journal.restart, journal.check, journal.timeout, state.restarting, journal.folder)
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


def host_copies(config: Path, path: tuple[str, ...], value: str) -> list[str]:
    """Return the names of the host's own copies of a configuration in which a value is still switched (CN-20).

    A host copies its configuration to ``.last-good`` whenever it has started with it, and to ``.bak`` before it writes.
    """
    found = []
    for copy in sorted(config.parent.glob(f"{config.name}.*")):
        if not COPY_NAME.fullmatch(copy.name.removeprefix(config.name)) or not copy.is_file():
            continue
        try:
            _, content = read_edited(copy.read_bytes(), str(copy))
        except (OSError, UnusableInput):
            continue
        if at_path(content, path) == value:
            found.append(copy.name)
    return found


def finish(state: State, journal: Journal) -> None:
    """Say in the journal that all is done, and remove it with its folder."""
    _step(state, journal, DONE, restarts=False)
    state.clear()


def recover(
    config: Path, *, keep_edits: bool = False, tell: Announce = silent, only: str | None = None
) -> RolledBack | None:
    """Roll back the canary that ended early; return None if there is none. See :func:`roll_back`.

    With ``only``, the token of a canary that ended, another one is left alone. The receipt of the canary says how it
    ended. Raises :class:`lab.base.errors.InUse` if a canary is going on.
    """
    config = real(config)
    state, tell = State(config), unfailing(tell)
    if not state.folder.is_dir():
        return None
    with state.locked(tell=tell, ended=only), undisturbed():
        journal = state.read()
        if only is not None and journal is not None and journal.token not in (None, only):
            # Somebody recovered, and began another canary, which has its own guard.
            return None
        remove_parts(config)
        if journal is None or journal.step == DONE:
            # Killed before the first journal, or while it was removed.
            state.clear()
            return None
        early = journal
        try:
            done, journal = roll_back(state, journal, keep_edits=keep_edits, tell=tell)
        except LabError as error:
            _write_receipt(early, str(error), ())
            raise
        _write_receipt(early, None, done.notes)
        finish(state, journal)
        return done


def receipt_of(journal: Journal) -> dict[str, Any]:
    """Return the receipt of a canary that did not end, as plain values with no text of a memory and no key (CN-10)."""
    return {
        "schema": SCHEMA,
        "started": journal.started,
        "ended": now(),
        "config": journal.config,
        "path": list(journal.path),
        "before": journal.before,
        "after": journal.after,
        # As lab.gate.line names it, which a guard does not import.
        "status": "error",
        "problem": f"ended early, in step {journal.step!r}",
        "complete": False,
        "golden": None,
        "verdict": None,
        "rolled_back": False,
        "stuck": None,
        "notes": [],
        "out": journal.out,
    }


def _write_receipt(journal: Journal, stuck: str | None, notes: tuple[str, ...]) -> None:
    """Say in the receipt of a canary whether it was rolled back after it ended; a full disk stops no rollback."""
    if journal.receipt is None:
        return
    file = Path(journal.receipt)
    receipt = receipt_of(journal)
    with suppress(LabError):
        if file.exists() and isinstance(earlier := read_json(file), dict):
            receipt |= earlier
    receipt |= {"rolled_back": stuck is None, "stuck": stuck}
    if stuck is None:
        receipt["notes"] = [*receipt["notes"], *notes, f"rolled back at {now()}, after the canary had ended"]
    if file.parent.is_dir():
        with suppress(LabError):
            write_atomically(file, dump_json(receipt))


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
