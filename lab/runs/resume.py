"""Write a run such that it can be killed at any time and the same command then finishes it.

The order of writes ensures this. The manifest, with the digest of the golden set, is written first, then the golden
set. For each conversation, its timings and writes come first, then ``digests/<conversation>.json`` with the sha256 of
all its files, then its receipts, which mark the conversation as done. At the end all digests are moved into the
manifest. A conversation whose receipts have no digest is replayed again, so digests may be lost in a power failure.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import Altered, OtherArguments, UnusableInput
from lab.base.files import (
    cannot_write,
    digest,
    dump_json,
    remove_leftovers,
    sha256_bytes,
    sha256_file,
    write_atomically,
)
from lab.recordings.origins import Origins
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
from lab.runs.manifest import COMPLETE, INCOMPLETE, STARTED, Content, Manifest, Resolved, Shard
from lab.runs.records import to_json

Announce = Callable[[str], None]


class Fresh(NamedTuple):
    """What a new run starts with: the bytes of golden.jsonl, and each conversation's recall points and content.

    ``origins`` counts the conversations taken and left out by what started them; None if persons started all.
    """

    golden: bytes
    recall_points: Mapping[str, int]
    contents: Mapping[str, Content] = {}
    origins: Origins | None = None


def create_or_resume(
    path: Path,
    request: Mapping[str, object],
    resolved: Resolved,
    comparable: Mapping[str, object],
    code_roots: Sequence[str],
    fresh: Callable[[], Fresh],
    shard: Shard | None = None,
    announce: Announce = lambda _: None,
) -> RunDirectory:
    """Create the run at ``path``, or open the existing one if it was made with the same arguments.

    ``code_roots`` are the modules that its code begins with; ``fresh`` returns what a new run starts with. Raises
    :class:`OtherArguments` if arguments, code or packages differ (the message says which), :class:`UnusableInput` for a
    folder that holds something else, and :class:`Altered` for a file that has changed since it was written.
    """
    manifest = Manifest(
        STARTED,
        resolved.key,
        digest(comparable),
        {name: list(value) if isinstance(value, tuple) else value for name, value in request.items()},
        resolved,
        environment(*code_roots),
        {},
        shard=shard,
    )
    return resume_or_begin(path, manifest, fresh, announce)


def resume_or_begin(
    path: Path, manifest: Manifest, fresh: Callable[[], Fresh], announce: Announce = lambda _: None
) -> RunDirectory:
    """Create or open the run of a manifest, to which ``fresh`` adds recall points; see :func:`create_or_resume`."""
    for folder in (path, *(path / name for name in (RECEIPTS, LATENCY, WRITES, DIGESTS, "figures"))):
        remove_leftovers(folder)
    if (path / MANIFEST).exists():
        run = open_run(path)
        try:
            _require_same(run, manifest)
        except OtherArguments:
            # A replay that failed before its first conversation holds no results, so its arguments may change.
            if run.manifest.status != STARTED or run.done():
                raise
            (path / GOLDEN).unlink(missing_ok=True)
        else:
            for note in tolerated(run.manifest.environment, manifest.environment):
                announce(f"{path}: resuming in a different environment: {note}")
            return _reopened(run, fresh)
    elif path.exists() and (not path.is_dir() or any(not child.name.endswith(".part") for child in path.iterdir())):
        raise UnusableInput(f"{path}: exists and is not a run directory; choose another --out")
    golden, points, contents, origins = fresh()
    begun = replace(
        manifest,
        status=STARTED,
        recall_points=dict(points),
        contents=dict(contents),
        origins=origins,
        files={GOLDEN: sha256_bytes(golden)},
    )
    run = RunDirectory(path, begun)
    _write_manifest(run)
    write_atomically(path / GOLDEN, golden)
    return run


def _reopened(run: RunDirectory, fresh: Callable[[], Fresh]) -> RunDirectory:
    """Restore the golden set of a run if it is missing, check the files of done conversations, and return the run."""
    path = run.path / GOLDEN
    if not path.exists():
        data = fresh().golden
        if sha256_bytes(data) != run.digests.get(GOLDEN):
            raise Altered(
                f"{path}: is missing, and the golden set has changed since the run was made; choose another --out"
            )
        write_atomically(path, data)
    run.check(path)
    for conversation in run.done():
        files = [file for file in run.files(conversation) if run.name_of(file) in run.digests]
        if all(file.exists() for file in files):
            for file in files:
                run.check(file)
        else:
            # Its timings or writes are missing, so it counts as not done.
            del run.digests[run.name_of(run.receipts(conversation))]
    return run


def _require_same(run: RunDirectory, manifest: Manifest) -> None:
    """Raise :class:`OtherArguments` if a run was made with different arguments, code or packages."""
    before, now = ({**to_json(made.resolved), "shard": _shard(made)} for made in (run.manifest, manifest))
    remedy = f"`lab runs rm {run.path}`"
    require_same_arguments(run.path, before, now, remedy)
    differs = decisive(run.manifest.environment, manifest.environment)
    if differs:
        raise OtherArguments(
            f"{run.path}: this run was made with different versions ({', '.join(differs)}), and a run must not mix "
            f"receipts of two versions; choose another --out, or {remedy} and replay it again"
        )


def _shard(manifest: Manifest) -> dict[str, object] | None:
    return to_json(manifest.shard) if manifest.shard else None


def require_same_arguments(path: Path, before: Mapping[str, object], now: Mapping[str, object], remedy: str) -> None:
    """Raise :class:`OtherArguments`, naming the differences, if a folder was made with different arguments.

    Arguments are compared as JSON, so a tuple equals a list.
    """
    names = {*before, *now}
    differs = sorted(name for name in names if digest(before.get(name)) != digest(now.get(name)))
    if differs:
        arms = arms_differences(before.get("arms"), now.get("arms")) if "arms" in differs else ""
        differs = [f"arms ({arms})" if name == "arms" and arms else name for name in differs]
        raise OtherArguments(
            f"{path}: this run was made with different arguments: {', '.join(differs)}; "
            f"choose another --out, or {remedy}"
        )


def keep(run: RunDirectory, conversation: str, files: Mapping[Path, bytes]) -> None:
    """Write the files of a conversation, with the digests next to last and the receipts last."""
    last = run.receipts(conversation)
    for path, data in files.items():
        if path != last:
            write_atomically(path, data)
    digests = {run.name_of(path): sha256_bytes(data) for path, data in files.items()}
    write_atomically(run.recorded(conversation), dump_json(digests), durable=False)
    write_atomically(last, files[last])
    run.digests.update(digests)


def finish(run: RunDirectory, failures: Sequence[Mapping[str, str]] = ()) -> None:
    """Write the failures, and the manifest with all digests; skip a file that is already current."""
    path = run.path / FAILURES
    recalls = run.failed_recalls()
    lines = [*failures, *({"phase": "recall", **recall._asdict()} for recall in recalls)]
    data = b"".join(dump_json(dict(line), indent=None) for line in lines)
    _put_failures(path, data)
    done = run.done()
    files = {GOLDEN: run.digests[GOLDEN]} | ({FAILURES: sha256_bytes(data)} if data else {})
    for conversation in done:
        for file in run.files(conversation):
            if (name := run.name_of(file)) in run.digests:
                files[name] = run.digests[name]
    failed = Counter(recall.arm for recall in recalls)
    status = COMPLETE if len(done) == len(run.assigned) and not failed else INCOMPLETE
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
