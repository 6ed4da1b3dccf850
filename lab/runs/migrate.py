"""Migrate runs of earlier versions into new run directories with the same receipts.

Runs of schema 3 can be migrated. Runs of schema 1 and 2 cannot: their receipts lack the columns that block measures
read, and the texts to compute them are not kept. The source is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.errors import CannotMeasure, Incomplete, NotARun, UnusableInput
from lab.base.files import only_writer, read_json, sha256_bytes, sha256_file
from lab.base.shape import field
from lab.runs.directory import GOLDEN, LATENCY, MANIFEST, RECEIPTS, RunDirectory, require_rows
from lab.runs.gold import read_gold
from lab.runs.manifest import COMPLETE, KIND, VERSION, Environment, Manifest, Migrated, Resolved, Shard
from lab.runs.receipts import BLOCK, NOT_KNOWN, NUMBERS, READINGS, TEXTS
from lab.runs.records import from_json
from lab.runs.resume import Fresh, finish, keep, resume_or_begin
from lab.runs.shapes import misshapen
from lab.runs.tables import read_table, table_bytes

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST = 3
# Columns of receipts that schema 4 renamed; their values are unchanged.
RENAMED = {"recalls": "is_recall_turn", "twins": "duplicate_items", "raw": "unescaped"}
NOTES = (
    "digests were taken when it was migrated: earlier changes to its files cannot be detected",
    "recall points were counted in its receipts: a row that every arm lacks cannot be detected",
    "its receipts do not have the columns of the block before and of explanations: their measures have no values",
)
# The column of receipts for which 0.1 kept nothing to compute it from, besides the numbers of :data:`READINGS`.
EXEMPT = "item_exempt"


def migrate_run(source: Path, out: Path) -> RunDirectory:
    """Migrate a run of schema 3 into the new folder ``out``.

    Raises :class:`NotARun` for a folder without a run, :class:`UnusableInput` for a run that cannot be migrated, with
    the reason, and :class:`Incomplete` if arms differ in their rows or rows of probes are missing.
    """
    manifest = migrated_manifest(source)
    old = RunDirectory(source, replace(manifest, files=_digests(source)))
    points = {conversation: _recall_points(old, conversation) for conversation in manifest.assigned}
    _require_probes(old)
    with only_writer(out):
        run = resume_or_begin(out, manifest, lambda: Fresh((source / GOLDEN).read_bytes(), points))
        for conversation in manifest.assigned:
            files = {run.receipts(conversation): table_bytes(_migrated_receipts(old.receipts(conversation)))}
            latency = old.latency(conversation)
            if latency.is_file():
                files[run.latency(conversation)] = latency.read_bytes()
            if any(run.digests.get(run.name_of(path)) != sha256_bytes(data) for path, data in files.items()):
                keep(run, conversation, files)
        finish(run)
    return run


def migrated_manifest(source: Path) -> Manifest:
    """Return the manifest of a run of schema 3 as this version writes it, without recall points and digests."""
    path = source / MANIFEST
    if not path.is_file():
        raise NotARun(f"{source}: is not a run directory (it has no {MANIFEST})")
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise NotARun(f"{path}: is not the manifest of a run")
    version = value.get("schema_version")
    if version == VERSION:
        raise UnusableInput(f"{source}: is a run of this version already; use it as it is")
    if not isinstance(version, int) or version > VERSION:
        raise UnusableInput(f"{path}: has schema_version {version!r}; this version migrates schema {OLDEST}")
    if version < OLDEST:
        raise UnusableInput(
            f"{path}: has schema_version {version}; receipts before schema {OLDEST} lack the columns that injected "
            f"blocks are judged by ({', '.join(BLOCK)}); replay it again"
        )
    where = str(path)
    resolved = _resolved(field(value, "resolved", dict, where), f"{where}: resolved")
    if field(value, "status", str, where) != COMPLETE:
        raise UnusableInput(
            f"{source}: is not finished; finish it with the version that started it, or replay it again"
        )
    environment = from_json(Environment, _given(value, "environment", where), f"{where}: environment")
    shard = from_json(Shard, value["shard"], f"{where}: shard") if value.get("shard") else None
    notes = NOTES if environment.code else (*NOTES, "the code that made it is unknown")
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
    given: dict[str, object] = field(value, name, dict, where)
    return {key: content for key, content in given.items() if content is not None or name == "asked"}


def _resolved(value: dict[str, object], where: str) -> Resolved:
    """Return what schema 3 resolved, with the cutoff of each arm added and hard rules as an object."""
    arms = []
    for index, arm in enumerate(field(value, "arms", list, where)):
        at = f"{where}: arms[{index}]"
        config = field(arm, "config", dict, at)
        if "cutoff" not in arm:
            recall = field(config, "autoRecall", dict, f"{at}: config")
            arm["cutoff"] = field(recall, "maxItems", int, f"{at}: config.autoRecall")
        if value.get("documents") and config.get("docsColdLane", {}).get("enabled"):
            arm["inputs"] = value["documents"]
        if "embedder_named" in arm:
            arm["embedder"] = arm.pop("embedder_named")
        arms.append(arm)
    drawn = value.get("hard_rules", 0)
    resolved = {"categories": "recorded", **value, "arms": arms}
    resolved.pop("documents", None)
    return from_json(Resolved, resolved | ({"hard_rules": {"drawn": drawn}} if isinstance(drawn, int) else {}), where)


def _digests(source: Path) -> dict[str, str]:
    """Return the sha256 of a run's files as they are now."""
    paths = [source / GOLDEN, *(source / RECEIPTS).glob("*.parquet"), *(source / LATENCY).glob("*.parquet")]
    try:
        return {path.relative_to(source).as_posix(): sha256_file(path) for path in paths}
    except OSError as error:
        raise CannotMeasure(f"{error.filename}: cannot be read ({error.strerror})") from None


def _recall_points(run: RunDirectory, conversation: str) -> int:
    """Return the number of recall points in the receipts of a conversation, equal for every arm."""
    path = run.receipts(conversation)
    if not path.is_file():
        raise Incomplete(f"{path}: is missing; only a complete run can be migrated")
    table = _migrated_receipts(path)
    points: int = table.num_rows // len(run.arms)
    try:
        require_rows(table, path, run.arms, points)
    except Incomplete as error:
        raise Incomplete(f"{error}; only a complete run can be migrated") from None
    return points


def _migrated_receipts(path: Path) -> pa.Table:
    """Return receipts of schema 3 with the columns and the metadata of this version.

    Raises :class:`CannotMeasure` for a damaged file or a missing column.
    """
    old_names = {new: old for old, new in RENAMED.items()}
    read_table(path, [old_names.get(name, name) for name in (*NUMBERS, *BLOCK, *TEXTS) if name != EXEMPT])
    table = read_table(path)
    metadata = {**(table.schema.metadata or {}), b"schema_version": str(VERSION).encode()}
    table = _with_readings(table.rename_columns([RENAMED.get(name, name) for name in table.column_names]))
    table = table.replace_schema_metadata(metadata)
    if problem := misshapen(table):
        raise CannotMeasure(f"{path}: damaged ({problem}); replay the run again")
    return table


def _with_readings(table: pa.Table) -> pa.Table:
    """Add the columns that schema 3 lacks, without values: the texts to compute them from are not kept."""
    import pyarrow as pa

    for name in READINGS:
        table = table.append_column(name, pa.nulls(table.num_rows, pa.int32()))
    entries = [[NOT_KNOWN] * len(keys) for keys in table["item_key"].to_pylist()]
    return table.append_column(EXEMPT, pa.array(entries, pa.list_(pa.string())))


def _require_probes(run: RunDirectory) -> None:
    probes: dict[str, set[str]] = {}
    for probe, gold in read_gold(run).items():
        probes.setdefault(gold.conversation, set()).add(probe)
    for conversation in run.assigned:
        present = set(read_table(run.receipts(conversation), ("probe",))["probe"].to_pylist())
        if missing := probes.get(conversation, set()) - present:
            path = run.receipts(conversation)
            raise Incomplete(f"{path}: has no row for probe {min(missing)}; only a complete run can be migrated")
