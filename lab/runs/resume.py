"""Writing a run so that a kill at any moment leaves one that the same command finishes.

The order is what makes it so. The manifest comes first, with the digest of the golden set, which follows. Of each
conversation the timings and what the arms wrote come first, then ``digests/<conversation>.json`` with the sha256 of all
its files, and the receipts last: they say that it is done, and where they are their digests are. At the end the
manifest takes in all digests, and the folder goes. Receipts without a digest count as not done, so the digests need
not survive a loss of power.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.errors import Altered, OtherArguments, UnusableInput
from lab.files import cannot_write, digest, dump_json, remove_leftovers, sha256_bytes, sha256_file, write_atomically
from lab.runs.differences import arms_differences
from lab.runs.directory import (
    DIGESTS,
    FAILURES,
    GOLDEN,
    LATENCY,
    MANIFEST,
    RECEIPTS,
    WRITES,
    RunDirectory,
    open_run,
)
from lab.runs.environment import decisive, environment, tolerated
from lab.runs.manifest import COMPLETE, INCOMPLETE, STARTED, Manifest, Resolved, Shard
from lab.runs.records import to_json

Announce = Callable[[str], None]


class Fresh(NamedTuple):
    """What a run begins with: the bytes of golden.jsonl, and how many recall points each conversation has."""

    golden: bytes
    recall_points: Mapping[str, int]


def create_or_resume(
    path: Path,
    asked: Mapping[str, object],
    resolved: Resolved,
    comparable: Mapping[str, object],
    fresh: Callable[[], Fresh],
    shard: Shard | None = None,
    announce: Announce = lambda _: None,
) -> RunDirectory:
    """The run for these arguments at ``path``: a new one, or the one that is there if it was made with the same.

    ``fresh`` gives what a new run needs. Raises :class:`OtherArguments` naming what differs, in the arguments or
    in code and packages, :class:`UnusableInput` for a folder that holds something else, and :class:`Altered` for
    a file that is not as it was written.
    """
    manifest = Manifest(
        STARTED,
        resolved.key,
        digest(comparable),
        {name: list(one) if isinstance(one, tuple) else one for name, one in asked.items()},
        resolved,
        environment(),
        {},
        shard=shard,
    )
    return resume_or_begin(path, manifest, fresh, announce)


def resume_or_begin(
    path: Path, manifest: Manifest, fresh: Callable[[], Fresh], announce: Announce = lambda _: None
) -> RunDirectory:
    """The run of a manifest at ``path``, whose recall points ``fresh`` has; see :func:`create_or_resume`."""
    for folder in (path, *(path / name for name in (RECEIPTS, LATENCY, WRITES, DIGESTS, "figures"))):
        remove_leftovers(folder)
    if (path / MANIFEST).exists():
        run = open_run(path)
        try:
            _require_same(run, manifest)
        except OtherArguments:
            # A replay that failed before its first conversation measured nothing under its arguments.
            if run.manifest.status != STARTED or run.done():
                raise
            (path / GOLDEN).unlink(missing_ok=True)
        else:
            for note in tolerated(run.manifest.environment, manifest.environment):
                announce(f"{path}: goes on elsewhere than it began: {note}")
            return _taken_up(run, fresh)
    elif path.exists() and (not path.is_dir() or any(not child.name.endswith(".part") for child in path.iterdir())):
        raise UnusableInput(f"{path}: exists and is no run directory; choose another --out")
    golden, points = fresh()
    begun = replace(manifest, status=STARTED, recall_points=dict(points), files={GOLDEN: sha256_bytes(golden)})
    run = RunDirectory(path, begun)
    _write_manifest(run)
    write_atomically(path / GOLDEN, golden)
    return run


def _taken_up(run: RunDirectory, fresh: Callable[[], Fresh]) -> RunDirectory:
    """A run that is there, its golden set in place and what is done of it checked."""
    path = run.path / GOLDEN
    if not path.exists():
        data = fresh().golden
        if sha256_bytes(data) != run.digests.get(GOLDEN):
            raise Altered(f"{path}: is missing, and cannot be made again as it was; choose another --out")
        write_atomically(path, data)
    run.check(path)
    for conversation in run.done():
        files = [one for one in run.files(conversation) if run.name_of(one) in run.digests]
        if all(one.exists() for one in files):
            for one in files:
                run.check(one)
        else:
            # Its timings are gone, or what was written: it counts as not done.
            del run.digests[run.name_of(run.receipts(conversation))]
    return run


def _require_same(run: RunDirectory, manifest: Manifest) -> None:
    """Raise :class:`OtherArguments` where a run was made with other arguments, or on other code and packages."""
    before, now = ({**to_json(one.resolved), "shard": _shard(one)} for one in (run.manifest, manifest))
    remedy = f"`lab runs rm {run.path}`"
    require_same_arguments(run.path, before, now, remedy)
    differs = decisive(run.manifest.environment, manifest.environment)
    if differs:
        raise OtherArguments(
            f"{run.path}: this run was made on another {'; another '.join(differs)}; receipts of two engines are no "
            f"one run: choose another --out, or {remedy} and replay it again"
        )


def _shard(manifest: Manifest) -> dict[str, object] | None:
    return to_json(manifest.shard) if manifest.shard else None


def require_same_arguments(path: Path, before: Mapping[str, object], now: Mapping[str, object], remedy: str) -> None:
    """Raise :class:`OtherArguments`, naming what differs, where a folder was made with other arguments than these.

    Both are JSON, or such as JSON makes of them: a tuple is a list.
    """
    names = {*before, *now}
    differs = sorted(name for name in names if digest(before.get(name)) != digest(now.get(name)))
    if differs:
        arms = arms_differences(before.get("arms"), now.get("arms")) if "arms" in differs else ""
        differs = [f"arms ({arms})" if name == "arms" and arms else name for name in differs]
        raise OtherArguments(
            f"{path}: this run was made with other {', '.join(differs)}; choose another --out, or {remedy}"
        )


def keep(run: RunDirectory, conversation: str, files: Mapping[Path, bytes]) -> None:
    """Write the files of a conversation, receipts last, their digests just before."""
    last = run.receipts(conversation)
    for path, data in files.items():
        if path != last:
            write_atomically(path, data)
    found = {run.name_of(path): sha256_bytes(data) for path, data in files.items()}
    write_atomically(run.recorded(conversation), dump_json(found), durable=False)
    write_atomically(last, files[last])
    run.digests.update(found)


def finish(run: RunDirectory, failures: Sequence[Mapping[str, str]] = ()) -> None:
    """Write what could not be replayed, and the manifest with every digest; nothing where both are there."""
    path = run.path / FAILURES
    recalls = run.failed_recalls()
    told = [*failures, *({"phase": "recall", **one._asdict()} for one in recalls)]
    data = b"".join(dump_json(dict(failure), indent=None) for failure in told)
    _put_failures(path, data)
    done = run.done()
    files = {GOLDEN: run.digests[GOLDEN]} | ({FAILURES: sha256_bytes(data)} if data else {})
    for conversation in done:
        for one in run.files(conversation):
            if (name := run.name_of(one)) in run.digests:
                files[name] = run.digests[name]
    failed = Counter(one.arm for one in recalls)
    status = COMPLETE if len(done) == len(run.own) and not failed else INCOMPLETE
    after = run.manifest.ended(status, dict(sorted(files.items())), failed)
    if after != run.manifest:
        run.manifest = after
        _write_manifest(run)
    run.digests = files
    with suppress(OSError):
        shutil.rmtree(run.path / DIGESTS)


def _put_failures(path: Path, data: bytes) -> None:
    if data:
        if not path.is_file() or sha256_file(path) != sha256_bytes(data):
            write_atomically(path, data)
    elif path.exists():
        try:
            path.unlink()
        except OSError as error:
            raise cannot_write(path, error) from error


def _write_manifest(run: RunDirectory) -> None:
    write_atomically(run.path / MANIFEST, dump_json(run.manifest.as_json()))
