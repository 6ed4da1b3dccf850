"""A run in parts: each machine replays a shard, nobody knows of the others, and a merge makes the run of them.

Which shard a conversation belongs to follows from the recordings alone: the largest first, each to the shard that has
least so far. So every machine finds the same parts by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.errors import CannotMeasure, UnusableInput
from lab.files import digest, only_writer
from lab.formatting import counted
from lab.replay.executors import size
from lab.replay.plan import Plan
from lab.runs.directory import GOLDEN, RunDirectory, open_run
from lab.runs.environment import decisive, tolerated
from lab.runs.manifest import Shard
from lab.runs.records import to_json
from lab.runs.resume import Fresh, finish, keep, resume_or_begin


class Merged(NamedTuple):
    """A run that was made of shards: how many conversations were copied, how many were there already, and notes."""

    run: RunDirectory
    copied: int
    there: int
    notes: tuple[str, ...]


def parse_shard(text: str) -> Shard:
    """``2/3``: the second of three shards."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, of = (int(one) for one in found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise UnusableInput(f"--shard {text!r}: expected NUMBER/OF from 1/OF to OF/OF, such as 2/3")
    return Shard(number, of)


def shard_of(plan: Plan, shard: Shard) -> Shard:
    """The shard with its conversations, in the order of the run; it may have none."""
    sizes = {one.conversation: size(plan, one) for one in plan.recordings}
    parts: list[set[str]] = [set() for _ in range(shard.of)]
    totals = [0] * shard.of
    for conversation in sorted(sizes, key=lambda one: (-sizes[one], one)):
        least = totals.index(min(totals))
        parts[least].add(conversation)
        totals[least] += sizes[conversation]
    mine = parts[shard.number - 1]
    return replace(shard, conversations=tuple(one for one in sizes if one in mine))


def merge(out: Path, folders: Sequence[Path], announce: Callable[[str], None] = lambda _: None) -> Merged:
    """Make the run ``out`` of all its shards: the same bytes as if it had been replayed in one piece.

    Its manifest has the ``asked`` and the ``environment`` of shard 1. What is there already is compared and left.
    Raises :class:`UnusableInput` where a shard is missing, double, unfinished, of another run, or made on other code
    or packages than another.
    """
    shards = _checked(folders)
    first = shards[0]
    notes = _notes(shards)
    for note in notes:
        announce(note)
    golden = {one.path: _bytes(one.check(one.path / GOLDEN)) for one in shards}
    for path, data in golden.items():
        if data != golden[first.path]:
            raise UnusableInput(
                f"{path}: its golden.jsonl is not that of {first.path}; run the replay of one of them again"
            )
    with only_writer(out):
        manifest = replace(first.manifest, shard=None)
        run = resume_or_begin(out, manifest, lambda: Fresh(golden[first.path], manifest.recall_points))
        copied = 0
        for shard in shards:
            for conversation in shard.own:
                copied += _copied(shard, run, conversation)
            announce(f"{shard.path}: {counted(len(shard.own), 'conversation')}")
        finish(run)
    return Merged(run, copied, len(run.conversations) - copied, notes)


def _copied(shard: RunDirectory, run: RunDirectory, conversation: str) -> bool:
    """Copy the files of a conversation that are not there; one that is must be the same. Whether it was done."""
    # Only a file that can be read is worth keeping.
    shard.read_receipts(conversation, ("arm", "turn"))
    there = run.receipts(conversation)
    if there.exists():
        if _bytes(there) != _bytes(shard.receipts(conversation)):
            raise UnusableInput(f"{there}: is there already and differs from the shard's; choose another folder")
        if conversation in run.done():
            return False
    pairs = zip(run.files(conversation), shard.files(conversation), strict=True)
    keep(run, conversation, {to: _bytes(shard.check(of)) for to, of in pairs if shard.name_of(of) in shard.digests})
    return True


def _checked(folders: Sequence[Path]) -> list[RunDirectory]:
    """The shards in order of their numbers, all of them and of one run."""
    by_number: dict[int, RunDirectory] = {}
    first: RunDirectory | None = None
    for folder in folders:
        run = open_run(folder)
        if run.shard is None:
            raise UnusableInput(f"{folder}: is a whole run, not a shard of one")
        first = first or run
        if run.manifest.run_key != first.manifest.run_key:
            before, now = to_json(first.manifest.resolved), to_json(run.manifest.resolved)
            differs = sorted(key for key in {*before, *now} if digest(before.get(key)) != digest(now.get(key)))
            raise UnusableInput(f"{folder}: is of another run than {first.path}: other {', '.join(differs)}")
        if first.shard and run.shard.of != first.shard.of:
            raise UnusableInput(f"{folder}: is shard {run.shard}, but {first.path} is shard {first.shard}")
        if run.shard.number in by_number:
            raise UnusableInput(f"{folder}: is shard {run.shard}, and so is {by_number[run.shard.number].path}")
        by_number[run.shard.number] = run
    if first is None or first.shard is None:
        raise UnusableInput("no shards were named")
    missing = [f"{number}/{first.shard.of}" for number in range(1, first.shard.of + 1) if number not in by_number]
    if missing:
        raise UnusableInput(f"shards are missing: {', '.join(missing)}; name all {first.shard.of}")
    shards = [by_number[number] for number in sorted(by_number)]
    for run in shards:
        run.require_own()
    held = sorted(name for run in shards for name in run.own)
    if held != sorted(first.conversations):
        raise UnusableInput(
            f"{first.path}: its shards do not hold each conversation once; replay them with one version"
        )
    return shards


def _notes(shards: Sequence[RunDirectory]) -> tuple[str, ...]:
    """What differs between the machines that made the shards, and may; :class:`UnusableInput` for what may not."""
    first = shards[0].manifest.environment
    found = []
    for run in shards[1:]:
        here = run.manifest.environment
        differs = decisive(first, here)
        if differs:
            raise UnusableInput(
                f"{run.path}: was made on another {'; another '.join(differs)} than {shards[0].path}; receipts of two "
                "engines are no one run: replay one of them again"
            )
        if others := tolerated(first, here):
            found.append(f"{run.path}: was made elsewhere than {shards[0].path}: {'; '.join(others)}")
    return tuple(found)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); run the replay of its shard again") from None
