"""Switch a live gateway back to another memory slot, with the safety of a canary's rollback (CN-17).

To the journal, a gateway that serves with the engine is one that is switched. So a downgrade is the rollback of CN-5,
with the configuration after the downgrade as the original: a kill at any time leaves a journal with which the guard,
``lab canary recover``, or the next watch completes it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lab.base.config_resolve import real, resolve_config
from lab.base.config_text import Edit, at_path
from lab.base.errors import UnusableInput
from lab.base.formatting import Announce, silent
from lab.canary.rollout.change import SLOT, Change, slot_change
from lab.canary.rollout.commands import identity, undisturbed, unfailing
from lab.canary.rollout.guard import guarded
from lab.canary.rollout.journal import DONE, ROLLBACK, Journal, State, begin
from lab.canary.rollout.recover import finish, remove_parts, roll_back
from lab.systems.openclaw.config.file import ENTRY


@dataclass(frozen=True, slots=True)
class Downgrade:
    """What is done on an alarm: the memory slot to switch to, and the commands of the operator."""

    config: Path
    slot: str
    restart: str
    out: Path
    check: str | None = None
    timeout: float = 600.0
    guard: bool = True


class Downgraded(NamedTuple):
    """What a downgrade did: whether it wrote the configuration and restarted the gateway, and remarks on both."""

    wrote: bool
    restarted: bool
    notes: tuple[str, ...] = ()


def slot_of(config: Path) -> object:
    """Return the memory slot of a configuration. Raises :class:`UnusableInput` if it cannot be read."""
    return at_path(resolve_config(config).value, SLOT)


def change_back(config: Path, slot: str) -> Change:
    """Return the change of a live gateway back to a slot; raise :class:`UnusableInput` if the engine is not live."""
    if slot == ENTRY:
        raise UnusableInput(f"--to {slot}: is the engine that is watched; name the slot to go back to")
    live = slot_of(config)
    if live != ENTRY:
        named = f'"{live}"' if isinstance(live, str) else "not set"
        raise UnusableInput(f"{config}: plugins.slots.memory is {named}, so {ENTRY} is not live: nothing to watch")
    return slot_change(config, slot)


def left_over(plan: Downgrade, *, held: bool | None = None) -> bool:
    """Return whether a downgrade of this watch is under way; raise :class:`UnusableInput` for another canary.

    ``held`` is whether another process holds the folder, if that is known.
    """
    state = State(real(plan.config))
    if not (state.folder.is_dir() and state.journal.exists()):
        return False
    journal = state.read()
    if journal is None or journal.step == DONE:
        return False
    if journal.out != str(plan.out.absolute()):
        raise UnusableInput(
            f"{state.journal}: a canary of {journal.started} "
            f"{state.how(journal, held=state.is_held() if held is None else held)}; first: {state.command}"
        )
    return True


def downgrade(plan: Downgrade, *, tell: Announce = silent) -> Downgraded:
    """Switch the slot back and restart the gateway, or complete a downgrade that was killed.

    A configuration that is edited meanwhile keeps its edits. Raises :class:`lab.base.errors.InUse` while a canary is
    going on, :class:`lab.canary.rollout.commands.NoRestart` if the configuration is switched back but the gateway was
    not restarted, and :class:`lab.base.errors.CannotMeasure` if it could not be written. Each can be repeated.
    """
    state, tell, notes = State(real(plan.config)), unfailing(tell), list[str]()
    with state.locked(tell=tell), undisturbed():
        remove_parts(state.config)
        change: Change | None = None
        left = state.read() if left_over(plan, held=False) else None
        if left is not None:
            if said := state.guard_said():
                notes.append(f"a downgrade that was killed is completed; its guard said: {said}")
            journal = replace(left, process=identity(os.getpid()))
        elif slot_of(state.config) != ENTRY:
            state.clear()
            return Downgraded(False, False, (f"plugins.slots.memory of {plan.config} was switched back meanwhile",))
        else:
            change, journal = _planned(plan, state)
        # An engine that raised an alarm is switched off also where no guard can be started.
        with guarded(state, journal, wanted=plan.guard, required=False, keep_edits=True, tell=tell, note=notes.append):
            if change is not None:
                _write(state, change, journal)
            done, journal = roll_back(state, journal, keep_edits=True, tell=tell)
            finish(state, journal)
        return Downgraded(done.wrote, done.restarted, (*notes, *done.notes))


def _planned(plan: Downgrade, state: State) -> tuple[Change, Journal]:
    """Return the downgrade as a rollback: its change, and the journal of one that is to be rolled back."""
    change = change_back(state.config, plan.slot)
    back = replace(
        change,
        before=plan.slot,
        after=ENTRY,
        edit=Edit(change.edit.at, change.edit.inserted, change.edit.removed),
        original=change.switched,
        switched=change.original,
    )
    journal = begin(back, restart=plan.restart, check=plan.check, timeout=plan.timeout, out=plan.out.absolute())
    return back, replace(journal, step=ROLLBACK, restarts=True)


def _write(state: State, change: Change, journal: Journal) -> None:
    """Write the copy that will be renamed over the configuration, and the journal; nothing is switched yet."""
    try:
        state.prepare(change)
        state.write(journal)
    except BaseException:
        with suppress(OSError):
            state.clear()
        raise
