"""Run a canary in blocks of time whose order was drawn, so that chance alone tells both policies apart (CN-22).

Half of the blocks are switched, each by a canary of its own with its journal, its guard and its rollback; before the
others the gateway is restarted as well, and nothing is written. The order follows from a seed that is written to
schedule.json before the first block. The beginning of every block is a wash-out, whose recalls do not count.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.config_text import MISSING
from lab.base.errors import LabError, UnusableInput
from lab.base.files import digest, dump_json, only_writer, read_json, write_atomically
from lab.base.formatting import Announce, duration, silent
from lab.base.shape import field
from lab.canary.audit.check import CAPTURE, Damaged
from lab.canary.audit.lines import opened
from lab.canary.audit.log_line import entries_in, payload
from lab.canary.rollout.change import DEFAULT_SELECTION, SELECTION
from lab.canary.rollout.commands import raised, restart_gateway
from lab.canary.rollout.follow import KEPT_LINES, Follower, log_files, watch
from lab.canary.rollout.journal import State, now
from lab.canary.rollout.recover import RolledBack
from lab.canary.rollout.run import Outcome, Plan, keep, look, require_effect, require_unswitched, run_canary
from lab.compare.randomised import LEAST, MOST, drawn
from lab.gate.line import FAIL
from lab.gate.outputs import write_verdict
from lab.gate.receipts import figure
from lab.gate.scheduled import COMPARED
from lab.gate.verdict import Verdict, judge
from lab.runs.directory import AUDIT

SCHEMA = "lab.canary.schedule.v1"
SCHEDULE, BLOCKS, BLOCK = "schedule.json", "blocks", "block.json"
CONTROL_LINES, CONTROL = "control.log", "control.json"
# The share of each block, at its beginning, whose recalls do not count: what the block before left has time to pass.
WASH_OUT = 1 / 6


@dataclass(frozen=True, slots=True)
class Schedule:
    """What was drawn, and for what; the order follows from the seed. Times in seconds."""

    seed: int
    blocks: int
    seconds: float
    config: str
    after: str
    policy: str
    drawn: str

    @property
    def order(self) -> tuple[bool, ...]:
        """Return for each block whether it is switched."""
        return drawn(self.blocks, self.seed)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, the order among them for who reads the file."""
        return {"schema": SCHEMA, **asdict(self), "wash_out": self.seconds * WASH_OUT, "order": list(self.order)}


def require_schedule(plan: Plan, blocks: int) -> None:
    """Raise :class:`UnusableInput` for a schedule that cannot show anything."""
    if plan.change.path != SELECTION:
        raise UnusableInput("--schedule: compares selection policies; without the engine there are no receipts")
    if blocks % 2 or not LEAST <= blocks <= MOST:
        raise UnusableInput(f"--schedule {blocks}: expected an even number of blocks from {LEAST} to {MOST}")
    if plan.golden:
        raise UnusableInput("--schedule: runs no golden check; leave out --golden")


def steps(plan: Plan, blocks: int) -> list[str]:
    """Return what would happen, a sentence for each step."""
    settle, total = duration(plan.seconds * WASH_OUT), duration(plan.seconds * blocks)
    draw = f"draw an order of {blocks} blocks of {duration(plan.seconds)}, {total} together, and write it to"
    switch = f"switch {plan.change.sentence}, restart: {plan.restart}, and roll back at the end"
    compare = "and compare them with the others by the orders that could have been drawn"
    judged = f"judge what the switched blocks logged by policy {plan.policy.label}"
    return [
        f"{draw} {plan.out / SCHEDULE}",
        f"in half of them: {switch}, each with a journal and a guard; in the others: restart alone",
        f"leave out the first {settle} of each block; {judged}, {compare}",
    ]


def run_schedule(plan: Plan, blocks: int, *, tell: Announce = silent) -> Outcome:
    """Run the blocks that are left, and judge what all of them logged.

    The same command goes on after a kill. It ends early if the switched blocks so far fail the policy, if a rollback
    fails, and on a signal. Raises :class:`UnusableInput` if the schedule was edited, or is of another command.
    """
    plan.out.mkdir(parents=True, exist_ok=True)
    with only_writer(plan.out):
        return _run(plan, blocks, tell)


def _run(plan: Plan, blocks: int, tell: Announce) -> Outcome:
    schedule = _begun(plan, blocks, tell)
    mark, outcome = digest(schedule.as_json()), Outcome(schedule.drawn, complete=True)
    folders = [plan.out / BLOCKS / f"{number:02}" for number in range(1, blocks + 1)]
    ended = next((at for at, folder in enumerate(folders) if not (folder / BLOCK).exists()), blocks)
    for number, (switched, folder) in enumerate(zip(schedule.order, folders, strict=True), 1):
        if number < ended:
            # All that ended before are judged once, with the last of them.
            continue
        if not _is_done(folder):
            tell(f"block {number} of {blocks}: {plan.change.after if switched else 'as before'}")
            found = _block(replace(plan, out=folder), switched, tell)
            for name in ("problem", "stuck", "interrupted", "is_restart_open", "rolled_back"):
                setattr(outcome, name, getattr(found, name))
            outcome.notes += [f"block {number}: {note}" for note in found.notes]
            if outcome.problem or outcome.stuck:
                outcome.complete = False
                break
            write_atomically(folder / BLOCK, dump_json({"schedule": mark, "switched": switched, "ended": now()}))
        pairs = zip(schedule.order, folders, strict=True)
        done = [(each, folder) for each, folder in pairs if (folder / BLOCK).exists()]
        if not any(switched for switched, _ in done):
            continue
        if _judged(plan, schedule, done, outcome).status == FAIL and number < blocks:
            outcome.notes.append(f"ended after block {number} of {blocks}: the switched blocks fail the policy")
            break
    if outcome.verdict and not outcome.stuck:
        # Each switched block ended with its rollback, or the schedule with it.
        outcome.rolled_back = outcome.rolled_back or RolledBack(wrote=False, restarted=False)
    keep(outcome, plan)
    return outcome


def _begun(plan: Plan, blocks: int, tell: Announce) -> Schedule:
    """Return the schedule of the folder, or draw one and write it."""
    file = plan.out / SCHEDULE
    wanted = Schedule(0, blocks, plan.seconds, str(plan.change.config), plan.change.after, plan.policy.key, now())
    if not file.exists():
        if any(plan.out.iterdir()):
            raise UnusableInput(f"--out {plan.out}: is not empty, and has no {SCHEDULE}; choose a new folder")
        schedule = replace(wanted, seed=secrets.randbits(32))
        write_atomically(file, dump_json(schedule.as_json()))
        tell(f"{file}: drawn by seed {schedule.seed}; the same command goes on after an interruption")
        return schedule
    value = read_json(file)
    if field(value, "schema", str, str(file)) != SCHEMA:
        raise UnusableInput(f"{file}: not a schedule of this version")
    kinds: dict[str, Any] = {"seed": int, "blocks": int, "seconds": (int, float)}
    kinds |= dict.fromkeys(("config", "after", "policy"), str)
    found = Schedule(**{name: value.get(name) for name in (*kinds, "drawn")})
    edited = [name for name, kind in kinds.items() if not isinstance(getattr(found, name), kind)]
    if edited or value != found.as_json() or not _is_of(plan.out, digest(value)):
        raise UnusableInput(f"{file}: was edited after it was drawn; put it back, or begin again with a new --out")
    differs = [name for name in (*kinds,)[1:] if getattr(found, name) != getattr(wanted, name)]
    if differs:
        raise UnusableInput(f"{file}: was drawn for another {', '.join(differs)}; repeat that command, or a new --out")
    return found


def _is_of(out: Path, mark: str) -> bool:
    """Whether every block that ended names the same schedule."""
    return all(read_json(file).get("schedule") == mark for file in out.glob(f"{BLOCKS}/*/{BLOCK}"))


def _is_done(folder: Path) -> bool:
    """Return whether a block has ended; what an interrupted one logged is set aside, and it is repeated."""
    if (folder / BLOCK).exists():
        return True
    if folder.exists():
        aside = folder.with_name(f"{folder.name}-interrupted")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    return False


def _block(plan: Plan, switched: bool, tell: Announce) -> Outcome:
    """Run one block: its canary, or the same wait without a switch."""
    settle = plan.seconds * WASH_OUT
    if switched:
        # Only the time ends a block: a number of recalls would depend on what the policy does.
        return run_canary(replace(plan, recalls=None, seconds=plan.seconds - settle, settle=settle), tell=tell)
    outcome, state = Outcome(now()), State(plan.change.config)
    plan.out.mkdir(parents=True, exist_ok=True)
    try:
        with state.locked(tell=tell), raised():
            try:
                require_unswitched(state, held=False)
                tell(f"restart: {plan.restart}")
                restart_gateway(plan.restart, plan.check, plan.timeout, state.restarting)
                time.sleep(settle)
                log = Follower(log_files(plan.log))
                tell(f"wait: {duration(plan.seconds - settle)}")
                window = watch(log, plan.out, recalls=None, seconds=plan.seconds - settle, tell=tell)
                before = plan.change.before
                require_effect(DEFAULT_SELECTION if before is MISSING else str(before), window.audit)
                write_atomically(plan.out / AUDIT, dump_json(window.audit))
            finally:
                state.restarting.unlink(missing_ok=True)
                with suppress(OSError):
                    state.folder.rmdir()
    except KeyboardInterrupt as signal:
        outcome.interrupted, outcome.problem = True, f"interrupted by {signal}" if signal.args else "interrupted"
    except (LabError, OSError) as error:
        outcome.problem = str(error)
    return outcome


def _judged(plan: Plan, schedule: Schedule, done: Sequence[tuple[bool, Path]], outcome: Outcome) -> Verdict:
    """Judge the blocks so far: what the switched ones logged, beside the others, and once all ended by their order."""
    for name, wanted in ((KEPT_LINES, True), (CONTROL_LINES, False)):
        lines = b"".join((folder / KEPT_LINES).read_bytes() for switched, folder in done if switched is wanted)
        write_atomically(plan.out / name, lines, private=True)
    is_over = len(done) == schedule.blocks
    state = State(plan.change.config)
    # Without what recalls took: its intervals take recalls as independent, and those of a block share its load.
    found = look(plan.out / KEPT_LINES, is_over, state, outcome)
    has_others = any(not switched for switched, _ in done)
    other = look(plan.out / CONTROL_LINES, is_over, state, outcome) if has_others else None
    if is_over:
        found["schedule"] = {"seed": schedule.seed, "blocks": [_figures(*block) for block in done]}
    write_atomically(plan.out / AUDIT, dump_json(found))
    if other is not None:
        write_atomically(plan.out / CONTROL, dump_json(other))
    outcome.verdict = judge(
        plan.policy,
        audit=found,
        audit_file=plan.out / AUDIT,
        control=other,
        control_file=plan.out / CONTROL if other else None,
    )
    write_verdict(outcome.verdict, plan.out)
    return outcome.verdict


def _figures(switched: bool, folder: Path) -> dict[str, Any]:
    """Return what the gate compares of a block."""
    found = read_json(folder / AUDIT)
    return {
        "switched": switched,
        "answered": found["recalls"]["answered"],
        "captures": _captured(folder / KEPT_LINES),
        "figures": {name: figure(found, name, str(folder)) for name in COMPARED},
    }


def _captured(kept: Path) -> int:
    """Return how many memories the engine stored by itself; most of its receipts of captures store none."""
    stored = 0
    with opened(str(kept)) as lines:
        for _, entry in entries_in(lines):
            if entry is not None and entry.name == CAPTURE:
                # A damaged receipt is counted by the audit.
                with suppress(Damaged, KeyError):
                    stored += int(payload(entry)["storedCount"])
    return stored
