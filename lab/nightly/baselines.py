"""Baselines: approved runs, stored by name and never changed.

::

    objects/<sha256>/      manifest.json, golden.jsonl, receipts/…: a run that every command reads, without its timings
                     object.json    the sha256 of each file; the object's name is the sha256 of this list
    names/<name>.json      the object that a name refers to, since when, why, and its earlier objects

The file list of an object is written last, so an interrupted approval leaves an incomplete object, which the next
approval finishes. Objects never change. The folder can be committed or shared.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date as calendar_date
from pathlib import Path, PurePosixPath
from shlex import join
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import (
    cannot_write,
    digest,
    dump_json,
    file_name,
    only_writer,
    read_json,
    remove_leftovers,
    sha256_bytes,
    sha256_file,
    write_atomically,
)
from lab.base.shape import field
from lab.runs.directory import GOLDEN, MANIFEST, OBJECT, RunDirectory, open_run

KIND, VERSION = "lab.baseline", 1
# The first file of a nightly run, which may hold objects of a folder of baselines.
BEGUN = "begun.json"


class Approval(NamedTuple):
    """The object that a name was given to, the date, and the reason."""

    object: str
    date: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A name, its current object, and its earlier objects, latest first."""

    folder: Path
    name: str
    now: Approval
    before: tuple[Approval, ...]

    @property
    def path(self) -> Path:
        """Return the object's folder, which is a run directory."""
        return _object(self.folder, self.now.object)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as in the name's file."""
        return {
            "kind": KIND,
            "schema_version": VERSION,
            "name": self.name,
            **self.now._asdict(),
            "before": [approval._asdict() for approval in self.before],
        }


class Approved(NamedTuple):
    """The result of an approval: the baseline, the object its name referred to before, and whether that changed."""

    baseline: Baseline
    replaced: str | None
    changed: bool


def approve(folder: Path, run: RunDirectory, name: str, *, date: str, note: str | None = None) -> Approved:
    """Store a finished run under a name.

    ``date`` is a day as YYYY-MM-DD. Approving the same run twice changes nothing; a name keeps the list of its earlier
    objects. Raises :class:`UnusableInput` for an unfinished run and for a blank name.
    """
    if not name.strip() or name != name.strip():
        raise UnusableInput(f"--name {name!r}: expected a name without leading or trailing blanks")
    check_date(date)
    run.check_all()
    with only_writer(folder):
        remove_leftovers(folder / "names")
        before = find(folder, name)
        key = keep_run(folder, run)
        if before is not None and before.now.object == key:
            return Approved(before, key, changed=False)
        past = () if before is None else (before.now, *before.before)
        baseline = Baseline(folder, name, Approval(key, date, note), past)
        write_name(baseline)
    return Approved(baseline, before.now.object if before else None, changed=True)


def keep_run(folder: Path, run: RunDirectory) -> str:
    """Store a run as an object and return its name.

    The caller must hold the folder (:func:`lab.base.files.only_writer`).
    """
    # The manifest without a seal of scores, which are not copied: a run has one object, scored or not.
    manifest = dump_json(replace(run.manifest, scores=None).as_json())
    return _keep(folder, {MANIFEST: manifest, **_files_of(run)})


def write_name(baseline: Baseline) -> None:
    """Write the file of a baseline's name."""
    write_atomically(_name(baseline.folder, baseline.name), dump_json(baseline.as_json()))


def baselines(folder: Path) -> list[Baseline]:
    """Return the baselines of a folder, sorted by name; none if there is no folder."""
    return sorted(
        (_read(folder, path) for path in (folder / "names").glob("*.json")), key=lambda baseline: baseline.name
    )


def find(folder: Path, name: str) -> Baseline | None:
    """Return the baseline of a name, or None."""
    path = _name(folder, name)
    return _read(folder, path) if path.is_file() else None


def get(folder: Path, name: str) -> Baseline:
    """Return the baseline of a name; raise :class:`UnusableInput` if there is none."""
    baseline = find(folder, name)
    if baseline is None:
        known = ", ".join(other.name for other in baselines(folder)) or "none"
        raise UnusableInput(f"{folder}: has no baseline {name!r}; baselines: {known}")
    return baseline


def unused_without(folder: Path, name: str) -> list[str]:
    """Return the objects that no other name refers or referred to; raise :class:`UnusableInput` for an unknown name."""
    get(folder, name)
    others = [other for other in baselines(folder) if other.name != name]
    used = {approval.object for other in others for approval in (other.now, *other.before)}
    return sorted(path.name for path in (folder / "objects").glob("*") if path.name not in used)


def remove(folder: Path, name: str) -> list[str]:
    """Remove a name and the objects that no other name refers or referred to; return the removed objects."""
    get(folder, name)
    with only_writer(folder):
        path = _name(folder, name)
        unused = unused_without(folder, name)
        try:
            path.unlink(missing_ok=True)
            for key in unused:
                # The list goes first, so that an interrupted removal leaves no complete object.
                (_object(folder, key) / OBJECT).unlink(missing_ok=True)
                shutil.rmtree(_object(folder, key))
        except OSError as error:
            raise cannot_write(path, error) from error
    return unused


def open_baseline(baseline: Baseline) -> RunDirectory:
    """Return the run of a baseline after checking every file; :class:`CannotMeasure` names a damaged one."""
    for problem in damage(baseline):
        raise CannotMeasure(
            f"{problem}; restore {baseline.path} from a backup, or approve a run as {baseline.name!r} again"
        )
    return open_run(baseline.path)


def is_object(run: Path) -> bool:
    """Return whether a run directory is the object of a baseline, complete or not."""
    return (run / OBJECT).exists() or (run.resolve().parent.name == "objects" and _is_key(run.resolve().name))


def is_nightly_run(folder: Path) -> bool:
    """Return whether a folder holds a nightly run, finished or not."""
    return (folder / BEGUN).is_file() and not (folder / "manifest.json").exists()


def nightly_run_of(run: Path) -> Path | None:
    """Return the folder of the nightly run that a run directory is part of, or None."""
    # OUT/sets/<set>/run, and OUT/baselines/<object>.
    folder = run.absolute()
    for parent, above in (("sets", 3), ("baselines", 2)):
        candidate = folder.parents[min(above, len(folder.parents)) - 1]
        if folder.parents[min(above - 1, len(folder.parents)) - 1].name == parent and is_nightly_run(candidate):
            return candidate
    return None


def require_no_object(run: Path) -> None:
    """Raise :class:`UnusableInput` for a baseline's run, naming the baseline and the command that removes it."""
    if not is_object(run):
        return
    folder, key = run.absolute().parents[1], run.resolve().name
    names = [
        baseline.name
        for baseline in baselines(folder)
        if key in (approval.object for approval in (baseline.now, *baseline.before))
    ]
    kept = f"as {', '.join(map(repr, names))}" if names else "in a folder of baselines"
    command = join(["lab", "nightly", "baseline", "rm", names[0] if names else "NAME", "--baselines", str(folder)])
    raise UnusableInput(f"{run}: is a baseline, approved {kept}; `{command}` removes a baseline and its unused runs")


def damage(baseline: Baseline) -> list[str]:
    """Return one sentence for each problem with the files of a baseline."""
    path = baseline.path / OBJECT
    if not path.is_file():
        return [f"{baseline.path}: the object of baseline {baseline.name!r} is missing"]
    try:
        files = read_json(path)
    except UnusableInput as error:
        return [str(error)]
    if not isinstance(files, dict) or digest(files) != baseline.now.object:
        return [f"{path}: damaged (its sha256 is not the object's name)"]
    problems = []
    for name, expected in files.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return [f"{path}: names a file outside its folder: {name}"]
        file = baseline.path / name
        if not file.is_file():
            problems.append(f"{file}: missing")
        elif sha256_file(file) != expected:
            problems.append(f"{file}: damaged (its sha256 is not the one that was approved)")
    return problems


def check_date(date: str) -> str:
    """Return a day as YYYY-MM-DD; raise :class:`UnusableInput` for anything else."""
    try:
        if calendar_date.fromisoformat(date).isoformat() == date:
            return date
    except ValueError:
        pass
    raise UnusableInput(f"--date {date!r}: expected a day as YYYY-MM-DD")


def _files_of(run: RunDirectory) -> dict[str, Path]:
    names = [GOLDEN]
    names += [str(run.receipts(conversation).relative_to(run.path).as_posix()) for conversation in run.conversations]
    for name in names:
        if not (run.path / name).is_file():
            raise UnusableInput(f"{run.path / name}: is missing; run the same replay again to finish it")
    return {name: run.path / name for name in names}


def _keep(folder: Path, files: Mapping[str, Path | bytes]) -> str:
    """Write the missing files of an object, its list last; return its name."""
    sums = {name: sha256_bytes(file) if isinstance(file, bytes) else sha256_file(file) for name, file in files.items()}
    key = digest(sums)
    target = _object(folder, key)
    for part in (target, target / "receipts"):
        remove_leftovers(part)
    for name, file in files.items():
        copy = target / name
        if not copy.is_file() or sha256_file(copy) != sums[name]:
            write_atomically(copy, file if isinstance(file, bytes) else file.read_bytes())
    listed = target / OBJECT
    if not listed.is_file() or listed.read_bytes() != dump_json(sums):
        write_atomically(listed, dump_json(sums))
    return key


def _read(folder: Path, path: Path) -> Baseline:
    value = read_json(path)
    try:
        if (value["kind"], value["schema_version"]) != (KIND, VERSION):
            raise UnusableInput(f"{path}: not a baseline of this version")
        now, *before = (_approval(entry, str(path)) for entry in (value, *field(value, "before", list, str(path))))
        return Baseline(folder, field(value, "name", str, str(path)), now, tuple(before))
    except (KeyError, TypeError) as error:
        raise UnusableInput(f"{path}: not a baseline: {error}") from None


def _approval(value: Any, where: str) -> Approval:
    key, date = (field(value, name, str, where) for name in ("object", "date"))
    if not _is_key(key):
        raise UnusableInput(f"{where}: names an invalid object: {key!r}")
    note = value.get("note")
    return Approval(key, date, None if note is None else field(value, "note", str, where))


def _is_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _object(folder: Path, key: str) -> Path:
    return folder / "objects" / key


def _name(folder: Path, name: str) -> Path:
    return folder / "names" / f"{file_name(name)}.json"
