"""Baselines: finished runs that somebody approved, by name, kept as they were.

::

    objects/<sha256>/      manifest.json, golden.jsonl, receipts/…: a run that every command reads, without its timings
                     object.json    the sha256 of each file; the object's name is the sha256 of this list
    names/<name>.json      which object a name means, since when, why, and which ones it meant before

An object is written file by file and its list last, so what was killed is no object yet and is finished by the next
approval. Nothing in an object is ever changed. The folder can be committed, or lie on a share.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date as calendar_date
from pathlib import Path, PurePosixPath
from shlex import join
from typing import Any, NamedTuple

from lab.errors import CannotMeasure, UnusableInput
from lab.files import (
    cannot_write,
    digest,
    dump_json,
    only_writer,
    read_json,
    remove_leftovers,
    sha256_file,
    write_atomically,
)
from lab.runs.directory import RunDirectory, file_name, open_run
from lab.shape import field

KIND, VERSION = "lab.baseline", 1


class Approval(NamedTuple):
    """When a name was given to which object, and why."""

    object: str
    date: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A name, what it means now, and what it meant before, the latest first."""

    folder: Path
    name: str
    now: Approval
    before: tuple[Approval, ...]

    @property
    def path(self) -> Path:
        """The object's folder: a run directory."""
        return _object(self.folder, self.now.object)

    def as_json(self) -> dict[str, Any]:
        """Plain values, as the file of the name has them."""
        return {
            "kind": KIND,
            "schema_version": VERSION,
            "name": self.name,
            **self.now._asdict(),
            "before": [one._asdict() for one in self.before],
        }


class Approved(NamedTuple):
    """What a approval did: the baseline, the object its name meant until now (None: none), whether that is another."""

    baseline: Baseline
    replaced: str | None
    changed: bool


def approve(folder: Path, run: RunDirectory, name: str, *, date: str, note: str | None = None) -> Approved:
    """Keep a finished run under a name.

    ``date`` is a day as YYYY-MM-DD. The same run twice is the same object, and changes nothing; a name that meant
    another object remembers it. Raises :class:`UnusableInput` for a run that is not finished and a name that is blank.
    """
    if not name.strip() or name != name.strip():
        raise UnusableInput(f"--name {name!r}: expected a name without blanks at its ends")
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
    """Keep a run as an object, and return its name. The folder must be held by :func:`lab.files.only_writer`."""
    return _keep(folder, _files_of(run))


def write_name(baseline: Baseline) -> None:
    """Write what a name means and meant."""
    write_atomically(_name(baseline.folder, baseline.name), dump_json(baseline.as_json()))


def baselines(folder: Path) -> list[Baseline]:
    """Every baseline of a folder by name; none where there is no folder."""
    return sorted((_read(folder, path) for path in (folder / "names").glob("*.json")), key=lambda one: one.name)


def find(folder: Path, name: str) -> Baseline | None:
    """The baseline of a name, or none."""
    path = _name(folder, name)
    return _read(folder, path) if path.is_file() else None


def get(folder: Path, name: str) -> Baseline:
    """The baseline of a name; :class:`UnusableInput` where there is none."""
    found = find(folder, name)
    if found is None:
        known = ", ".join(one.name for one in baselines(folder)) or "none"
        raise UnusableInput(f"{folder}: has no baseline {name!r}; there are: {known}")
    return found


def remove(folder: Path, name: str) -> list[str]:
    """Forget a name, and remove the objects that no other name means or meant; return which those are."""
    get(folder, name)
    with only_writer(folder):
        path = _name(folder, name)
        try:
            path.unlink(missing_ok=True)
            wanted = {approval.object for one in baselines(folder) for approval in (one.now, *one.before)}
            gone = sorted(one.name for one in (folder / "objects").glob("*") if one.name not in wanted)
            for key in gone:
                # The list goes first: what is left of a removal that was killed is no object.
                (_object(folder, key) / "object.json").unlink(missing_ok=True)
                shutil.rmtree(_object(folder, key))
        except OSError as error:
            raise cannot_write(path, error) from error
    return gone


def open_baseline(baseline: Baseline) -> RunDirectory:
    """The run of a baseline, every file checked; :class:`CannotMeasure` names one that is not as it was approved."""
    for problem in damage(baseline):
        raise CannotMeasure(
            f"{problem}; bring back {baseline.path} from where it is kept, or approve a run as {baseline.name!r} again"
        )
    return open_run(baseline.path)


def is_object(run: Path) -> bool:
    """Whether a run directory is the object of a baseline, whole or not."""
    return (run / "object.json").exists() or (run.resolve().parent.name == "objects" and _is_key(run.resolve().name))


def require_no_object(run: Path) -> None:
    """Refuse a run that a baseline keeps: its names are told, and what forgets one."""
    if not is_object(run):
        return
    folder, key = run.absolute().parents[1], run.resolve().name
    names = [one.name for one in baselines(folder) if key in (each.object for each in (one.now, *one.before))]
    kept = f"as {', '.join(map(repr, names))}" if names else "in a folder of baselines"
    command = join(["lab", "baseline", "rm", names[0] if names else "NAME", "--baselines", str(folder)])
    raise UnusableInput(f"{run}: was approved {kept}; `{command}` forgets a baseline, and removes what none means")


def damage(baseline: Baseline) -> list[str]:
    """What is wrong with the files of a baseline, a sentence each."""
    path = baseline.path / "object.json"
    if not path.is_file():
        return [f"{baseline.path}: the object of baseline {baseline.name!r} is missing"]
    try:
        files = read_json(path)
    except UnusableInput as error:
        return [str(error)]
    if not isinstance(files, dict) or digest(files) != baseline.now.object:
        return [f"{path}: damaged (not the list that the object is named by)"]
    found = []
    for name, wanted in files.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return [f"{path}: names a file outside of its folder: {name}"]
        file = baseline.path / name
        if not file.is_file():
            found.append(f"{file}: missing")
        elif sha256_file(file) != wanted:
            found.append(f"{file}: damaged (its sha256 is not the one that was approved)")
    return found


def check_date(date: str) -> str:
    """A day as YYYY-MM-DD; anything else is :class:`UnusableInput`."""
    try:
        if calendar_date.fromisoformat(date).isoformat() == date:
            return date
    except ValueError:
        pass
    raise UnusableInput(f"--date {date!r}: expected a day as YYYY-MM-DD")


def _files_of(run: RunDirectory) -> dict[str, Path]:
    names = ["manifest.json", "golden.jsonl"]
    names += [str(run.receipts(one).relative_to(run.path).as_posix()) for one in run.conversations]
    for name in names:
        if not (run.path / name).is_file():
            raise UnusableInput(f"{run.path / name}: is missing; run the same replay again to finish it")
    return {name: run.path / name for name in names}


def _keep(folder: Path, files: Mapping[str, Path]) -> str:
    """Write what is not there yet of an object, its list last; return its name."""
    sums = {name: sha256_file(path) for name, path in files.items()}
    key = digest(sums)
    there = _object(folder, key)
    for part in (there, there / "receipts"):
        remove_leftovers(part)
    for name, path in files.items():
        copy = there / name
        if not copy.is_file() or sha256_file(copy) != sums[name]:
            write_atomically(copy, path.read_bytes())
    listed = there / "object.json"
    if not listed.is_file() or listed.read_bytes() != dump_json(sums):
        write_atomically(listed, dump_json(sums))
    return key


def _read(folder: Path, path: Path) -> Baseline:
    value = read_json(path)
    try:
        if (value["kind"], value["schema_version"]) != (KIND, VERSION):
            raise UnusableInput(f"{path}: is no baseline of this version")
        now, *before = (_approval(one, str(path)) for one in (value, *field(value, "before", list, str(path))))
        return Baseline(folder, field(value, "name", str, str(path)), now, tuple(before))
    except (KeyError, TypeError) as error:
        raise UnusableInput(f"{path}: is no baseline: {error}") from None


def _approval(value: Any, where: str) -> Approval:
    key, date = (field(value, name, str, where) for name in ("object", "date"))
    if not _is_key(key):
        raise UnusableInput(f"{where}: names an object that is none: {key!r}")
    note = value.get("note")
    return Approval(key, date, None if note is None else field(value, "note", str, where))


def _is_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _object(folder: Path, key: str) -> Path:
    return folder / "objects" / key


def _name(folder: Path, name: str) -> Path:
    return folder / "names" / f"{file_name(name)}.json"
