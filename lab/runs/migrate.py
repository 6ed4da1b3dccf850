"""Migrate runs of earlier versions into new run directories with the same receipts.

Runs of schema 3 can be migrated. Runs of schema 1 and 2 cannot: their receipts lack the columns that block measures
read, and the texts to compute them are not kept. The source is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import CannotMeasure, Incomplete, NotARun, UnusableInput
from lab.files import only_writer, read_json, sha256_bytes, sha256_file
from lab.runs.directory import GOLDEN, LATENCY, MANIFEST, RECEIPTS, RunDirectory, require_rows
from lab.runs.gold import read_gold
from lab.runs.manifest import COMPLETE, KIND, VERSION, Environment, Manifest, Migrated, Resolved, Shard
from lab.runs.receipts import BLOCK, NUMBERS, TEXTS
from lab.runs.records import from_json
from lab.runs.resume import Fresh, finish, keep, resume_or_begin
from lab.runs.shapes import misshapen
from lab.runs.tables import read_table, table_bytes
from lab.shape import field

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST = 3
# Columns of receipts that schema 4 renamed; their values are unchanged.
RENAMED = {"recalls": "is_recall_turn", "twins": "duplicate_items", "raw": "unescaped"}
NOTES = (
    "digests were taken when it was migrated: what had been altered before is not noticed",
    "recall points were counted in its receipts: a row that every arm lacks is not noticed",
)


def migrate_run(source: Path, out: Path) -> RunDirectory:
    """Bring a run of schema 3 forward into the new folder ``out``.

    Raises :class:`NotARun` for a folder that holds none, :class:`UnusableInput` for one that cannot be brought forward,
    with the reason, and :class:`Incomplete` where arms do not have the same rows, or rows of probes are missing.
    """
    manifest = migrated_manifest(source)
    old = RunDirectory(source, replace(manifest, files=_digests(source)))
    points = {conversation: _recall_points(old, conversation) for conversation in manifest.own}
    _require_probes(old)
    with only_writer(out):
        run = resume_or_begin(out, manifest, lambda: Fresh((source / GOLDEN).read_bytes(), points))
        for conversation in manifest.own:
            files = {run.receipts(conversation): table_bytes(_migrated_receipts(old.receipts(conversation)))}
            latency = old.latency(conversation)
            if latency.is_file():
                files[run.latency(conversation)] = latency.read_bytes()
            if any(run.digests.get(run.name_of(path)) != sha256_bytes(data) for path, data in files.items()):
                keep(run, conversation, files)
        finish(run)
    return run


def migrated_manifest(source: Path) -> Manifest:
    """The manifest of a run of schema 3 in the form of today, without recall points and digests."""
    path = source / MANIFEST
    if not path.is_file():
        raise NotARun(f"{source}: is no run directory (it has no {MANIFEST})")
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise NotARun(f"{path}: is no manifest of a run")
    version = value.get("schema_version")
    if version == VERSION:
        raise UnusableInput(f"{source}: is a run of this version already; nothing is to be done")
    if not isinstance(version, int) or version > VERSION:
        raise UnusableInput(f"{path}: has schema_version {version!r}, and this version knows those up to {VERSION}")
    if version < OLDEST:
        raise UnusableInput(
            f"{path}: has schema_version {version}, and receipts of before schema {OLDEST} do not hold what injected "
            f"blocks are judged by ({', '.join(BLOCK)}), nor the texts to find out; replay it again"
        )
    where = str(path)
    resolved = _resolved(field(value, "resolved", dict, where), f"{where}: resolved")
    if field(value, "status", str, where) != COMPLETE:
        raise UnusableInput(f"{source}: is not finished; finish it with the version that began it, or replay it again")
    environment = from_json(Environment, _given(value, "environment", where), f"{where}: environment")
    shard = from_json(Shard, value["shard"], f"{where}: shard") if value.get("shard") else None
    notes = NOTES if environment.code else (*NOTES, "the code that made it is not known")
    return Manifest(
        COMPLETE,
        resolved.key,
        field(value, "comparable_key", str, where),
        _given(value, "asked", where),
        resolved,
        environment,
        {},
        shard=shard,
        migrated=Migrated(version, resolved.lab, notes),
    )


def _given(value: Mapping[str, object], name: str, where: str) -> dict[str, object]:
    found: dict[str, object] = field(value, name, dict, where)
    return {key: one for key, one in found.items() if one is not None or name == "asked"}


def _resolved(value: dict[str, object], where: str) -> Resolved:
    """What schema 3 resolved, with what it did not say: the cutoff of each arm, and draws as an object."""
    arms = []
    for place, arm in enumerate(field(value, "arms", list, where)):
        one = f"{where}: arms[{place}]"
        config = field(arm, "config", dict, one)
        if "cutoff" not in arm:
            recall = field(config, "autoRecall", dict, f"{one}: config")
            arm["cutoff"] = field(recall, "maxItems", int, f"{one}: config.autoRecall")
        if value.get("documents") and config.get("docsColdLane", {}).get("enabled"):
            arm["inputs"] = value["documents"]
        if "embedder_named" in arm:
            arm["embedder"] = arm.pop("embedder_named")
        arms.append(arm)
    drawn = value.get("hard_rules", 0)
    found = {"categories": "recorded", **value, "arms": arms}
    found.pop("documents", None)
    return from_json(Resolved, found | ({"hard_rules": {"drawn": drawn}} if isinstance(drawn, int) else {}), where)


def _digests(source: Path) -> dict[str, str]:
    """The files of a run as they are now."""
    paths = [source / GOLDEN, *(source / RECEIPTS).glob("*.parquet"), *(source / LATENCY).glob("*.parquet")]
    try:
        return {path.relative_to(source).as_posix(): sha256_file(path) for path in paths}
    except OSError as error:
        raise CannotMeasure(f"{error.filename}: cannot be read ({error.strerror})") from None


def _recall_points(run: RunDirectory, conversation: str) -> int:
    """How many recall points the receipts of a conversation have, the same for every arm."""
    path = run.receipts(conversation)
    if not path.is_file():
        raise Incomplete(f"{path}: is missing; the run is not complete, and is not brought forward")
    table = _migrated_receipts(path)
    points: int = table.num_rows // len(run.arms)
    try:
        require_rows(table, path, run.arms, points)
    except Incomplete as error:
        raise Incomplete(f"{error}; an incomplete run is not brought forward") from None
    return points


def _migrated_receipts(path: Path) -> pa.Table:
    """Return receipts of schema 3 with the columns and the metadata of this version.

    Raises :class:`CannotMeasure` for a damaged file or a missing column.
    """
    old_names = {new: old for old, new in RENAMED.items()}
    read_table(path, [old_names.get(name, name) for name in (*NUMBERS, *BLOCK, *TEXTS)])
    table = read_table(path)
    metadata = {**(table.schema.metadata or {}), b"schema_version": str(VERSION).encode()}
    table = table.rename_columns([RENAMED.get(name, name) for name in table.column_names])
    table = table.replace_schema_metadata(metadata)
    if problem := misshapen(table):
        raise CannotMeasure(f"{path}: damaged ({problem}); replay the run again")
    return table


def _require_probes(run: RunDirectory) -> None:
    probes: dict[str, set[str]] = {}
    for probe, one in read_gold(run).items():
        probes.setdefault(one.conversation, set()).add(probe)
    for conversation in run.own:
        held = set(read_table(run.receipts(conversation), ("probe",))["probe"].to_pylist())
        if lacking := probes.get(conversation, set()) - held:
            raise Incomplete(f"{run.receipts(conversation)}: has no row for probe {min(lacking)}; it is not complete")
