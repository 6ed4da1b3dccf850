"""Migrate baselines, plans and policies of version 0.1. The source is never changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lab.errors import CannotMeasure, LabError, UnusableInput
from lab.files import only_writer, read_toml, write_atomically
from lab.gate.policy import read_policy
from lab.nightly.baselines import Approval, Baseline, baselines, damage, keep_run, write_name
from lab.nightly.plan import read_plan
from lab.runs.directory import MANIFEST, open_run
from lab.runs.manifest import Manifest
from lab.runs.migrate import migrate_run


class Brought(NamedTuple):
    """The result of a migration: its kind, the names migrated, notes, and the reasons for names that were not."""

    kind: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def migrate(source: Path, out: Path) -> Brought:
    """Migrate a run, a folder of baselines, a plan or a policy into ``out``, which must be new.

    Raises :class:`UnusableInput` for anything else and for what cannot be migrated, and what
    :func:`lab.runs.migrate.migrate_run` raises.
    """
    if source.is_file():
        return _text(source, out)
    if (source / MANIFEST).is_file():
        manifest: Manifest = migrate_run(source, out).manifest
        return Brought("run", (str(out),), manifest.migrated.notes if manifest.migrated else ())
    if (source / "names").is_dir():
        return _baselines(source, out)
    raise UnusableInput(f"{source}: not a run, a folder of baselines, a plan or a policy")


def _text(source: Path, out: Path) -> Brought:
    """Copy a plan or a policy: the format has not changed since version 0.1, so one that can be read is copied."""
    is_plan = "set" in read_toml(source)
    if is_plan:
        read_plan(str(source))
    else:
        read_policy(str(source))
    if out.exists():
        raise UnusableInput(f"{out}: exists; name a new file")
    write_atomically(out, source.read_bytes())
    about = "the format has not changed, so it was copied" + ("; paths are relative to its folder" if is_plan else "")
    return Brought("plan" if is_plan else "policy", (str(out),), (about,))


def _baselines(source: Path, out: Path) -> Brought:
    """Migrate every name with its current and earlier objects; a name whose run cannot be migrated is refused."""
    if out.resolve() == source.resolve():
        raise UnusableInput(f"{out}: is the folder itself; name a new one")
    names, refused, notes = [], [], []
    with only_writer(out):
        for baseline in baselines(source):
            try:
                now = _object(baseline, baseline.now, out)
            except LabError as error:
                refused.append((baseline.name, str(error)))
                continue
            before = []
            for past in baseline.before:
                try:
                    before.append(_object(baseline, past, out))
                except LabError as error:
                    notes.append(f"{baseline.name}: its object of {past.date} is left out: {error}")
            write_name(Baseline(out, baseline.name, now, tuple(before)))
            names.append(baseline.name)
    return Brought("baselines", tuple(names), tuple(notes), tuple(refused))


def _object(baseline: Baseline, approval: Approval, out: Path) -> Approval:
    """Migrate one object of a baseline; one of this version is copied."""
    past = replace(baseline, now=approval)
    for problem in damage(past):
        raise CannotMeasure(problem)
    with TemporaryDirectory(dir=out, prefix=".migrate-") as scratch:
        try:
            run = open_run(past.path)
        except UnusableInput:
            run = migrate_run(past.path, Path(scratch) / "run")
        return approval._replace(object=keep_run(out, run))
