"""Migrate baselines, plans and policies of version 0.1. The source is never changed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import only_writer, read_text, read_toml, write_atomically
from lab.base.formatting import counted
from lab.gate.policy import read_policy
from lab.nightly.baselines import Approval, Baseline, baselines, damage, keep_run, write_name
from lab.nightly.plan import read_plan
from lab.runs.directory import MANIFEST, open_run
from lab.runs.manifest import Manifest
from lab.runs.migrate import migrate_run

OLD_KEY = re.compile(r"^([ \t]*)must_have_data[ \t]*=[ \t]*(true|false)\b", re.MULTILINE)


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
    """Copy a plan or a policy that can be read; in a policy, replace ``must_have_data`` by ``without_data``."""
    is_plan = "set" in read_toml(source)
    text, count = read_text(source), 0
    if is_plan:
        read_plan(str(source))
    else:
        before = read_policy(str(source))
        text, count = OLD_KEY.subn(_without_data, text)
    if out.exists():
        raise UnusableInput(f"{out}: exists; name a new file")
    write_atomically(out, text.encode() if count else source.read_bytes())
    if count and read_policy(str(out)).rules != before.rules:
        out.unlink()
        raise UnusableInput(f"{source}: must_have_data in an unusual place; replace it by without_data by hand")
    about = "the format has not changed, so it was copied" + ("; paths are relative to its folder" if is_plan else "")
    if count:
        about = f"must_have_data became without_data in {counted(count, 'rule')}; it means the same"
    return Brought("plan" if is_plan else "policy", (str(out),), (about,))


def _without_data(found: re.Match[str]) -> str:
    return f'{found[1]}without_data = "{"error" if found[2] == "true" else "skip"}"'


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
