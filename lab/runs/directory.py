"""The run directory: what it holds, how it is opened, and how it survives being killed.

A conversation's receipts are one file that is complete or absent, so the receipts folder is the record of what is
done. The manifest is written before the first conversation and again at the end. Running the same command again
finishes what is missing and touches nothing that is there.
"""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from lab.errors import NotARun, OtherArguments, UnusableInput
from lab.files import cannot_write, digest, dump_json, read_json, remove_leftovers, write_whole
from lab.runs.code import code_key
from lab.shape import expect, field, named

KIND, VERSION = "lab.run", 3
# Bytes of a name before its ending; most file systems take 255 in all.
MAX_NAME = 180
PACKAGES = ("recall-lab", "torch", "sentence-transformers", "transformers", "lancedb", "numpy", "pyarrow", "pandas")


class Shard(NamedTuple):
    """One part of a run, counted from 1, and the conversations that it is to hold."""

    number: int
    of: int
    conversations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


class RunDirectory:
    """A run on disk, or a shard of one."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order in which they were asked for."""
        return [arm["name"] for arm in self.manifest["resolved"]["arms"]]

    @property
    def conversations(self) -> list[str]:
        """Conversations that the run is to hold, by id."""
        return list(self.manifest["resolved"]["conversations"])

    @property
    def max_items(self) -> dict[str, int]:
        """Items that each arm injects at most."""
        return {arm["name"]: int(arm["config"]["autoRecall"]["maxItems"]) for arm in self.manifest["resolved"]["arms"]}

    @property
    def depths(self) -> dict[str, int]:
        """Places of each arm's ranking."""
        return {arm["name"]: int(arm["depth"]) for arm in self.manifest["resolved"]["arms"]}

    @property
    def cutoff(self) -> int:
        """The cutoff of the headline measures: what every arm can inject."""
        return min(self.max_items.values())

    @property
    def labels(self) -> str:
        """Where importance came from, in a few words."""
        labels = self.manifest["resolved"]["labels"]
        if self.labels_are_drawn:
            return "{mode}, must {must_share:.2f}, nice {nice_share:.2f}, seed {seed}".format(**labels)
        return str(labels["mode"])

    @property
    def labels_are_drawn(self) -> bool:
        """Whether another seed would draw other labels."""
        return "seed" in self.manifest["resolved"]["labels"]

    @property
    def shard(self) -> Shard | None:
        """Which part of a run this is; None for a whole one."""
        found = self.manifest.get("shard")
        return Shard(found["number"], found["of"], tuple(found["conversations"])) if found else None

    @property
    def own(self) -> list[str]:
        """Conversations that this folder is to hold: all, or those of its shard."""
        return list(self.shard.conversations) if self.shard else self.conversations

    def receipts(self, conversation: str) -> Path:
        """Where a conversation's receipts are, or will be."""
        return self.path / "receipts" / f"{file_name(conversation)}.parquet"

    def latency(self, conversation: str) -> Path:
        """Where a conversation's timings are, or will be."""
        return self.path / "latency" / f"{file_name(conversation)}.parquet"

    def writes(self, conversation: str) -> Path:
        """Where is, or will be, what systems wrote in a conversation; only where they may."""
        return self.path / "writes" / f"{file_name(conversation)}.parquet"

    def done(self) -> list[str]:
        """Conversations whose receipts are there."""
        return [name for name in self.own if self.receipts(name).is_file()]

    def require_done(self) -> None:
        """Refuse a run that is not finished, and a shard, which is not all of a run."""
        if self.shard:
            raise UnusableInput(
                f"{self.path}: is shard {self.shard} of a run, with {len(self.own)} of its {len(self.conversations)} "
                "conversations; `lab merge OUT SHARD…` makes the run of all its shards"
            )
        self.require_own()

    def require_own(self) -> None:
        """Refuse a run, or a shard, in which conversations are missing."""
        missing = len(self.own) - len(self.done())
        if missing:
            raise UnusableInput(
                f"{self.path}: {missing} of {len(self.own)} conversations are missing; "
                "run the same replay again to finish it"
            )

    def write_manifest(self, status: str) -> None:
        """Write the manifest with a new status."""
        self.manifest["status"] = status
        write_whole(self.path / "manifest.json", dump_json(self.manifest))

    def write_failures(self, failures: list[dict[str, str]]) -> None:
        """Write what could not be measured, or remove the file where all could."""
        path = self.path / "failures.jsonl"
        if failures:
            write_whole(path, b"".join(dump_json(failure, indent=None) for failure in failures))
        elif path.exists():
            try:
                path.unlink()
            except OSError as error:
                raise cannot_write(path, error) from error


def open_run(path: Path) -> RunDirectory:
    """Open a run; a folder without a manifest of ours is :class:`NotARun`."""
    if not path.is_dir():
        raise NotARun(f"{path}: no such run directory")
    manifest_path = path / "manifest.json"
    if not manifest_path.is_file():
        raise NotARun(f"{path}: is no run directory (it has no manifest.json)")
    manifest = read_json(manifest_path)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise NotARun(f"{manifest_path}: is no manifest of a run")
    if manifest.get("schema_version") != VERSION:
        raise NotARun(
            f"{manifest_path}: has schema_version {manifest.get('schema_version')!r}, this version reads {VERSION}; "
            "remove the folder, or choose another --out"
        )
    try:
        _require_whole(manifest, str(manifest_path))
    except UnusableInput as error:
        raise NotARun(f"{error}; run the replay again into another --out") from None
    return RunDirectory(path, manifest)


def _require_whole(manifest: dict[str, Any], where: str) -> None:
    """Refuse a manifest that lacks what every reader of a run asks for, or has something else in its place."""
    for name in ("status", "run_key", "comparable_key"):
        field(manifest, name, str, where)
    for name in ("asked", "environment"):
        field(manifest, name, dict, where)
    resolved, at = field(manifest, "resolved", dict, where), f"{where}: resolved"
    _names(resolved, "conversations", at)
    labels = field(resolved, "labels", dict, at)
    field(labels, "mode", str, f"{at}.labels")
    if "seed" in labels:
        for name in ("must_share", "nice_share"):
            if not isinstance(share := field(labels, name, object, f"{at}.labels"), int | float):
                raise UnusableInput(f"{at}.labels: field {name!r}: expected a number, found {named(share)}")
    arms = field(resolved, "arms", list, at)
    if not arms:
        raise UnusableInput(f"{at}: field 'arms': holds no arm")
    for number, arm in enumerate(arms):
        one = f"{at}.arms[{number}]"
        for name, kind in (("name", str), ("system", str), ("depth", int)):
            field(arm, name, kind, one)
        recall = field(field(arm, "config", dict, one), "autoRecall", dict, f"{one}.config")
        field(recall, "maxItems", int, f"{one}.config.autoRecall")
    if "shard" in manifest:
        shard, at = manifest["shard"], f"{where}: shard"
        for name in ("number", "of"):
            field(shard, name, int, at)
        _names(shard, "conversations", at)


def _names(record: dict[str, Any], name: str, where: str) -> None:
    for one in field(record, name, list, where):
        expect(one, str, f"{where}: an item of {name!r}")


def create_or_resume(
    path: Path,
    asked: dict[str, Any],
    resolved: dict[str, Any],
    comparable: dict[str, Any],
    shard: Shard | None = None,
) -> RunDirectory:
    """The run for these arguments at ``path``: a new one, or the one that is there if it was made with the same.

    Raises :class:`OtherArguments` naming what differs, and :class:`UnusableInput` for a folder that holds something
    else.
    """
    manifest: dict[str, Any] = {
        "kind": KIND,
        "schema_version": VERSION,
        "status": "started",
        "run_key": digest(resolved),
        "comparable_key": digest(comparable),
        "asked": asked,
        "resolved": resolved,
        "environment": environment(),
    }
    return resume_or_begin(path, manifest | ({"shard": shard._asdict()} if shard else {}))


def resume_or_begin(path: Path, manifest: dict[str, Any]) -> RunDirectory:
    """The run of a manifest at ``path``; see :func:`create_or_resume`."""
    for folder in (path, path / "receipts", path / "writes", path / "latency", path / "figures"):
        remove_leftovers(folder)
    if (path / "manifest.json").exists():
        run = open_run(path)
        before, now = ({**one["resolved"], "shard": one.get("shard")} for one in (run.manifest, manifest))
        try:
            require_same_arguments(path, before, now, f"`lab runs rm {path}`")
        except OtherArguments:
            # A replay that failed before its first conversation measured nothing under its arguments.
            if run.manifest["status"] != "started" or run.done():
                raise
            (path / "golden.jsonl").unlink(missing_ok=True)
        else:
            return run
    elif path.exists() and (not path.is_dir() or any(not child.name.endswith(".part") for child in path.iterdir())):
        raise UnusableInput(f"{path}: exists and is no run directory; choose another --out")
    run = RunDirectory(path, manifest)
    run.write_manifest("started")
    return run


def require_same_arguments(path: Path, before: dict[str, Any], now: dict[str, Any], remedy: str) -> None:
    """Raise :class:`OtherArguments`, naming what differs, where a folder was made with other arguments than these."""
    # Compared as JSON: that is how the manifest keeps it, tuples as lists.
    now = json.loads(json.dumps(now))
    if digest(before) != digest(now):
        differs = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
        raise OtherArguments(
            f"{path}: this run was made with other {', '.join(differs)}; choose another --out, or {remedy}"
        )


def environment() -> dict[str, Any]:
    """What a run depends on besides its arguments: versions, platform, code and the state of its source tree."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": packages(),
        "code": code_key(),
        "git": _git(),
    }


def packages() -> dict[str, str | None]:
    """Versions of what decides results; None for what is not installed."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """Commit and whether the tree is changed, of the source this runs from.

    None where it runs from an installed package.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _run(root, "git", "rev-parse", "HEAD")
        changed = _run(root, "git", "status", "--porcelain")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changed)}


def _run(folder: Path, *command: str) -> str:
    """What a command prints. The words are ours; which git it is, is the user's choice."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603
    return done.stdout.strip()


def file_name(conversation: str) -> str:
    """A conversation id as a file name.

    Letters and digits of any script stay; what a path could trip over is percent-escaped, so that two ids never share a
    name. A name too long for a file system ends in a hash of the whole.
    """
    name = "".join(
        character
        if character.isalnum() or character in " -_"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in conversation
    ).replace(".", "%2E")
    if len(name.encode()) > MAX_NAME:
        name = f"{name[:40]}-{digest(conversation)[:24]}"
    return name.replace(" ", "%20") if name.strip(" ") != name else name
