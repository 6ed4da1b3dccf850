"""Baselines, plans and policies of version 0.1, brought forward. The source is never changed."""

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
    """What was brought forward: its kind, the names of it, notes, and by name why something was not."""

    kind: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def migrate(source: Path, out: Path) -> Brought:
    """Bring a run, a folder of baselines, a plan or a policy forward into ``out``, which must be new.

    Raises :class:`UnusableInput` for what is none of these or cannot be brought forward, and what
    :func:`lab.runs.migrate.migrate_run` does.
    """
    if source.is_file():
        return _text(source, out)
    if (source / MANIFEST).is_file():
        manifest: Manifest = migrate_run(source, out).manifest
        return Brought("run", (str(out),), manifest.migrated.notes if manifest.migrated else ())
    if (source / "names").is_dir():
        return _baselines(source, out)
    raise UnusableInput(f"{source}: is no run, no folder of baselines, no plan and no policy")


def _text(source: Path, out: Path) -> Brought:
    """A plan or a policy: the form is that of version 0.1, so that one that can be read is taken as it is."""
    is_plan = "set" in read_toml(source)
    if is_plan:
        read_plan(str(source))
    else:
        read_policy(str(source))
    if out.exists():
        raise UnusableInput(f"{out}: exists; name a new file")
    write_atomically(out, source.read_bytes())
    about = "its form has not changed: it is taken as it is" + ("; paths count from its folder" if is_plan else "")
    return Brought("plan" if is_plan else "policy", (str(out),), (about,))


def _baselines(source: Path, out: Path) -> Brought:
    """Every name with what it means and meant; a name whose run cannot be brought forward is left out, and told."""
    if out.resolve() == source.resolve():
        raise UnusableInput(f"{out}: is the folder itself; name a new one")
    names, refused, notes = [], [], []
    with only_writer(out):
        for one in baselines(source):
            try:
                now = _object(one, one.now, out)
            except LabError as error:
                refused.append((one.name, str(error)))
                continue
            before = []
            for past in one.before:
                try:
                    before.append(_object(one, past, out))
                except LabError as error:
                    notes.append(f"{one.name}: what it meant on {past.date} is left out: {error}")
            write_name(Baseline(out, one.name, now, tuple(before)))
            names.append(one.name)
    return Brought("baselines", tuple(names), tuple(notes), tuple(refused))


def _object(baseline: Baseline, approval: Approval, out: Path) -> Approval:
    """One object of a baseline, brought forward; one of this version is copied."""
    meant = replace(baseline, now=approval)
    for problem in damage(meant):
        raise CannotMeasure(problem)
    with TemporaryDirectory(dir=out, prefix=".migrate-") as scratch:
        try:
            run = open_run(meant.path)
        except UnusableInput:
            run = migrate_run(meant.path, Path(scratch) / "run")
        return approval._replace(object=keep_run(out, run))
