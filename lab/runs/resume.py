"""Write a run such that it can be killed at any time and the same command then finishes it.

The order of writes ensures this. The manifest, with the digest of the golden set, is written first, then the golden
set. For each conversation, its timings and writes come first, then ``digests/<conversation>.json`` with the sha256 of
all its files, then its receipts, which mark the conversation as done. At the end all digests are moved into the
manifest. A conversation whose receipts have no digest is replayed again, so digests may be lost in a power failure.

A run is only continued with equal arguments, and in an environment that differs in nothing that decides results.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.code import code_key
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
from lab.base.shape import to_json
from lab.recordings.origins import Origins
from lab.runs.directory import DIGESTS, FAILURES, GOLDEN, LATENCY, MANIFEST, RECEIPTS, WRITES, RunDirectory, open_run
from lab.runs.manifest import (
    COMPLETE,
    INCOMPLETE,
    STARTED,
    Content,
    Environment,
    Git,
    Manifest,
    Resolved,
    Shard,
    write_manifest,
)

# Limits of a message: characters of a value, and entries of a list.
VALUE, MOST = 32, 4
# Fields that a user sets come first: the others follow from them.
FIRST = ("system", "version", "config")
_MISSING = object()


def arms_differences(before: Any, now: Any) -> str:
    """Return which arms were removed, added, changed (keys with both values) or reordered.

    Both arguments are lists of arms as in manifests. Blank if they are not such lists, or no listed field differs.
    """
    old, new = _by_name(before), _by_name(now)
    changes = [f"{name} removed" for name in old if name not in new]
    changes += [f"{name} added" for name in new if name not in old]
    for name in new:
        if name in old:
            differs = [text for values in _by_field(old[name], new[name]) for text in _differences(*values)]
            changes += [f"{name}: {_shortened(differs, ', ')}"] if differs else []
    if not changes and list(old) != list(new):
        changes.append(f"order: {', '.join(old)} -> {', '.join(new)}")
    return _shortened(changes, "; ")


def _shortened(texts: Sequence[str], separator: str) -> str:
    more = len(texts) - MOST
    return separator.join([*texts[:MOST], *([f"and {more} more"] if more > 0 else [])])


def _by_name(arms: Any) -> dict[str, Any]:
    if not isinstance(arms, Sequence) or not all(isinstance(arm, Mapping) and "name" in arm for arm in arms):
        return {}
    # A round trip through JSON makes tuples lists, as manifests have them.
    return {str(arm["name"]): json.loads(json.dumps(arm)) for arm in arms}


def _by_field(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    """Yield old value, new value and name of every field of an arm, those of :data:`FIRST` first."""
    for key in sorted({**before, **now}, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
        yield before.get(key, _MISSING), now.get(key, _MISSING), key


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key, _MISSING), now.get(key, _MISSING), f"{path}.{key}")
    elif before is _MISSING or now is _MISSING or json.dumps(before) != json.dumps(now):
        yield f"{path} {' -> '.join(_shown(before, now))}"


def _shown(before: Any, now: Any) -> tuple[str, str]:
    """Return two differing values as JSON, cut to begin shortly before their first difference."""
    old, new = ("not set" if value is _MISSING else json.dumps(value, ensure_ascii=False) for value in (before, now))
    differ_at = next((at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right), 0)
    begin = max(0, differ_at - VALUE // 4) if max(len(old), len(new)) > VALUE else 0
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str, begin: int) -> str:
    if len(text) <= VALUE:
        return text
    end = begin + VALUE
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


# Packages that receipts depend on.
DECISIVE = (
    *("recall-lab", "torch", "sentence-transformers", "transformers", "lancedb"),
    *("numpy", "pyarrow", "orjson", "pyuca"),
)
# pandas is listed in reports, and has no influence on receipts.
PACKAGES = (*DECISIVE[:7], "pandas", *DECISIVE[7:])
DIGITS = 12


def environment(*roots: str) -> Environment:
    """Return what a run depends on besides its arguments: versions, platform, code, state of the source tree.

    The code is that of the modules ``roots`` and of all that they import.
    """
    return Environment(
        platform.python_version(), platform.platform(), platform.machine(), packages(), code_key(*roots), _git()
    )


def packages() -> dict[str, str | None]:
    """Return the versions of :data:`PACKAGES`; None for a package that is not installed."""
    return {name: _version(name) for name in PACKAGES}


def made_on(*roots: str) -> dict[str, object]:
    """Return code and packages as arguments of resumable work; the code as in :func:`environment`."""
    known = packages()
    return {"code": code_key(*roots), "packages": {name: known[name] for name in DECISIVE}}


def decisive(before: Environment, after: Environment) -> list[str]:
    """Return the differences of two environments that must not share a run, each as ``numpy 2.3.1 -> 2.3.2``.

    They are the code that receipts depend on, the packages of :data:`DECISIVE`, and the feature release of Python,
    which changes the version of Unicode. :func:`tolerated` returns the differences that a run may have.
    """
    rows = [("code", before.code, after.code), ("Python", _feature(before.python), _feature(after.python))]
    rows += [(name, before.packages.get(name), after.packages.get(name)) for name in DECISIVE]
    return [_difference(*row) for row in rows if row[1] != row[2]]


def tolerated(before: Environment, after: Environment) -> list[str]:
    """Return the differences that should not change receipts, though other hardware may change last bits of vectors."""
    rows = [
        ("Python", before.python, after.python),
        ("platform", before.platform, after.platform),
        ("machine", before.machine, after.machine),
    ]
    same_feature = _feature(before.python) == _feature(after.python)
    return [_difference(*row) for row in rows if row[1] != row[2] and (row[0] != "Python" or same_feature)]


def _feature(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _difference(name: str, before: str | None, after: str | None) -> str:
    shown = (value[:DIGITS] if value and name == "code" else value for value in (before, after))
    return f"{name} " + " -> ".join(value or "none" for value in shown)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git() -> Git | None:
    """Return the commit of this source tree and whether it is edited; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _run(root, "git", "rev-parse", "HEAD")
        changed = _run(root, "git", "status", "--porcelain")
    except (OSError, subprocess.SubprocessError):
        return None
    return Git(commit, bool(changed))


def _run(folder: Path, *command: str) -> str:
    """Return what a command prints. The arguments are constants; PATH decides which git runs."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - see above
    return done.stdout.strip()


Announce = Callable[[str], None]


class Fresh(NamedTuple):
    """What a new run starts with: the bytes of golden.jsonl, and each conversation's recall points and content.

    ``origins`` counts the conversations taken and left out by what started them; None if persons started all.
    ``scarce`` has the memories of each conversation in which there is nothing to choose; None if there is none.
    """

    golden: bytes
    recall_points: Mapping[str, int]
    contents: Mapping[str, Content] = {}
    origins: Origins | None = None
    scarce: Mapping[str, int] | None = None


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
    golden, points, contents, origins, scarce = fresh()
    begun = replace(
        manifest,
        status=STARTED,
        recall_points=dict(points),
        contents=dict(contents),
        origins=origins,
        scarce=scarce,
        files={GOLDEN: sha256_bytes(golden)},
    )
    run = RunDirectory(path, begun)
    write_manifest(run.path / MANIFEST, run.manifest)
    write_atomically(path / GOLDEN, golden)
    return run


def _reopened(run: RunDirectory, fresh: Callable[[], Fresh]) -> RunDirectory:
    """Restore the golden set of a run if it is missing, check the files of done conversations, and return the run.

    If conversations of a run that has ended are replayed again, its manifest lets go of their files first: so a replay
    that is killed at any time can be resumed, and nothing beside the manifest of a complete run ever counts.
    """
    if run.manifest.status == COMPLETE:
        _remove_recorded(run)
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
            run.recorded(conversation).unlink(missing_ok=True)
            del run.digests[run.name_of(run.receipts(conversation))]
    waiting = [run.name_of(file) for name in set(run.assigned).difference(run.done()) for file in run.files(name)]
    if waiting and (run.manifest.status == COMPLETE or run.manifest.files.keys() & {*waiting}):
        kept = {name: sha256 for name, sha256 in run.manifest.files.items() if name not in waiting}
        run.manifest = run.manifest.ended(STARTED, kept, run.manifest.failed)
        write_manifest(run.path / MANIFEST, run.manifest)
        for name in waiting:
            run.digests.pop(name, None)
    return run


def _remove_recorded(run: RunDirectory) -> None:
    """Remove the folder of digests that a replay records, which count for nothing once the manifest has them."""
    folder = run.path / DIGESTS
    try:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error


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
        write_manifest(run.path / MANIFEST, run.manifest)
    run.digests = files
    _remove_recorded(run)


def _put_failures(path: Path, data: bytes) -> None:
    if data:
        if not path.is_file() or sha256_file(path) != sha256_bytes(data):
            write_atomically(path, data)
    elif path.exists():
        try:
            path.unlink()
        except OSError as error:
            raise cannot_write(path, error) from error
