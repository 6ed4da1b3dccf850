"""Split a run into shards, which machines replay independently, and merge them.

The recordings alone determine the shard of a conversation: the largest conversations come first, and each goes to the
shard with the least work so far. So every machine computes the same shards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest, only_writer
from lab.base.formatting import counted
from lab.replay.executors import size
from lab.replay.plan import Plan
from lab.runs.directory import GOLDEN, RunDirectory, open_run
from lab.runs.environment import decisive, tolerated
from lab.runs.manifest import Shard
from lab.runs.records import to_json
from lab.runs.resume import Fresh, finish, keep, resume_or_begin


class Merged(NamedTuple):
    """A merged run: the numbers of conversations copied and already existing, and notes."""

    run: RunDirectory
    copied: int
    there: int
    notes: tuple[str, ...]


def parse_shard(text: str) -> Shard:
    """Return the shard that a text names: ``2/3`` is the second of three. Raises :class:`UnusableInput`."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, of = (int(digits) for digits in match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise UnusableInput(f"--shard {text!r}: expected NUMBER/OF from 1/OF to OF/OF, such as 2/3")
    return Shard(number, of)


def shard_of(plan: Plan, shard: Shard) -> Shard:
    """Return the shard with its conversations, in the order of the run; it may have none."""
    sizes = {recording.conversation: size(plan, recording) for recording in plan.recordings}
    parts: list[set[str]] = [set() for _ in range(shard.of)]
    totals = [0] * shard.of
    for conversation in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = totals.index(min(totals))
        parts[least].add(conversation)
        totals[least] += sizes[conversation]
    part = parts[shard.number - 1]
    return replace(shard, conversations=tuple(name for name in sizes if name in part))


def merge(out: Path, folders: Sequence[Path], announce: Callable[[str], None] = lambda _: None) -> Merged:
    """Merge all shards of a run into ``out``: the same bytes as a replay without shards.

    The manifest takes ``asked`` and ``environment`` from shard 1. Existing files are compared and kept. Raises
    :class:`UnusableInput` if a shard is missing, repeated, of another run, or made with other code or packages, and
    :class:`lab.base.errors.Incomplete` if one is unfinished.
    """
    shards = _checked(folders)
    first = shards[0]
    notes = _notes(shards)
    for note in notes:
        announce(note)
    golden = {shard.path: _bytes(shard.check(shard.path / GOLDEN)) for shard in shards}
    for path, data in golden.items():
        if data != golden[first.path]:
            raise UnusableInput(f"{path}: its golden.jsonl differs from that of {first.path}; replay one of them again")
    with only_writer(out):
        manifest = replace(first.manifest, shard=None)
        fresh = Fresh(golden[first.path], manifest.recall_points, manifest.contents, manifest.origins)
        run = resume_or_begin(out, manifest, lambda: fresh)
        copied = 0
        for shard in shards:
            for conversation in shard.assigned:
                copied += _copied(shard, run, conversation)
            announce(f"{shard.path}: {counted(len(shard.assigned), 'conversation')}")
        finish(run)
    return Merged(run, copied, len(run.conversations) - copied, notes)


def _copied(shard: RunDirectory, run: RunDirectory, conversation: str) -> bool:
    """Copy the files of a conversation; return False if they exist already. Existing receipts must be equal."""
    # Read first, so that only readable files are copied.
    shard.read_receipts(conversation, ("arm", "turn"))
    target = run.receipts(conversation)
    if target.exists():
        if _bytes(target) != _bytes(shard.receipts(conversation)):
            raise UnusableInput(f"{target}: exists already and differs from the shard's; choose another folder")
        if conversation in run.done():
            return False
    pairs = zip(run.files(conversation), shard.files(conversation), strict=True)
    keep(
        run, conversation, {to: _bytes(shard.check(path)) for to, path in pairs if shard.name_of(path) in shard.digests}
    )
    return True


def _checked(folders: Sequence[Path]) -> list[RunDirectory]:
    """Return the shards in order of their numbers, after checking that they are all shards of one run."""
    by_number: dict[int, RunDirectory] = {}
    first: RunDirectory | None = None
    for folder in folders:
        run = open_run(folder)
        if run.shard is None:
            raise UnusableInput(f"{folder}: is a complete run, not a shard")
        first = first or run
        if run.manifest.run_key != first.manifest.run_key:
            before, now = to_json(first.manifest.resolved), to_json(run.manifest.resolved)
            differs = sorted(key for key in {*before, *now} if digest(before.get(key)) != digest(now.get(key)))
            raise UnusableInput(f"{folder}: belongs to another run than {first.path}: other {', '.join(differs)}")
        if first.shard and run.shard.of != first.shard.of:
            raise UnusableInput(f"{folder}: is shard {run.shard}, but {first.path} is shard {first.shard}")
        if run.shard.number in by_number:
            raise UnusableInput(f"{folder}: is shard {run.shard}, and so is {by_number[run.shard.number].path}")
        by_number[run.shard.number] = run
    if first is None or first.shard is None:
        raise UnusableInput("no shards were given")
    missing = [f"{number}/{first.shard.of}" for number in range(1, first.shard.of + 1) if number not in by_number]
    if missing:
        raise UnusableInput(f"shards are missing: {', '.join(missing)}; give all {first.shard.of}")
    shards = [by_number[number] for number in sorted(by_number)]
    for run in shards:
        run.require_assigned()
    held = sorted(name for run in shards for name in run.assigned)
    if held != sorted(first.conversations):
        raise UnusableInput(
            f"{first.path}: the shards do not hold each conversation exactly once; replay them with one version"
        )
    return shards


def _notes(shards: Sequence[RunDirectory]) -> tuple[str, ...]:
    """Return tolerated differences of the environments; raise :class:`UnusableInput` for other differences."""
    first = shards[0].manifest.environment
    notes = []
    for run in shards[1:]:
        here = run.manifest.environment
        differs = decisive(first, here)
        if differs:
            raise UnusableInput(
                f"{run.path}: was made with another {'; another '.join(differs)} than {shards[0].path}; one run must "
                "not mix receipts of two versions: replay one of them again"
            )
        if others := tolerated(first, here):
            notes.append(f"{run.path}: was made in another environment than {shards[0].path}: {'; '.join(others)}")
    return tuple(notes)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); replay its shard again") from None
